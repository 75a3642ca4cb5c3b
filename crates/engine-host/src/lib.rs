//! The process that a model lives in.
//!
//! The child ([`child`]) runs an engine's blocking loop and speaks [`wire`] messages over a socket
//! that it got as standard input. The parent's side ([`Worker`]) is async and never blocks its
//! caller. MLX and Metal end a process on a failed command buffer, and allocators keep memory after
//! a free; so a model's process ends with its model, and a crash costs one answer.
//!
//! Rule: a process holds one model at most, and nothing is freed before the running job has
//! settled.

pub mod child;
pub mod error;
pub mod frame;
mod kept;
pub mod wire;
mod worker;

pub use error::WorkerEnd;
pub use kept::remove_leftovers;
#[cfg(feature = "test-support")]
pub use worker::ThreadWorkers;
pub use worker::{KillSwitch, Patience, ProcessWorkers, Worker, WorkerReport, Workers};
