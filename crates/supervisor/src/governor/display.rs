//! Text of limits and their reasons.
//!
//! Rule: every limit in force is shown to the user with its reason.

use std::fmt;

use transom_signals::{MemoryPressure, ThermalState};

use super::{Limit, LimitReason};

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunningAnswers => write!(f, "running responses end early"),
            Self::NewAnswers => write!(f, "new requests wait"),
            Self::AnswerLength { tokens } => write!(f, "shorter responses ({tokens} tokens)"),
            Self::Context { tokens } => write!(f, "shorter context ({tokens} tokens)"),
            Self::PrefillStep { tokens } => {
                write!(f, "prefill steps of at most {tokens} tokens")
            }
            Self::Speculation => write!(f, "speculative decoding is off"),
            Self::Repaint { milliseconds } => {
                write!(f, "text is drawn less often (every {milliseconds} ms)")
            }
            Self::IdleUnload { seconds: 0 } => write!(f, "models unload at once"),
            Self::IdleUnload { seconds } if *seconds >= 120 && seconds % 60 == 0 => {
                write!(f, "models unload after {} min unused", seconds / 60)
            }
            Self::IdleUnload { seconds } => write!(f, "models unload after {seconds} s unused"),
            Self::SmallerModel => write!(f, "a smaller model is suggested"),
        }
    }
}

impl fmt::Display for LimitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory { pressure } => match pressure {
                MemoryPressure::Normal => "memory is freed",
                MemoryPressure::Warning => "memory is short",
                MemoryPressure::Critical => "memory is critically short",
            },
            Self::Thrashing => "heavy swapping",
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
            Self::Paused => "you paused it",
        })
    }
}
