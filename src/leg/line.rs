//! A call's line to its caller: up, or lost and kept for a while, for its client to come back.
//!
//! It decides who may take the call up and says nothing of how. What is asked names a connection:
//! the first of a call is 1, and a token that is given out on one is good for the next, once; and
//! once more where that next one is lost before anything came from it, as its client may not have
//! heard there what the next token is.

use std::time::Duration;

use crate::time::Timestamp;

/// Who holds a call's line, and until when it is kept for whoever held it.
#[derive(Debug)]
pub struct Line {
    /// How long it is kept.
    kept_for: Duration,
    /// The connection that holds it, or held it last.
    connection: u32,
    /// The last one that something has come from.
    heard: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// A connection has taken it and is not there yet.
    Taken,
    Lost {
        until: Timestamp,
    },
    Over,
}

/// Why a call is not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Another connection has taken it up since then.
    Used,
    /// The call is over, or was kept no longer.
    Over,
}

impl Line {
    /// A call's first connection is up.
    pub fn up(kept_for: Duration) -> Line {
        Line { kept_for, connection: 1, heard: 1, state: State::Up }
    }

    /// Whether the client of this connection could take it up now.
    pub fn check(&self, now: Timestamp, connection: u32) -> Result<(), NotTaken> {
        let oldest = match self.state {
            State::Over => return Err(NotTaken::Over),
            State::Lost { until } if until <= now => return Err(NotTaken::Over),
            State::Lost { .. } => self.heard,
            State::Up | State::Taken => self.connection,
        };
        match (oldest..=self.connection).contains(&connection) {
            true => Ok(()),
            false => Err(NotTaken::Used),
        }
    }

    /// The client of this connection takes it up, also while nobody has noticed that it is lost;
    /// gives the connection that holds it now. Of two that try one gets it.
    pub fn take(&mut self, now: Timestamp, connection: u32) -> Result<u32, NotTaken> {
        self.check(now, connection)?;
        self.connection += 1;
        self.state = State::Taken;
        Ok(self.connection)
    }

    /// The connection that has taken it is there.
    pub fn arrive(&mut self) {
        self.state = match self.state {
            State::Taken => State::Up,
            // It was hung up in between.
            other @ (State::Up | State::Lost { .. } | State::Over) => other,
        };
    }

    /// Something came from the connection that holds it.
    pub fn hear(&mut self) {
        // While another comes it is from the one before.
        if self.state == State::Up {
            self.heard = self.connection;
        }
    }

    /// The connection broke; `false`: nobody comes back to it.
    pub fn lose(&mut self, now: Timestamp) -> bool {
        self.state = match self.state {
            State::Up => State::Lost { until: now + self.kept_for },
            // That was the connection before the one that comes.
            other @ (State::Taken | State::Lost { .. } | State::Over) => other,
        };
        self.state != State::Over
    }

    /// Until when it is kept, while it is lost.
    pub fn kept_until(&self) -> Option<Timestamp> {
        match self.state {
            State::Lost { until } => Some(until),
            State::Up | State::Taken | State::Over => None,
        }
    }

    /// `true`: it was kept long enough, and is over now.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let is_due = self.kept_until().is_some_and(|until| until <= now);
        if is_due {
            self.end();
        }
        is_due
    }

    /// The call has ended, or was kept no longer.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// The call ends.
    pub fn end(&mut self) {
        self.state = State::Over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    const KEPT: Duration = ms(20_000);

    fn at(at_ms: u64) -> Timestamp {
        Timestamp::from_millis(at_ms)
    }

    #[test]
    fn a_lost_call_is_kept_for_so_long_and_no_longer() {
        let mut line = Line::up(KEPT);
        assert_eq!(line.kept_until(), None);
        assert!(line.lose(at(1_000)));
        assert!(line.lose(at(9_000)), "told twice it is kept no longer");
        assert_eq!(line.kept_until(), Some(at(21_000)));
        assert!(!line.expire(at(20_999)));
        assert_eq!(line.check(at(20_999), 1), Ok(()));
        assert_eq!(line.take(at(21_000), 1), Err(NotTaken::Over), "nobody has looked yet");
        assert!(line.expire(at(21_000)));
        assert_eq!(line.check(at(21_000), 1), Err(NotTaken::Over));
        assert!(line.is_over() && !line.lose(at(22_000)));
    }

    #[test]
    fn whoever_comes_back_gets_the_next_connection_and_may_lose_it_again() {
        let mut line = Line::up(KEPT);
        for connection in 1..4 {
            line.lose(at(1_000));
            assert_eq!(line.take(at(2_000), connection), Ok(connection + 1));
            assert_eq!(line.kept_until(), None, "it is kept for who comes");
            line.arrive();
            line.hear();
            assert!(!line.expire(at(60_000)), "it is up");
        }
        assert!(line.lose(at(70_000)));
        assert_eq!(line.kept_until(), Some(at(90_000)), "each loss has its whole time");
    }

    #[test]
    fn of_two_that_come_back_one_gets_the_call() {
        let mut line = Line::up(KEPT);
        line.lose(at(0));
        assert_eq!(line.take(at(1), 1), Ok(2));
        assert_eq!(line.take(at(1), 1), Err(NotTaken::Used));
        line.arrive();
        assert_eq!(line.take(at(2), 1), Err(NotTaken::Used), "nor later");
        assert_eq!(line.check(at(2), 3), Err(NotTaken::Used), "nor with one that was never given");
    }

    #[test]
    fn a_call_is_taken_up_before_anybody_notices_that_it_was_lost() {
        let mut line = Line::up(KEPT);
        assert_eq!(line.take(at(0), 1), Ok(2));
        assert!(line.lose(at(1)), "the old connection breaks while the new one comes");
        assert_eq!(line.kept_until(), None);
        line.arrive();
        assert_eq!(line.check(at(2), 2), Ok(()));
    }

    #[test]
    fn a_call_that_has_ended_comes_back_in_no_way() {
        let mut line = Line::up(KEPT);
        line.take(at(0), 1).unwrap();
        line.end();
        line.arrive();
        assert_eq!(line.take(at(1), 2), Err(NotTaken::Over));
        assert!(line.is_over() && !line.expire(at(1)), "it was not kept too long");
    }

    #[test]
    fn who_was_lost_before_a_word_comes_back_with_the_token_before() {
        let mut line = Line::up(KEPT);
        line.lose(at(0));
        for connection in 2..5 {
            assert_eq!(line.take(at(1), 1), Ok(connection), "nothing was told on the others");
            line.hear();
            line.arrive();
            assert_eq!(line.check(at(1), 1), Err(NotTaken::Used), "it is up");
            line.lose(at(1));
        }
        assert_eq!(line.check(at(2), 3), Ok(()), "it was told on one that is lost as well");
        assert_eq!(line.take(at(2), 4), Ok(5));
        line.arrive();
        line.hear();
        line.lose(at(3));
        assert_eq!(line.check(at(3), 4), Err(NotTaken::Used), "something came from the next");
        assert_eq!(line.check(at(3), 5), Ok(()));
    }
}
