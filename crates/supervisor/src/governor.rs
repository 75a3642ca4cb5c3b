//! From the machine's signals to what is allowed now, and why.
//!
//! Rule: tightening is immediate, easing waits for a quiet spell, and every limit that differs from
//! its default carries its reason.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_signals::{MemoryPressure, SystemSignals, ThermalState};

/// What the user may set. Everything else follows from the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Unload a model after this long without use; `None` chooses by machine and power.
    pub idle_unload: Option<Duration>,
    /// A wish to keep the chat model loaded; critical memory pressure overrides it.
    pub keep_loaded: bool,
    /// Bytes that models may use together; `None` chooses by machine.
    pub memory_budget_bytes: Option<u64>,
    /// Asks that may wait; the next is refused as busy.
    pub queue_limit: usize,
    /// How long an ask waits for the machine to allow work again before it is refused.
    pub longest_hold: Duration,
    /// How long a running answer may go on under critical memory pressure before it is ended.
    pub finish_within: Duration,
    /// How long a process may take to give its memory back before it is killed.
    pub unload_within: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            idle_unload: None,
            keep_loaded: false,
            memory_budget_bytes: None,
            queue_limit: 8,
            longest_hold: Duration::from_secs(30),
            finish_within: Duration::from_secs(20),
            unload_within: Duration::from_secs(3),
        }
    }
}

/// What the machine allows now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// Memory pressure as it is acted on: raised at once, lowered after a quiet spell.
    pub memory: MemoryPressure,
    /// Stop running answers now, for swap grows under critical pressure.
    pub stop_answers: bool,
    /// Most tokens of context for conversations that can be shortened.
    pub context_length: Option<usize>,
    /// Most tokens of a prefill step.
    pub prefill_chunk: Option<usize>,
    /// Most tokens of an answer not yet begun.
    pub max_tokens: Option<usize>,
    /// Whether a draft model may guess ahead.
    pub speculation: bool,
    /// Whether prefetch, embeddings and other work that nobody waits for may run.
    pub background_work: bool,
    /// Least time between two repaints of a streaming answer.
    pub repaint_interval: Duration,
    /// Unload a model after this long without use; `None` keeps it.
    pub idle_unload: Option<Duration>,
    /// Whether asks may begin, else why not.
    pub held: Option<Because>,
    /// Whether shells should offer a smaller model.
    pub offer_smaller_model: bool,
    /// Every limit above that differs from its default, with its reason; for people.
    pub restraints: Vec<Restraint>,
}

/// One limit in force and its reason. Reads as `shorter answers (1024 tokens): Low Power Mode`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restraint {
    /// What is limited, such as `shorter answers (1024 tokens)`.
    pub what: String,
    /// Why.
    pub because: Because,
}

/// Why something is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Because {
    /// The system asks for memory back.
    Memory {
        /// How urgently.
        pressure: MemoryPressure,
    },
    /// Swap grows.
    Thrashing,
    /// It is hot.
    Heat {
        /// How hot.
        state: ThermalState,
    },
    /// Low Power Mode is on.
    LowPower,
    /// No mains power.
    Battery,
    /// The machine has little memory.
    SmallMachine,
    /// The user's setting.
    Setting,
}

impl fmt::Display for Restraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.because)
    }
}
