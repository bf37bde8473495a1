//! Who is in which dialog: a bounded number, in all and with each address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::call::Inbound;
use crate::transport::places::{Place, Places};

/// Who is in a dialog: the peer's name for it, and the peer's tag. Of a call that we place nobody
/// knows that tag beforehand, and it is empty; its name is ours, and nobody can guess it.
pub(super) type Key = (String, String);

/// Every dialog that there is, or that is remembered for what comes again.
#[derive(Debug)]
pub(super) struct Dialogs {
    /// As many are remembered that are over.
    most: usize,
    /// Of those that live.
    places: Arc<Places>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    dialogs: BTreeMap<Key, Entry>,
    /// Dialogs that are over and only answer what comes again.
    over: usize,
    /// Names of seats.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    /// Its seat's.
    name: u64,
    inbox: mpsc::Sender<Inbound>,
    /// The number of the INVITE that began it.
    cseq: u32,
    is_over: bool,
}

/// A dialog's place, which goes with it.
#[derive(Debug)]
pub(super) struct Seat {
    key: Key,
    name: u64,
    /// For as long as the dialog lives.
    place: Option<Place>,
    dialogs: Arc<Dialogs>,
}

impl Dialogs {
    pub fn new(most: u32, most_each: u32) -> Arc<Dialogs> {
        let places = Arc::new(Places::new(most, most_each));
        Arc::new(Dialogs { most: most as usize, places, table: Mutex::default() })
    }

    /// How many live, and how many are over.
    pub fn counts(&self) -> (usize, usize) {
        (self.places.held() as usize, self.table().over)
    }

    /// There is one with this address.
    pub fn are_with(&self, ip: IpAddr) -> bool {
        self.places.are_held_by(ip)
    }

    /// Where messages for this dialog go.
    pub fn inbox(&self, key: &Key) -> Option<mpsc::Sender<Inbound>> {
        let table = self.table();
        let placed = || table.dialogs.get(&(key.0.clone(), String::new()));
        let entry = table.dialogs.get(key).or_else(placed)?;
        Some(entry.inbox.clone())
    }

    /// The key itself where there is such a dialog, else that of the only one of its call.
    pub fn known(&self, key: Key) -> Key {
        let table = self.table();
        if table.dialogs.contains_key(&key) {
            return key;
        }
        let first = (key.0.clone(), String::new());
        let of_call = table.dialogs.range(first..).take_while(|(known, _)| known.0 == key.0);
        let mut of_call = of_call.map(|(known, _)| known);
        match (of_call.next(), of_call.next()) {
            (Some(only), None) => only.clone(),
            (Some(_) | None, _) => key,
        }
    }

    /// This dialog is over, and began with an INVITE of a smaller number.
    pub fn was_over_before(&self, key: &Key, cseq: u32) -> bool {
        let is_over = |entry: &Entry| entry.is_over && entry.cseq < cseq;
        self.table().dialogs.get(key).is_some_and(is_over)
    }

    /// A place for one more; `None`: there is none.
    pub fn seat(
        self: &Arc<Self>,
        key: Key,
        ip: IpAddr,
        cseq: u32,
        inbox: mpsc::Sender<Inbound>,
    ) -> Option<Seat> {
        let place = Some(self.places.clone().take(ip)?);
        let mut table = self.table();
        table.next += 1;
        let name = table.next;
        table.dialogs.insert(key.clone(), Entry { name, inbox, cseq, is_over: false });
        Some(Seat { key, name, place, dialogs: self.clone() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The dialog is over: its place is somebody else's. `false`: so many are, that this one is not
    /// remembered any longer.
    pub fn retire(&mut self) -> bool {
        if self.place.take().is_none() {
            return true;
        }
        let mut table = self.dialogs.table();
        table.over += 1;
        if let Some(entry) = table.dialogs.get_mut(&self.key).filter(|e| e.name == self.name) {
            entry.is_over = true;
        }
        table.over <= self.dialogs.most
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.dialogs.table();
        table.over -= usize::from(self.place.is_none());
        // The same call may have begun anew meanwhile.
        if table.dialogs.get(&self.key).is_some_and(|entry| entry.name == self.name) {
            table.dialogs.remove(&self.key);
        }
    }
}
