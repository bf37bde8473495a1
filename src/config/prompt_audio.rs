//! The sound of the prompts: what is compiled in, and what a WAV file of a prompt may be.

use std::io::Cursor;

use crate::audio::Pcm;

/// Longest prompt: it is said while the caller waits for an answer.
const PROMPT_MS_MAX: u128 = 10_000;
/// Shortest: less is a file that broke off.
const PROMPT_MS_MIN: u128 = 300;
/// Quieter than this all through is no speech, in dB below full scale.
const SILENT_DBFS: f32 = -60.0;

macro_rules! built_in {
    ($($id:literal)*) => {
        &[$(($id, include_bytes!(concat!("../../fallback/audio/en/", $id, ".wav")).as_slice()),)*]
    };
}

/// The default locale's prompts and their WAV files.
#[rustfmt::skip]
pub(super) const BUILT_IN: &[(&str, &[u8])] = built_in! {
    "ask_number"
    "call_busy"
    "call_draining"
    "call_expired"
    "call_maintenance"
    "call_starting"
    "call_unavailable"
    "callback_committed"
    "callback_exists"
    "callback_refused"
    "callback_unknown"
    "desk_caller"
    "desk_caller_left"
    "desk_question"
    "end_drained"
    "end_idle"
    "end_time"
    "goodbye"
    "goodbye_busy"
    "goodbye_expired"
    "goodbye_failed"
    "goodbye_unavailable"
    "handoff_acknowledged"
    "handoff_busy"
    "handoff_declined"
    "handoff_no_answer"
    "handoff_refused"
    "handoff_timeout"
    "handoff_trying"
    "handoff_voicemail"
    "offer_callback"
    "offer_callback_busy"
    "offer_callback_failed"
    "offer_callback_unavailable"
    "offer_handoff"
    "retry_again"
    "retry_busy"
    "retry_expired"
    "retry_failed"
    "retry_late"
    "retry_unavailable"
    "retry_unheard"
    "tool_failed"
    "tool_refused"
    "tool_unknown"
    "wait_queued"
};

/// Sound of a prompt's WAV file, or what is wrong with the file.
pub(super) fn decode(bytes: &[u8]) -> Result<Pcm, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let reader = hound::WavReader::new(Cursor::new(bytes))
        .map_err(|error| format!("this is no WAV file: {error}"))?;
    let spec = reader.spec();
    let plain = spec.channels == 1
        && spec.bits_per_sample == 16
        && spec.sample_format == hound::SampleFormat::Int
        && (8_000..=48_000).contains(&spec.sample_rate);
    if !plain {
        let (channels, bits, rate) = (spec.channels, spec.bits_per_sample, spec.sample_rate);
        return Err(format!(
            "{channels} channels of {bits} bits at {rate} Hz, not mono of 16 bits"
        ));
    }
    let samples = reader
        .into_samples::<i16>()
        .collect::<Result<Vec<i16>, _>>()
        .map_err(|error| format!("the WAV file breaks off: {error}"))?;
    let pcm = Pcm { rate_hz: spec.sample_rate, samples };
    let length_ms = pcm.duration().as_millis();
    if !(PROMPT_MS_MIN..=PROMPT_MS_MAX).contains(&length_ms) {
        return Err(format!("{length_ms} ms is no length for a prompt"));
    }
    if crate::audio::level_dbfs(&pcm.samples) < SILENT_DBFS {
        return Err("nothing is to be heard in it".to_owned());
    }
    Ok(pcm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(samples: &[i16]) -> Vec<u8> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).expect("a header");
        for &sample in samples {
            writer.write_sample(sample).expect("memory");
        }
        writer.finalize().expect("memory");
        bytes.into_inner()
    }

    #[test]
    fn a_file_without_sound_is_refused() {
        let loud: Vec<i16> =
            (0..16_000).map(|i| if i % 40 < 20 { 3_000 } else { -3_000 }).collect();
        assert_eq!(decode(&wav(&loud)).expect("sound").samples, loud);
        assert_eq!(decode(&[]), Err("the file is empty".to_owned()));
        assert!(decode(b"text").is_err_and(|e| e.starts_with("this is no WAV file")));
        assert_eq!(decode(&wav(&[])), Err("0 ms is no length for a prompt".to_owned()));
        let silence = vec![0; 16_000];
        assert_eq!(decode(&wav(&silence)), Err("nothing is to be heard in it".to_owned()));
        assert!(decode(&wav(&loud)[..20_000]).is_err(), "half a file");
    }
}
