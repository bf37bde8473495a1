//! Sound encodings and rate conversion, shared by every transport and by the runtime.
//!
//! Knows samples and bytes, nothing of calls or wires.

pub mod g711;
pub mod g722;
pub mod opus;
pub mod packed;
pub mod resample;
