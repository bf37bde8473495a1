//! The deadline index: who of the waiting is due first, removal from anywhere in log n.

use super::records::{NIL, Slab};
use crate::time::Timestamp;

/// A binary heap of record places, earliest deadline first, older arrival first among equals.
#[derive(Default)]
pub(super) struct Deadlines {
    heap: Vec<Due>,
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

    pub fn add(&mut self, slab: &mut Slab, at: u32) {
        let record = &mut slab[at];
        record.due = self.heap.len() as u32;
        self.heap.push(Due { deadline: record.deadline, arrival: record.arrival, at });
        self.up(slab, self.heap.len() - 1);
    }

    pub fn remove(&mut self, slab: &mut Slab, at: u32) {
        let hole = std::mem::replace(&mut slab[at].due, NIL) as usize;
        self.heap.swap_remove(hole);
        if hole < self.heap.len() {
            slab[self.heap[hole].at].due = hole as u32;
            let hole = self.up(slab, hole);
            self.down(slab, hole);
        }
    }

    fn up(&mut self, slab: &mut Slab, mut child: usize) -> usize {
        while child > 0 {
            let parent = (child - 1) / 2;
            if self.heap[parent] <= self.heap[child] {
                break;
            }
            self.swap(slab, parent, child);
            child = parent;
        }
        child
    }

    fn down(&mut self, slab: &mut Slab, mut parent: usize) {
        loop {
            let mut least = parent;
            for child in [2 * parent + 1, 2 * parent + 2] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == parent {
                return;
            }
            self.swap(slab, parent, least);
            parent = least;
        }
    }

    fn swap(&mut self, slab: &mut Slab, a: usize, b: usize) {
        self.heap.swap(a, b);
        slab[self.heap[a].at].due = a as u32;
        slab[self.heap[b].at].due = b as u32;
    }
}
