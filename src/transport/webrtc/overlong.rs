//! Messages that are longer than the library takes. It drops them, and says so in its log alone:
//! neither an event nor an error of a call tells of it.

use std::cell::Cell;
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};
use rtc::shared::error::Error;

/// Where the library speaks of it, and how it begins: what was read, and what was read later.
const SPEAKER: &str = "rtc::peer_connection::handler";
const BEGINNINGS: [&str; 2] =
    ["SctpHandler.handle_read got error: ", "failed to resume parked SCTP streams: "];

thread_local! {
    /// Messages that were dropped on this thread since somebody asked.
    static DROPPED: Cell<usize> = const { Cell::new(0) };
}

/// Who reads that log.
struct Reader;

impl Log for Reader {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == Level::Warn && metadata.target().starts_with(SPEAKER)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) && is_drop(&record.args().to_string()) {
            DROPPED.set(DROPPED.get() + 1);
        }
    }

    fn flush(&self) {}
}

fn is_drop(said: &str) -> bool {
    let fault = BEGINNINGS.iter().find_map(|beginning| said.strip_prefix(beginning));
    fault.is_some_and(|fault| fault == Error::ErrShortBuffer.to_string())
}

/// Reads the log from here on; `false`: somebody else does, and drops stay unnoticed.
pub(super) fn notice() -> bool {
    static READS: OnceLock<bool> = OnceLock::new();
    *READS.get_or_init(|| {
        let reads = log::set_logger(&Reader).is_ok();
        if reads {
            log::set_max_level(LevelFilter::Warn);
        }
        reads
    })
}

/// How many messages were dropped while this was done, which does not wait.
pub(super) fn dropped(work: impl FnOnce()) -> usize {
    DROPPED.set(0);
    work();
    DROPPED.take()
}
