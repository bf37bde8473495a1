//! The deadline index: who of the waiting is due first, removal from anywhere in log n.

use crate::time::Timestamp;

/// A binary heap of record places, earliest deadline first, older arrival first among equals.
#[derive(Clone, Default)]
pub(super) struct Deadlines {
    heap: Vec<Due>,
    /// Where in the heap each record's place stands; apart from the records, so that a move down
    /// the heap touches little memory.
    stands: Vec<u32>,
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
        self.heap.first().map(|due| (due.deadline, due.at))
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn add(&mut self, at: u32, deadline: Timestamp, arrival: u64) {
        if self.stands.len() <= at as usize {
            self.stands.resize(at as usize + 1, u32::MAX);
        }
        let due = Due { deadline, arrival, at };
        self.heap.push(due);
        self.up(self.heap.len() - 1, due);
    }

    pub fn remove(&mut self, at: u32) {
        let hole = self.stands[at as usize] as usize;
        debug_assert!(self.heap[hole].at == at, "record {at} has no deadline");
        let Some(last) = self.heap.pop() else { return };
        if last.at == at {
            return;
        }
        match hole > 0 && last < self.heap[(hole - 1) / 2] {
            true => self.up(hole, last),
            false => self.down(hole, last),
        }
    }

    fn put(&mut self, place: usize, due: Due) {
        self.heap[place] = due;
        self.stands[due.at as usize] = place as u32;
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
