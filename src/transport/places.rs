//! Places for connections and dialogs: so many in all, and so many of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many connections there are, in all and by address.
#[derive(Debug)]
pub struct Places {
    most: u32,
    most_each: u32,
    held: Mutex<(u32, HashMap<IpAddr, u32>)>,
}

/// A connection's place; given back when the connection is over, as a call too.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    /// For so many, and so many of one address.
    pub fn new(most: u32, most_each: u32) -> Places {
        Places { most, most_each, held: Mutex::default() }
    }

    /// How many are held.
    pub fn held(&self) -> u32 {
        self.counts().0
    }

    /// Somebody at this address holds one.
    pub fn are_held_by(&self, address: IpAddr) -> bool {
        self.counts().1.contains_key(&address)
    }

    /// One for somebody at this address; `None`: there is none.
    pub fn take(self: Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut held = self.counts();
        let (total, addresses) = &mut *held;
        let of_address = addresses.entry(address).or_insert(0);
        if *total >= self.most || *of_address >= self.most_each {
            if *of_address == 0 {
                addresses.remove(&address);
            }
            return None;
        }
        *total += 1;
        *of_address += 1;
        drop(held);
        Some(Place { places: self, address })
    }

    fn counts(&self) -> MutexGuard<'_, (u32, HashMap<IpAddr, u32>)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.counts();
        let (total, addresses) = &mut *held;
        *total = total.saturating_sub(1);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_in_all_and_by_address_and_come_back() {
        let places = Arc::new(Places::new(3, 2));
        let take = |ip: &str| places.clone().take(ip.parse().unwrap());
        let first = [take("192.0.2.1"), take("192.0.2.1")];
        assert!(first.iter().all(Option::is_some));
        assert!(take("192.0.2.1").is_none(), "the address has its two");
        let last = take("192.0.2.2").expect("the third");
        assert!(take("192.0.2.3").is_none(), "there are three");
        assert_eq!(places.held(), 3);
        let held_by = |ip: &str| places.are_held_by(ip.parse().unwrap());
        assert!(held_by("192.0.2.1") && !held_by("192.0.2.3"), "who has none holds none");
        drop(first);
        assert!(take("192.0.2.3").is_some());
        drop(last);
        let held = places.held.lock().unwrap();
        assert_eq!((held.0, held.1.len()), (0, 0), "nobody is remembered");
    }
}
