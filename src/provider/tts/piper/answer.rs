//! One answer being spoken: phrase by phrase, clause by clause, each passed on as soon as it is
//! there.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Piper;
use super::voice::{Sounded, Voice};
use super::words::{PartSounds, WordEnd, word_ends};
use crate::audio::{Pcm, samples_to_duration};
use crate::dialogue::WordTime;
use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;
use crate::provider::onnx::lock;
use crate::provider::tts::spoken::{Clause, clauses, clean};
use crate::provider::tts::{Phrase, TtsSignal};
use crate::provider::{Cancel, Ended};

/// Longest phrase that is spoken, in bytes.
const TEXT_MAX: usize = 4_000;
/// Most phonemes that are computed in one go, some 30 s of sound: numbers are longer spoken than
/// written.
const PHONEMES_MAX: usize = 500;

/// Why speaking stopped before its end.
enum Stop {
    /// It was cancelled, or nobody listens any more.
    NotWanted,
    /// Something failed.
    Failed(Fault),
    /// A worker panicked: nobody knows what became of it.
    Broken,
}

/// One answer.
pub(super) struct Answer {
    piper: Arc<Piper>,
    speed: f32,
    out: mpsc::Sender<TtsSignal>,
    cancel: Cancel,
    started: bool,
}

/// A clause as the model is given it.
struct Script {
    phonemes: Vec<char>,
    parts: Vec<PartSounds>,
}

impl Answer {
    pub(super) fn new(
        piper: Arc<Piper>,
        speed: f32,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Answer {
        let speed = if speed > 0.0 { speed.clamp(0.5, 2.0) } else { 1.0 };
        Answer { piper, speed, out, cancel, started: false }
    }

    /// Speaks all phrases and says what the end proves.
    pub(super) async fn speak(mut self, mut input: mpsc::Receiver<Phrase>) -> Ended {
        let spoken = loop {
            let cancel = self.cancel.clone();
            let phrase = tokio::select! {
                biased;
                () = cancel.cancelled() => break Ok(()),
                phrase = input.recv() => phrase,
            };
            let Some(phrase) = phrase else { break Ok(()) };
            if let Err(stop) = self.phrase(&phrase).await {
                break Err(stop);
            }
        };
        let proof = if self.started { Evidence::Completed } else { Evidence::NeverStarted };
        match spoken {
            Ok(()) | Err(Stop::NotWanted) => Ended::stopped(proof),
            Err(Stop::Failed(fault)) => Ended::failed(fault, Ok(proof)),
            Err(Stop::Broken) => Ended::failed(
                Fault::Lost { detail: "the worker panicked".into() },
                Err(Unknown::Dropped),
            ),
        }
    }

    async fn phrase(&mut self, phrase: &Phrase) -> Result<(), Stop> {
        if phrase.text.len() > TEXT_MAX {
            let detail = format!("a phrase of {} bytes", phrase.text.len());
            return Err(Stop::Failed(Fault::Garbled { detail }));
        }
        let text = clean(&phrase.text);
        let rate_hz = self.piper.card.rate_hz();
        let mut words = Vec::new();
        let mut before = 0;
        for clause in clauses(&text) {
            let script = self.script(&text, &clause).await?;
            let (sounded, ends) = self.compute(&script).await?;
            let length = sounded.samples.len();
            if !ends.is_empty() {
                for part in &script.parts {
                    let times = word_ends(&text, part, &script.phonemes, &ends);
                    words.extend(times.into_iter().map(|WordEnd { text_end, sample }| WordTime {
                        text_end,
                        end: samples_to_duration(before + sample.min(length), rate_hz),
                    }));
                }
            }
            before += length;
            self.send_sound(phrase.index, sounded.samples).await?;
        }
        self.send(TtsSignal::PhraseDone { phrase: phrase.index, words }).await
    }

    /// The phonemes of a clause, with the marks that give it its melody.
    async fn script(&self, text: &str, clause: &Clause) -> Result<Script, Stop> {
        let texts: Vec<String> = clause
            .parts
            .iter()
            .map(|part| text[part.words.clone()].replace(char::is_whitespace, " "))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let spoken = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Stop::NotWanted),
            spoken = self.piper.espeak.phonemes(self.piper.card.espeak_voice(), &texts) => {
                spoken.map_err(Stop::Failed)?
            }
        };
        let mut script = Script { phonemes: Vec::new(), parts: Vec::new() };
        for (part, sounds) in clause.parts.iter().zip(&spoken) {
            if !script.phonemes.is_empty() {
                script.phonemes.push(' ');
            }
            let start = script.phonemes.len();
            script.phonemes.extend(without_switches(sounds).chars());
            let phonemes = start..script.phonemes.len();
            script.parts.push(PartSounds { phonemes, text: part.words.clone() });
            script.phonemes.push(part.mark);
        }
        Ok(script)
    }

    /// The sound of a clause, and at which sample its first n phonemes are over.
    async fn compute(&mut self, script: &Script) -> Result<(Sounded, Vec<usize>), Stop> {
        let mut whole = Sounded::default();
        let mut ends = vec![0];
        let mut timed = true;
        for range in stretches(&script.phonemes) {
            let phonemes = &script.phonemes[range];
            let numbers = self.piper.card.numbers(phonemes);
            let sounded = self.sound(numbers.ids).await?;
            let of = ends_of(&numbers.phonemes, &sounded.lengths, phonemes.len());
            timed &= !of.is_empty();
            let before = whole.samples.len();
            ends.extend(of.iter().skip(1).map(|end| before + end));
            whole.samples.extend(sounded.samples);
        }
        Ok((whole, if timed { ends } else { Vec::new() }))
    }

    /// Has a worker compute one stretch.
    async fn sound(&mut self, ids: Vec<i64>) -> Result<Sounded, Stop> {
        let free = Arc::clone(&self.piper.free);
        let permit = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Stop::NotWanted),
            permit = free.acquire_owned() => permit.map_err(|_| Stop::Broken)?,
        };
        self.started = true;
        let (piper, speed) = (Arc::clone(&self.piper), self.speed);
        let worker = tokio::task::spawn_blocking(move || {
            let sounded = piper.sound(&ids, speed);
            drop(permit);
            sounded
        });
        // Not raced against the cancel: only its end proves that the worker is free.
        let sounded = worker.await.map_err(|_| Stop::Broken)?;
        if self.cancel.is_cancelled() {
            return Err(Stop::NotWanted);
        }
        sounded.map_err(|detail| Stop::Failed(Fault::Lost { detail }))
    }

    /// Passes sound on in pieces of 0.2 s.
    async fn send_sound(&self, phrase: u32, samples: Vec<i16>) -> Result<(), Stop> {
        let rate_hz = self.piper.card.rate_hz();
        for piece in samples.chunks(rate_hz as usize / 5) {
            let pcm = Pcm { rate_hz, samples: piece.to_vec() };
            self.send(TtsSignal::Audio { phrase, pcm }).await?;
        }
        Ok(())
    }

    async fn send(&self, signal: TtsSignal) -> Result<(), Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::NotWanted),
            sent = self.out.send(signal) => sent.map_err(|_| Stop::NotWanted),
        }
    }
}

impl Piper {
    /// Computes with a copy of the voice that is idle; the caller holds a permit.
    fn sound(&self, ids: &[i64], speed: f32) -> Result<Sounded, String> {
        let mut copy = Borrowed { piper: self, voice: lock(&self.idle).pop() };
        let voice = copy.voice.as_mut().ok_or("there is no idle copy of the voice")?;
        voice.speak(&self.card, ids, speed).map_err(|error| error.to_string())
    }
}

/// A copy of the voice while it is used; it goes back even when its user panics.
struct Borrowed<'a> {
    piper: &'a Piper,
    /// There until the drop.
    voice: Option<Voice>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        lock(&self.piper.idle).extend(self.voice.take());
    }
}

/// espeak-ng notes in brackets that it changes its language for a word: "(fr)".
fn without_switches(phonemes: &str) -> String {
    let mut out = String::with_capacity(phonemes.len());
    let mut rest = phonemes;
    while let Some((before, after)) = rest.split_once('(') {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// The phonemes in stretches that can be computed in one go, cut between words.
fn stretches(phonemes: &[char]) -> Vec<Range<usize>> {
    let mut stretches = Vec::new();
    let mut start = 0;
    while phonemes.len() - start > PHONEMES_MAX {
        let longest = &phonemes[start..start + PHONEMES_MAX];
        let length = longest.iter().rposition(|c| *c == ' ').map_or(PHONEMES_MAX, |at| at + 1);
        stretches.push(start..start + length);
        start += length;
    }
    stretches.push(start..phonemes.len());
    stretches
}

/// At index n the sample at which the first n phonemes are over; empty when the model did not tell.
fn ends_of(phonemes: &[usize], lengths: &[usize], count: usize) -> Vec<usize> {
    if lengths.len() != phonemes.len() {
        return Vec::new();
    }
    let mut ends = vec![0; count + 1];
    let mut sample = 0;
    for (phoneme, length) in phonemes.iter().zip(lengths) {
        sample += length;
        if let Some(end) = ends.get_mut(*phoneme) {
            *end = sample;
        }
    }
    // A phoneme that the voice does not know ends with the one before it.
    for n in 1..ends.len() {
        ends[n] = ends[n].max(ends[n - 1]);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::{ends_of, stretches, without_switches};

    #[test]
    fn language_switches_are_not_phonemes() {
        assert_eq!(without_switches("ðə (fr)ʃa(en) dˈeɪ"), "ðə ʃa dˈeɪ");
        assert_eq!(without_switches("a(b"), "a");
    }

    #[test]
    fn phonemes_end_where_their_last_number_ends() {
        // Begin and pad, phoneme 1 with its pad, nothing for 2, phoneme 3 with pad and end.
        let phonemes = [0, 0, 1, 1, 3, 3, 3];
        assert_eq!(ends_of(&phonemes, &[1, 1, 10, 5, 20, 5, 1], 3), [2, 17, 17, 43]);
        assert_eq!(ends_of(&phonemes, &[1], 3), Vec::<usize>::new());
    }

    #[test]
    fn long_clauses_are_cut_between_words_and_nothing_is_lost() {
        let phonemes: Vec<char> = "one two three ".repeat(100).chars().collect();
        let cut = stretches(&phonemes);
        assert_eq!(cut.len(), 3);
        assert!(cut[1..].iter().all(|range| phonemes[range.start - 1] == ' '));
        assert_eq!(cut.iter().map(ExactSizeIterator::len).sum::<usize>(), phonemes.len());
        assert_eq!(stretches(&['a'; 1_200]).len(), 3);
        assert_eq!(stretches(&[]).iter().map(ExactSizeIterator::len).collect::<Vec<_>>(), [0]);
    }
}
