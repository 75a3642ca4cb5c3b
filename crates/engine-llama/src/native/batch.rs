//! The input tokens of a step.

use llama_cpp_sys_2 as sys;

use super::signed;

/// Consecutive tokens of the only sequence, and which of them return logits.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    tokens: Vec<sys::llama_token>,
    positions: Vec<sys::llama_pos>,
    n_sequences: Vec<i32>,
    sequences: Vec<*mut sys::llama_seq_id>,
    wants_logits: Vec<i8>,
    sequence: Box<sys::llama_seq_id>,
}

impl Batch {
    /// Replaces the contents with `tokens`, which follow `n_before` others. The last `n_logits` of
    /// them return logits.
    pub(crate) fn fill(&mut self, tokens: &[u32], n_before: usize, n_logits: usize) {
        let n = tokens.len();
        self.tokens.clear();
        self.tokens
            .extend(tokens.iter().map(|&token| signed(token)));
        self.positions.clear();
        let position = |index: usize| i32::try_from(n_before + index).unwrap_or(i32::MAX);
        self.positions.extend((0..n).map(position));
        self.n_sequences.resize(n, 1);
        self.sequences.resize(n, &raw mut *self.sequence);
        self.wants_logits.clear();
        let first = n.saturating_sub(n_logits);
        self.wants_logits
            .extend((0..n).map(|index| i8::from(index >= first)));
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
