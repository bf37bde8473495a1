//! A caller's own gain in front of the speech detector: quiet lines are heard as well as loud ones.
//!
//! Only the detector hears it. It follows every window that stands out from the line's noise, rises
//! slowly and falls at once, and never lifts that noise to where it could be taken for speech.

use std::collections::VecDeque;

use crate::audio::level_dbfs;

/// Speech is brought up to this.
const TARGET_DBFS: f32 = -26.0;
/// The line's noise stays below this.
const NOISE_MAX_DBFS: f32 = -52.0;
/// No line is quieter.
const QUIETEST_DBFS: f32 = -90.0;
/// How far above the noise something has to be to count as the caller.
const ABOVE_NOISE_DB: f32 = 10.0;
/// Rise for each second of the caller.
const RISE_DB_PER_S: f32 = 12.0;
/// Windows of which the quietest is the noise: several seconds.
const NOISE_WINDOWS: usize = 12;
/// Windows in one of those.
const MERGED: u32 = 16;

/// One call's gain.
#[derive(Debug)]
pub struct Gain {
    most_db: f32,
    now_db: f32,
    /// The quietest of each few windows, newest last.
    quietest: VecDeque<f32>,
    /// The quietest of the few that are being collected, and how many there were.
    collecting: (f32, u32),
    scaled: Vec<i16>,
}

/// A window as it is to be heard.
#[derive(Clone, Copy, Debug)]
pub struct Levelled<'a> {
    /// Its samples.
    pub window: &'a [i16],
    /// Their level.
    pub level_dbfs: f32,
    /// How far it is above the line's own noise.
    pub above_noise_db: f32,
}

impl Gain {
    /// A gain that adds at most so much; 0 leaves everything as it is.
    pub fn new(most_db: f32) -> Gain {
        Gain {
            most_db,
            now_db: 0.0,
            quietest: VecDeque::with_capacity(NOISE_WINDOWS),
            collecting: (f32::INFINITY, 0),
            scaled: Vec::new(),
        }
    }

    /// What is added now, in dB.
    pub fn db(&self) -> f32 {
        self.now_db
    }

    /// Follows the level of a window at `rate_hz`, unless it may be somebody else's sound
    /// (`follows` is false while the agent is heard: its echo is not the caller).
    pub fn level<'a>(&'a mut self, window: &'a [i16], rate_hz: u32, follows: bool) -> Levelled<'a> {
        let level = level_dbfs(window);
        if follows && level.is_finite() {
            self.follow(level, window.len() as f32 / rate_hz as f32);
        }
        let above_noise_db = level - self.noise();
        if self.now_db < 1.0 {
            return Levelled { window, level_dbfs: level, above_noise_db };
        }
        let factor = (10.0_f32.powf(self.now_db / 20.0) * 256.0) as i32;
        let scale = |&sample: &i16| {
            (i32::from(sample) * factor / 256).clamp(i32::from(i16::MIN), i32::from(i16::MAX))
                as i16
        };
        self.scaled.clear();
        self.scaled.extend(window.iter().map(scale));
        Levelled { window: &self.scaled, level_dbfs: level + self.now_db, above_noise_db }
    }

    fn follow(&mut self, level: f32, seconds: f32) {
        self.collect(level);
        let noise = self.noise();
        if level < noise + ABOVE_NOISE_DB {
            return;
        }
        let wanted = (TARGET_DBFS - level).min(NOISE_MAX_DBFS - noise).clamp(0.0, self.most_db);
        let most = self.now_db + RISE_DB_PER_S * seconds;
        self.now_db = wanted.min(most);
    }

    fn collect(&mut self, level: f32) {
        let (quietest, count) = self.collecting;
        self.collecting = (quietest.min(level), count + 1);
        if count + 1 >= MERGED {
            if self.quietest.len() == NOISE_WINDOWS {
                self.quietest.pop_front();
            }
            self.quietest.push_back(self.collecting.0);
            self.collecting = (f32::INFINITY, 0);
        }
    }

    /// The level of the line when nobody speaks: the quietest of the last seconds.
    fn noise(&self) -> f32 {
        let known = self.quietest.iter().copied().chain([self.collecting.0]);
        let quietest = known.fold(f32::INFINITY, f32::min);
        // Nothing but digital silence has come.
        if quietest.is_finite() { quietest.max(QUIETEST_DBFS) } else { QUIETEST_DBFS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(dbfs: f32) -> Vec<i16> {
        let peak = 10.0_f32.powf(dbfs / 20.0) * 32_768.0 * std::f32::consts::SQRT_2;
        (0..512).map(|n| ((n as f32 * 0.2).sin() * peak) as i16).collect()
    }

    /// Noise, then `seconds` of speech at this level; the gain then.
    fn after(speech_dbfs: f32, noise_dbfs: f32, seconds: f32, most_db: f32) -> Gain {
        let mut gain = Gain::new(most_db);
        for _ in 0..20 {
            gain.level(&tone(noise_dbfs), 16_000, true);
        }
        for _ in 0..(seconds * 16_000.0 / 512.0) as usize {
            gain.level(&tone(speech_dbfs), 16_000, true);
        }
        gain
    }

    #[test]
    fn a_quiet_caller_is_brought_up_slowly_and_a_loud_one_left_alone() {
        let quiet = after(-46.0, -75.0, 1.0, 24.0);
        assert!((11.0..13.0).contains(&quiet.db()), "{}", quiet.db());
        assert!((19.0..21.0).contains(&after(-46.0, -75.0, 5.0, 24.0).db()));
        assert_eq!(after(-20.0, -60.0, 5.0, 24.0).db(), 0.0);
        assert_eq!(after(-60.0, -85.0, 9.0, 18.0).db(), 18.0, "the configured most");
        assert_eq!(after(-60.0, -85.0, 9.0, 0.0).db(), 0.0, "switched off");
    }

    #[test]
    fn the_noise_of_the_line_is_not_lifted_to_speech() {
        let noisy = after(-40.0, -55.0, 9.0, 24.0);
        assert!(noisy.db() <= 3.5, "{}", noisy.db());
        assert_eq!(after(-50.0, -50.0, 9.0, 24.0).db(), 0.0, "noise alone is nobody");
    }

    #[test]
    fn what_may_be_the_agents_echo_moves_nothing() {
        let mut gain = after(-46.0, -75.0, 1.0, 24.0);
        let before = gain.db();
        for _ in 0..100 {
            gain.level(&tone(-50.0), 16_000, false);
        }
        assert_eq!(gain.db(), before);
    }

    #[test]
    fn it_falls_at_once_and_never_overflows() {
        let mut gain = after(-46.0, -75.0, 5.0, 24.0);
        let loud = vec![i16::MAX; 512];
        let heard = gain.level(&loud, 16_000, true).window;
        assert_eq!(heard, &loud[..]);
        assert_eq!(gain.db(), 0.0);
    }
}
