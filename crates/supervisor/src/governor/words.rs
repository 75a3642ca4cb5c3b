//! Limits and their reasons in plain words.
//!
//! Rule: no limit is in force that a person cannot read of, together with its reason.

use std::fmt;
use std::time::Duration;

use transom_signals::{MemoryPressure, ThermalState};

use super::ladder::Demands;
use super::{Because, Restraint};

impl Demands {
    /// For people, what they would feel most first.
    pub(super) fn restraints(&self) -> Vec<Restraint> {
        let repaint = self.repaint.map(|(wait, why)| (repaint_words(wait), why));
        let idle = self
            .idle
            .and_then(|(wait, why)| Some((idle_words(wait), why?)));
        let restraints = [
            said("running answers end early", self.stop_answers),
            said("new questions wait", self.held),
            tokens("shorter answers", self.max_tokens),
            tokens("conversations remember less", self.context_length),
            tokens("prompts are read in smaller steps", self.prefill_chunk),
            said("no speculation", self.no_speculation),
            said("background work paused", self.no_background),
            repaint,
            idle,
            said("a smaller model is suggested", self.smaller_model),
        ];
        let restraints = restraints.into_iter().flatten();
        restraints
            .map(|(what, because)| Restraint { what, because })
            .collect()
    }
}

fn said(what: &str, because: Option<Because>) -> Option<(String, Because)> {
    because.map(|because| (what.to_owned(), because))
}

fn tokens(what: &str, limit: Option<(usize, Because)>) -> Option<(String, Because)> {
    limit.map(|(n, because)| (format!("{what} ({n} tokens)"), because))
}

fn repaint_words(wait: Duration) -> String {
    let milliseconds = wait.as_millis();
    format!("text appears in larger steps (every {milliseconds} ms)")
}

fn idle_words(wait: Duration) -> String {
    match wait.as_secs() {
        0 => "models unload at once".to_owned(),
        seconds if seconds >= 120 && seconds % 60 == 0 => {
            format!("models unload after {} min unused", seconds / 60)
        }
        seconds => format!("models unload after {seconds} s unused"),
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory { pressure } => match pressure {
                MemoryPressure::Normal => "memory is freed",
                MemoryPressure::Warning => "memory is short",
                MemoryPressure::Critical => "memory is critically short",
            },
            Self::Thrashing => "memory is being moved to disk",
            Self::Heat { state } => match state {
                ThermalState::Nominal => "this computer has cooled",
                ThermalState::Fair => "this computer is warm",
                ThermalState::Serious => "this computer is hot",
                ThermalState::Critical => "this computer is too hot",
            },
            Self::LowPower => "Low Power Mode",
            Self::Battery => "on battery",
            Self::SmallMachine => "this computer has little memory",
            Self::Setting => "your setting",
        })
    }
}
