//! The input tokens of a step.

use llama_cpp_sys_2 as sys;

use super::{MAX_SEQUENCES, signed};

/// Consecutive tokens of one sequence or of several, and which of them return logits.
#[derive(Debug)]
pub(crate) struct Batch {
    tokens: Vec<sys::llama_token>,
    positions: Vec<sys::llama_pos>,
    n_sequences: Vec<i32>,
    sequences: Vec<*mut sys::llama_seq_id>,
    wants_logits: Vec<i8>,
    /// The id of each sequence, which `sequences` points to.
    ids: Box<[sys::llama_seq_id]>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            positions: Vec::new(),
            n_sequences: Vec::new(),
            sequences: Vec::new(),
            wants_logits: Vec::new(),
            ids: (0..).take(MAX_SEQUENCES).collect(),
        }
    }
}

impl Batch {
    /// Replaces the contents with `tokens` of sequence 0, which follow `n_before` others. The last
    /// `n_logits` of them return logits.
    pub(crate) fn fill(&mut self, tokens: &[u32], n_before: usize, n_logits: usize) {
        self.clear();
        self.add(0, tokens, n_before, n_logits);
    }

    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.n_sequences.clear();
        self.sequences.clear();
        self.wants_logits.clear();
    }

    /// Adds `tokens` of a sequence below [`MAX_SEQUENCES`], as [`Batch::fill`] does.
    pub(crate) fn add(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        n_before: usize,
        n_logits: usize,
    ) {
        let n = tokens.len();
        self.tokens
            .extend(tokens.iter().map(|&token| signed(token)));
        let position = |index: usize| i32::try_from(n_before + index).unwrap_or(i32::MAX);
        self.positions.extend((0..n).map(position));
        self.n_sequences.resize(self.tokens.len(), 1);
        let id = &raw mut self.ids[sequence];
        self.sequences.resize(self.tokens.len(), id);
        let first = n.saturating_sub(n_logits);
        self.wants_logits
            .extend((0..n).map(|index| i8::from(index >= first)));
    }

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the batch in C's form, which points into `self`.
    pub(super) fn as_raw(&mut self) -> sys::llama_batch {
        sys::llama_batch {
            n_tokens: i32::try_from(self.tokens.len()).unwrap_or(i32::MAX),
            token: self.tokens.as_mut_ptr(),
            embd: std::ptr::null_mut(),
            pos: self.positions.as_mut_ptr(),
            n_seq_id: self.n_sequences.as_mut_ptr(),
            seq_id: self.sequences.as_mut_ptr(),
            logits: self.wants_logits.as_mut_ptr(),
        }
    }
}
