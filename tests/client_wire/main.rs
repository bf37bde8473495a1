//! A served floorkeeper over its wire: refusals, interruptions, and the commands that call it.

mod cli;
mod interrupts;
mod refusals;
mod rig;
