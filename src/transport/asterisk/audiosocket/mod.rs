//! AudioSocket: Asterisk connects by TCP, says the call's UUID, and then both sides send sound.
//!
//! Nothing is buffered for us at the other end, and nothing can be taken back: sound is sent at its
//! own pace, at most 40 ms ahead, and to stop sending is to be silent. What Asterisk does not know
//! makes it drop the call, so that it is only ever sent sound and, at the end, a hang-up.

mod arrival;
mod count;
mod frame;
mod leg;
mod line;
mod sound;

pub use arrival::{Arrived, arrive};
pub use count::{Count, Counts};
pub use frame::Kind;
pub use leg::AudioSocketLeg;
