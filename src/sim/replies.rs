//! The order in which a caller's end is told of answers, and that a turn has one (invariant 9).

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{ResponseId, TurnId};
use crate::leg::{Settings, ToCaller, TurnDetection};
use crate::turn::bargein::BargeIn;

/// Answers beside the conversation that may be open at once.
const BESIDE_MAX: usize = 4;

/// What the caller's end knows of turns and answers.
pub(super) struct Replies {
    barge_in: BargeIn,
    open: BTreeSet<ResponseId>,
    beside: BTreeSet<ResponseId>,
    writing: BTreeSet<ResponseId>,
    /// Turns and how each ended.
    turns: BTreeMap<TurnId, Option<&'static str>>,
    /// The turn committed last, and whether it has an answer that the client has nothing to add to.
    turn: Option<TurnId>,
    answered: bool,
    /// The answer in the making, and whether anything of it was told.
    making: Option<(ResponseId, bool)>,
    /// Answers that newer words have made pointless before anything of them was heard.
    pointless: BTreeSet<ResponseId>,
    over: bool,
}

impl Replies {
    pub fn new(barge_in: BargeIn) -> Replies {
        Replies {
            barge_in,
            open: BTreeSet::new(),
            beside: BTreeSet::new(),
            writing: BTreeSet::new(),
            // The greeting is a turn that nobody commits.
            turns: BTreeMap::from([(TurnId(0), None)]),
            turn: None,
            answered: false,
            making: None,
            pointless: BTreeSet::new(),
            over: false,
        }
    }

    /// Responses that never ended.
    pub fn open(&self) -> Vec<String> {
        self.open.iter().map(|response| format!("{response} never ended")).collect()
    }

    /// Something for the caller's end. Says what is wrong with it.
    pub fn told(&mut self, what: &ToCaller, settings: &Settings) -> Option<String> {
        match what {
            ToCaller::Turn { turn, state, .. } => self.turn(*turn, state),
            ToCaller::ResponseStarted(head) => {
                let first = self.open.insert(head.response);
                if head.out_of_band {
                    self.beside.insert(head.response);
                }
                let second = !head.out_of_band && std::mem::replace(&mut self.answered, true);
                if !head.out_of_band {
                    self.making = Some((head.response, false));
                }
                let beside = self.beside.len();
                wrong(!first, "a second start of", head.response)
                    .or_else(|| wrong(second, "a second reply to one turn:", head.response))
                    .or_else(|| wrong(beside > BESIDE_MAX, "too many beside:", head.response))
            }
            ToCaller::MessageStarted { response, .. } => {
                let (again, out) = (!self.writing.insert(*response), !self.open.contains(response));
                wrong(again, "a message inside a message of", *response)
                    .or_else(|| wrong(out, "a message outside of", *response))
            }
            ToCaller::MessageEnded { response, .. } => {
                wrong(!self.writing.remove(response), "the end of no message of", *response)
            }
            ToCaller::FunctionCalled { .. } => {
                // The client's output goes on with the same turn.
                self.answered = false;
                None
            }
            ToCaller::ResponseEnded { response, .. } => {
                let closed = self.open.remove(response);
                self.beside.remove(response);
                self.making = self.making.filter(|(made, _)| made != response);
                wrong(!closed, "a second end of", *response).or_else(|| {
                    let open = self.writing.contains(response);
                    wrong(open, "an open message at the end of", *response)
                })
            }
            ToCaller::Audio { response, .. } => self.sound(*response),
            ToCaller::Text { response, .. } => self.heard(*response),
            ToCaller::Transcribed { transcript, .. } => {
                self.words(&transcript.text, settings);
                None
            }
            ToCaller::Rejected { code: "conversation_already_has_active_response", .. } => {
                // The words were the client's to answer, and what is being made stands.
                self.pointless.clear();
                None
            }
            ToCaller::HangUp { .. } => {
                let again = std::mem::replace(&mut self.over, true);
                again.then(|| "a second hang-up".to_owned())
            }
            _ => None,
        }
    }

    fn turn(&mut self, turn: TurnId, state: &'static str) -> Option<String> {
        if state == "committed" {
            (self.turn, self.answered) = (Some(turn), false);
            let again = self.turns.insert(turn, None).is_some();
            return again.then(|| format!("{turn} was committed twice"));
        }
        match self.turns.insert(turn, Some(state)) {
            None => Some(format!("{turn} is {state} and was never committed")),
            Some(Some(before)) => Some(format!("{turn} is {state}, and was {before}")),
            Some(None) => None,
        }
    }

    fn sound(&mut self, response: Option<ResponseId>) -> Option<String> {
        if self.over {
            return Some("sound behind the hang-up".to_owned());
        }
        let response = response?;
        let outside = !self.writing.contains(&response);
        wrong(outside, "sound outside of a message of", response).or_else(|| self.heard(response))
    }

    fn heard(&mut self, response: ResponseId) -> Option<String> {
        if let Some((made, told)) = &mut self.making
            && *made == response
        {
            *told = true;
        }
        let pointless = self.pointless.remove(&response);
        wrong(pointless, "newer words came before anything was heard of", response)
    }

    /// The caller's words are known: an answer to the words before them that nobody has heard
    /// anything of is superseded (B42, B85).
    fn words(&mut self, text: &str, settings: &Settings) {
        let yields = match settings.turn_detection {
            TurnDetection::Manual => false,
            TurnDetection::Server(turns) => turns.interrupt_response,
        };
        let means_something = !text.trim().is_empty() && !self.barge_in.is_backchannel(text);
        if let Some((made, false)) = self.making
            && yields
            && means_something
        {
            self.pointless.insert(made);
        }
    }
}

fn wrong(is_wrong: bool, what: &str, response: ResponseId) -> Option<String> {
    is_wrong.then(|| format!("{what} {response}"))
}
