//! The table `[sound]`.

use std::time::Duration;

use super::super::script::{Background, Echo, Listener, Network, Scene, ScriptError};
use super::deeds::LEVEL_DBFS;
use super::{RawBackground, RawEcho, RawNetwork, RawSound, Reading};
use crate::provider::ear::DETECTORS;

/// The detector that is none: the deeds say what is speech.
const SCRIPTED: &str = "scripted";
/// A background without a level, in dB of full scale.
const BACKGROUND_DBFS: f64 = -50.0;

impl Reading<'_> {
    pub(super) fn scene(&self, raw: RawSound) -> Result<Scene, ScriptError> {
        let listener = match raw.detector.as_deref() {
            None | Some(SCRIPTED) => Listener::Scripted,
            Some(name) => {
                let mut known = vec![SCRIPTED];
                known.extend(DETECTORS.iter().map(|entry| entry.name));
                Listener::Detector(self.one_of("sound.detector", name, &known)?)
            }
        };
        let listens = listener != Listener::Scripted;
        let unheard = [("echo", raw.echo.is_some()), ("network", raw.network.is_some())];
        if let Some((name, _)) = unheard.into_iter().find(|(_, there)| *there && !listens) {
            let problem = "the scripted detector does not listen to sound";
            let right = "detector = \"earshot\" or \"silero\" beside it";
            return Err(self.wrong(&format!("sound.{name}"), problem, right));
        }
        if let Some(file) = &raw.agent {
            self.mention("sound.agent", file)?;
        }
        Ok(Scene {
            listener,
            line: self.places.line("sound.detector"),
            background: raw.background.map(|raw| self.background(raw)).transpose()?,
            echo: raw.echo.map(|raw| self.echo(&raw)).transpose()?,
            network: raw.network.map(|raw| self.network(raw)).transpose()?.unwrap_or_default(),
            agent: raw.agent,
        })
    }

    fn background(&self, raw: RawBackground) -> Result<Background, ScriptError> {
        let key = "sound.background";
        let (least, most) = LEVEL_DBFS;
        let level = raw.level_dbfs.unwrap_or(BACKGROUND_DBFS);
        let level_dbfs = self.within(&format!("{key}.level_dbfs"), level, least, most)?;
        Ok(Background { bed: self.bed(key, raw.noise.as_deref(), raw.wav)?, level_dbfs })
    }

    fn echo(&self, raw: &RawEcho) -> Result<Echo, ScriptError> {
        let delay_ms = self.within("sound.echo.delay_ms", raw.delay_ms, 0.0, 2_000.0)?;
        let lost = self.within("sound.echo.attenuation_db", raw.attenuation_db, 0.0, 90.0)?;
        Ok(Echo { delay: millis(delay_ms), attenuation_db: lost })
    }

    fn network(&self, raw: RawNetwork) -> Result<Network, ScriptError> {
        let lost = raw.loss_pct.unwrap_or(0.0);
        let loss_pct = self.within("sound.network.loss_pct", lost, 0.0, 100.0)?;
        let jitter = raw.jitter_ms.unwrap_or(0.0);
        let jitter = millis(self.within("sound.network.jitter_ms", jitter, 0.0, 5_000.0)?);
        let mut gaps = Vec::new();
        for (at, gap) in raw.gaps.iter().enumerate() {
            let key = format!("sound.network.gaps[{}]", at + 1);
            let from = self.span(&format!("{key}.at"), &gap.at)?;
            gaps.push((from, self.length(&format!("{key}.for"), &gap.span)?));
        }
        Ok(Network { loss_pct, jitter, gaps })
    }
}

fn millis(ms: f64) -> Duration {
    Duration::from_micros((ms * 1_000.0).round() as u64)
}
