//! What the waiting of a gate may keep, and whether this machine has it (B-042…B-044).

use crate::config::GateLimits;

/// What a parked connection or a waiting offer keeps beside its own bytes.
const WAITER_BYTES: u64 = 64 * 1024;
const MIB: u64 = 1024 * 1024;

/// The most that waits in a gate with these limits can keep, in MiB.
pub fn bound_mib(limits: &GateLimits) -> u64 {
    let waiters = u64::from(limits.queue) * WAITER_BYTES;
    let bytes = if limits.queue == 0 { 0 } else { limits.queue_bytes };
    (waiters + bytes).div_ceil(MIB)
}

/// Says it once, where limits are applied, when a queue could take more than half the memory. The
/// depth is applied all the same (B-043).
pub fn warn(gate: &str, limits: &GateLimits) {
    let bound = bound_mib(limits);
    if let Some(memory) = machine_mib().filter(|memory| bound > memory / 2) {
        tracing::warn!(
            "the {gate} gate's queue of {} may keep {bound} MiB, more than half of this machine's \
             {memory} MiB",
            limits.queue
        );
    }
}

/// The machine's memory, where it can be told.
fn machine_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_bound_is_places_and_bytes() {
        let config = Config::parse("test", "", &[], std::iter::empty()).unwrap();
        let with = |queue| GateLimits { queue, queue_bytes: 4 * MIB, ..config.limits.call.clone() };
        assert_eq!(bound_mib(&with(0)), 0, "without a queue nothing waits");
        assert_eq!(bound_mib(&with(16)), 5);
        assert_eq!(bound_mib(&with(65_536)), 4_100);
    }
}
