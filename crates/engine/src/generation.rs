//! The generation of a response in steps: prefill, then one token after another, with text and
//! statistics.
//!
//! Both engines run these steps around their own decoder, so order, finish reasons and counts are the
//! same.
//! Rule: none of a response's work is running when its end is reported.

mod response;
mod response_text;

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::constraint::{Constraint, Constraints, ResponseConstraint, TokenTable};
use crate::error::EngineError;
use crate::event::Stats;
use crate::job_control::JobControl;
use crate::logprobs::Scores;
use crate::request::{GenerationParams, PreparedPrompt};

pub use response::{Generation, Job, Prefill};
pub(crate) use response_text::ResponseText;

/// Tokens at the end of a prompt that open the response (transformers' "generation prompt"). The next
/// prompt may have other tokens in their place: a template does not repeat an opened reasoning section.
pub const OPENING_TOKENS: usize = 8;

/// Returns the number of tokens that both start with.
pub fn common_prefix_len(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Computes the tokens of one response.
pub trait Decode {
    /// Returns how many tokens of the prompt were in the KV cache.
    fn n_cached(&self) -> usize;

    /// Returns true if a layer has a recurrent state, which rewinds only to checkpoints.
    fn is_recurrent(&self) -> bool;

    /// Saves a checkpoint of this position, if the KV cache cannot rewind to every position.
    fn add_checkpoint(&mut self);

    /// Processes these tokens of the prompt, and waits for the device, so that no other response is
    /// charged for their time. After the last ones, the next token is known, or it can be drawn once
    /// the constraint is compiled. Returns false if the job was stopped before they were processed.
    fn prefill_step(
        &mut self,
        tokens: &[u32],
        is_last: bool,
        control: &JobControl,
    ) -> Result<bool, EngineError>;

    /// Returns the next token. The caller needs at most `n_left` more tokens, including this one;
    /// at least one. Waits for the compilation of the constraint, so [`Generation`] calls it after that.
    fn next(&mut self, n_left: usize, control: &JobControl) -> Result<NextToken, EngineError>;

    /// Returns the scores of the token that [`Decode::next`] returned last, if the request asks for
    /// log probabilities.
    fn take_scores(&mut self) -> Option<Scores>;

    /// Adds what only the decoder knows: draft tokens, those that were accepted and returned to the
    /// caller, and tokens that context shifts dropped.
    fn add_counts(&self, _: &mut Stats) {}

    /// Returns unused buffers and the KV caches of other conversations to the system.
    fn release_spare_memory(&mut self);

    /// Ends the response, also after an error: waits until the device does nothing for it, and leaves
    /// the KV cache as it can be used again. Nothing else of it is called after this.
    fn finish(&mut self);
}

/// Converts token ids to text, in order.
pub trait Detokenize {
    /// Returns true if this token ends the text.
    fn is_end(&self, token: u32) -> bool;

    /// Returns the bytes of the next token; possibly none, or part of a character.
    fn push(&mut self, token: u32) -> Cow<'_, [u8]>;

    /// Returns the bytes that `push` would return, and changes nothing.
    fn peek(&self, token: u32) -> Vec<u8>;
}

/// The result of [`Decode::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextToken {
    /// A token.
    Token(u32),
    /// The response matches its constraint, and nothing may follow.
    Complete,
    /// The context is full.
    ContextFull,
    /// The job was stopped.
    Stopped,
}

/// The tokens of a response that the decoder has not returned yet, and the counts of its draft tokens.
#[derive(Debug, Default)]
pub struct PendingTokens {
    tokens: VecDeque<u32>,
    n_drafted: usize,
    n_accepted: usize,
    /// How many of `tokens`, from the oldest on, are accepted draft tokens.
    n_pending_draft: usize,
}

impl PendingTokens {
    /// Adds a token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push_back(token);
    }

    /// Removes and returns the oldest token.
    pub fn pop(&mut self) -> Option<u32> {
        self.n_pending_draft = self.n_pending_draft.saturating_sub(1);
        self.tokens.pop_front()
    }

    /// Returns true if all tokens were returned.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Records a draft of `n_drafted` tokens, before which no token was pending. The first `n_accepted`
    /// of them were added, and possibly a token that was sampled after them.
    pub fn record_draft(&mut self, n_drafted: usize, n_accepted: usize) {
        self.n_drafted += n_drafted;
        self.n_accepted += n_accepted;
        self.n_pending_draft = n_accepted;
    }

    /// Adds the counts of draft tokens. Accepted ones that are still pending do not count: after a
    /// stop string the response has no more tokens. Other pending tokens, such as those that a
    /// constraint forces, are not of a draft.
    pub fn add_counts(&self, stats: &mut Stats) {
        stats.drafted_tokens = self.n_drafted;
        stats.accepted_tokens = self.n_accepted - self.n_pending_draft;
    }
}

impl PreparedPrompt {
    /// Returns what a response to this prompt must match: what the request asks for, or what its tools
    /// require.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] if the request has both a constraint and tools: a call would
    /// not match the constraint.
    fn constraint<'a>(
        &'a self,
        params: &'a GenerationParams,
    ) -> Result<Option<&'a Constraint>, EngineError> {
        match (&self.tools, &params.constraint) {
            (None, constraint) => Ok(constraint.as_ref()),
            (Some(tools), None) => Ok(tools.constraint()),
            (Some(_), Some(_)) => {
                let expected = "none: the tools may be called; forbid calls or leave one out";
                let error = EngineError::invalid_parameter("constraint", "one", expected);
                Err(error)
            }
        }
    }

    /// Begins to compile [`Self::constraint`], so that it is ready when the prompt is processed. `table`
    /// returns the tokens of the model; it is called for the first constraint of the model only.
    ///
    /// # Errors
    /// Those of [`Self::constraint`] and of [`Constraints::compile`].
    pub fn compile_constraint(
        &self,
        params: &GenerationParams,
        constraints: &mut Constraints,
        table: impl FnOnce() -> Result<TokenTable, EngineError>,
    ) -> Result<ResponseConstraint, EngineError> {
        let constraint = self.constraint(params)?;
        let is_text_start = !self.continues_message;
        constraints.compile(constraint, self.starts_in_reasoning, is_text_start, table)
    }
}

#[cfg(test)]
mod tests;
