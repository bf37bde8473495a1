//! The calendar that the built-in tools share.
