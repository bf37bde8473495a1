//! Has a person answered, or a machine? Decided from the first seconds of sound, without I/O.
//!
//! A person says a word or two and waits; a mailbox says whole sentences, or gives a tone. The
//! levels and times are those that telephone systems have used for it for long: who still speaks
//! after 2.2 s reads something out.

use crate::audio::{CALLER_RATE_HZ, level_dbfs};

/// Sound is looked at in pieces of 20 ms.
const FRAME_MS: u32 = 20;
const FRAME: usize = (CALLER_RATE_HZ / 1_000 * FRAME_MS) as usize;
/// What is louder is somebody, in dB below full scale.
const LOUD_DBFS: f32 = -42.0;
/// Shorter noises are no word.
const WORD_MIN_MS: u32 = 80;
/// Whoever is silent for so long behind a word waits for an answer.
const WAITS_MS: u32 = 800;
/// Who speaks for so long, with shorter pauses, is a machine.
const GREETING_MAX_MS: u32 = 2_200;
/// A tone of this length is no voice.
const TONE_MS: u32 = 240;
/// How much of a frame's power a tone has.
const TONE_PART: f32 = 0.85;

/// Who has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A person, as far as can be told.
    Person,
    /// A mailbox, a fax, an announcement.
    Machine,
}

/// Listens to who has answered.
#[derive(Clone, Debug)]
pub struct Answered {
    limit_ms: u32,
    rest: Vec<i16>,
    heard_ms: u32,
    /// From the first word to the end of the last, pauses included.
    speech_ms: u32,
    loud_ms: u32,
    silent_ms: u32,
    tone: Option<(f32, u32)>,
}

impl Answered {
    /// Listens for so long at most.
    pub fn new(limit_ms: u32) -> Answered {
        Answered {
            limit_ms,
            rest: Vec::with_capacity(FRAME),
            heard_ms: 0,
            speech_ms: 0,
            loud_ms: 0,
            silent_ms: 0,
            tone: None,
        }
    }

    /// Hears on; tells who it is once that is clear.
    pub fn hear(&mut self, samples: &[i16]) -> Option<Who> {
        for &sample in samples {
            self.rest.push(sample);
            if self.rest.len() == FRAME {
                let frame = std::mem::replace(&mut self.rest, Vec::with_capacity(FRAME));
                if let Some(who) = self.frame(&frame) {
                    return Some(who);
                }
            }
        }
        None
    }

    fn frame(&mut self, frame: &[i16]) -> Option<Who> {
        self.heard_ms += FRAME_MS;
        let loud = level_dbfs(frame) > LOUD_DBFS;
        if self.is_tone(frame, loud) {
            return Some(Who::Machine);
        }
        if loud {
            self.loud_ms += FRAME_MS;
            self.speech_ms += self.silent_ms.min(WAITS_MS) * u32::from(self.speech_ms > 0);
            self.speech_ms += FRAME_MS;
            self.silent_ms = 0;
        } else {
            self.silent_ms += FRAME_MS;
        }
        if self.speech_ms > 0 && self.silent_ms >= WAITS_MS {
            if self.loud_ms >= WORD_MIN_MS {
                return Some(Who::Person);
            }
            (self.speech_ms, self.loud_ms) = (0, 0);
        }
        if self.speech_ms > GREETING_MAX_MS {
            return Some(Who::Machine);
        }
        // A person who only listens is greeted; a machine that is still speaking is one.
        let out_of_time = self.heard_ms >= self.limit_ms;
        out_of_time.then_some(if self.speech_ms > GREETING_MAX_MS / 2 {
            Who::Machine
        } else {
            Who::Person
        })
    }

    /// It is part of a tone that has lasted long enough.
    fn is_tone(&mut self, frame: &[i16], loud: bool) -> bool {
        let pitch = if loud { pure_pitch(frame) } else { None };
        let lasted_ms = match (pitch, self.tone) {
            (Some(hz), Some((of, ms))) if (hz - of).abs() < of * 0.05 => ms + FRAME_MS,
            (Some(_), _) => FRAME_MS,
            (None, _) => 0,
        };
        self.tone = pitch.map(|hz| (hz, lasted_ms));
        lasted_ms >= TONE_MS
    }
}

/// The frequency of a frame that is one sine, as far as telephones have any.
fn pure_pitch(frame: &[i16]) -> Option<f32> {
    let rises: Vec<f32> = frame
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| pair[0] < 0 && pair[1] >= 0)
        .map(|(at, pair)| {
            let (below, above) = (f32::from(pair[0]), f32::from(pair[1]));
            at as f32 + below / (below - above)
        })
        .collect();
    let (first, last) = (rises.first()?, rises.last()?);
    let periods = (rises.len() - 1) as f32;
    let hz = CALLER_RATE_HZ as f32 * periods / (last - first);
    if periods < 5.0 || !(300.0..2_500.0).contains(&hz) {
        return None;
    }
    let step = std::f32::consts::TAU * hz / CALLER_RATE_HZ as f32;
    let (mut real, mut imaginary, mut power) = (0.0, 0.0, 0.0);
    for (at, &sample) in frame.iter().enumerate() {
        let (sample, angle) = (f32::from(sample), step * at as f32);
        real += sample * angle.cos();
        imaginary += sample * angle.sin();
        power += sample * sample;
    }
    let of_tone = 2.0 * (real * real + imaginary * imaginary) / frame.len() as f32;
    (of_tone > TONE_PART * power).then_some(hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something like a voice: a buzz with many harmonics whose pitch and loudness move.
    fn speech(ms: u32) -> Vec<i16> {
        let (mut phase, mut out) = (0.0_f32, Vec::new());
        for at in 0..ms * CALLER_RATE_HZ / 1_000 {
            let t = at as f32 / CALLER_RATE_HZ as f32;
            phase += (130.0 + 30.0 * (t * 7.0).sin()) / CALLER_RATE_HZ as f32;
            let loud = 0.55 + 0.45 * (t * 25.0).sin();
            out.push(((phase.fract() - 0.5) * 9_000.0 * loud) as i16);
        }
        out
    }

    fn silence(ms: u32) -> Vec<i16> {
        (0..ms * CALLER_RATE_HZ / 1_000).map(|at| (at % 7) as i16 * 3 - 9).collect()
    }

    fn tone(ms: u32, hz: f32) -> Vec<i16> {
        let step = std::f32::consts::TAU * hz / CALLER_RATE_HZ as f32;
        (0..ms * CALLER_RATE_HZ / 1_000)
            .map(|at| ((step * at as f32).sin() * 5_000.0) as i16)
            .collect()
    }

    /// Who it was, and after how much sound.
    fn who(parts: &[Vec<i16>]) -> (Option<Who>, u32) {
        let mut answered = Answered::new(6_000);
        for (at, piece) in parts.concat().chunks(137).enumerate() {
            if let Some(who) = answered.hear(piece) {
                return (Some(who), at as u32 * 137 * 1_000 / CALLER_RATE_HZ);
            }
        }
        (None, 0)
    }

    #[test]
    fn a_word_and_a_pause_are_a_person() {
        let (it, after_ms) = who(&[silence(300), speech(500), silence(2_000)]);
        assert_eq!(it, Some(Who::Person));
        assert!((1_550..1_700).contains(&after_ms), "{after_ms}");
        let (it, _) = who(&[silence(900), speech(400), silence(300), speech(900), silence(2_000)]);
        assert_eq!(it, Some(Who::Person), "a name behind a hello");
    }

    #[test]
    fn sentences_are_a_machine() {
        let (it, after_ms) = who(&[silence(400), speech(1_500), silence(400), speech(3_000)]);
        assert_eq!(it, Some(Who::Machine));
        assert!(after_ms < 3_200, "{after_ms}");
        let late = [silence(4_200), speech(3_000)];
        assert_eq!(who(&late).0, Some(Who::Machine), "one that was slow to begin");
    }

    #[test]
    fn a_tone_is_a_machine() {
        for hz in [440.0, 950.0, 1_400.0, 2_100.0] {
            let (it, after_ms) = who(&[silence(500), tone(400, hz), silence(3_000)]);
            assert_eq!(it, Some(Who::Machine), "{hz} Hz");
            assert!(after_ms < 850, "{after_ms}");
        }
        let key = [silence(500), tone(120, 697.0), silence(100), speech(300), silence(2_000)];
        assert_eq!(who(&key).0, Some(Who::Person), "a short one is none");
    }

    #[test]
    fn who_only_listens_is_a_person() {
        assert_eq!(who(&[silence(7_000)]), (Some(Who::Person), 5_993));
        let click = [silence(500), speech(40), silence(6_000)];
        assert_eq!(who(&click).0, Some(Who::Person), "a click is no word");
    }
}
