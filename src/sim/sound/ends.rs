//! Both ends of a simulated call: what the caller's microphone sends and their loudspeaker plays,
//! and who listens at ours.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::super::script::{Listener, Scene, Script, Source, What};
use super::super::tracks::{Staging, Tracks};
use super::far_end::FarEnd;
use super::microphone::Microphone;
use super::network::Network;
use super::{Bank, Maker, craft};
use crate::audio::{
    CALLER_FRAME_SAMPLES, CALLER_RATE_HZ, FRAME, Pcm, Window, duration_to_samples,
    samples_to_duration,
};
use crate::provider::BuildError;
use crate::provider::ear::SharedDetector;
use crate::provider::ear::earshot::Earshot;
use crate::provider::ear::gain::Gain;
use crate::provider::ear::windows::Windows;
use crate::time::Timestamp;

/// Both ends.
pub(in crate::sim) struct Ends {
    microphone: Microphone,
    far: FarEnd,
    /// The sound of each deed that has one.
    sounds: Vec<Option<Vec<i16>>>,
    /// Somebody wants to know how it sounds.
    keeps: bool,
    /// Until when a sound lasts that is no voice's.
    rings_until: Timestamp,
    /// Frames that were captured.
    captured: u64,
    /// The microphone is off from this sample on.
    off_from: Option<u64>,
    /// What was captured, where it is kept.
    sent: Option<Vec<i16>>,
    line: Option<Line>,
}

/// The way to a detector that listens to the sound.
struct Line {
    network: Network,
    windows: Windows,
    /// Frames on their way, with the time that each comes and its number.
    coming: VecDeque<(Timestamp, u64, Vec<i16>)>,
    /// Numbers of the frames that came.
    came: Vec<u64>,
}

/// One frame that came.
pub(in crate::sim) struct Arrived {
    /// When it was captured.
    pub captured: Timestamp,
    /// The windows that it completed: probability, length, where in all sound that came it ends.
    pub heard: Vec<(Window, Duration)>,
}

impl Ends {
    /// Both ends of a script's call; problems name what is missing.
    pub fn new(
        script: &Script,
        staging: Staging<'_>,
        problems: &mut Vec<String>,
    ) -> Result<Ends, BuildError> {
        let nothing = Bank::default();
        let bank = staging.bank.unwrap_or(&nothing);
        let Scene { listener, background, echo, network, agent, .. } = &script.scene;
        let maker = Maker {
            rate_hz: CALLER_RATE_HZ,
            bank,
            background_dbfs: background.as_ref().map(|background| background.level_dbfs),
            seed: staging.seed,
            fits_spans: true,
        };
        let mut made = |sound: Result<Option<Vec<i16>>, String>| {
            sound.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let keeps = staging.record || *listener != Listener::Scripted;
        // A recording's length has to be known, whoever hears it.
        let is_needed =
            |what: &What| keeps || matches!(what, What::Plays { source: Source::Wav { .. }, .. });
        let sound = |(at, what): (usize, &What)| match is_needed(what) {
            true => made(maker.sound(at, what)),
            false => None,
        };
        let sounds = script.caller.iter().map(|deed| &deed.what).enumerate().map(sound).collect();
        let bed = background.as_ref().and_then(|b| made(maker.bed(b).map(Some)));
        let voice = agent.as_ref().and_then(|file| {
            let missing = || format!("sound.agent: {file} was not read");
            made(bank.file(file).map(|voice| Some(voice.to_vec())).ok_or_else(missing))
        });
        let gain = Gain::new(script.config.gain_max_db as f32);
        let line = match listener {
            Listener::Scripted => None,
            Listener::Detector(name) => Some(Line {
                network: Network::new(network.clone(), staging.seed),
                windows: Windows::new(detector(name, bank)?.listen(), gain),
                coming: VecDeque::new(),
                came: Vec::new(),
            }),
        };
        Ok(Ends {
            microphone: Microphone::new(CALLER_RATE_HZ, bed.unwrap_or_default(), *echo),
            far: FarEnd::new(CALLER_RATE_HZ, voice),
            sounds,
            keeps,
            rings_until: Timestamp::ZERO,
            captured: 0,
            off_from: None,
            sent: staging.record.then(Vec::new),
            line,
        })
    }

    /// A detector listens to the sound.
    pub fn are_heard(&self) -> bool {
        self.line.is_some()
    }

    /// A deed's sound begins; how long it takes.
    pub fn sound(&mut self, now: Timestamp, deed: usize, what: &What) -> Duration {
        let span = match what {
            What::Plays {
                source:
                    Source::Tone { span, .. } | Source::Noise { span, .. } | Source::Silence { span },
                ..
            } => *span,
            _ => Duration::ZERO,
        };
        self.rings_until = self.rings_until.max(now + span);
        let Some(samples) = self.sounds.get_mut(deed).and_then(Option::take) else { return span };
        let (from, length) = (sample_at(now), samples.len());
        let end = from + length as u64;
        self.off_from = match what {
            What::Says { mutes, .. } => mutes.then_some(end),
            // Muted until they speak again; a sound is let through to its end.
            _ => self.off_from.map(|off| off.max(end)),
        };
        match what {
            What::Plays { source: Source::Silence { .. }, .. } => {
                self.microphone.hush(from, length);
            }
            _ => self.microphone.add(from, samples),
        }
        samples_to_duration(length, CALLER_RATE_HZ)
    }

    /// When a sound ends that is no voice's.
    pub fn rings_until(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.rings_until).filter(|until| *until > now)
    }

    /// The agent's sound comes to the caller's end.
    pub fn play(&mut self, now: Timestamp, pcm: &Pcm) {
        if self.keeps {
            self.far.play(sample_at(now), pcm);
        }
    }

    /// The sound of a prompt whose length is all that is known of it.
    pub fn prompt(&self, rate_hz: u32, length: usize) -> Vec<i16> {
        if self.keeps { craft::voice(rate_hz, length) } else { vec![0; length] }
    }

    /// The caller's end plays no more of it.
    pub fn clear(&mut self, now: Timestamp) {
        self.far.clear(sample_at(now));
    }

    /// When the next frame is whole.
    pub fn next_frame_at(&self) -> Timestamp {
        frame_start(self.captured + 1)
    }

    /// When the next frame comes.
    pub fn next_arrival(&self) -> Option<Timestamp> {
        self.line.as_ref()?.coming.front().map(|(at, _, _)| *at)
    }

    /// Anything is sounding, beside the background, that was not captured.
    pub fn is_sounding(&self) -> bool {
        self.microphone.until(&self.far) > self.captured * CALLER_FRAME_SAMPLES as u64
    }

    /// Frames that are whole by now go on their way.
    pub fn capture(&mut self, now: Timestamp) {
        while self.next_frame_at() <= now {
            let at = self.next_frame_at();
            let from = self.captured * CALLER_FRAME_SAMPLES as u64;
            let is_off = self.off_from.is_some_and(|off| from >= off);
            let frame = match is_off {
                true => vec![0; CALLER_FRAME_SAMPLES],
                false => self.microphone.hear(from, CALLER_FRAME_SAMPLES, &self.far),
            };
            if let Some(sent) = &mut self.sent {
                sent.extend_from_slice(&frame);
            }
            if let Some(line) = &mut self.line
                && !is_off
                && let Some(comes) = line.network.carry(at)
            {
                line.coming.push_back((comes, self.captured, frame));
            }
            self.captured += 1;
        }
    }

    /// The next frame that has come by now, judged.
    pub fn arrive(&mut self, now: Timestamp, agent_sounds: bool) -> Option<Arrived> {
        let line = self.line.as_mut()?;
        if line.coming.front().is_none_or(|(at, _, _)| *at > now) {
            return None;
        }
        let (_, number, frame) = line.coming.pop_front()?;
        line.came.push(number);
        let total = line.came.len() * CALLER_FRAME_SAMPLES;
        let pending = line.windows.pending_after(frame.len());
        let mut windows = Vec::new();
        line.windows.push(&frame, agent_sounds, |window| windows.push(window));
        let heard: Duration = windows.iter().map(|window| window.span).sum();
        let mut at = samples_to_duration(total - pending, CALLER_RATE_HZ).saturating_sub(heard);
        let heard = windows.into_iter().map(|window| {
            at += window.span;
            (window, at)
        });
        Some(Arrived { captured: frame_start(number), heard: heard.collect() })
    }

    /// When the sound at a position of all that came was captured.
    pub fn moment(&self, position: Duration) -> Timestamp {
        let Some(line) = &self.line else { return Timestamp::ZERO + position };
        let samples = duration_to_samples(position, CALLER_RATE_HZ);
        let (frame, within) = (samples / CALLER_FRAME_SAMPLES, samples % CALLER_FRAME_SAMPLES);
        match line.came.get(frame) {
            Some(number) => frame_start(*number) + samples_to_duration(within, CALLER_RATE_HZ),
            None => frame_start(line.came.last().map_or(0, |last| last + 1)),
        }
    }

    /// What sounded, to the frame that holds this moment.
    pub fn tracks(mut self, now: Timestamp) -> Option<Tracks> {
        self.sent.as_ref()?;
        let frames = now.as_micros().div_ceil(FRAME.as_micros() as u64);
        self.capture(frame_start(frames));
        let caller = self.sent.unwrap_or_default();
        let agent = self.far.played(caller.len() as u64);
        Some(Tracks { rate_hz: CALLER_RATE_HZ, caller, agent })
    }
}

/// The detector of this name: out of the bank, or the one in this program.
fn detector(name: &str, bank: &Bank) -> Result<SharedDetector, BuildError> {
    match &bank.detector {
        Some(detector) => Ok(Arc::clone(detector)),
        None if name == crate::provider::ear::earshot::ENTRY.name => Ok(Arc::new(Earshot)),
        None => Err(BuildError::Missing {
            what: format!("detector {name}"),
            detail: "it was not loaded".to_owned(),
        }),
    }
}

fn sample_at(at: Timestamp) -> u64 {
    at.as_micros() * u64::from(CALLER_RATE_HZ) / 1_000_000
}

fn frame_start(number: u64) -> Timestamp {
    Timestamp::from_micros(number * FRAME.as_micros() as u64)
}
