//! The deadline index: who of the waiting is due first, removal from anywhere.
//!
//! Most offers wait equally long, so most deadlines arrive in order: those stand in a row, added at
//! its end and taken from its front in constant time. The few that come out of order stand in a
//! heap.

use std::collections::VecDeque;

use super::records::NIL;
use crate::time::Timestamp;

/// Marks a stand in the heap; without it a stand is a place in the row.
const IN_HEAP: u64 = 1 << 63;
/// Gaps in the row that are worth no clearing.
const GAPS_MIN: usize = 64;

/// Deadlines by record place, earliest first, older arrival first among equals.
#[derive(Clone, Default)]
pub(super) struct Deadlines {
    row: VecDeque<Due>,
    /// How many have left the row at its front: the number of the first that is in it.
    first: u64,
    /// Places in the row whose record has gone.
    gaps: usize,
    heap: Vec<Due>,
    /// Where each record's place stands; apart from the records, so that a move touches little
    /// memory.
    stands: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    deadline: Timestamp,
    arrival: u64,
    at: u32,
}

impl Deadlines {
    /// The earliest deadline and whose it is.
    pub fn first(&self) -> Option<(Timestamp, u32)> {
        let due = match (self.row.front(), self.heap.first()) {
            (Some(row), Some(heap)) => row.min(heap),
            (Some(due), None) | (None, Some(due)) => due,
            (None, None) => return None,
        };
        Some((due.deadline, due.at))
    }

    pub fn len(&self) -> usize {
        self.row.len() - self.gaps + self.heap.len()
    }

    pub fn add(&mut self, at: u32, deadline: Timestamp, arrival: u64) {
        if self.stands.len() <= at as usize {
            self.stands.resize(at as usize + 1, u64::MAX);
        }
        let due = Due { deadline, arrival, at };
        if self.row.back().is_none_or(|last| last.deadline <= deadline) {
            self.stands[at as usize] = self.first + self.row.len() as u64;
            self.row.push_back(due);
        } else {
            self.heap.push(due);
            self.up(self.heap.len() - 1, due);
        }
    }

    pub fn remove(&mut self, at: u32) {
        let stand = self.stands[at as usize];
        match stand & IN_HEAP {
            0 => self.leave_row((stand - self.first) as usize),
            _ => self.leave_heap((stand & !IN_HEAP) as usize),
        }
    }

    fn leave_row(&mut self, place: usize) {
        self.row[place].at = NIL;
        self.gaps += 1;
        while self.row.front().is_some_and(|due| due.at == NIL) {
            self.row.pop_front();
            self.first += 1;
            self.gaps -= 1;
        }
        if self.gaps > GAPS_MIN + self.row.len() / 2 {
            self.row.retain(|due| due.at != NIL);
            self.gaps = 0;
            for (number, due) in (self.first..).zip(&self.row) {
                self.stands[due.at as usize] = number;
            }
        }
    }

    fn leave_heap(&mut self, hole: usize) {
        let gone = self.heap[hole].at;
        let Some(last) = self.heap.pop() else { return };
        if last.at == gone {
            return;
        }
        match hole > 0 && last < self.heap[(hole - 1) / 2] {
            true => self.up(hole, last),
            false => self.down(hole, last),
        }
    }

    fn put(&mut self, place: usize, due: Due) {
        self.heap[place] = due;
        self.stands[due.at as usize] = IN_HEAP | place as u64;
    }

    /// Moves the hole up to where this one belongs.
    fn up(&mut self, mut hole: usize, due: Due) {
        while hole > 0 {
            let parent = (hole - 1) / 2;
            if self.heap[parent] <= due {
                break;
            }
            self.put(hole, self.heap[parent]);
            hole = parent;
        }
        self.put(hole, due);
    }

    /// Moves the hole down to where this one belongs.
    fn down(&mut self, mut hole: usize, due: Due) {
        loop {
            let mut child = 2 * hole + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if due <= self.heap[child] {
                break;
            }
            self.put(hole, self.heap[child]);
            hole = child;
        }
        self.put(hole, due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Random additions and removals, in order and out of order, against an ordered set.
    #[test]
    fn the_first_is_always_the_earliest() {
        let mut index = Deadlines::default();
        let mut model = BTreeSet::new();
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for arrival in 0..20_000 {
            let at = random(500) as u32;
            let held = model.iter().find(|(_, _, other)| *other == at).copied();
            if let Some(due) = held {
                model.remove(&due);
                index.remove(at);
            } else {
                // Nine of ten are in order, as in a queue whose waits are equally long.
                let late = if random(10) == 0 { 0 } else { 1_000 };
                let deadline = Timestamp::from_millis(arrival / 4 + late);
                model.insert((deadline, arrival, at));
                index.add(at, deadline, arrival);
            }
            let first = model.first().map(|(deadline, _, at)| (*deadline, *at));
            assert_eq!(index.first(), first);
            assert_eq!(index.len(), model.len());
            assert!(index.row.len() <= 500 + 2 * (GAPS_MIN + 500), "gaps are cleared");
        }
    }
}
