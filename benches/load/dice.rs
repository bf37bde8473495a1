//! A small repeatable source of noise.

pub struct Dice(pub u64);

impl Dice {
    /// From -1 to 1, evenly.
    pub fn symmetric(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}
