//! Runs a model in a child process.
//!
//! The child ([`child`]) runs the blocking loop of an engine and exchanges [`wire`] messages over a
//! socket that is its standard input. The parent's side ([`Worker`]) is async and never blocks its
//! caller. MLX and Metal end the process after a failed command buffer, and allocators keep memory
//! after a free. So each model has its own process, which ends with the model, and a crash costs
//! one response.
//!
//! Rule: a process holds one model at most, and nothing is freed before the running job has
//! ended.

pub mod child;
pub mod error;
pub mod frame;
mod saved_state;
mod sealed_file;
pub mod wire;
mod worker;

pub use error::WorkerEnd;
pub use saved_state::{SavedConversation, SavedFolder};
pub use sealed_file::StateKey;
#[cfg(feature = "test-support")]
pub use worker::ThreadWorkers;
pub use worker::{KillSwitch, ProcessWorkers, Timeouts, Worker, WorkerReport, Workers};
