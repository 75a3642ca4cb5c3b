//! How a worker came to its end.

use serde::{Deserialize, Serialize};

/// Why a worker is gone. All but [`WorkerEnd::AsTold`] are faults.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum WorkerEnd {
    /// It was told to end, and did.
    #[error("the model's process ended as told")]
    AsTold,
    /// It could not be started at all.
    #[error("the model's process could not be started: {reason}")]
    NotStarted {
        /// The system's reason, with the executable's path.
        reason: String,
    },
    /// It died by itself, or somebody killed it.
    #[error("the model's process ended: {how}{}", said(.last_words))]
    Died {
        /// `killed by signal 9 (SIGKILL)`, `exit code 3`, ….
        how: String,
        /// Last lines of its standard error; may be empty.
        last_words: String,
    },
    /// It did not answer the watchdog, and was killed.
    #[error("the model's process did not respond for {seconds} s and was ended")]
    Unresponsive {
        /// How long nothing was heard.
        seconds: u64,
    },
    /// It said something that makes no sense, and was killed.
    #[error("the model's process spoke out of turn and was ended: {reason}")]
    Protocol {
        /// What it said.
        reason: String,
    },
}

fn said(last_words: &str) -> String {
    match last_words.trim() {
        "" => String::new(),
        words => format!("; its last words: {words}"),
    }
}
