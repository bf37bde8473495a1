//! What was measured as lines for people, a goal beside a figure.

use crate::percentiles::Percentiles;

impl Percentiles {
    /// One line of a table.
    pub fn line(&self, title: &str, what: &str) {
        println!(
            "  {title:<7} {what:<36} p50 {:>7.2} ms  p99 {:>7.2} ms  max {:>7.2} ms  ({})",
            self.p50, self.p99, self.max, self.count
        );
    }
}

/// Prints a figure beside its goal; true when it is met.
pub fn verdict(what: &str, measured: f64, goal: f64) -> bool {
    let met = measured <= goal;
    let word = if met { "met" } else { "MISSED" };
    println!("  {what:<40} {measured:>8.2}   goal {goal:>6.1}   {word}");
    met
}
