//! The loop: prefill in chunks, then decode with one step always queued ahead.
//!
//! Token ids in, token ids out; text is `model`'s business. The order in [`Decoder::step`] is the
//! point of this file: step n+1 is queued before token n is waited for, so that the device works
//! while the token is turned into text and shown (as mlx-lm's `generate_step` does).

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::transforms::{async_eval, eval};
use transom_engine::generation::{Counts, Decode, Next};
use transom_engine::{EngineError, JobControl};

use crate::error::{Context, MlxResult};
use crate::kv_cache::FullKvCache;
use crate::memory::give_spare_memory_back;
use crate::nn::{Transformer, Wanted};
use crate::ops::synchronize;
use crate::sampler::Sampler;

/// Tokens whose keys and values the cache holds, and the cache: what the next turn can reuse.
#[derive(Debug)]
pub(crate) struct Session {
    tokens: Vec<u32>,
    cache: Vec<FullKvCache>,
}

impl Session {
    /// An empty session for `transformer`.
    pub(crate) fn new(transformer: &Transformer) -> Self {
        Self {
            tokens: Vec::new(),
            cache: transformer.new_cache(),
        }
    }

    /// A session that has processed `tokens`, of which each layer of `cache` holds all.
    pub(crate) fn holding(tokens: Vec<u32>, cache: Vec<FullKvCache>) -> Self {
        Self { tokens, cache }
    }

    /// The tokens processed so far.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Their keys and values, a cache a layer.
    pub(crate) fn cache(&self) -> &[FullKvCache] {
        &self.cache
    }

    /// Keeps what `prompt` shares with the tokens processed so far and forgets the rest. Returns
    /// the tokens kept, at least one fewer than `prompt` has: the last must be processed for its
    /// logits.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let shared = self
            .tokens
            .iter()
            .zip(prompt)
            .take_while(|(a, b)| a == b)
            .count();
        let kept = shared.min(prompt.len().saturating_sub(1));
        self.truncate(kept);
        kept
    }

    fn truncate(&mut self, n_tokens: usize) {
        self.tokens.truncate(n_tokens);
        for layer in &mut self.cache {
            layer.truncate(n_tokens as i32);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Bytes of the cache.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.iter().map(FullKvCache::bytes).sum()
    }
}

/// One answer in progress. Dropping it settles the device and leaves the session consistent.
pub(crate) struct Decoder<'a> {
    transformer: &'a Transformer,
    session: &'a mut Session,
    sampler: Sampler,
    n_cached: usize,
    pending: Pending,
}

/// The token that comes next.
enum Pending {
    /// Prefill has not finished.
    Nothing,
    /// Prefill gave it: it is known, and no step has been queued after it.
    First(Array),
    /// Handed out; the step that follows it has yet to be queued.
    Passed(Array),
    /// The device is at work on it.
    Queued(Array),
}

impl<'a> Decoder<'a> {
    /// Prepares to answer `prompt`, reusing what the session has of it.
    pub(crate) fn new(
        transformer: &'a Transformer,
        session: &'a mut Session,
        sampler: Sampler,
        prompt: &[u32],
    ) -> Self {
        let n_cached = session.reuse(prompt);
        Self {
            transformer,
            session,
            sampler,
            n_cached,
            pending: Pending::Nothing,
        }
    }

    fn prefill_chunk(&mut self, tokens: &[u32], is_last: bool) -> MlxResult<()> {
        let tokens = Array::from_slice(tokens, &[tokens.len() as i32]);
        let logits =
            self.transformer
                .forward(&tokens, &mut self.session.cache, Wanted::LastLogits)?;
        if is_last {
            let token = self.sampler.sample(&logits)?;
            eval([&token])?;
            self.pending = Pending::First(token);
        } else {
            // Only the cache is evaluated: logits of a chunk in the middle are never computed.
            eval(self.session.cache.iter().flat_map(FullKvCache::arrays))?;
        }
        Ok(())
    }

    /// The next token. `more` says whether another will be wanted after it.
    fn step(&mut self, more: bool) -> MlxResult<u32> {
        let token = match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => return Err(Exception::custom("nothing was prefilled")),
            // The first token is not kept waiting for the step after it.
            Pending::First(token) => {
                let value = known(&token)?;
                self.pending = Pending::Passed(token);
                return Ok(value);
            }
            Pending::Passed(previous) => {
                let token = self.queue_after(&previous)?;
                self.session.tokens.push(known(&previous)?);
                token
            }
            Pending::Queued(token) => token,
        };
        if !more {
            return known(&token);
        }
        self.pending = Pending::Queued(self.queue_after(&token)?);
        let value = known(&token)?;
        self.session.tokens.push(value);
        Ok(value)
    }

    /// Queues the step that processes `token`, and returns the token that it will give.
    fn queue_after(&mut self, token: &Array) -> MlxResult<Array> {
        let logits =
            self.transformer
                .forward(token, &mut self.session.cache, Wanted::LastLogits)?;
        let next = self.sampler.sample(&logits)?;
        async_eval([&next])?;
        Ok(next)
    }
}

impl Decode for Decoder<'_> {
    fn n_cached(&self) -> usize {
        self.n_cached
    }

    fn prefill(
        &mut self,
        prompt: &[u32],
        chunk: usize,
        control: &JobControl,
        mut on_progress: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        let mut done = self.n_cached;
        while done < prompt.len() {
            // Checked before the chunk, because a queued chunk has to be waited for.
            if control.is_stopped() {
                return Ok(());
            }
            let end = prompt.len().min(done + chunk.max(1));
            self.prefill_chunk(&prompt[done..end], end == prompt.len())
                .during("prefill")?;
            self.session.tokens.extend_from_slice(&prompt[done..end]);
            done = end;
            on_progress(done);
        }
        Ok(())
    }

    fn next(&mut self, room: usize, _: &JobControl) -> Result<Next, EngineError> {
        self.step(room > 1).map(Next::Token).during("decode")
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn give_spare_memory_back() {
        give_spare_memory_back();
    }
}

/// The value of a token `[1]`, waiting for it if need be.
fn known(token: &Array) -> MlxResult<u32> {
    token
        .try_item_exact::<u32>()
        .map_err(|error| Exception::custom(error.to_string()))
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        // Settle: nothing may be freed or reused while the device still works on it.
        self.pending = Pending::Nothing;
        if let Err(error) = synchronize() {
            tracing::error!(%error, "waiting for the device after an answer failed");
        }
        let n_tokens = self.session.tokens.len();
        for layer in &mut self.session.cache {
            layer.truncate(n_tokens as i32);
        }
    }
}
