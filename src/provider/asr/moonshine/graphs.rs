//! Moonshine's two graphs and the loop that drives them: sound in, token after token out.

use std::borrow::Cow;
use std::path::Path;

use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor, TensorRef};

use crate::provider::models::{self, MOONSHINE};
use crate::provider::{BuildError, onnx};

const LAYERS: usize = 6;
const HEADS: usize = 8;
const HEAD_SIZE: usize = 36;
const BEGIN: i64 = 1;
const END: i64 = 2;
/// The encoder needs this much sound to give anything: 0.25 s; shorter sound is followed by
/// silence.
const SAMPLES_MIN: usize = 4_000;
/// People do not speak faster.
const TOKENS_PER_S: f32 = 6.5;
/// But a short word has a few tokens too.
const TOKENS_MIN: usize = 10;

/// One worker's copy of the model.
pub(super) struct Graphs {
    encoder: Session,
    decoder: Session,
}

/// What the decoder wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Written {
    /// Its tokens, without the markers at both ends.
    pub(super) tokens: Vec<i64>,
    /// Sum of their log-probabilities, the end marker's with them.
    pub(super) log_prob: f32,
}

type Input<'v> = (Cow<'static, str>, SessionInputValue<'v>);

impl Graphs {
    /// Loads both graphs from the model store.
    pub(super) fn open(models_dir: &Path) -> Result<Graphs, BuildError> {
        let open = |name| {
            let path = models::locate(models_dir, &MOONSHINE, name)?;
            onnx::session(models_dir, &path)
        };
        Ok(Graphs { encoder: open("encoder.ort")?, decoder: open("decoder.ort")? })
    }

    /// Writes down what is said in this sound (16 kHz, -1 to 1). Blocks for about 1 % of its
    /// length.
    pub(super) fn write_down(&mut self, sound: &[f32]) -> ort::Result<Written> {
        let mut sound = Cow::Borrowed(sound);
        if sound.len() < SAMPLES_MIN {
            sound.to_mut().resize(SAMPLES_MIN, 0.0);
        }
        let seconds = sound.len() as f32 / 16_000.0;
        let most = TOKENS_MIN.max((seconds * TOKENS_PER_S) as usize);
        let mask = vec![1_i64; sound.len()];
        let hidden = {
            let mut outputs = self.encoder.run(ort::inputs! {
                "input_values" => TensorRef::from_array_view(([1, sound.len()], &*sound))?,
                "attention_mask" => TensorRef::from_array_view(([1, mask.len()], &*mask))?,
            })?;
            taken(&mut outputs, "last_hidden_state")?
        };
        Decoding { decoder: &mut self.decoder, hidden, mask }.all(most)
    }
}

/// One utterance on its way through the decoder.
struct Decoding<'a> {
    decoder: &'a mut Session,
    hidden: DynValue,
    /// As long as the sound, not as the hidden state: the graph divides it down itself.
    mask: Vec<i64>,
}

/// What the decoder keeps between two tokens: by layer, key and value.
#[derive(Default)]
struct Memory {
    of_words: Vec<DynValue>,
    /// Computed from the sound with the first token and the same ever after.
    of_sound: Vec<DynValue>,
}

impl Decoding<'_> {
    fn all(mut self, most: usize) -> ort::Result<Written> {
        let mut written = Written::default();
        let mut memory = self.empty_memory()?;
        let mut token = BEGIN;
        for step in 0..most {
            let (next, log_prob) = self.step(token, step == 0, &mut memory)?;
            written.log_prob += log_prob;
            if next == END {
                break;
            }
            written.tokens.push(next);
            token = next;
        }
        Ok(written)
    }

    fn empty_memory(&self) -> ort::Result<Memory> {
        let allocator = self.decoder.allocator();
        let empty = || {
            let tensor = Tensor::<f32>::new(allocator, [1_usize, HEADS, 0, HEAD_SIZE])?;
            Ok(tensor.into_dyn())
        };
        let all = || (0..LAYERS * 2).map(|_| empty()).collect::<ort::Result<Vec<_>>>();
        Ok(Memory { of_words: all()?, of_sound: all()? })
    }

    /// Shows the decoder one more token; gives the likeliest next one and its log-probability.
    fn step(&mut self, token: i64, first: bool, memory: &mut Memory) -> ort::Result<(i64, f32)> {
        let ids = [token];
        let cached = [!first];
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(4 + LAYERS * 4);
        let mask = TensorRef::from_array_view(([1, self.mask.len()], &*self.mask))?;
        inputs.push(("encoder_attention_mask".into(), mask.into()));
        let ids = TensorRef::from_array_view(([1_usize, 1], &ids[..]))?;
        inputs.push(("input_ids".into(), ids.into()));
        inputs.push(("encoder_hidden_states".into(), (&self.hidden).into()));
        let cached = TensorRef::from_array_view(([1_usize], &cached[..]))?;
        inputs.push(("use_cache_branch".into(), cached.into()));
        for (at, (words, sound)) in memory.of_words.iter().zip(&memory.of_sound).enumerate() {
            let (layer, part) = (at / 2, PARTS[at % 2]);
            let name = |of: &str| Cow::from(format!("past_key_values.{layer}.{of}.{part}"));
            inputs.push((name("decoder"), words.into()));
            inputs.push((name("encoder"), sound.into()));
        }
        let mut outputs = self.decoder.run(inputs)?;
        let mut next = Memory::default();
        for at in 0..LAYERS * 2 {
            let (layer, part) = (at / 2, PARTS[at % 2]);
            next.of_words.push(taken(&mut outputs, &format!("present.{layer}.decoder.{part}"))?);
            if first {
                next.of_sound
                    .push(taken(&mut outputs, &format!("present.{layer}.encoder.{part}"))?);
            }
        }
        let (_, logits) = outputs["logits"].try_extract_tensor::<f32>()?;
        let likeliest = likeliest(logits);
        memory.of_words = next.of_words;
        if first {
            memory.of_sound = next.of_sound;
        }
        Ok(likeliest)
    }
}

const PARTS: [&str; 2] = ["key", "value"];

fn taken(outputs: &mut ort::session::SessionOutputs<'_>, name: &str) -> ort::Result<DynValue> {
    outputs.remove(name).ok_or_else(|| ort::Error::new(format!("the model gives no {name}")))
}

/// The index of the greatest value, and its log-probability under softmax.
fn likeliest(logits: &[f32]) -> (i64, f32) {
    let mut best = (0, f32::MIN);
    for (at, value) in logits.iter().enumerate() {
        if *value > best.1 {
            best = (at, *value);
        }
    }
    let total: f32 = logits.iter().map(|value| (value - best.1).exp()).sum();
    (best.0 as i64, -total.ln())
}

#[cfg(test)]
mod tests {
    use super::likeliest;

    #[test]
    fn the_greatest_wins_and_is_as_sure_as_softmax_says() {
        let (at, log_prob) = likeliest(&[0.0, 2.0, 0.0]);
        assert_eq!(at, 1);
        let e2 = 2.0_f32.exp();
        assert!((log_prob - (e2 / (e2 + 2.0)).ln()).abs() < 1e-6);
        assert_eq!(likeliest(&[]).0, 0);
    }
}
