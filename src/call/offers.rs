//! Alternatives offered to a caller, and what the caller answers to the offer: yes, no, a number,
//! or something else altogether.

use super::Call;
use super::fallback::{Cause, Fact, Said};
use super::rungs::stage_of;
use super::state::{Afterwards, Turn};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Release, mutant};
use crate::evidence::Evidence;
use crate::fallback::Rung;
use crate::time::Timestamp;
use crate::turn::number;
use crate::turn::words::{Reply, reply, wants_callback};

/// How often an alternative is offered, or a number asked for, before the next rung is taken.
const TRIES_MAX: u32 = 2;
/// An alternative that the caller was offered and has not answered to.
#[derive(Debug)]
pub(super) struct Offered {
    pub rung: Rung,
    pub cause: Cause,
    /// What the caller was asked, word for word: the consent's evidence.
    pub asked: String,
    /// They agreed, and have to say where to.
    needs_number: bool,
    tries: u32,
}

impl Call {
    /// This alternative may be offered now: somebody wants it offered, and its gate has room.
    pub(super) fn may_offer(&self, admit: &dyn Admit, rung: Rung) -> bool {
        let policy = match rung {
            Rung::Callback => self.profile.offers.callback,
            Rung::Handoff => self.profile.offers.handoff,
            Rung::Wait | Rung::Retry | Rung::Goodbye => return false,
        };
        let known = rung == Rung::Handoff || self.identity.number.is_some();
        let arranged = rung == Rung::Callback && self.on_record.is_some();
        let room = admit.spare(stage_of(rung)) > 0 || mutant::is("offer_without_room");
        policy.allows(known) && !self.tried.contains(&rung) && !arranged && room
    }

    /// The prompt that is about to be said asks the caller whether they want this.
    pub(super) fn note_offer(&mut self, cause: &Cause, said: &Said) {
        if !said.asks {
            self.offered = None;
            return;
        }
        let before = self.offers_made.iter().filter(|rung| **rung == said.rung).count() as u32;
        self.offers_made.push(said.rung);
        if before + 1 >= TRIES_MAX {
            // It is not offered again behind this.
            self.tried.push(said.rung);
        }
        self.offered = Some(Offered {
            rung: said.rung,
            cause: cause.clone(),
            asked: said.text.clone(),
            needs_number: false,
            tries: before,
        });
    }

    /// The caller spoke (or pressed keys) while an offer stood. True when that was an answer to it;
    /// anything else lets the offer lapse and is a turn like any other.
    pub(super) fn answers_offer(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        said: &str,
    ) -> bool {
        let Some(offered) = self.offered.take() else { return false };
        let language = self.profile.language.clone();
        let number = match offered.rung {
            Rung::Callback => number::in_words(said, &language),
            Rung::Handoff | Rung::Wait | Rung::Retry | Rung::Goodbye => None,
        };
        let wants = offered.rung == Rung::Callback && wants_callback(said, &language);
        match (number, reply(said, &language)) {
            (Some(number), _) => {
                let turn = self.reply_turn(now, admit, born);
                self.arrange(now, admit, turn, offered, number, said);
            }
            (None, Reply::Yes) => self.agreed_to(now, admit, born, offered, said),
            (None, _) if wants => self.agreed_to(now, admit, born, offered, said),
            (None, Reply::No) => {
                let turn = self.reply_turn(now, admit, born);
                self.rung_failed(now, admit, turn, &offered.cause, offered.rung, "declined");
            }
            (None, Reply::Other) if offered.needs_number => {
                let turn = self.reply_turn(now, admit, born);
                self.ask_number(now, admit, turn, offered);
            }
            (None, Reply::Other) => {
                self.tell_rung(offered.rung, "unanswered");
                return false;
            }
        }
        true
    }

    fn agreed_to(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        offered: Offered,
        said: &str,
    ) {
        let turn = self.reply_turn(now, admit, born);
        let number = match offered.rung {
            Rung::Handoff => Some(String::new()),
            _ => self.identity.number.clone().filter(|_| !offered.needs_number),
        };
        match number {
            Some(number) => self.arrange(now, admit, turn, offered, number, said),
            None => self.ask_number(now, admit, turn, offered),
        }
    }

    /// The caller's answer is a turn of its own; what is said next is its reply.
    pub(super) fn reply_turn(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
    ) -> Turn {
        let id = self.commit_turn(now, admit);
        Turn { id, born, audible_by: Some(born + self.quiet_max()), heard: false }
    }

    fn ask_number(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: Turn,
        mut offered: Offered,
    ) {
        if let Err(cause) = self.room_for(now, admit, offered.rung) {
            return self.rung_failed(now, admit, turn, &cause, offered.rung, "refused");
        }
        offered.tries += 1;
        let said = self.say_of(&offered.cause, offered.rung, Fact::NeedsNumber);
        match said {
            Some(said) if offered.tries <= TRIES_MAX => {
                self.tell_rung(offered.rung, "number_asked");
                offered.needs_number = true;
                let cause = offered.cause.clone();
                self.speak(now, &cause, said, None, Some(turn), Afterwards::Listen);
                self.offered = Some(offered);
            }
            _ => self.rung_failed(now, admit, turn, &offered.cause, offered.rung, "no_number"),
        }
    }

    /// It can still be had. When it cannot, its gate is asked and says so itself.
    fn room_for(&mut self, now: Timestamp, admit: &mut dyn Admit, rung: Rung) -> Result<(), Cause> {
        let stage = stage_of(rung);
        if admit.spare(stage) > 0 {
            return Ok(());
        }
        match self.offer(now, admit, stage, now, None) {
            Verdict::Refused(refusal) => Err(Cause::refused(refusal)),
            Verdict::Queued(ticket) => {
                admit.withdraw(now, ticket, Cancelled::Superseded);
                Err(Cause::expired(stage))
            }
            Verdict::Admitted(lease) => {
                let _ = admit.settle(now, lease, Release::Completed(Evidence::NeverStarted));
                Ok(())
            }
        }
    }
}
