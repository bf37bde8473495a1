//! A deed as written, as meant.

use std::time::Duration;

use super::super::script::{
    Bed, Colour, Deed, Loudness, Mention, Scene, ScriptError, Source, WORDS_PER_S, What, When,
};
use super::{RawColoured, RawDeed, RawNoise, RawResponds, RawTone, Reading, nearest};

/// What a deed can be.
const DEEDS: &str = "one of says, plays, tone, noise, silence, hangs_up, drops, returns, presses, \
                     cancels, responds, writes, outputs, truncates, commits, clears, configures, drains";
/// How loud a sound may be asked to be.
pub(super) const LEVEL_DBFS: (f64, f64) = (-90.0, 0.0);
/// What a tone or a noise is without a level.
const MADE_DBFS: f64 = -20.0;

impl Reading<'_> {
    pub(super) fn deed(&self, key: &str, raw: RawDeed) -> Result<Deed, ScriptError> {
        let when = match (&raw.at, &raw.after) {
            (Some(at), None) => When::At(self.span(&format!("{key}.at"), at)?),
            (None, Some(after)) => self.after(&format!("{key}.after"), after, raw.nth)?,
            (Some(_), Some(_)) => {
                return Err(self.wrong(key, "it has both at and after", "one of them"));
            }
            (None, None) => return Err(self.wrong(key, "it has no time", "at or after")),
        };
        let mut all = self.deeds(key, &raw)?;
        all.extend(self.sounds(key, &raw)?);
        let what = match (all.pop(), all.is_empty()) {
            (Some(what), true) => what,
            (Some(_), false) => return Err(self.wrong(key, "it is more than one deed", DEEDS)),
            (None, _) => {
                return Err(self.wrong(key, "it does not say what the caller does", DEEDS));
            }
        };
        self.fitting(key, &raw, &what)?;
        Ok(Deed { when, what, maybe: raw.maybe })
    }

    /// All that a deed says is done without a sound.
    fn deeds(&self, key: &str, raw: &RawDeed) -> Result<Vec<What>, ScriptError> {
        let mut all = Vec::new();
        if let Some(played) = &raw.truncates {
            all.push(What::Truncates(self.span(&format!("{key}.truncates"), played)?));
        }
        if let Some(silent_for) = &raw.drops {
            let silent_for = self.span(&format!("{key}.drops"), silent_for)?;
            all.push(What::Drops { silent_for });
        }
        match &raw.responds {
            Some(RawResponds::Yes(true)) => all.push(What::Responds { beside: false }),
            Some(RawResponds::How(how)) if how == "beside" => {
                all.push(What::Responds { beside: true });
            }
            Some(RawResponds::Yes(false) | RawResponds::How(_)) => {
                let right = "true, or \"beside\" for an answer beside the conversation";
                return Err(self.wrong(&format!("{key}.responds"), "it is no way to ask", right));
            }
            None => {}
        }
        all.extend(raw.presses.map(What::Presses));
        all.extend(raw.writes.clone().map(What::Writes));
        all.extend(raw.outputs.clone().map(What::Outputs));
        all.extend(raw.configures.clone().map(What::Configures));
        let plain = [
            (raw.hangs_up, What::HangsUp),
            (raw.returns, What::Returns),
            (raw.cancels, What::Cancels),
            (raw.commits, What::Commits),
            (raw.clears, What::Clears),
            (raw.drains, What::Drains),
        ];
        all.extend(plain.into_iter().filter(|(on, _)| *on == Some(true)).map(|(_, what)| what));
        Ok(all)
    }

    /// All that a deed says is sounded.
    fn sounds(&self, key: &str, raw: &RawDeed) -> Result<Vec<What>, ScriptError> {
        let span = |name: &str, text: &str| self.length(&format!("{key}.{name}"), text);
        let loudness = self.loudness(key, raw)?;
        let mut all = Vec::new();
        if let Some(words) = &raw.says {
            let natural = words.split_whitespace().count() as f64 / WORDS_PER_S;
            let span = match &raw.span {
                Some(text) => self.span(&format!("{key}.for"), text)?,
                None => Duration::from_secs_f64(natural),
            };
            all.push(What::Says { words: words.clone(), span, mutes: raw.mutes, loudness });
        }
        if let Some(file) = &raw.plays {
            self.mention(&format!("{key}.plays"), file)?;
            let words = raw.words.clone().unwrap_or_default();
            all.push(What::Plays { source: Source::Wav { file: file.clone(), words }, loudness });
        }
        if let Some(RawTone { hz, span: text, level_dbfs }) = &raw.tone {
            let hz = self.within(&format!("{key}.tone.hz"), *hz, 20.0, 7_900.0)?;
            let source = Source::Tone { hz, span: span("tone.for", text)? };
            let loudness = self.made(&format!("{key}.tone"), loudness, *level_dbfs)?;
            all.push(What::Plays { source, loudness });
        }
        match &raw.noise {
            Some(RawNoise::Wordless(text)) => {
                let span = span("noise", text)?;
                all.push(What::Noise { span, loudness });
            }
            Some(RawNoise::Coloured(RawColoured { kind, span: text, level_dbfs })) => {
                let colour = self.colour(&format!("{key}.noise.kind"), kind)?;
                let source = Source::Noise { colour, span: span("noise.for", text)? };
                let loudness = self.made(&format!("{key}.noise"), loudness, *level_dbfs)?;
                all.push(What::Plays { source, loudness });
            }
            None => {}
        }
        if let Some(text) = &raw.silence {
            let source = Source::Silence { span: span("silence", text)? };
            all.push(What::Plays { source, loudness: Loudness::AsItIs });
        }
        Ok(all)
    }

    /// A time that a sound can take.
    pub(super) fn length(&self, key: &str, text: &str) -> Result<Duration, ScriptError> {
        let span = self.span(key, text)?;
        match span.is_zero() {
            true => Err(self.wrong(key, "it takes no time", "a time above 0, as 300ms")),
            false => Ok(span),
        }
    }

    pub(super) fn mention(&self, key: &str, file: &str) -> Result<(), ScriptError> {
        if file.is_empty() {
            let right = "the path of a WAV file, from this script's folder";
            return Err(self.wrong(key, "it names no file", right));
        }
        let (file, line, key) = (file.to_owned(), self.places.line(key), key.to_owned());
        self.files.borrow_mut().push(Mention { file, key, line });
        Ok(())
    }

    pub(super) fn colour(&self, key: &str, kind: &str) -> Result<Colour, ScriptError> {
        match kind {
            "white" => Ok(Colour::White),
            "pink" => Ok(Colour::Pink),
            other => {
                let right = "white or pink; every other sound is a recording: plays = \"….wav\"";
                Err(self.wrong(key, format!("\"{other}\" is no kind of noise"), right))
            }
        }
    }

    fn loudness(&self, key: &str, raw: &RawDeed) -> Result<Loudness, ScriptError> {
        match (raw.level_dbfs, raw.snr_db) {
            (None, None) => Ok(Loudness::AsItIs),
            (Some(level), None) => {
                let (least, most) = LEVEL_DBFS;
                let level = self.within(&format!("{key}.level_dbfs"), level, least, most)?;
                Ok(Loudness::Level(level))
            }
            (None, Some(snr)) => {
                let snr = self.within(&format!("{key}.snr_db"), snr, -30.0, 90.0)?;
                Ok(Loudness::OverBackground(snr))
            }
            (Some(_), Some(_)) => {
                let key = format!("{key}.snr_db");
                Err(self.wrong(&key, "it is beside level_dbfs", "one of them"))
            }
        }
    }

    /// How loud a sound is that has no loudness of its own.
    fn made(
        &self,
        key: &str,
        beside: Loudness,
        within: Option<f64>,
    ) -> Result<Loudness, ScriptError> {
        match (beside, within) {
            (Loudness::AsItIs, level) => {
                let (least, most) = LEVEL_DBFS;
                let level = level.unwrap_or(MADE_DBFS);
                Ok(Loudness::Level(self.within(
                    &format!("{key}.level_dbfs"),
                    level,
                    least,
                    most,
                )?))
            }
            (beside, None) => Ok(beside),
            (_, Some(_)) => {
                let key = format!("{key}.level_dbfs");
                Err(self.wrong(&key, "the deed has a loudness already", "one of them"))
            }
        }
    }

    /// Keys that only belong to some deeds stand only there.
    fn fitting(&self, key: &str, raw: &RawDeed, what: &What) -> Result<(), ScriptError> {
        let says = matches!(what, What::Says { .. });
        let wav = matches!(what, What::Plays { source: Source::Wav { .. }, .. });
        let silence = matches!(what, What::Plays { source: Source::Silence { .. }, .. });
        let sounds = matches!(what, What::Says { .. } | What::Noise { .. } | What::Plays { .. });
        let loud = sounds && !silence;
        let misplaced = [
            ("for", raw.span.is_some() && !says, "a deed with `says`"),
            ("mutes", raw.mutes && !says, "a deed with `says`"),
            ("words", raw.words.is_some() && !wav, "a deed with `plays`"),
            ("level_dbfs", raw.level_dbfs.is_some() && !loud, "a deed that sounds"),
            ("snr_db", raw.snr_db.is_some() && !loud, "a deed that sounds"),
            ("nth", raw.nth.is_some() && raw.after.is_none(), "a deed with `after`"),
        ];
        match misplaced.into_iter().find(|(_, wrong, _)| *wrong) {
            Some((name, _, right)) => {
                Err(self.wrong(&format!("{key}.{name}"), "it means nothing here", right))
            }
            None => Ok(()),
        }
    }

    /// What is mixed at so many dB over the background has one.
    pub(super) fn mixed(&self, caller: &[Deed], scene: &Scene) -> Result<(), ScriptError> {
        let over = |deed: &Deed| match deed.what {
            What::Says { loudness, .. }
            | What::Noise { loudness, .. }
            | What::Plays { loudness, .. } => matches!(loudness, Loudness::OverBackground(_)),
            _ => false,
        };
        let Some(at) = caller.iter().position(over).filter(|_| scene.background.is_none()) else {
            return Ok(());
        };
        let right = "[sound] background = { noise = \"pink\", level_dbfs = -50 }, or level_dbfs";
        let key = format!("caller[{}].snr_db", at + 1);
        Err(self.wrong(&key, "there is no background to be louder than", right))
    }

    fn after(&self, key: &str, text: &str, nth: Option<u32>) -> Result<When, ScriptError> {
        let (fact, delay) = match text.rsplit_once('+') {
            Some((fact, delay)) => (fact.trim(), self.span(key, delay.trim())?),
            None => (text.trim(), Duration::ZERO),
        };
        let nth = nth.unwrap_or(1);
        if nth == 0 {
            let key = key.replace(".after", ".nth");
            return Err(self.wrong(&key, "there is no time before the first", "a number from 1"));
        }
        Ok(When::After { fact: fact.to_owned(), delay, nth })
    }

    pub(super) fn bed(
        &self,
        key: &str,
        noise: Option<&str>,
        wav: Option<String>,
    ) -> Result<Bed, ScriptError> {
        match (noise, wav) {
            (Some(kind), None) => Ok(Bed::Noise(self.colour(&format!("{key}.noise"), kind)?)),
            (None, Some(file)) => {
                self.mention(&format!("{key}.wav"), &file)?;
                Ok(Bed::Wav(file))
            }
            (Some(_), Some(_)) => Err(self.wrong(key, "it has both noise and wav", "one of them")),
            (None, None) => Err(self.wrong(key, "it has no sound", "noise = \"pink\", or wav")),
        }
    }

    /// A word out of a few.
    pub(super) fn one_of(
        &self,
        key: &str,
        word: &str,
        known: &[&'static str],
    ) -> Result<&'static str, ScriptError> {
        if let Some(known) = known.iter().find(|known| **known == word) {
            return Ok(known);
        }
        let right = match nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("one of {}", known.join(", ")),
        };
        Err(self.wrong(key, format!("\"{word}\" is not known"), &right))
    }
}
