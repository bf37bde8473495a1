//! What the far end plays, where we play it out: `output_audio_buffer.*` and the server's own
//! truncation.

use std::time::Duration;

use super::outbox::Outbox;
use super::say::say_truncated;
use crate::audio::Pcm;
use crate::id::ItemId;
use crate::time::Timestamp;

/// What is heard and not read.
#[derive(Clone, Debug, PartialEq)]
pub enum Audible {
    /// Sound of a response.
    Sound {
        /// The response, as the wire names it.
        response: String,
        /// The agent's item.
        item: ItemId,
        /// The item is one of the conversation's.
        kept: bool,
        /// The sound.
        pcm: Pcm,
    },
    /// No more sound of this response follows.
    Over {
        /// The response.
        response: String,
    },
    /// What the far end has of this item is gone.
    Clear {
        /// The agent's item.
        item: ItemId,
        /// How much of it was heard.
        played: Duration,
    },
}

/// Knows whose sound is being played, and tells its client.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    playing: Option<Playing>,
}

#[derive(Debug)]
struct Playing {
    response: String,
    item: ItemId,
    kept: bool,
    /// All of it has been sent.
    over: bool,
    /// When the last of it will have been played.
    until: Timestamp,
}

impl OutputBuffer {
    /// Tells what begins, and gives the sound that is to be sent now.
    pub fn take(&mut self, now: Timestamp, what: Audible, out: &mut Outbox) -> Option<Pcm> {
        match what {
            Audible::Sound { response, item, kept, pcm } => {
                let before = match &self.playing {
                    Some(playing) if playing.response == response => playing.until.max(now),
                    _ => {
                        self.stop(out);
                        tell(out, "output_audio_buffer.started", &response);
                        now
                    }
                };
                let until = before + pcm.duration();
                self.playing = Some(Playing { response, item, kept, over: false, until });
                Some(pcm)
            }
            Audible::Over { response } => {
                if let Some(playing) = self.playing.as_mut().filter(|p| p.response == response) {
                    playing.over = true;
                }
                None
            }
            Audible::Clear { item, played } => {
                if let Some(playing) = self.playing.take_if(|playing| playing.item == item) {
                    tell(out, "output_audio_buffer.cleared", &playing.response);
                    if playing.kept {
                        say_truncated(&item, played, out);
                    }
                }
                None
            }
        }
    }

    /// Tells that a response has been played to its end, once it has.
    pub fn tick(&mut self, now: Timestamp, out: &mut Outbox) {
        if self.due().is_some_and(|due| due <= now) {
            self.stop(out);
        }
    }

    /// When [`OutputBuffer::tick`] has something to tell.
    pub fn due(&self) -> Option<Timestamp> {
        self.playing.as_ref().filter(|playing| playing.over).map(|playing| playing.until)
    }

    /// Something may still be heard until then.
    pub fn plays_until(&self) -> Option<Timestamp> {
        self.playing.as_ref().map(|playing| playing.until)
    }

    fn stop(&mut self, out: &mut Outbox) {
        if let Some(playing) = self.playing.take() {
            tell(out, "output_audio_buffer.stopped", &playing.response);
        }
    }
}

fn tell(out: &mut Outbox, kind: &'static str, response: &str) {
    out.event(kind).field("response_id", response).queue();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    fn sound(response: &str, item: &str) -> Audible {
        let pcm = Pcm { rate_hz: 24_000, samples: vec![0; 480] };
        Audible::Sound { response: response.into(), item: ItemId::new(item), kept: true, pcm }
    }

    fn events(out: &mut Outbox) -> Vec<String> {
        std::iter::from_fn(|| out.pop_text())
            .map(|text| {
                let event: serde_json::Value = serde_json::from_str(&text).unwrap();
                let about = event["response_id"].as_str().or(event["item_id"].as_str()).unwrap();
                let kind = event["type"].as_str().unwrap();
                format!("{} {about}", kind.rsplit('.').next().unwrap())
            })
            .collect()
    }

    #[test]
    fn it_tells_when_a_response_begins_and_when_it_has_been_played() {
        let (mut buffer, mut out) = (OutputBuffer::default(), Outbox::new("t"));
        let now = Timestamp::from_millis(100);
        for _ in 0..3 {
            assert!(buffer.take(now, sound("r1", "i1"), &mut out).is_some());
        }
        assert_eq!(events(&mut out), ["started r1"]);
        assert_eq!(buffer.due(), None, "more may follow");
        buffer.take(now, Audible::Over { response: "r1".into() }, &mut out);
        assert_eq!(buffer.due(), Some(now + ms(60)));
        buffer.tick(now + ms(59), &mut out);
        assert!(out.is_empty());
        buffer.tick(now + ms(60), &mut out);
        assert_eq!((events(&mut out), buffer.due()), (vec!["stopped r1".to_owned()], None));
    }

    #[test]
    fn a_clear_ends_and_truncates_what_sounds_and_nothing_else() {
        let (mut buffer, mut out) = (OutputBuffer::default(), Outbox::new("t"));
        let now = Timestamp::from_millis(100);
        let clear = |item: &str| Audible::Clear { item: ItemId::new(item), played: ms(40) };
        buffer.take(now, clear("i1"), &mut out);
        buffer.take(now, sound("r1", "i1"), &mut out);
        buffer.take(now, clear("i0"), &mut out);
        assert_eq!(events(&mut out), ["started r1"]);
        buffer.take(now, Audible::Over { response: "r1".into() }, &mut out);
        buffer.take(now, clear("i1"), &mut out);
        assert_eq!(events(&mut out), ["cleared r1", "truncated i1"]);
        buffer.take(now, sound("r2", "i2"), &mut out);
        buffer.take(now, sound("r3", "i3"), &mut out);
        assert_eq!(events(&mut out), ["started r2", "stopped r2", "started r3"]);
    }
}
