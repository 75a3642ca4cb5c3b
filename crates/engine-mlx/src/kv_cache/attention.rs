//! The keys and values of an attention layer: of all tokens, or of the last ones if the layer has a
//! sliding window.
//!
//! Without a window, the buffer grows. With one, the buffer is filled from its start, and when it is
//! full, the tokens that are still needed move to the start of a new one. So keys stay in the order
//! of the text, decoding needs no mask, and only one step in 256 copies.
//!
//! New tokens are written to the memory of the buffer, although a step in flight may still read it, and
//! the buffer of a checkpoint may be the same.
//!
//! Rule: whoever reads a buffer later reads only tokens before those that are written. So a fork is
//! computed before the next step, and a rewind drops the checkpoints after its position.
//!
//! Rule: the memory of a window never depends on the length of the text.
//!
//! Rule: only caches of parked conversations are quantized, so a step never reads 8 bits.

mod parked;

use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};
use transom_catalog::fit::mlx;

use super::quantized::Quantized;
use super::{grow, write, zeros};
use crate::error::MlxResult;
use crate::ops::slice_axis;

/// Tokens kept in addition to the window.
const SLACK: i32 = mlx::WINDOW_SLACK as i32;

/// Returns the capacity of a buffer that holds `n_tokens` of a layer with this window.
///
/// MLX's attention on CUDA (0.32) reads a part of a buffer with whole steps from the start of the
/// buffer, so a buffer from which tokens have left the window must have another capacity.
fn capacity(window: Option<i32>, n_tokens: i32) -> i32 {
    let capacity = match window {
        Some(window) => mlx::windowed_capacity(n_tokens as u64, window as u64),
        None => mlx::capacity(n_tokens as u64),
    };
    capacity as i32
}

fn max_capacity(window: i32) -> i32 {
    capacity(Some(window), i32::MAX)
}

/// Returns the number of tokens that move from a full buffer to a new one.
fn n_moved(window: i32) -> i32 {
    n_needed(window) + SLACK
}

/// Returns the number of earlier tokens that a token attends to; at least one, so that a cache
/// always has arrays.
fn n_needed(window: i32) -> i32 {
    (window - 1).max(1)
}

/// Keys and values, `[1, n_kv_heads, capacity, head_dim]`, of consecutive tokens.
#[derive(Debug, Clone)]
struct Buffer {
    start: i32,
    keys: Array,
    values: Array,
}

impl Buffer {
    fn arrays(&self) -> [&Array; 2] {
        [&self.keys, &self.values]
    }

    fn bytes(&self) -> u64 {
        let arrays = self.arrays().into_iter();
        arrays.map(|array| array.nbytes() as u64).sum()
    }

    /// Returns true if the buffer has all keys that the token at position `n_tokens` attends to.
    fn covers(&self, n_tokens: i32, window: Option<i32>) -> bool {
        let n_before = n_tokens - self.start;
        self.start == 0 || window.is_some_and(|window| n_before >= n_needed(window))
    }
}

/// A position to which the cache can rewind.
#[derive(Debug)]
struct Checkpoint {
    n_tokens: i32,
    /// The buffer that a new one replaced after this position; `None` while it is in use.
    old_buffer: Option<Buffer>,
}

#[derive(Debug)]
pub(crate) struct AttentionCache {
    /// Tokens that a token attends to, itself included; `None` for all.
    pub(super) window: Option<i32>,
    pub(super) n_tokens: i32,
    /// Keys and values of the first tokens, while the conversation is parked; never with a window.
    quantized: Option<[Quantized; 2]>,
    /// Without a window, all other tokens.
    buffer: Option<Buffer>,
    checkpoints: Vec<Checkpoint>,
}

impl AttentionCache {
    /// Returns an empty cache for attention with this window, or for full attention.
    pub(crate) fn new(window: Option<i32>) -> Self {
        Self {
            window: window.map(|window| window.max(1)),
            n_tokens: 0,
            quantized: None,
            buffer: None,
            checkpoints: Vec::new(),
        }
    }

    /// See [`super::LayerCache::append`]. With a window, returns the keys and values of the new
    /// tokens and of the `window - 1` tokens before them, or as many as there are.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> MlxResult<(Array, Array)> {
        if self.quantized.is_some() {
            return Err(Exception::custom(
                "a quantized cache must be dequantized first",
            ));
        }
        let n_new = keys.dim(2);
        let start = self.buffer.as_ref().map_or(self.n_tokens, |old| old.start);
        let n_held = self.n_tokens - start;
        let end = n_held + n_new;
        let mut first_seen = 0;
        if let Some(window) = self.window {
            if end > max_capacity(window) {
                return self.append_to_new_buffer(keys, values, n_held, window);
            }
            first_seen = (n_held - (window - 1)).max(0);
        }
        let capacity = capacity(self.window, end);
        let (old_keys, old_values) = match self.buffer.take() {
            Some(old) if old.keys.dim(2) >= end => (old.keys, old.values),
            Some(old) => (
                grow(&old.keys, n_held, capacity)?,
                grow(&old.values, n_held, capacity)?,
            ),
            None => (zeros(keys, capacity)?, zeros(values, capacity)?),
        };
        let keys = write(&old_keys, keys, n_held, end)?;
        let values = write(&old_values, values, n_held, end)?;
        let seen = (
            slice_axis(&keys, 2, first_seen, end)?,
            slice_axis(&values, 2, first_seen, end)?,
        );
        self.buffer = Some(Buffer {
            start,
            keys,
            values,
        });
        self.n_tokens += n_new;
        Ok(seen)
    }

    fn append_to_new_buffer(
        &mut self,
        keys: &Array,
        values: &Array,
        n_held: i32,
        window: i32,
    ) -> MlxResult<(Array, Array)> {
        let old = self.buffer.take();
        let n_old = n_held.min(n_moved(window));
        let n_all = n_old + keys.dim(2);
        let n_kept = n_all.min(n_moved(window));
        let n_seen = n_held.min(window - 1) + keys.dim(2);
        // Returns the seen part and the new buffer.
        let replace = |old: Option<&Array>, new: &Array| -> MlxResult<(Array, Array)> {
            let all = match old {
                Some(old) => {
                    let old = slice_axis(old, 2, n_held - n_old, n_held)?;
                    ops::concatenate(&[&old, new], 2)?
                }
                None => new.clone(),
            };
            let kept = slice_axis(&all, 2, n_all - n_kept, n_all)?;
            let buffer = grow(&kept, n_kept, max_capacity(window))?;
            // From the buffer if possible, so that this step computes it and `all` is freed.
            let seen = match n_seen <= n_kept {
                true => slice_axis(&buffer, 2, n_kept - n_seen, n_kept)?,
                false => slice_axis(&all, 2, n_all - n_seen, n_all)?,
            };
            Ok((seen, buffer))
        };
        let (seen_keys, new_keys) = replace(old.as_ref().map(|old| &old.keys), keys)?;
        let (seen_values, new_values) = replace(old.as_ref().map(|old| &old.values), values)?;
        if let Some(old) = old {
            // The checkpoints since the start of this buffer need it.
            for checkpoint in &mut self.checkpoints {
                checkpoint.old_buffer.get_or_insert_with(|| old.clone());
            }
        }
        self.n_tokens += keys.dim(2);
        self.buffer = Some(Buffer {
            start: self.n_tokens - n_kept,
            keys: new_keys,
            values: new_values,
        });
        Ok((seen_keys, seen_values))
    }

    pub(crate) fn growing_bytes(&self, n_new: i32) -> u64 {
        let fits = |buffer: &Buffer| self.n_tokens - buffer.start + n_new <= buffer.keys.dim(2);
        let full = self.buffer.as_ref().filter(|buffer| !fits(buffer));
        full.map_or(0, Buffer::bytes)
    }

    pub(crate) fn rewind_target(&self, n_tokens: i32) -> i32 {
        if self.quantized.is_some() {
            return n_tokens;
        }
        let covers = |buffer: &Buffer, n| buffer.covers(n, self.window);
        if self.buffer.as_ref().is_some_and(|b| covers(b, n_tokens)) {
            return n_tokens;
        }
        let targets = self.checkpoints.iter().filter_map(|checkpoint| {
            let target = checkpoint.n_tokens.min(n_tokens);
            let old = checkpoint.old_buffer.as_ref()?;
            covers(old, target).then_some(target)
        });
        targets.max().unwrap_or(0)
    }

    pub(crate) fn rewind(&mut self, n_tokens: i32) {
        let window = self.window;
        let covers = |buffer: &Buffer| buffer.covers(n_tokens, window);
        if n_tokens == 0 {
            self.quantized = None;
            self.buffer = None;
        } else if let Some([keys, _]) = &self.quantized {
            // The rest of its last block goes when the cache is dequantized.
            if n_tokens <= keys.n_tokens() {
                self.buffer = None;
            }
        } else if !self.buffer.as_ref().is_some_and(covers) {
            let checkpoint = self.checkpoints.iter_mut().find(|checkpoint| {
                checkpoint.n_tokens >= n_tokens
                    && checkpoint.old_buffer.as_ref().is_some_and(covers)
            });
            // The buffer of the checkpoint is in use again.
            self.buffer = checkpoint.and_then(|checkpoint| checkpoint.old_buffer.take());
        }
        debug_assert!(
            n_tokens == 0 || self.quantized.is_some() || self.buffer.is_some(),
            "cannot rewind to {n_tokens}"
        );
        self.checkpoints
            .retain(|checkpoint| checkpoint.n_tokens <= n_tokens);
        self.n_tokens = n_tokens;
    }

    pub(crate) fn add_checkpoint(&mut self, n_checkpoints: usize) {
        if self.window.is_none() {
            // The cache can rewind to every position.
            return;
        }
        let n_tokens = self.n_tokens;
        let last = self.checkpoints.last();
        if last.is_none_or(|last| last.n_tokens != n_tokens) {
            self.checkpoints.push(Checkpoint {
                n_tokens,
                old_buffer: None,
            });
        }
        let n_old = self.checkpoints.len().saturating_sub(n_checkpoints);
        self.checkpoints.drain(..n_old);
    }

    pub(crate) fn checkpoints(&self) -> Vec<i32> {
        let checkpoints = self.checkpoints.iter();
        checkpoints.map(|checkpoint| checkpoint.n_tokens).collect()
    }

    /// Returns the size of a full buffer in bytes, of which every checkpoint may need one.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let Some(window) = self.window else {
            return 0;
        };
        let per_token = |array: &Array| array.nbytes() as u64 / array.dim(2).max(1) as u64;
        let per_token: u64 = self.arrays().map(per_token).sum();
        per_token * max_capacity(window) as u64
    }

    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        let quantized = self.quantized.iter().flatten().flat_map(Quantized::arrays);
        quantized.chain(self.buffer.iter().flat_map(Buffer::arrays))
    }

    /// Returns the size of the checkpoints' buffers in bytes; a buffer of two checkpoints counts
    /// once.
    pub(crate) fn bytes_of_checkpoints(&self) -> u64 {
        let mut counted = Vec::new();
        let mut bytes = 0;
        for old in self.old_buffers() {
            if !counted.contains(&old.start) {
                counted.push(old.start);
                bytes += old.bytes();
            }
        }
        bytes
    }

    fn old_buffers(&self) -> impl Iterator<Item = &Buffer> {
        let checkpoints = self.checkpoints.iter();
        checkpoints.filter_map(|checkpoint| checkpoint.old_buffer.as_ref())
    }

    /// Returns the number of tokens to save in a file: those that the next token attends to.
    pub(crate) fn n_saved(&self, n_tokens: i32) -> i32 {
        let n_needed = self.window.map_or(n_tokens, n_needed);
        n_tokens.min(n_needed)
    }

    /// Returns a buffer with all keys that the token at position `n_tokens` attends to.
    fn buffer_at(&self, n_tokens: i32) -> Option<&Buffer> {
        // A buffer that was replaced between two checkpoints lacks the tokens of the later one.
        let old = self.checkpoints.iter();
        let old = old.filter(|checkpoint| checkpoint.n_tokens >= n_tokens);
        let old = old.filter_map(|checkpoint| checkpoint.old_buffer.as_ref());
        let covers =
            |buffer: &&Buffer| buffer.covers(n_tokens, self.window) && n_tokens > buffer.start;
        self.buffer.iter().chain(old).find(covers)
    }

    /// Returns a cache of the first `n_tokens` tokens, which [`Self::rewind_target`] returned, with
    /// a buffer of its own and without checkpoints.
    pub(crate) fn fork(&self, n_tokens: i32) -> MlxResult<Self> {
        if self.quantized.is_some() && n_tokens > 0 {
            return self.dequantized(n_tokens);
        }
        let Some(buffer) = self.buffer_at(n_tokens) else {
            return Ok(Self::new(self.window));
        };
        let end = n_tokens - buffer.start;
        let n_copied = self.window.map_or(end, |window| end.min(n_moved(window)));
        let capacity = match self.window {
            Some(window) if n_copied < n_tokens => max_capacity(window),
            window => capacity(window, n_tokens + 1),
        };
        let copy = |array: &Array| {
            let copied = slice_axis(array, 2, end - n_copied, end)?;
            grow(&copied, n_copied, capacity)
        };
        let buffer = Some(Buffer {
            start: n_tokens - n_copied,
            keys: copy(&buffer.keys)?,
            values: copy(&buffer.values)?,
        });
        Ok(Self {
            n_tokens,
            buffer,
            ..Self::new(self.window)
        })
    }

    pub(crate) fn saved(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        let Some(buffer) = self.buffer_at(n_tokens) else {
            return Ok(Vec::new());
        };
        let end = n_tokens - buffer.start;
        let start = end - self.n_saved(n_tokens);
        let saved = |array: &Array| slice_axis(array, 2, start, end);
        buffer.arrays().into_iter().map(saved).collect()
    }

    pub(crate) fn reserved(&self, n_tokens: i32) -> MlxResult<Self> {
        let reserve = |like: &Array| zeros(like, capacity(self.window, n_tokens + 1));
        let mut reserved = Self::new(self.window);
        if let Some(like) = &self.buffer {
            reserved.buffer = Some(Buffer {
                start: 0,
                keys: reserve(&like.keys)?,
                values: reserve(&like.values)?,
            });
        }
        Ok(reserved)
    }

    pub(crate) fn restore(&self, n_tokens: i32, [keys, values]: [Array; 2]) -> Self {
        let buffer = Some(Buffer {
            start: n_tokens - keys.dim(2),
            keys,
            values,
        });
        Self {
            n_tokens,
            buffer,
            ..Self::new(self.window)
        }
    }

    pub(crate) fn add_restored_checkpoint(&mut self, other: Self) {
        self.checkpoints.push(Checkpoint {
            n_tokens: other.n_tokens,
            old_buffer: other.buffer,
        });
    }
}
