//! What callers say while the agent speaks: words in the embedded voice and in recordings, and
//! sounds that are no words: made here, the same every time.

use std::f32::consts::TAU;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use floorkeeper::audio::{CALLER_RATE_HZ, Pcm, level_dbfs, samples_to_duration};
use floorkeeper::cli::wav;
use floorkeeper::provider::ear::DETECTORS;
use floorkeeper::provider::tts::{Phrase, TTSS, Tts, TtsOptions, TtsSignal};
use floorkeeper::provider::{Cancel, Surroundings, find, models};
use tokio::sync::mpsc;

use super::DUCK_MS;
use super::dice::Dice;

/// Rate of the wire.
pub const RATE_HZ: u32 = 24_000;
/// Samples of 20 ms.
pub const FRAME: usize = 480;
/// A caller's speech begins with the first frame that is louder.
pub const SPEECH_DBFS: f32 = -45.0;
/// Frames in a row that are no click: 60 ms.
const LOUD_FRAMES: usize = 3;
/// In a recording with a loud background, with the first that is so much louder than that.
const ABOVE_BACKGROUND_DB: f32 = 12.0;
/// How loud a caller speaks.
const LEVEL_DBFS: f32 = -23.0;
/// A recording that is longer keeps everybody waiting.
const RECORDING_MAX: Duration = Duration::from_millis(3_500);
const RECORDINGS: &str = include_str!("../../fixtures/speech/recordings.tsv");
const WORDS: [&str; 16] = [
    "Wait, stop.",
    "No, I meant tomorrow.",
    "Stop.",
    "Hold on a second.",
    "Actually, I want something else.",
    "Can I ask you a question?",
    "That is not what I asked for.",
    "Please tell me a different one.",
    "Sorry, could you say that again?",
    "No no, not that one.",
    "I do not have time for this.",
    "What time is it now?",
    "Hey, listen to me for a moment.",
    "Cancel that, please.",
    "How much does it cost?",
    "Let me talk to a person.",
];
/// What the voice can say of them: "mm-hmm" it would spell, that is made below.
const BACK_CHANNELS: [&str; 3] = ["Yeah.", "Okay.", "Uh-huh."];

/// What kind of sound it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Words in the embedded voice.
    Words,
    /// Words of real people.
    Recording,
    /// "Mm-hmm".
    BackChannel,
    Cough,
    Keyboard,
    Music,
}

impl Kind {
    /// The sounds that must not interrupt.
    pub const OTHERS: [Kind; 4] = [Kind::BackChannel, Kind::Cough, Kind::Keyboard, Kind::Music];

    pub fn interrupts(self) -> bool {
        matches!(self, Kind::Words | Kind::Recording)
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Words => "words",
            Kind::Recording => "recordings",
            Kind::BackChannel => "\"mm-hmm\"",
            Kind::Cough => "coughs",
            Kind::Keyboard => "keyboard",
            Kind::Music => "music",
        }
    }
}

/// One sound.
pub struct Sound {
    pub kind: Kind,
    pub name: String,
    /// At the wire's rate, in whole frames; the first is the first that is loud.
    pub samples: Vec<i16>,
    /// When its first word has ended, where that is known.
    pub first_word: Option<Duration>,
    /// When it begins to stay loud: a click of the switch or a breath may come before.
    pub stays_loud: Duration,
}

impl Sound {
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let pcm = Pcm { rate_hz: RATE_HZ, samples: self.samples.clone() };
        wav::write(path, &pcm).map_err(|error| error.to_string())
    }
}

/// How soon the detector alone would have heard enough of each sound, at this threshold: what no
/// server can be faster than. Windows fall as they fall in a call that has been silent for a
/// second.
pub fn detected(sounds: &[Sound], threshold: f32) -> Result<Vec<Option<Duration>>, String> {
    let entry = find(DETECTORS, "vad.detector", "silero").map_err(|error| error.to_string())?;
    let around = Surroundings { models_dir: models_dir(), language: "en".into() };
    let detector =
        (entry.build)(&toml::Table::new(), &around).map_err(|error| error.to_string())?;
    let heard = |sound: &Sound| {
        let mut ear = detector.listen();
        let pcm = Pcm { rate_hz: RATE_HZ, samples: sound.samples.clone() };
        let spoken = wav::at_rate(&pcm, CALLER_RATE_HZ)?;
        let silence = vec![0_i16; CALLER_RATE_HZ as usize];
        let samples = [silence, spoken].concat();
        let mut speech = Duration::ZERO;
        for (nth, window) in samples.chunks_exact(ear.window()).enumerate() {
            let span = samples_to_duration(window.len(), CALLER_RATE_HZ);
            let loud = ear.hear(window) > threshold;
            speech = if loud { speech + span } else { Duration::ZERO };
            if speech >= Duration::from_millis(DUCK_MS.into()) {
                let end = samples_to_duration((nth + 1) * window.len(), CALLER_RATE_HZ);
                return Ok(Some(end.saturating_sub(Duration::from_secs(1))));
            }
        }
        Ok(None)
    };
    sounds.iter().map(heard).collect()
}

fn models_dir() -> PathBuf {
    std::env::var_os("FLOORKEEPER_MODELS_DIR").map_or_else(models::default_dir, PathBuf::from)
}

/// Every sound there is; the error says what is missing for that.
pub async fn all() -> Result<Vec<Sound>, String> {
    let dir = models_dir();
    let found = models::look(&dir);
    if !found.complete() {
        return Err(found.missing().join("; "));
    }
    let around = Surroundings { models_dir: dir, language: "en".into() };
    let entry = find(TTSS, "tts.provider", "piper").map_err(|error| error.to_string())?;
    let voice = (entry.build)(&toml::Table::new(), &around).map_err(|error| error.to_string())?;
    let mut all = recordings();
    for words in WORDS {
        all.push(spoken(&voice, Kind::Words, words).await?);
    }
    for words in BACK_CHANNELS {
        all.push(spoken(&voice, Kind::BackChannel, words).await?);
    }
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for nth in 0..3 {
        all.push(sound(Kind::BackChannel, format!("mm-hmm {nth}"), hum(nth), None));
        all.push(sound(Kind::Cough, format!("cough {nth}"), cough(&mut dice, nth), None));
        all.push(sound(Kind::Keyboard, format!("keys {nth}"), keyboard(&mut dice), None));
        all.push(sound(Kind::Music, format!("chords {nth}"), music(nth), None));
    }
    Ok(all)
}

/// Levels a sound, and lets it begin where it becomes loud. `first_word` counts from the sound's
/// own beginning.
fn sound(kind: Kind, name: String, samples: Vec<i16>, first_word: Option<Duration>) -> Sound {
    let gain = 10_f32.powf((LEVEL_DBFS - level_dbfs(&samples)) / 20.0);
    let louder = |sample: &i16| (f32::from(*sample) * gain).clamp(-32_768.0, 32_767.0) as i16;
    let samples: Vec<i16> = samples.iter().map(louder).collect();
    let speech = match kind {
        Kind::Recording => SPEECH_DBFS.max(background(&samples) + ABOVE_BACKGROUND_DB),
        _ => SPEECH_DBFS,
    };
    let loud = |frame: &[i16]| level_dbfs(frame) > speech;
    let quiet = samples.chunks(FRAME).take_while(|frame| !loud(frame)).count() * FRAME;
    let mut samples = samples[quiet.min(samples.len())..].to_vec();
    samples.resize(samples.len().next_multiple_of(FRAME), 0);
    let skipped = Pcm { rate_hz: RATE_HZ, samples: vec![0; quiet] }.duration();
    let first_word = first_word.map(|end| end.saturating_sub(skipped));
    let frames: Vec<bool> = samples.chunks(FRAME).map(loud).collect();
    let stays = frames.windows(LOUD_FRAMES).position(|frames| frames.iter().all(|loud| *loud));
    let before = Pcm { rate_hz: RATE_HZ, samples: vec![0; stays.unwrap_or(0) * FRAME] };
    Sound { kind, name, samples, first_word, stays_loud: before.duration() }
}

/// How loud the quietest tenth of a sound is: what a recording has of its room is no speech.
fn background(samples: &[i16]) -> f32 {
    let mut levels: Vec<f32> = samples.chunks_exact(FRAME).map(level_dbfs).collect();
    levels.sort_unstable_by(f32::total_cmp);
    levels.get(levels.len() / 10).copied().unwrap_or(f32::MIN)
}

async fn spoken(voice: &Arc<dyn Tts>, kind: Kind, words: &str) -> Result<Sound, String> {
    let (phrases, input) = mpsc::channel(1);
    let (out, mut signals) = mpsc::channel(32);
    let options = TtsOptions { voice: None, language: "en".into(), speed: 1.0 };
    let run = Arc::clone(voice).run(options, input, out, Cancel::new());
    let feed = async move {
        // A run that ends early says itself why.
        let _ = phrases.send(Phrase { index: 0, text: words.to_owned() }).await;
    };
    let collect = async {
        let (mut pcm, mut first_word) = (Pcm::default(), None);
        while let Some(signal) = signals.recv().await {
            match signal {
                TtsSignal::Audio { pcm: piece, .. } => {
                    pcm.rate_hz = piece.rate_hz;
                    pcm.samples.extend(piece.samples);
                }
                TtsSignal::PhraseDone { words, .. } => {
                    first_word = words.first().map(|word| word.end);
                }
            }
        }
        (pcm, first_word)
    };
    let (ended, (), (pcm, first_word)) = tokio::join!(run, feed, collect);
    if let Some(fault) = ended.fault {
        return Err(format!("\"{words}\": {fault}"));
    }
    let samples = wav::at_rate(&pcm, RATE_HZ)?;
    Ok(sound(kind, words.to_owned(), samples, first_word))
}

/// The shorter recordings of people that are installed here.
fn recordings() -> Vec<Sound> {
    let folder = |package: &str| match package {
        "pocketsphinx" => Some("/usr/share/pocketsphinx/test/data"),
        "asterisk" => Some("/usr/share/asterisk/sounds/en_US_f_Allison"),
        _ => None,
    };
    let lines = RECORDINGS.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let mut columns = line.split('\t');
        let (package, file, words) = (columns.next()?, columns.next()?, columns.next()?);
        let path = PathBuf::from(folder(package)?).join(file);
        let recording = wav::read(&path, RATE_HZ).ok()?;
        let short = recording.pcm.duration() <= RECORDING_MAX;
        let whole = || sound(Kind::Recording, words.to_owned(), recording.pcm.samples, None);
        short.then(whole)
    };
    lines.filter_map(read).collect()
}

/// "Mm-hmm" with closed lips: two hums of a low voice, the second higher, and breath between.
fn hum(nth: usize) -> Vec<i16> {
    let pitch = [110.0, 125.0, 190.0][nth % 3];
    let (first, gap, second) = (0.19, 0.07, 0.28);
    let length = (RATE_HZ as f32 * (first + gap + second)) as usize;
    let mut phase = 0.0_f32;
    (0..length)
        .map(|at| {
            let t = at as f32 / RATE_HZ as f32;
            let (from, span, higher) = match t {
                t if t < first => (0.0, first, 1.0),
                _ => (first + gap, second, 1.2),
            };
            let part = ((t - from) / span).clamp(0.0, 1.0);
            phase += TAU * pitch * (higher + 0.08 * part) / RATE_HZ as f32;
            // Closed lips let little through above the first formant.
            let overtone = |n: u16| {
                let n = f32::from(n);
                let hz = pitch * n;
                (phase * n).sin() / (1.0 + (hz / 280.0).powi(2))
            };
            let voice: f32 = (1..12).map(overtone).sum();
            (voice * (part * std::f32::consts::PI).sin().sqrt() * 6_000.0) as i16
        })
        .collect()
}

/// One to three bursts of noise with the spectrum of a throat: sudden, then fading.
fn cough(dice: &mut Dice, nth: usize) -> Vec<i16> {
    let mut samples = Vec::new();
    for burst in 0..=nth {
        let length = RATE_HZ as usize * (220 - 30 * burst) / 1_000;
        let mut low = [0.0_f32; 2];
        samples.extend((0..length).map(|at| {
            let t = at as f32 / RATE_HZ as f32;
            let envelope = (t * 120.0).min(1.0) * (-t * 14.0).exp();
            // Two poles at a few hundred hertz, and some of the hiss above them.
            let noise = dice.symmetric();
            low[0] += 0.12 * (noise - low[0]);
            low[1] += 0.12 * (low[0] - low[1]);
            ((low[1] * 3.0 + noise * 0.15) * envelope * 20_000.0) as i16
        }));
        samples.extend(std::iter::repeat_n(0, RATE_HZ as usize * 120 / 1_000));
    }
    samples
}

/// Two seconds of typing: clicks of a few milliseconds, a press and a release each.
fn keyboard(dice: &mut Dice) -> Vec<i16> {
    let mut samples = vec![0_i16; RATE_HZ as usize * 2];
    let mut at = 0;
    while at + 4_000 < samples.len() {
        for (offset, peak) in [(0, 9_000.0), (1_900, 4_000.0)] {
            let mut before = 0.0;
            for (click, slot) in samples[at + offset..].iter_mut().take(240).enumerate() {
                let noise = dice.symmetric();
                let high = noise - before;
                before = noise;
                *slot = (high * peak * (-(click as f32) / 60.0).exp()) as i16;
            }
        }
        at += 2_400 + (dice.symmetric().abs() * 4_000.0) as usize;
    }
    samples
}

/// Three seconds of plucked chords.
fn music(nth: usize) -> Vec<i16> {
    const CHORDS: [[f32; 3]; 4] = [
        [261.6, 329.6, 392.0],
        [220.0, 261.6, 329.6],
        [174.6, 220.0, 261.6],
        [196.0, 246.9, 293.7],
    ];
    let beat = RATE_HZ as usize / 2;
    (0..beat * 6)
        .map(|at| {
            let chord = CHORDS[(at / beat + nth) % CHORDS.len()];
            let (t, since) = (at as f32 / RATE_HZ as f32, (at % beat) as f32 / RATE_HZ as f32);
            let envelope = (since * 80.0).min(1.0) * (-since * 3.0).exp();
            let tone = |hz: f32| {
                let over = |n: f32| (TAU * hz * n * t).sin() / (n * n);
                over(1.0) + over(2.0) + over(3.0)
            };
            (chord.into_iter().map(tone).sum::<f32>() * envelope * 4_000.0) as i16
        })
        .collect()
}
