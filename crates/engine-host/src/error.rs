//! The reasons why a worker has ended.

use serde::{Deserialize, Serialize};

/// Why a worker has ended. All reasons but [`WorkerEnd::Requested`] are faults.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum WorkerEnd {
    /// The owner asked it to exit or killed it.
    #[error("the model's process ended as requested")]
    Requested,
    /// It could not be started.
    #[error("the model's process could not be started: {reason}")]
    NotStarted {
        /// The reason, with the path of the program.
        reason: String,
    },
    /// It exited by itself, or another program killed it.
    #[error("the model's process ended: {how}{}", last_output(.stderr_tail))]
    Died {
        /// `killed by signal 9 (SIGKILL)`, `exit code 3`, ….
        how: String,
        /// The last lines of its standard error; may be empty.
        stderr_tail: String,
    },
    /// It did not respond to the watchdog and was killed.
    #[error("the model's process did not respond for {seconds} s and was ended")]
    Unresponsive {
        /// Seconds without a response.
        seconds: u64,
    },
    /// It sent an invalid or unexpected message and was killed.
    #[error("the model's process sent an unexpected message and was ended: {reason}")]
    Protocol {
        /// What was wrong with the message.
        reason: String,
    },
}

fn last_output(stderr_tail: &str) -> String {
    match stderr_tail.trim() {
        "" => String::new(),
        lines => format!("; its last output: {lines}"),
    }
}
