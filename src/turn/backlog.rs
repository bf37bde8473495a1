//! Sound that waits to be sent, in the pieces it came in: no copy, no room beyond what it needs.

use std::collections::VecDeque;

/// Samples in order, taken from the front.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    pieces: VecDeque<Vec<i16>>,
    /// Samples of the first piece that are gone already.
    taken: usize,
    samples: usize,
}

impl Backlog {
    /// How many samples wait.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: Vec<i16>) {
        if !piece.is_empty() {
            self.samples += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Takes up to this many samples.
    pub fn take(&mut self, most: usize) -> Vec<i16> {
        let mut out = Vec::with_capacity(most.min(self.samples));
        while out.len() < most
            && let Some(piece) = self.pieces.front()
        {
            let until = (self.taken + most - out.len()).min(piece.len());
            out.extend_from_slice(&piece[self.taken..until]);
            self.taken = until;
            if until == piece.len() {
                self.pieces.pop_front();
                self.taken = 0;
            }
        }
        self.samples -= out.len();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_leave_in_order_whatever_the_pieces_are() {
        let mut backlog = Backlog::default();
        backlog.push(vec![1, 2, 3]);
        backlog.push(Vec::new());
        backlog.push(vec![4]);
        backlog.push(vec![5, 6]);
        assert_eq!(backlog.take(2), [1, 2]);
        assert_eq!((backlog.len(), backlog.take(3)), (4, vec![3, 4, 5]));
        assert_eq!((backlog.take(9), backlog.is_empty()), (vec![6], true));
        assert!(backlog.take(1).is_empty());
    }
}
