//! Speculative decoding with prompt lookup: drafts tokens and verifies several of them in one step.
//!
//! [`PromptLookup`] drafts the tokens that followed an earlier occurrence of the last few tokens
//! (Saxena 2023). [`DraftPolicy`] decides how many draft tokens a step verifies, so that it pays on
//! this machine. [`Speculation`] combines both for the loop of an engine. No clock is read here;
//! the engine passes the duration of its steps.
//!
//! Rule: draft tokens never change a response, except that a step over more positions rounds
//! differently. The sampler draws each token from the model's own distribution at its position (see
//! [`verify`]). A draft only decides how many positions a step computes.

mod draft_policy;
mod lookup;

use std::ops::Range;
use std::time::Duration;

pub use draft_policy::DraftPolicy;
pub use lookup::{Match, PromptLookup};

/// The state of speculative decoding for a loaded model. It outlives a response, because step costs
/// are learned once per model.
///
/// At the start of a response, call [`Speculation::start`], then [`Speculation::accept`] with the
/// token after prefill. For each step, call [`Speculation::draft`]; compute the step for the last
/// token and the draft; sample with [`verify`] and call [`Speculation::accept`] for each token;
/// call [`Speculation::record_step`].
///
/// An engine that queues steps ahead does not know the last token when it queues a step. Before it
/// queues one, it asks [`Speculation::expects_draft`]; if true, it waits for the token and calls
/// [`Speculation::draft`]. If that returns no draft, it queues two steps, and calls
/// [`Speculation::record_unqueued_step`] for the first one.
#[derive(Debug, Clone)]
pub struct Speculation {
    lookup: PromptLookup,
    policy: DraftPolicy,
    /// The current match of the last tokens with earlier ones.
    current: Option<Match>,
    drafted: Vec<u32>,
    /// Tokens accepted since the last step.
    n_accepted: usize,
}

impl Speculation {
    /// Returns the state for an engine that computes one step after the other. `step_widths` are
    /// the numbers of tokens that a step may verify on its device, the last token of the response
    /// included: each at least 2, the smallest first.
    pub fn new(step_widths: &[usize]) -> Self {
        Self::with_policy(DraftPolicy::new(step_widths))
    }

    /// Returns the state for an engine that queues plain steps ahead.
    pub fn pipelined(step_widths: &[usize]) -> Self {
        Self::with_policy(DraftPolicy::pipelined(step_widths))
    }

    fn with_policy(policy: DraftPolicy) -> Self {
        Self {
            lookup: PromptLookup::default(),
            policy,
            current: None,
            drafted: Vec::new(),
            n_accepted: 0,
        }
    }

    /// Starts a response to `prompt`. The part that `prompt` shares with the current tokens costs
    /// almost nothing.
    pub fn start(&mut self, prompt: &[u32]) {
        self.lookup.set(prompt);
        self.current = self.lookup.find();
        self.policy.start();
        self.drafted.clear();
        self.n_accepted = 0;
    }

    /// Returns the tokens to verify in the next step, together with the last token of the response:
    /// at most `max_tokens`, and none if a plain step is better.
    pub fn draft(&mut self, max_tokens: usize) -> &[u32] {
        self.drafted.clear();
        self.n_accepted = 0;
        if let Some(current) = self.current {
            let n = self.policy.n_draft(current.length, max_tokens);
            self.lookup.draft(current, n, &mut self.drafted);
        }
        &self.drafted
    }

    /// Returns true if an engine that queues steps ahead should wait for the next token, because a
    /// draft of at most `max_tokens` after it is likely to pay.
    pub fn expects_draft(&self, max_tokens: usize) -> bool {
        let current = self.current;
        current.is_some_and(|current| self.policy.expects_draft(current.length, max_tokens))
    }

    /// Adds a sampled token: a correct draft token, or the token sampled instead of it.
    pub fn accept(&mut self, token: u32) {
        let mut continued = None;
        if let Some(current) = self.current {
            let is_correct = self.lookup.tokens().get(current.next) == Some(&token);
            self.policy.record_outcome(current.length, is_correct);
            continued = is_correct.then_some(Match {
                length: current.length + 1,
                next: current.next + 1,
            });
        }
        self.lookup.push(token);
        self.n_accepted += 1;
        // A match that was correct is only replaced by a longer one.
        let longest = self.lookup.find();
        self.current = match (continued, longest) {
            (Some(old), Some(new)) if new.length <= old.length => Some(old),
            (old, new) => new.or(old),
        };
    }

    /// Records a finished step. `took` includes computing it, sampling its tokens, and removing
    /// what was computed after a wrong draft token.
    pub fn record_step(&mut self, took: Duration) {
        self.policy
            .record_step(self.drafted.len(), self.n_accepted, took);
        self.drafted.clear();
        self.n_accepted = 0;
    }

    /// Records a plain step that was not queued ahead because a draft was made or expected.
    pub fn record_unqueued_step(&mut self, took: Duration) {
        self.policy.record_unqueued_step(took);
        self.n_accepted = 0;
    }

    /// Removes tokens by their positions in prompt and response, after a context shift.
    pub fn remove(&mut self, range: Range<usize>) {
        self.lookup.remove(range);
        self.current = self.lookup.find();
    }
}

/// Verifies a draft: samples the next tokens of the response one by one, and stops after the first
/// one that differs from the draft. Returns how many tokens of `drafted` were accepted.
///
/// `draw(i)` must sample and keep the token that follows the response and `i` tokens of the draft,
/// from the model's distribution there; `None` ends the response. It is called once for each token
/// of the response, in order, and never after a wrong draft token. Since no sampled token depends
/// on the draft, the distribution of responses is the same as without one, and with equal logits
/// and the same seed the response is the same.
///
/// # Errors
/// Those of `draw`.
pub fn verify<E>(
    drafted: &[u32],
    mut draw: impl FnMut(usize) -> Result<Option<u32>, E>,
) -> Result<usize, E> {
    for (i, &guess) in drafted.iter().enumerate() {
        if draw(i)? != Some(guess) {
            return Ok(i);
        }
    }
    draw(drafted.len())?;
    Ok(drafted.len())
}

#[cfg(test)]
mod tests;
