//! The grammar where the server plays out: every sound has its begin and its end, and none is in an
//! event (T9).

use floorkeeper::id::{ItemId, ResponseId};
use floorkeeper::leg::ToCaller;
use floorkeeper::time::{Timestamp, ms};
use floorkeeper::transport::realtime::{Medium, OutputBuffer};
use proptest::prelude::*;
use serde_json::Value;

use crate::order::OrderChecker;
use crate::properties::{Call, any_step, config};
use crate::script::{Run, defaults};

/// A session over a peer connection that is played out as time goes on.
struct Played {
    run: Run,
    buffer: OutputBuffer,
    checker: OrderChecker,
    now: Timestamp,
    /// What was last heard, and of which answer.
    heard: Option<(ResponseId, ItemId)>,
}

impl Played {
    fn begin() -> Played {
        Played {
            run: Run::over(Medium::Peer, defaults()),
            buffer: OutputBuffer::default(),
            checker: OrderChecker::default(),
            now: Timestamp::ZERO,
            heard: None,
        }
    }

    fn say(&mut self, what: ToCaller) {
        if let ToCaller::Audio { response: Some(response), item, .. } = &what {
            self.heard = Some((*response, item.clone()));
        }
        self.run.protocol.say(what, &mut self.run.out);
        while let Some(audible) = self.run.out.pop_audible() {
            self.buffer.take(self.now, audible, &mut self.run.out);
        }
    }

    /// What a call says; a call that ends an answer may have cut it, and then clears the far end.
    fn say_all(&mut self, said: Vec<ToCaller>, cut: bool) {
        for what in said {
            let ended = match &what {
                ToCaller::ResponseEnded { response, .. } => Some(*response),
                _ => None,
            };
            self.say(what);
            if let Some((_, item)) = self.heard.take_if(|(of, _)| cut && ended == Some(*of)) {
                self.say(ToCaller::ClearFarEnd { item, played: ms(20) });
            }
        }
    }

    fn check(&mut self, after: std::time::Duration) -> Result<(), TestCaseError> {
        self.now += after;
        self.buffer.tick(self.now, &mut self.run.out);
        while let Some(event) = self.run.out.pop_text() {
            let event: Value = serde_json::from_str(&event).unwrap();
            prop_assert_ne!(&event["type"], "response.output_audio.delta");
            self.checker.see(&event).map_err(TestCaseError::fail)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_order_of_answers_obeys_the_grammar_over_a_peer_connection(
        steps in prop::collection::vec((any_step(), any::<bool>()), 1..60),
    ) {
        let mut call = Call::default();
        let mut played = Played::begin();
        for (step, cut) in steps {
            played.say_all(call.step(step), cut);
            played.check(ms(20))?;
        }
        for _ in 0..8 {
            played.say_all(call.end_one(), false);
            played.check(ms(20))?;
        }
        played.check(ms(600_000))?;
        played.checker.finish().map_err(TestCaseError::fail)?;
        prop_assert_eq!(&played.checker.playing, &None);
    }
}
