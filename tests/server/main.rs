//! The server from outside: served in this process with scripted providers, talked to over real
//! sockets.

mod ages;
mod bad_events;
mod bad_frames;
mod bad_requests;
mod bursts;
mod call_gate;
mod client;
mod connections;
mod documents;
mod drain;
mod floods;
mod http;
mod interruptions;
mod keys;
mod leaks;
mod limits_changed;
mod openapi;
mod panics;
mod providers;
mod receipts;
mod refusals;
mod rig;
mod served;
mod slow;
mod watched;
