//! A script's expectations in real time: what can be seen is judged, with a tolerance for its
//! times; what cannot is listed.

use std::time::Duration;

use super::inner::is_inner;
use crate::sim::expect::{self, HeardCheck};
use crate::sim::facts::Fact;
use crate::sim::script::Expect;
use crate::time::ms;

/// Real time is later than virtual time: what has to come within a span may take this much more.
pub(in crate::cli) const TOLERANCE: Duration = ms(250);

/// How much of a server can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Our own server: the wire and the server's own record.
    Whole,
    /// The wire, with the extra events.
    WithExtras,
    /// The wire as every Realtime server speaks it.
    Plain,
}

/// Facts that only the extra events tell.
const EXTRAS: [&str; 7] = [
    "agent.paused",
    "agent.resumed",
    "far_end.clear",
    "late_output",
    "fallback",
    "prompt",
    "hang_up",
];

impl Sight {
    /// Whether facts that fit this pattern can be seen.
    pub(super) fn sees(self, pattern: &str) -> bool {
        let name = pattern.split('(').next().unwrap_or_default().trim();
        let extra = EXTRAS.contains(&name)
            || ["turn.", "admission."].iter().any(|start| name.starts_with(start))
            || name.ends_with(".wait_ended")
            || pattern.contains("generation");
        match self {
            Sight::Whole => true,
            Sight::WithExtras => extra || !is_inner(name),
            Sight::Plain => !extra && !is_inner(name),
        }
    }
}

/// The expectations as they can be judged, and what cannot be seen of them.
pub(super) fn visible(expects: &[Expect], sight: Sight) -> (Vec<Expect>, Vec<String>) {
    let mut judged = Vec::new();
    let mut unseen = Vec::new();
    for expect in expects {
        let mut hidden = |facts: &[&String]| {
            let of = facts.iter().filter(|fact| !sight.sees(fact));
            let of: Vec<String> = of.map(|fact| (*fact).clone()).collect();
            unseen.extend(of.iter().cloned());
            !of.is_empty()
        };
        match expect {
            Expect::Order(order) => {
                hidden(&order.iter().collect::<Vec<_>>());
                let seen: Vec<String> =
                    order.iter().filter(|fact| sight.sees(fact)).cloned().collect();
                judged.extend((!seen.is_empty()).then_some(Expect::Order(seen)));
            }
            Expect::Never { fact, after } => {
                let named: Vec<&String> = std::iter::once(fact).chain(after).collect();
                judged.extend((!hidden(&named)).then(|| expect.clone()));
            }
            Expect::Count { fact, .. } => {
                judged.extend((!hidden(&[fact])).then(|| expect.clone()));
            }
            Expect::Within { fact, of, span } => {
                let (fact, of, span) = (fact.clone(), of.clone(), *span + TOLERANCE);
                let seen = !hidden(&[&fact, &of]);
                judged.extend(seen.then_some(Expect::Within { fact, of, span }));
            }
            Expect::HistoryEndsWithHeard | Expect::Asked { .. } if sight == Sight::Whole => {
                judged.push(expect.clone());
            }
            Expect::HistoryEndsWithHeard => unseen.push("history_ends_with".to_owned()),
            Expect::Asked { nth, .. } => unseen.push(format!("asked (request {nth})")),
        }
    }
    unseen.sort();
    unseen.dedup();
    (judged, unseen)
}

/// What is not as expected, of that which can be seen.
pub(super) fn judge(
    expects: &[Expect],
    sight: Sight,
    facts: &[Fact],
    heard: &[HeardCheck],
    asked: &[Vec<String>],
) -> Vec<String> {
    let (judged, _) = visible(expects, sight);
    expect::check(&judged, facts, heard, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expects(text: &str) -> Vec<Expect> {
        let text = format!("about = \"a test\"\n{text}");
        crate::sim::script::Script::parse("test", &text).unwrap().expect
    }

    #[test]
    fn what_cannot_be_seen_is_listed_and_the_rest_is_judged() {
        let all = expects(
            "[[expect]]\norder = [\"fence(2)\", \"speech.stopped\", \"turn.answered(1)\"]\n\
             [[expect]]\nnever = \"agent.audio(generation=1)\"\nafter = \"fence(2)\"\n\
             [[expect]]\nasked = { nth = 2, has = [\"user: Hi\"] }\n\
             [[expect]]\nwithin = { event = \"agent.first_audio\", of = \"speech.stopped\", span = \"1s\" }",
        );
        let (judged, unseen) = visible(&all, Sight::Whole);
        assert_eq!((judged.len(), unseen.len()), (4, 0));
        let (judged, unseen) = visible(&all, Sight::WithExtras);
        let order = vec!["speech.stopped".to_owned(), "turn.answered(1)".to_owned()];
        assert_eq!(judged[0], Expect::Order(order));
        assert!(matches!(&judged[1], Expect::Within { span, .. } if *span == ms(1_250)));
        assert_eq!(unseen, ["asked (request 2)", "fence(2)"]);
        let (judged, unseen) = visible(&all, Sight::Plain);
        assert_eq!(judged[0], Expect::Order(vec!["speech.stopped".to_owned()]));
        let listed =
            ["agent.audio(generation=1)", "asked (request 2)", "fence(2)", "turn.answered(1)"];
        assert_eq!(unseen, listed);
    }
}
