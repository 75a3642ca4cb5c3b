//! The loop: prefill in chunks, then decode, with guesses checked in the same step where that pays.
//!
//! Token ids in, token ids out; text is `model`'s business. Rule: a token is drawn once, in order,
//! from the logits at its place; what was guessed decides only how many places a step computes.

use std::collections::VecDeque;
use std::time::Instant;

use transom_catalog::fit::llama::MAX_DRAFT;
use transom_engine::generation::{Counts, Decode, Next};
use transom_engine::speculation::{Speculation, verify};
use transom_engine::{EngineError, JobControl, Sampler};

use crate::memory;
use crate::session::{Reading, Session};

/// Tokens at the end of a prompt that open the answer rather than belong to what was said: the next
/// prompt may have others in their place (an opened reasoning section is not repeated).
const OPENING_TOKENS: usize = 8;

/// One answer in progress.
pub(crate) struct Decoder<'a> {
    session: &'a mut Session,
    sampler: Sampler,
    /// `None` where guessing is not allowed, or the model cannot take a wrong guess back.
    speculation: Option<&'a mut Speculation>,
    overflow: Overflow,
    n_cached: usize,
    /// Drawn, and not handed out yet.
    ready: VecDeque<u32>,
    /// The token drawn last; it is not in the cache yet.
    last: Option<u32>,
    counts: Counts,
}

/// What to do when the context is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// End the answer.
    End,
    /// Forget the older half of what follows so many tokens.
    Shift {
        /// Tokens of the system prompt.
        n_kept: usize,
    },
}

impl<'a> Decoder<'a> {
    /// Prepares to answer a prompt, reusing what the session has of it.
    ///
    /// # Errors
    /// As [`Session::reuse`].
    pub(crate) fn new(
        session: &'a mut Session,
        speculation: Option<&'a mut Speculation>,
        sampler: Sampler,
        reading: Reading<'_>,
        overflow: Overflow,
    ) -> Result<Self, EngineError> {
        let prompt = reading.prompt;
        let n_cached = session.reuse(reading)?;
        // An edited message is read again from here. Another answer to the same message brings no
        // text, and leaves the checkpoints as they are.
        if prompt.len() - n_cached > OPENING_TOKENS {
            session.set_checkpoint();
        }
        // A wrong guess has to be taken back.
        let mut speculation = speculation.filter(|_| !session.has_states());
        if let Some(speculation) = &mut speculation {
            speculation.begin(prompt);
        }
        Ok(Self {
            n_cached,
            session,
            sampler,
            speculation,
            overflow,
            ready: VecDeque::new(),
            last: None,
            counts: Counts::default(),
        })
    }

    /// Makes room for one more token. Returns whether there is any.
    fn make_room(&mut self) -> bool {
        if self.session.tokens().len() < self.session.plan().context_length {
            return true;
        }
        let Overflow::Shift { n_kept } = self.overflow else {
            return false;
        };
        let Some(forgotten) = self.session.shift(n_kept) else {
            return false;
        };
        self.counts.shifted += forgotten.len();
        if let Some(speculation) = &mut self.speculation {
            speculation.forget(forgotten);
        }
        true
    }

    /// Computes one step over `last` and what is guessed to follow it, and draws from it. Returns
    /// whether it was; it is not when the job was stopped.
    fn step(&mut self, last: u32, room: usize, control: &JobControl) -> Result<bool, EngineError> {
        let n_before = self.session.tokens().len();
        let free = self.session.plan().context_length - n_before - 1;
        let room = free.min(room.saturating_sub(1)).min(MAX_DRAFT);
        let mut tokens = vec![last];
        if let Some(speculation) = &mut self.speculation {
            tokens.extend_from_slice(speculation.draft(room));
        }
        let began = Instant::now();
        if !self.session.append(&tokens, tokens.len(), control)? {
            return Ok(false);
        }
        let drafted = &tokens[1..];
        let n_accepted = verify(drafted, |index| self.draw(index).map(Some))?;
        self.session.truncate(n_before + 1 + n_accepted);
        self.counts.drafted += drafted.len();
        self.counts.accepted += n_accepted;
        if let Some(speculation) = &mut self.speculation {
            speculation.stepped(began.elapsed());
        }
        Ok(true)
    }

    /// Draws the token that follows the `index`-th of the last step.
    fn draw(&mut self, index: usize) -> Result<u32, EngineError> {
        let drawn = self.sampler.draw(self.session.logits(index)?);
        let token = drawn.ok_or_else(|| EngineError::Backend {
            during: "choosing a token".to_owned(),
            message: "the model has an empty vocabulary".to_owned(),
        })?;
        self.sampler.accept(token);
        if let Some(speculation) = &mut self.speculation {
            speculation.accept(token);
        }
        self.ready.push_back(token);
        self.last = Some(token);
        Ok(token)
    }
}

impl Decode for Decoder<'_> {
    fn n_cached(&self) -> usize {
        self.n_cached
    }

    /// A guess that was right but is not handed out counts for nothing: after a stop string the answer
    /// has no more tokens.
    fn counts(&self) -> Counts {
        // The last one that is ready was drawn after the guesses.
        let n_unused = self.ready.len().saturating_sub(1);
        Counts {
            accepted: self.counts.accepted.saturating_sub(n_unused),
            ..self.counts
        }
    }

    fn prefill(
        &mut self,
        prompt: &[u32],
        chunk: usize,
        control: &JobControl,
        mut on_progress: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        // Another answer to this prompt, or a next turn without its reasoning, starts from here. A
        // state is lost with the next token, so a step ends there.
        let checkpoint = match self.session.has_states() {
            true => prompt.len().saturating_sub(OPENING_TOKENS),
            false => 0,
        };
        let mut done = self.n_cached;
        while done < prompt.len() {
            if control.is_stopped() {
                return Ok(());
            }
            let mut end = prompt.len().min(done + chunk.max(1));
            if done < checkpoint {
                end = end.min(checkpoint);
            }
            let is_last = end == prompt.len();
            let tokens = &prompt[done..end];
            if !self.session.append(tokens, usize::from(is_last), control)? {
                return Ok(());
            }
            if is_last {
                self.draw(tokens.len() - 1)?;
            }
            if end == checkpoint {
                self.session.set_checkpoint();
            }
            done = end;
            on_progress(done);
        }
        Ok(())
    }

    fn next(&mut self, room: usize, control: &JobControl) -> Result<Next, EngineError> {
        if let Some(token) = self.ready.pop_front() {
            return Ok(Next::Token(token));
        }
        let Some(last) = self.last else {
            return Ok(Next::Stopped);
        };
        if !self.make_room() {
            return Ok(Next::Full);
        }
        if !self.step(last, room, control)? {
            return Ok(Next::Stopped);
        }
        let token = self.ready.pop_front();
        Ok(token.map_or(Next::Stopped, Next::Token))
    }

    fn give_spare_memory_back() {
        memory::trim_heap();
    }
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        // Settle: nothing may be freed or reused while the device still works on it.
        self.session.settle();
    }
}

#[cfg(test)]
mod tests;
