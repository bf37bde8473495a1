//! The caller's end of a live fixture: a microphone, a loudspeaker and the way to the server, in
//! real time.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::call::wire::{WIRE_FRAME_SAMPLES, WIRE_RATE_HZ};
use crate::audio::{Pcm, duration_to_samples, samples_to_duration};
use crate::sim::script::{Colour, Script, Source, What};
use crate::sim::sound::far_end::FarEnd;
use crate::sim::sound::microphone::Microphone;
use crate::sim::sound::network::Network;
use crate::sim::sound::{Bank, Maker, craft};
use crate::time::Timestamp;

/// How loud noise is for a server of somebody else: as loud as speech.
const NOISE_DBFS: f64 = -16.0;
/// The same noise every time.
const SEED: u64 = 7;

/// Where the caller is.
pub(super) struct Room<'a> {
    maker: Maker<'a>,
    microphone: Microphone,
    far: FarEnd,
    network: Network,
    switch: Switch,
    /// Frames so far.
    frames: u64,
    /// Frames on their way, each with its time.
    coming: VecDeque<(Timestamp, Vec<i16>)>,
    /// Until which sample a deed sounds.
    sounds_until: u64,
}

/// Whether the caller's sound is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    On,
    /// Until the caller has said what is being said.
    OnUntilQuiet,
    Off,
}

impl<'a> Room<'a> {
    /// The room of a script; problems name what is missing. `fits_spans` is whether the script
    /// decides what is understood, and so how long it takes; then it also says what the agent
    /// sounds like.
    pub(super) fn new(
        script: &Script,
        bank: &'a Bank,
        fits_spans: bool,
        problems: &mut Vec<String>,
    ) -> Room<'a> {
        let scene = &script.scene;
        let background_dbfs = scene.background.as_ref().map(|background| background.level_dbfs);
        let maker = Maker { rate_hz: WIRE_RATE_HZ, bank, background_dbfs, seed: SEED, fits_spans };
        let bed = scene.background.as_ref().map(|background| maker.bed(background));
        let bed = bed.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|problem| {
            problems.push(problem);
            Vec::new()
        });
        let voice = scene.agent.as_ref().filter(|_| fits_spans).and_then(|file| bank.file(file));
        Room {
            maker,
            microphone: Microphone::new(WIRE_RATE_HZ, bed, scene.echo),
            far: FarEnd::new(WIRE_RATE_HZ, voice.map(<[i16]>::to_vec)),
            network: Network::new(scene.network.clone(), SEED),
            switch: Switch::On,
            frames: 0,
            coming: VecDeque::new(),
            sounds_until: 0,
        }
    }

    fn next_sample(&self) -> u64 {
        self.frames * WIRE_FRAME_SAMPLES as u64
    }

    /// A deed's sound begins; how long it takes.
    pub(super) fn sound(&mut self, deed: usize, what: &What) -> Result<Duration, String> {
        let made = match what {
            // A good detector does not take it for speech; nobody knows which one listens.
            What::Noise { span, .. } if !self.maker.fits_spans => {
                let length = duration_to_samples(*span, WIRE_RATE_HZ);
                let noise = craft::noise(Colour::White, SEED, length);
                Some(craft::at_level(noise, NOISE_DBFS, WIRE_RATE_HZ))
            }
            what => self.maker.sound(deed, what)?,
        };
        let Some(samples) = made else { return Ok(Duration::ZERO) };
        let (from, length) = (self.next_sample(), samples.len());
        match what {
            What::Plays { source: Source::Silence { .. }, .. } => {
                self.microphone.hush(from, length);
            }
            _ => self.microphone.add(from, samples),
        }
        self.sounds_until = self.sounds_until.max(from + length as u64);
        self.switch = match (what, self.switch) {
            (What::Says { mutes: true, .. }, _) => Switch::OnUntilQuiet,
            (What::Says { .. }, _) | (_, Switch::On) => Switch::On,
            (_, Switch::OnUntilQuiet | Switch::Off) => Switch::OnUntilQuiet,
        };
        Ok(samples_to_duration(length, WIRE_RATE_HZ))
    }

    /// The agent's sound came: it is played behind what still plays.
    pub(super) fn play(&mut self, samples: Vec<i16>) {
        self.far.play(self.next_sample(), &Pcm { rate_hz: WIRE_RATE_HZ, samples });
    }

    /// The loudspeaker plays no more of it.
    pub(super) fn clear(&mut self) {
        self.far.clear(self.next_sample());
    }

    /// The next 20 ms pass; the frames that come to the server now.
    pub(super) fn pass(&mut self, now: Timestamp) -> Vec<Vec<i16>> {
        let from = self.next_sample();
        self.frames += 1;
        if self.switch != Switch::Off {
            let frame = self.microphone.hear(from, WIRE_FRAME_SAMPLES, &self.far);
            if let Some(comes) = self.network.carry(now) {
                self.coming.push_back((comes, frame));
            }
        }
        if self.switch == Switch::OnUntilQuiet && self.is_quiet() {
            self.switch = Switch::Off;
        }
        let mut came = Vec::new();
        while self.coming.front().is_some_and(|(at, _)| *at <= now) {
            came.extend(self.coming.pop_front().map(|(_, frame)| frame));
        }
        came
    }

    /// No deed sounds.
    pub(super) fn is_quiet(&self) -> bool {
        self.sounds_until <= self.next_sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    fn script(text: &str) -> Script {
        Script::parse("test", &format!("about = \"a test\"\n{text}")).unwrap()
    }

    fn pass(room: &mut Room<'_>, frames: u64) -> Vec<Vec<i16>> {
        let all = (0..frames).flat_map(|_| {
            let now = Timestamp::ZERO + ms(20) * (room.frames as u32 + 1);
            room.pass(now)
        });
        all.collect()
    }

    #[test]
    fn a_muted_microphone_sends_until_the_words_are_said() {
        let script =
            script("[[caller]]\nat = \"0s\"\nsays = \"hi\"\nmutes = true\nfor = \"50ms\"\n");
        let mut bank = Bank::default();
        bank.add_words("hi", vec![1, 2, 3]);
        let mut room = Room::new(&script, &bank, true, &mut Vec::new());
        let took = room.sound(0, &script.caller[0].what).unwrap();
        assert_eq!(took, ms(50));
        let sent = pass(&mut room, 10);
        assert_eq!((sent.len(), sent[0][3]), (3, 1));
    }

    #[test]
    fn the_agents_own_sound_comes_back_and_frames_are_not_sent_in_a_gap() {
        let script = script(
            "[sound]\ndetector = \"earshot\"\necho = { delay_ms = 20, attenuation_db = 20 }\n\
             network = { gaps = [{ at = \"60ms\", for = \"40ms\" }] }\n",
        );
        let bank = Bank::default();
        let mut room = Room::new(&script, &bank, true, &mut Vec::new());
        room.play(vec![1_000; 960]);
        let sent = pass(&mut room, 6);
        let firsts: Vec<i16> = sent.iter().map(|frame| frame[0]).collect();
        assert_eq!(firsts, [0, 100, 100, 0]);
    }
}
