//! Tests of the crate's public API: a download queue and a hub on this machine.
//!
//! Rule: tests wait for states, and a wait that fails prints a sentence.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

mod faults;
mod fixture;
mod hub;
mod local_hub;
mod queue;
