//! Sound on the wire: raw PCM or WAV in, WAV out.

use crate::audio::Pcm;

/// Longest WAV head before the sound itself.
const HEAD_MAX: usize = 64 * 1024;

/// How a speech endpoint is asked to send its sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeechFormat {
    /// 16-bit little-endian mono samples at a rate that both sides know.
    Pcm {
        /// Samples a second.
        rate_hz: u32,
    },
    /// A WAV file, which says its own rate.
    Wav,
}

/// Turns the bytes of an answer into sound as they come. An answer that begins with `RIFF` is taken
/// as WAV whatever was asked for.
#[derive(Debug)]
pub struct SpeechDecoder {
    format: SpeechFormat,
    head: Option<Head>,
    pending: Vec<u8>,
    left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    rate_hz: u32,
    channels: usize,
}

impl SpeechDecoder {
    /// A decoder for an answer that was asked for in this format.
    pub fn new(format: SpeechFormat) -> SpeechDecoder {
        SpeechDecoder { format, head: None, pending: Vec::new(), left: u64::MAX }
    }

    /// Takes more bytes; gives the whole samples among them.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Pcm>, String> {
        self.pending.extend_from_slice(bytes);
        if self.head.is_none() && !self.read_head()? {
            return Ok(None);
        }
        let Some(Head { rate_hz, channels }) = self.head else { return Ok(None) };
        let frame = 2 * channels;
        let usable = (self.pending.len() as u64).min(self.left) as usize / frame * frame;
        let samples: Vec<i16> = self.pending[..usable]
            .chunks_exact(frame)
            .map(|frame| {
                let sum: i32 = frame
                    .chunks_exact(2)
                    .map(|sample| i32::from(i16::from_le_bytes([sample[0], sample[1]])))
                    .sum();
                // A mean of 16-bit samples is a 16-bit sample.
                (sum / channels as i32) as i16
            })
            .collect();
        self.left -= usable as u64;
        if self.left < frame as u64 {
            self.pending.clear();
        } else {
            self.pending.drain(..usable);
        }
        Ok(Some(Pcm { rate_hz, samples }).filter(|pcm| !pcm.samples.is_empty()))
    }

    fn read_head(&mut self) -> Result<bool, String> {
        if self.pending.len() < 4 && b"RIFF".starts_with(&self.pending) {
            return Ok(false);
        }
        if !self.pending.starts_with(b"RIFF") {
            return match self.format {
                SpeechFormat::Wav => Err("the sound is no WAV file".into()),
                SpeechFormat::Pcm { rate_hz } => {
                    self.head = Some(Head { rate_hz, channels: 1 });
                    Ok(true)
                }
            };
        }
        if self.pending.len() < 12 {
            return Ok(false);
        }
        if &self.pending[8..12] != b"WAVE" {
            return Err("the sound is RIFF but no WAV file".into());
        }
        self.read_chunks()
    }

    /// Walks the chunks up to `data`. A size of 0 or 0xFFFFFFFF, as streams have it, is "to the
    /// end".
    fn read_chunks(&mut self) -> Result<bool, String> {
        let mut at = 12;
        let mut head = None;
        while let Some(chunk) = self.pending.get(at..at + 8) {
            let size = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
            let name = [chunk[0], chunk[1], chunk[2], chunk[3]];
            at += 8;
            if &name == b"data" {
                self.head = Some(head.ok_or("the WAV file has no format before its sound")?);
                self.left = if size == 0 || size == u32::MAX { u64::MAX } else { u64::from(size) };
                self.pending.drain(..at);
                return Ok(true);
            }
            let end = at + size as usize + size as usize % 2;
            if end > HEAD_MAX {
                return Err(format!("the WAV file's head is longer than {HEAD_MAX} bytes"));
            }
            if &name == b"fmt " {
                let Some(format) = self.pending.get(at..at + 16) else { return Ok(false) };
                head = Some(wav_format(format)?);
            }
            at = end;
        }
        Ok(false)
    }
}

fn wav_format(format: &[u8]) -> Result<Head, String> {
    let word = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
    let rate_hz = u32::from(word(4)) | u32::from(word(6)) << 16;
    let (coding, channels, bits) = (word(0), word(2), word(14));
    // 0xFFFE is PCM in the extensible form.
    if ![1, 0xFFFE].contains(&coding) || bits != 16 || !(1..=2).contains(&channels) {
        return Err(format!(
            "the WAV file has coding {coding}, {channels} channels of {bits} bits; \
             1 or 2 channels of 16-bit PCM are taken"
        ));
    }
    if !(8_000..=48_000).contains(&rate_hz) {
        return Err(format!(
            "the WAV file has {rate_hz} samples a second; 8000 to 48000 are taken"
        ));
    }
    Ok(Head { rate_hz, channels: usize::from(channels) })
}

/// Mono 16-bit sound as a WAV file.
pub fn wav_of(samples: &[i16], rate_hz: u32) -> Vec<u8> {
    let data = samples.len() as u32 * 2;
    let mut file = Vec::with_capacity(44 + data as usize);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + data).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&rate_hz.to_le_bytes());
    file.extend_from_slice(&(rate_hz * 2).to_le_bytes());
    file.extend_from_slice(&2_u16.to_le_bytes());
    file.extend_from_slice(&16_u16.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&data.to_le_bytes());
    for sample in samples {
        file.extend_from_slice(&sample.to_le_bytes());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(format: SpeechFormat, bytes: &[u8], cut: usize) -> Result<(u32, Vec<i16>), String> {
        let mut decoder = SpeechDecoder::new(format);
        let mut samples = Vec::new();
        let mut rate_hz = 0;
        for piece in bytes.chunks(cut) {
            if let Some(pcm) = decoder.take(piece)? {
                rate_hz = pcm.rate_hz;
                samples.extend(pcm.samples);
            }
        }
        Ok((rate_hz, samples))
    }

    #[test]
    fn a_wav_file_survives_any_cut() {
        let samples: Vec<i16> = (-200..200).map(|n| n * 77).collect();
        let mut file = wav_of(&samples, 22_050);
        file.extend_from_slice(b"LIST\x04\0\0\0junk");
        for cut in 1..60 {
            let decoded = decode(SpeechFormat::Wav, &file, cut).unwrap();
            assert_eq!(decoded, (22_050, samples.clone()), "cut every {cut}");
        }
    }

    #[test]
    fn our_wav_is_what_others_call_wav() {
        let file = wav_of(&[1, -2, 3], 16_000);
        let mut reader = hound::WavReader::new(std::io::Cursor::new(file)).unwrap();
        assert_eq!(reader.spec().sample_rate, 16_000);
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(samples, [1, -2, 3]);
    }

    #[test]
    fn raw_samples_cut_in_half_are_put_together() {
        let bytes = [1_i16, 2, -3].map(i16::to_le_bytes).concat();
        for cut in 1..6 {
            let decoded = decode(SpeechFormat::Pcm { rate_hz: 24_000 }, &bytes, cut).unwrap();
            assert_eq!(decoded, (24_000, vec![1, 2, -3]));
        }
    }

    #[test]
    fn wrong_sound_is_refused() {
        assert!(decode(SpeechFormat::Wav, b"ID3\x04....", 4).is_err());
        let mut file = wav_of(&[0; 8], 16_000);
        file[34] = 8;
        assert!(decode(SpeechFormat::Wav, &file, 7).unwrap_err().contains("8 bits"));
    }
}
