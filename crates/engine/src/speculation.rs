//! Speculative decoding: drafts tokens and verifies several of them in one step.
//!
//! [`PromptLookup`] drafts the tokens that followed an earlier occurrence of the last few tokens
//! (Saxena 2023). A [`Drafter`] computes them, such as a draft model (Leviathan et al. 2023).
//! [`DraftPolicy`] decides which of them drafts how many tokens for a step, so that it pays on this
//! machine. [`Speculation`] combines them for the loop of an engine. No clock is read here; the
//! engine passes the duration of its steps.
//!
//! Rule: draft tokens never change a response, except that a step over more positions rounds
//! differently. The sampler draws each token from the model's own distribution at its position (see
//! [`verify`]). A draft only decides how many positions a step computes.

mod draft_policy;
mod lookup;

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

pub use draft_policy::DraftPolicy;
pub use lookup::{Match, PromptLookup};

/// Numbers of tokens that a step with a draft of a [`Drafter`] verifies, the last token of the
/// response included. On Macs four draft tokens gained the most; more are too rarely all correct.
const DRAFTER_WIDTHS: [usize; 4] = [2, 3, 4, 5];

/// Tokens that a drafter reads together with a draft. It lacks one or two after every step with a
/// draft of its own, and one more after each plain step.
const MAX_UNREAD: usize = 8;

/// Computes the tokens that may follow a text: a draft model, or a part of the model itself that was
/// trained to predict more than one token. It has the vocabulary of the model.
///
/// A drafter never fails a response. If it cannot draft, it says so in [`Drafter::n_unread`].
pub trait Drafter: Debug {
    /// Returns how many of `tokens` the drafter has to read before a draft: those after the prefix
    /// that it has cached, at least one. `None` if it cannot draft after these tokens.
    fn n_unread(&self, tokens: &[u32]) -> Option<usize>;

    /// Reads at most `n` of the unread `tokens`, the first of them first, but not the last token.
    /// Returns how many it has read when its device is idle again; 0 if it cannot read.
    fn read(&mut self, tokens: &[u32], n: usize) -> usize;

    /// Reads the unread `tokens` and appends to `draft` the `n` tokens that most likely follow, or
    /// fewer.
    fn propose(&mut self, tokens: &[u32], n: usize, draft: &mut Vec<u32>);

    /// Releases all memory but that of the weights. Returns the bytes of the KV cache.
    fn release(&mut self) -> u64;

    /// Returns the bytes of the KV cache.
    fn kv_cache_bytes(&self) -> u64;
}

/// The state of speculative decoding for a loaded model. It outlives a response, because step costs
/// are learned once per model.
///
/// At the start of a response, call [`Speculation::start`], then [`Speculation::accept`] with the
/// token after prefill. For each step, call [`Speculation::draft`]; compute the step for the last
/// token and the draft; sample with [`verify`] and call [`Speculation::accept`] for each token;
/// call [`Speculation::record_step`].
///
/// With a [`Drafter`], call [`Speculation::read`] before [`Speculation::draft`] until it returns 0,
/// and [`Speculation::record_read`] after each read. Making the draft is part of a step's duration.
///
/// An engine that queues steps ahead does not know the last token when it queues a step. Before it
/// queues one, it asks [`Speculation::expects_draft`]; if true, it waits for the token and calls
/// [`Speculation::draft`]. If that returns no draft, it queues two steps, and calls
/// [`Speculation::record_unqueued_step`] for the first one.
#[derive(Debug)]
pub struct Speculation {
    lookup: PromptLookup,
    drafter: Option<Box<dyn Drafter>>,
    policy: DraftPolicy,
    /// The current match of the last tokens with earlier ones.
    current: Option<Match>,
    drafted: Vec<u32>,
    /// `drafted` is from the drafter.
    is_by_drafter: bool,
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
            drafter: None,
            policy,
            current: None,
            drafted: Vec::new(),
            is_by_drafter: false,
            n_accepted: 0,
        }
    }

    /// Adds a source of drafts where the text does not repeat itself. Its steps verify at most
    /// `max_width` tokens.
    #[must_use]
    pub fn with_drafter(mut self, drafter: Box<dyn Drafter>, max_width: usize) -> Self {
        let widths = DRAFTER_WIDTHS.into_iter().filter(|n| *n <= max_width);
        self.policy.set_drafter_widths(&widths.collect::<Vec<_>>());
        self.drafter = Some(drafter);
        self
    }

    /// Returns the drafter, if there is one.
    pub fn drafter(&self) -> Option<&dyn Drafter> {
        self.drafter.as_deref()
    }

    /// Releases the memory of the drafter but for its weights. Returns the bytes of its KV cache. It
    /// reads the text again when drafts are likely to pay.
    pub fn release_drafter(&mut self) -> u64 {
        let drafter = self.drafter.as_mut();
        drafter.map_or(0, |drafter| drafter.release())
    }

    /// Starts a response to `prompt`. The part that `prompt` shares with the current tokens costs
    /// almost nothing.
    pub fn start(&mut self, prompt: &[u32]) {
        self.lookup.set(prompt);
        self.current = self.lookup.find();
        self.policy.start();
        self.clear_draft();
    }

    /// Records the time of the prefill of this response, after [`Speculation::start`].
    pub fn record_prefill(&mut self, took: Duration) {
        self.policy.record_prefill(took);
    }

    fn clear_draft(&mut self) {
        self.drafted.clear();
        self.is_by_drafter = false;
        self.n_accepted = 0;
    }

    /// Lets the drafter read tokens that it has not read, if a draft of at most `max_tokens` is then
    /// likely to pay. Returns how many it has read.
    pub fn read(&mut self, max_tokens: usize) -> usize {
        let n_unread = self.n_to_read();
        let n = match n_unread {
            None | Some(0) => 0,
            Some(n_unread) => self.policy.n_read(n_unread, max_tokens),
        };
        match &mut self.drafter {
            Some(drafter) if n > 0 => drafter.read(self.lookup.tokens(), n),
            _ => 0,
        }
    }

    /// Records that the drafter has read `n_tokens` tokens.
    pub fn record_read(&mut self, n_tokens: usize, took: Duration) {
        self.policy.record_read(n_tokens, took);
    }

    /// Returns how many tokens the drafter has to read before a draft, without those that it reads
    /// together with the draft; `None` if it cannot draft.
    fn n_to_read(&self) -> Option<usize> {
        let drafter = self.drafter.as_ref()?;
        let n_unread = drafter.n_unread(self.lookup.tokens())?;
        let is_behind = n_unread > MAX_UNREAD;
        Some(if is_behind { n_unread - 1 } else { 0 })
    }

    /// Returns the tokens to verify in the next step, together with the last token of the response:
    /// at most `max_tokens`, and none if a plain step is better.
    pub fn draft(&mut self, max_tokens: usize) -> &[u32] {
        self.clear_draft();
        let lookup = self.current.and_then(|current| {
            let choice = self.policy.choose(current.length, max_tokens)?;
            Some((current, choice))
        });
        let computed = match self.n_to_read() {
            Some(0) => self.policy.choose_drafter(0.0, max_tokens),
            _ => None,
        };
        match (lookup, computed) {
            (Some((current, choice)), other)
                if other.is_none_or(|other| choice.speedup >= other.speedup) =>
            {
                self.lookup
                    .draft(current, choice.n_drafted, &mut self.drafted);
            }
            (_, Some(choice)) => {
                if let Some(drafter) = &mut self.drafter {
                    let tokens = self.lookup.tokens();
                    drafter.propose(tokens, choice.n_drafted, &mut self.drafted);
                    self.is_by_drafter = true;
                }
            }
            (_, None) => {}
        }
        &self.drafted
    }

    /// Returns true if an engine that queues steps ahead should wait for the next token, because a
    /// draft of at most `max_tokens` after it is likely to pay.
    pub fn expects_draft(&self, max_tokens: usize) -> bool {
        let lookup = self.current;
        lookup.is_some_and(|current| self.policy.expects_draft(current.length, max_tokens))
            || self
                .n_to_read()
                .is_some_and(|n_unread| self.policy.expects_drafter(n_unread, max_tokens))
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
        if self.is_by_drafter
            && let Some(guess) = self.drafted.get(self.n_accepted)
        {
            self.policy.record_drafter_outcome(*guess == token);
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

    /// Records a finished step. `took` includes drafting, computing the step, sampling its tokens,
    /// and removing what was computed after a wrong draft token.
    pub fn record_step(&mut self, took: Duration) {
        let (n_drafted, n_accepted) = (self.drafted.len(), self.n_accepted);
        match self.is_by_drafter && n_drafted > 0 {
            true => self.policy.record_drafter_step(n_drafted, n_accepted, took),
            false => self.policy.record_step(n_drafted, n_accepted, took),
        }
        self.clear_draft();
    }

    /// Records a plain step that was not queued ahead because a draft was made or expected.
    pub fn record_unqueued_step(&mut self, took: Duration) {
        self.policy.record_unqueued_step(took);
        self.n_accepted = 0;
    }

    /// Ends a step whose draft came from elsewhere, such as a constraint. Nothing is learned from it.
    pub fn skip_step(&mut self) {
        self.clear_draft();
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
