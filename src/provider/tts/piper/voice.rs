//! A Piper voice: phonemes in, sound and the length of every phoneme out.

use std::collections::BTreeMap;
use std::path::Path;

use ort::session::Session;
use ort::value::TensorRef;
use serde::Deserialize;

use crate::provider::{BuildError, onnx};

/// Samples that one step of the model's durations stands for.
const STEP: usize = 256;
/// The tensor inside the graph that holds the durations.
const DURATIONS: &str = "/Ceil_output_0";

/// What the voice's own file says of it.
#[derive(Debug, Deserialize)]
pub(super) struct Card {
    audio: Audio,
    espeak: EspeakOf,
    inference: Inference,
    language: Option<Language>,
    num_speakers: u32,
    phoneme_id_map: BTreeMap<String, Vec<i64>>,
}

#[derive(Debug, Deserialize)]
struct Audio {
    sample_rate: u32,
}

#[derive(Debug, Deserialize)]
struct EspeakOf {
    voice: String,
}

#[derive(Debug, Deserialize)]
struct Inference {
    noise_scale: f32,
    length_scale: f32,
    noise_w: f32,
}

#[derive(Debug, Deserialize)]
struct Language {
    family: String,
}

/// Sound, and the samples that each of its phonemes takes; the latter empty when the graph cannot
/// tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sounded {
    pub(super) samples: Vec<i16>,
    pub(super) lengths: Vec<usize>,
}

impl Card {
    /// Reads the voice's file.
    pub(super) fn read(path: &Path) -> Result<Card, BuildError> {
        let missing =
            |detail: String| BuildError::Missing { what: path.display().to_string(), detail };
        let text = std::fs::read_to_string(path).map_err(|error| missing(error.to_string()))?;
        let card: Card =
            serde_json::from_str(&text).map_err(|error| missing(format!("no voice: {error}")))?;
        if card.num_speakers > 1 {
            return Err(missing("voices of several speakers are not supported".into()));
        }
        if !(8_000..=48_000).contains(&card.audio.sample_rate) {
            return Err(missing(format!("a sample rate of {} Hz", card.audio.sample_rate)));
        }
        Ok(card)
    }

    /// Samples a second.
    pub(super) fn rate_hz(&self) -> u32 {
        self.audio.sample_rate
    }

    /// espeak-ng's voice that makes its phonemes.
    pub(super) fn espeak_voice(&self) -> &str {
        &self.espeak.voice
    }

    /// The language it speaks ("en").
    pub(super) fn language(&self) -> &str {
        match &self.language {
            Some(language) => &language.family,
            None => self.espeak.voice.split('-').next().unwrap_or_default(),
        }
    }

    /// The numbers of these phonemes, each with how many phonemes of the input lie before its end:
    /// begin, then phoneme and pad in turn, then end. Phonemes that the voice does not know are
    /// left out.
    pub(super) fn numbers(&self, phonemes: &[char]) -> Numbers {
        let known = |c: char| {
            let ids = self.phoneme_id_map.get(c.encode_utf8(&mut [0; 4]) as &str);
            ids.map_or(&[][..], Vec::as_slice)
        };
        let mut numbers = Numbers::default();
        numbers.extend(known('^'), 0);
        numbers.extend(known('_'), 0);
        for (at, phoneme) in phonemes.iter().enumerate() {
            let of = known(*phoneme);
            if !of.is_empty() {
                numbers.extend(of, at + 1);
                numbers.extend(known('_'), at + 1);
            }
        }
        numbers.extend(known('$'), phonemes.len());
        numbers
    }
}

/// What the model is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) ids: Vec<i64>,
    /// For each id: phonemes of the input up to and with the one it belongs to.
    pub(super) phonemes: Vec<usize>,
}

impl Numbers {
    fn extend(&mut self, ids: &[i64], phonemes: usize) {
        self.ids.extend_from_slice(ids);
        self.phonemes.extend(std::iter::repeat_n(phonemes, ids.len()));
    }
}

/// The graph, for one utterance at a time.
pub(super) struct Voice {
    session: Session,
    tells_lengths: bool,
}

impl Voice {
    /// Loads the graph. Blocks while it is read.
    pub(super) fn open(models_dir: &Path, graph: &Path) -> Result<Voice, BuildError> {
        let missing =
            |detail: String| BuildError::Missing { what: graph.display().to_string(), detail };
        let mut model = std::fs::read(graph).map_err(|error| missing(error.to_string()))?;
        let plain = model.len();
        model.extend(one_more_output(DURATIONS));
        let name = graph.display().to_string();
        match onnx::session_from_bytes(models_dir, &name, &model) {
            Ok(session) => Ok(Voice { session, tells_lengths: true }),
            // A graph of another make, without that tensor.
            Err(_) => {
                let session = onnx::session_from_bytes(models_dir, &name, &model[..plain])?;
                Ok(Voice { session, tells_lengths: false })
            }
        }
    }

    /// Speaks. Blocks for about 5 % of the sound's length.
    pub(super) fn speak(&mut self, card: &Card, ids: &[i64], speed: f32) -> ort::Result<Sounded> {
        let length = [ids.len() as i64];
        let inference = &card.inference;
        let scales = [inference.noise_scale, inference.length_scale / speed, inference.noise_w];
        let outputs = self.session.run(ort::inputs! {
            "input" => TensorRef::from_array_view(([1, ids.len()], ids))?,
            "input_lengths" => TensorRef::from_array_view(([1_usize], &length[..]))?,
            "scales" => TensorRef::from_array_view(([3_usize], &scales[..]))?,
        })?;
        let (_, sound) = outputs["output"].try_extract_tensor::<f32>()?;
        let samples = sound.iter().map(|value| (value * 32_767.0) as i16).collect();
        let lengths = match outputs.get(DURATIONS) {
            Some(steps) if self.tells_lengths => {
                let (_, steps) = steps.try_extract_tensor::<f32>()?;
                steps.iter().map(|steps| *steps as usize * STEP).collect()
            }
            _ => Vec::new(),
        };
        Ok(Sounded { samples, lengths })
    }
}

/// Bytes that, put after an ONNX model, make a tensor inside its graph one more output of it: a
/// protobuf message that comes twice is merged, so this is `graph { output { name: … } }`.
fn one_more_output(name: &str) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        // Lengths stay below 128, where they are one byte.
        let mut bytes = vec![number << 3 | 2, content.len() as u8];
        bytes.extend_from_slice(content);
        bytes
    };
    const GRAPH_OF_MODEL: u8 = 7;
    const OUTPUT_OF_GRAPH: u8 = 12;
    const NAME_OF_VALUE: u8 = 1;
    let value = field(NAME_OF_VALUE, name.as_bytes());
    field(GRAPH_OF_MODEL, &field(OUTPUT_OF_GRAPH, &value))
}

#[cfg(test)]
mod tests {
    use super::{Card, one_more_output};

    #[test]
    fn the_addition_is_a_nested_message() {
        assert_eq!(one_more_output("ab"), [0x3a, 6, 0x62, 4, 0x0a, 2, b'a', b'b']);
    }

    #[test]
    fn phonemes_become_numbers_with_pads_between() {
        let card: Card = serde_json::from_str(
            r#"{"audio": {"sample_rate": 22050}, "espeak": {"voice": "en-us"}, "num_speakers": 1,
                "inference": {"noise_scale": 0.6, "length_scale": 1, "noise_w": 0.8},
                "phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [14], "b": [15, 16]}}"#,
        )
        .expect("a card");
        let numbers = card.numbers(&['a', '?', 'b']);
        assert_eq!(numbers.ids, [1, 0, 14, 0, 15, 16, 0, 2]);
        assert_eq!(numbers.phonemes, [0, 0, 1, 1, 3, 3, 3, 3]);
        assert_eq!(card.language(), "en");
    }
}
