//! Constrained decoding: the response must match a grammar, token by token.
//!
//! A [`Constraint`] is a [`Grammar`] and where in the response it starts. It says what must come out;
//! it adds nothing to the prompt.
//!
//! Rule: a constraint never falls open. A grammar that cannot be held in full is
//! [`EngineError::InvalidConstraint`](crate::EngineError::InvalidConstraint) before any work. If it
//! allows no token in the middle of a response, the response ends with
//! [`EngineError::ConstraintFailed`](crate::EngineError::ConstraintFailed).

mod compilation;
mod grammar;
mod guide;
mod mask;
mod references;
mod vocabulary;

use serde::{Deserialize, Serialize};

pub use compilation::{ConstraintCheck, Constraints, ResponseConstraint};
pub(crate) use grammar::{can_hold, with_layout};
pub use mask::TokenMask;
pub(crate) use references::remove_ignored;
pub use vocabulary::{TokenTable, TokenText};

use crate::error::EngineError;

/// What a response must match, and from where on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// What the constrained part must match, as a whole.
    pub grammar: Grammar,
    /// Where the constrained part begins. It ends with the response.
    #[serde(default)]
    pub start: ConstraintStart,
}

/// A set of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// JSON that is valid under this JSON Schema. Properties come in the order of the schema. The layout
    /// is one line, with a space after each comma and colon between values, unless the options of
    /// llguidance in the schema (`x-guidance`) name another.
    JsonSchema(serde_json::Value),
    /// Any JSON value, in one line.
    Json,
    /// Any JSON object, in one line.
    JsonObject,
    /// Texts that this regular expression matches from beginning to end (the syntax of Rust's
    /// `regex`, without assertions).
    Regex(String),
    /// A grammar of llguidance's form of Lark. Special tokens are written as in the vocabulary
    /// (`<|tool_call|>`), so "free text until a marker, then a grammar" is
    /// `start: TEXT | TEXT calls`.
    Lark(String),
    /// One of these texts; at least one.
    Choice(Vec<String>),
}

/// Where the constrained part of a response begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintStart {
    /// After the reasoning section, if the response has one.
    #[default]
    Answer,
    /// With the first token. The response then has no reasoning, unless the grammar has it.
    Response,
}

impl Constraint {
    /// Returns a constraint on the answer, after the reasoning.
    pub fn on_answer(grammar: Grammar) -> Self {
        Self {
            grammar,
            start: ConstraintStart::Answer,
        }
    }

    /// Returns a constraint on the whole response, from its first token on.
    pub fn on_response(grammar: Grammar) -> Self {
        Self {
            grammar,
            start: ConstraintStart::Response,
        }
    }

    /// Checks whether the constraint can be held, as far as that does not depend on a model. Takes
    /// milliseconds; programs call it before they queue a request.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`], which names the path and the keyword.
    pub fn check(&self) -> Result<(), EngineError> {
        grammar::check(&self.grammar)
    }
}

#[cfg(test)]
mod tests;
