//! Prefill in chunks, then decoding, with speculative decoding where it pays.
//!
//! Token ids in, token ids out; `model` handles text.
//!
//! While steps are shared, the tokens of other responses take the place of draft tokens.
//!
//! Rule: each token is sampled once, in order, from the logits at its position. Draft tokens only
//! decide how many positions a step computes. Tokens of text that a constraint forces are not sampled:
//! a step reads them like a prompt. With log probabilities there are neither, so the scores are those
//! of the next token to return.

use std::ops::DerefMut;
use std::time::Instant;

use transom_catalog::fit::llama::MAX_DRAFT;
use transom_engine::generation::{Decode, NextToken, PendingTokens};
use transom_engine::speculation::{Speculation, verify};
use transom_engine::{EngineError, JobControl, ResponseConstraint, Sampler, Scorer, Scores, Stats};

use crate::session::Session;

/// A response in progress. It owns or borrows its session and the state of speculative decoding.
#[derive(Debug)]
pub(crate) struct Decoder<S, P> {
    session: S,
    sampler: Sampler,
    constraint: ResponseConstraint,
    /// `None` if speculative decoding is not allowed, or the model cannot remove wrong draft
    /// tokens.
    speculation: Option<P>,
    options: DecodeOptions,
    /// The scores of the last sampled token.
    scores: Option<Scores>,
    n_cached: usize,
    pending: PendingTokens,
    /// The logits after the prompt, while the first token is not sampled. Other responses may compute
    /// steps in the same context meanwhile.
    prefilled: Option<Vec<f32>>,
    /// The last sampled token; it is not in the cache yet.
    last: Option<u32>,
    n_shifted: usize,
}

/// Parameters of a response.
#[derive(Debug, Default)]
pub(crate) struct DecodeOptions {
    /// Tokens that stay when a full context is shifted: those of the system prompt. `None` ends the
    /// response instead.
    pub(crate) n_kept: Option<usize>,
    pub(crate) scorer: Scorer,
    /// Text that the constraint forces is written without sampling.
    pub(crate) writes_forced: bool,
    /// Nothing but the request may decide how logits are rounded, so no step is shared.
    pub(crate) is_reproducible: bool,
}

impl<S, P> Decoder<S, P>
where
    S: DerefMut<Target = Session>,
    P: DerefMut<Target = Speculation>,
{
    /// Prepares the response to `prompt`. `session` contains what it [reuses](Session::reuse) of it.
    pub(crate) fn new(
        session: S,
        speculation: Option<P>,
        sampler: Sampler,
        constraint: ResponseConstraint,
        prompt: &[u32],
        options: DecodeOptions,
    ) -> Self {
        // Wrong draft tokens must be removed from the cache.
        let can_remove = !session.has_recurrent_state();
        let mut speculation = speculation.filter(|_| can_remove);
        if let Some(speculation) = &mut speculation {
            speculation.start(prompt);
        }
        Self {
            n_cached: session.tokens().len(),
            session,
            sampler,
            constraint,
            speculation,
            options,
            scores: None,
            pending: PendingTokens::default(),
            prefilled: None,
            last: None,
            n_shifted: 0,
        }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Returns true if the next step of the response may have tokens of others.
    pub(crate) fn may_share_steps(&self) -> bool {
        !self.options.is_reproducible && self.session.can_move()
    }

    /// Returns true if the next token is known.
    pub(crate) fn has_token(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(crate) fn speculation(&self) -> Option<&Speculation> {
        self.speculation.as_deref()
    }

    /// Returns the session and the state of speculative decoding, after the response has ended.
    pub(crate) fn into_parts(self) -> (S, Option<P>) {
        (self.session, self.speculation)
    }

    /// Ensures that the context has space for one more token. Returns false if it is full.
    fn ensure_space(&mut self) -> bool {
        if self.session.tokens().len() < self.session.config().context_length {
            return true;
        }
        let Some(removed) = self.options.n_kept.and_then(|n| self.session.shift(n)) else {
            return false;
        };
        self.n_shifted += removed.len();
        if let Some(speculation) = &mut self.speculation {
            speculation.remove(removed);
        }
        true
    }

    /// Lets the draft model read what it has to read before a draft of at most `max_draft` tokens.
    fn read_with_drafter(&mut self, max_draft: usize, control: &JobControl) {
        let Some(speculation) = &mut self.speculation else {
            return;
        };
        while !control.is_stopped() {
            let began = Instant::now();
            let n_read = speculation.read(max_draft);
            if n_read == 0 {
                return;
            }
            speculation.record_read(n_read, began.elapsed());
        }
    }

    /// Computes a step for `last` and its draft, and samples from it. Returns false if the job was
    /// stopped.
    fn step(
        &mut self,
        last: u32,
        n_left: usize,
        control: &JobControl,
    ) -> Result<bool, EngineError> {
        let n_before = self.session.tokens().len();
        let free = self.session.n_free().saturating_sub(1);
        let max_more = free.min(n_left.saturating_sub(1));
        let max_step = self.session.config().max_step();
        let forced = match self.options.writes_forced {
            true => self.constraint.forced(max_more.min(max_step - 1)),
            false => Vec::new(),
        };
        if !forced.is_empty() || self.session.shares_steps() {
            return self.step_without_draft(last, &forced, control);
        }
        let max_draft = max_more.min(MAX_DRAFT);
        self.read_with_drafter(max_draft, control);
        let began = Instant::now();
        let mut tokens = vec![last];
        if let Some(speculation) = &mut self.speculation {
            tokens.extend_from_slice(speculation.draft(max_draft));
        }
        if !self.session.append(&tokens, tokens.len(), control)? {
            return Ok(false);
        }
        let drafted = &tokens[1..];
        let n_accepted = verify(drafted, |index| self.draw(index))?;
        self.session.truncate(n_before + 1 + n_accepted);
        self.pending.record_draft(drafted.len(), n_accepted);
        if let Some(speculation) = &mut self.speculation {
            speculation.record_step(began.elapsed());
        }
        Ok(true)
    }

    /// Computes a step for `last` and the `forced` tokens after it, and samples the token after them.
    /// Returns false if the job was stopped.
    fn step_without_draft(
        &mut self,
        last: u32,
        forced: &[u32],
        control: &JobControl,
    ) -> Result<bool, EngineError> {
        let tokens = [&[last], forced].concat();
        if !self.session.append(&tokens, 1, control)? {
            return Ok(false);
        }
        for &token in forced {
            self.accept(token)?;
        }
        self.draw(forced.len())?;
        if let Some(speculation) = &mut self.speculation {
            speculation.skip_step();
        }
        Ok(true)
    }

    /// Lets other responses compute the next step too, if it appends only the last token, which it does
    /// unless the response ends: the caller needs `n_left` more tokens.
    fn announce(&mut self, n_left: usize) {
        let Some(last) = self
            .last
            .filter(|_| self.session.shares_steps() && n_left > 0)
        else {
            return;
        };
        let may_force = self.options.writes_forced;
        if self.pending.is_empty()
            && !self.constraint.is_complete()
            && (!may_force || self.constraint.forced(1).is_empty())
        {
            self.session.announce(last);
        }
    }

    /// Adds a token to the response.
    fn accept(&mut self, token: u32) -> Result<(), EngineError> {
        self.sampler.accept(token);
        self.constraint.accept(token)?;
        if let Some(speculation) = &mut self.speculation {
            speculation.accept(token);
        }
        self.pending.push(token);
        self.last = Some(token);
        Ok(())
    }

    /// Samples the token that follows the `index`-th token of the last step, or the prompt; `None` if
    /// nothing may follow.
    fn draw(&mut self, index: usize) -> Result<Option<u32>, EngineError> {
        if self.constraint.is_complete() {
            return Ok(None);
        }
        // A GPU may still compute the logits meanwhile.
        let allowed = self.constraint.mask()?;
        let prefilled = self.prefilled.take();
        let logits = match &prefilled {
            Some(logits) => logits,
            None => self.session.logits(index)?,
        };
        let drawn = match self.options.scorer.known() {
            Some(token) => Some(token),
            None => self.sampler.draw_from(logits, allowed),
        };
        let token = drawn.ok_or_else(|| {
            EngineError::backend("choosing a token", "the model has an empty vocabulary")
        })?;
        self.scores = self.options.scorer.score(logits, token);
        self.accept(token)?;
        Ok(Some(token))
    }
}

impl<S, P> Decode for Decoder<S, P>
where
    S: DerefMut<Target = Session>,
    P: DerefMut<Target = Speculation>,
{
    fn n_cached(&self) -> usize {
        self.n_cached
    }

    fn add_counts(&self, stats: &mut Stats) {
        self.pending.add_counts(stats);
        stats.mask_time = self.constraint.mask_time();
        stats.shifted_tokens = self.n_shifted;
    }

    fn is_recurrent(&self) -> bool {
        self.session.has_recurrent_state()
    }

    fn add_checkpoint(&mut self) {
        self.session.set_checkpoint();
    }

    fn prefill_step(
        &mut self,
        tokens: &[u32],
        is_last: bool,
        control: &JobControl,
    ) -> Result<bool, EngineError> {
        let n_logits = usize::from(is_last);
        let began = Instant::now();
        let is_processed = self.session.append(tokens, n_logits, control)?;
        if !is_last || self.constraint.is_some() {
            // Nobody reads its logits yet, so its time would count as that of the next step, which may
            // be another response's.
            self.session.wait();
        }
        if is_last && is_processed {
            let index = tokens.len() - 1;
            // Other responses take their turns while the constraint is compiled.
            match self.constraint.is_some() {
                true => self.prefilled = Some(self.session.logits(index)?.to_vec()),
                false => _ = self.draw(index)?,
            }
        }
        if let Some(speculation) = &mut self.speculation {
            speculation.record_prefill(began.elapsed());
        }
        Ok(is_processed)
    }

    fn next(&mut self, n_left: usize, control: &JobControl) -> Result<NextToken, EngineError> {
        if self.prefilled.is_some() {
            if !self.constraint.resolve(control)? {
                return Ok(NextToken::Stopped);
            }
            self.draw(0)?;
        }
        if let Some(token) = self.pending.pop() {
            self.announce(n_left.saturating_sub(1));
            return Ok(NextToken::Token(token));
        }
        if self.constraint.is_complete() {
            return Ok(NextToken::Complete);
        }
        let Some(last) = self.last else {
            return Ok(NextToken::Stopped);
        };
        if !self.ensure_space() {
            return Ok(NextToken::ContextFull);
        }
        if !self.step(last, n_left, control)? {
            return Ok(NextToken::Stopped);
        }
        let token = self.pending.pop();
        self.announce(n_left.saturating_sub(1));
        Ok(token.map_or(NextToken::Stopped, NextToken::Token))
    }

    fn take_scores(&mut self) -> Option<Scores> {
        self.scores.take()
    }

    fn release_spare_memory(&mut self) {
        self.session.release_parked();
        if let Some(speculation) = &mut self.speculation {
            speculation.release_drafter();
        }
    }

    fn finish(&mut self) {
        // Waits: nothing may be freed or reused while the device still uses it.
        self.session.finish();
    }
}

#[cfg(test)]
mod tests;
