//! The room from outside: a queue of downloads against a hub on this machine.
//!
//! Rule: waits are for states, and end with a sentence.

#![allow(missing_docs)]

mod desk;
mod faults;
mod hub;
mod places;
mod queue;
