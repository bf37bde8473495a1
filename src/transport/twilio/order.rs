//! Numbered pieces of sound, brought back into their order.

use std::collections::BTreeMap;

/// Pieces that wait for one that is missing: 60 ms of it.
const HELD_MAX: usize = 3;

/// Puts pieces into order; what comes too late is left out.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: Option<u64>,
    held: BTreeMap<u64, Vec<u8>>,
}

impl Order {
    /// Takes a piece and gives those that can be heard now, in order.
    pub fn take(&mut self, number: Option<u64>, sound: Vec<u8>) -> Vec<Vec<u8>> {
        let Some(number) = number else { return vec![sound] };
        let next = *self.next.get_or_insert(number);
        if number < next {
            return Vec::new();
        }
        self.held.insert(number, sound);
        let mut ready = Vec::new();
        while let Some((&first, _)) = self.held.first_key_value()
            && (Some(first) == self.next || self.held.len() > HELD_MAX)
        {
            ready.extend(self.held.pop_first().map(|(_, sound)| sound));
            self.next = first.checked_add(1);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(numbers: &[u64]) -> Vec<u8> {
        let mut order = Order::default();
        let take = |&number: &u64| order.take(Some(number), vec![number as u8]);
        numbers.iter().flat_map(take).flatten().collect()
    }

    #[test]
    fn pieces_come_in_order_and_a_lost_one_holds_nobody_up_for_long() {
        assert_eq!(heard(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(heard(&[1, 3, 2, 4]), [1, 2, 3, 4]);
        assert_eq!(heard(&[1, 3, 4, 5, 6, 2, 7]), [1, 3, 4, 5, 6, 7]);
        assert_eq!(heard(&[5, 5, 4, 6]), [5, 6], "twice, and before the first");
        assert_eq!(heard(&[1, u64::MAX, 2, 3]), [1, 2, 3], "a jump waits for the rest");
    }
}
