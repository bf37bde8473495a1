//! The Realtime event protocol: golden scripts, the order of events, wrong input, the leg.

mod fake_socket;
mod golden;
mod leg;
mod order;
mod played;
mod properties;
mod script;
mod start;
