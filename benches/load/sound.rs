//! What every caller says: ten seconds of speech and noise, the same for all calls.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use floorkeeper::audio::{Pcm, level_dbfs};
use floorkeeper::cli::wav;

use crate::dice::Dice;

/// A cycle of the scripted conversation, in frames of 20 ms.
pub const CYCLE_FRAMES: usize = 500;
/// The same as a time.
pub const CYCLE: Duration = Duration::from_millis(20 * CYCLE_FRAMES as u64);
/// The caller speaks at the beginning of it, and the agent behind that.
pub const SPEECH_FRAMES: usize = 200;
/// Where Debian's packages put recorded prompts.
const PROMPTS: &str = "/usr/share/asterisk/sounds/en_US_f_Allison";
const PROMPT_FILES: [&str; 4] =
    ["vm-goodbye.wav", "all-circuits-busy-now.wav", "agent-pass.wav", "auth-thankyou.wav"];
const SPEECH_DBFS: f32 = -23.0;
const NOISE_DBFS: f32 = -60.0;
/// A frame this quiet is a pause of the recording and is left out, so that a turn stays one turn.
const PAUSE_DBFS: f32 = -45.0;

/// Where call number `index` begins in the cycle: spread over it, so that the load is even.
pub fn first_position(index: usize) -> usize {
    index * 37 % CYCLE_FRAMES
}

/// One cycle of a caller's sound, in frames, and where the speech is from.
pub struct Cycle {
    pub frames: Vec<Vec<i16>>,
    pub source: String,
}

/// Makes the cycle from `speech`, or from what this machine has.
pub fn cycle(speech: Option<&Path>, rate_hz: u32) -> Result<Cycle, String> {
    let (samples, source) = match speech {
        Some(path) => (read(path, rate_hz)?, path.display().to_string()),
        None => any_speech(rate_hz)?,
    };
    let frame_samples = rate_hz as usize / 50;
    let samples = level(without_pauses(&samples, frame_samples), rate_hz, SPEECH_DBFS);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut frames = Vec::with_capacity(CYCLE_FRAMES);
    let noise_peak = 32_768.0 * 10_f32.powf(NOISE_DBFS / 20.0) * 3_f32.sqrt();
    for index in 0..CYCLE_FRAMES {
        let mut frame = vec![0_i16; frame_samples];
        for (offset, slot) in frame.iter_mut().enumerate() {
            let noise = dice.symmetric() * noise_peak;
            let spoken = if index < SPEECH_FRAMES {
                f32::from(samples[(index * frame_samples + offset) % samples.len()])
            } else {
                0.0
            };
            *slot = (noise + spoken).round().clamp(-32_768.0, 32_767.0) as i16;
        }
        frames.push(frame);
    }
    Ok(Cycle { frames, source })
}

fn any_speech(rate_hz: u32) -> Result<(Vec<i16>, String), String> {
    let mut samples = Vec::new();
    for name in PROMPT_FILES {
        let path = Path::new(PROMPTS).join(name);
        if path.exists() {
            samples.extend(read(&path, rate_hz)?);
        }
    }
    if !samples.is_empty() {
        return Ok((samples, format!("recorded prompts in {PROMPTS}")));
    }
    let file: PathBuf =
        std::env::temp_dir().join(format!("floorkeeper-speech-{}.wav", std::process::id()));
    let text = "I would like to book a table for four on Friday at half past seven please.";
    let spoken = Command::new("espeak-ng").arg("-w").arg(&file).arg(text).status();
    if spoken.is_ok_and(|status| status.success()) {
        let samples = read(&file, rate_hz);
        let _ = std::fs::remove_file(&file);
        return Ok((samples?, "espeak-ng (synthetic speech; no recordings are installed)".into()));
    }
    Ok((
        modulated_noise(rate_hz),
        "noise with the rhythm of speech (no recordings, no espeak-ng)".into(),
    ))
}

fn read(path: &Path, rate_hz: u32) -> Result<Vec<i16>, String> {
    wav::read(path, rate_hz).map(|recording| recording.pcm.samples).map_err(|e| e.to_string())
}

fn without_pauses(samples: &[i16], frame_samples: usize) -> Vec<i16> {
    let loud = |frame: &&[i16]| level_dbfs(frame) > PAUSE_DBFS;
    let kept: Vec<i16> = samples.chunks(frame_samples).filter(loud).flatten().copied().collect();
    if kept.is_empty() { samples.to_vec() } else { kept }
}

fn level(samples: Vec<i16>, rate_hz: u32, dbfs: f32) -> Vec<i16> {
    let gain = 10_f32.powf((dbfs - level_dbfs(&samples)) / 20.0);
    let louder = |sample: i16| (f32::from(sample) * gain).clamp(-32_768.0, 32_767.0) as i16;
    let pcm = Pcm { rate_hz, samples: samples.into_iter().map(louder).collect() };
    pcm.samples
}

/// Four bursts a second of noise: the rhythm of syllables without words.
fn modulated_noise(rate_hz: u32) -> Vec<i16> {
    let mut dice = Dice(1);
    let seconds = 4;
    (0..seconds * rate_hz)
        .map(|n| {
            let phase = n as f32 / rate_hz as f32 * 4.0 * std::f32::consts::TAU;
            (dice.symmetric() * (1.2 + phase.sin()) * 4_000.0) as i16
        })
        .collect()
}
