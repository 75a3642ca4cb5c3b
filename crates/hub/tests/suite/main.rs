//! The room from outside: a queue of downloads against a hub on this machine.
//!
//! Rule: waits are for states, and end with a sentence.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

mod desk;
mod faults;
mod hub;
mod places;
mod queue;
