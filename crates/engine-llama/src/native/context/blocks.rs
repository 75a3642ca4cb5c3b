//! Copies consecutive tokens out of the cache of one sequence, and appends them to one, so that no more than
//! these tokens are in memory twice.
//!
//! llama.cpp copies whole sequences only. So the context has a second sequence that shares the cells of
//! the first one (`kv_unified`), and to which the cells of these tokens belong for a moment. That changes
//! none of them. Otherwise this sequence is empty, so it takes no memory, and a step is the same as without
//! it: there is one cache, with one mask and one graph, as long as no token belongs to it.
//!
//! Slicing the state of the whole sequence would need its copy in memory, and could restore nothing in
//! parts, because llama.cpp empties a sequence before it reads its state.
#![expect(unsafe_code, reason = "calls into C")]

use std::ops::Range;

use llama_cpp_sys_2 as sys;

use super::super::sequence_state::n_tokens;
use super::{Context, id, position};

/// The second sequence.
const SPARE: usize = 1;

impl Context {
    /// Returns a copy of the keys and values at `tokens` of the only sequence, in the form of
    /// [`Context::state`]. Returns `None` if it has not all of them, if the model does not attend to all
    /// tokens, or as [`Context::state`] does.
    pub(crate) fn block(&self, tokens: Range<usize>) -> Option<Vec<u8>> {
        if !self.has_blocks() {
            return None;
        }
        self.share_cells(0, SPARE, &tokens);
        let block = self.state(SPARE);
        let block = block.filter(|block| self.is_spare(&tokens, block));
        self.free_spare();
        block
    }

    /// Appends what [`Context::block`] returned for `tokens`, which follow those of the only sequence.
    /// Returns false if that failed; then nothing was appended.
    #[must_use]
    pub(crate) fn append_block(&mut self, tokens: &Range<usize>, block: &[u8]) -> bool {
        if !self.has_blocks() {
            return false;
        }
        // SAFETY: as in `set_state`.
        let n = unsafe {
            let context = self.context.as_ptr();
            sys::llama_state_seq_set_data(context, block.as_ptr(), block.len(), id(SPARE))
        };
        let is_whole = n == block.len() && self.is_spare(tokens, block);
        if is_whole {
            self.share_cells(SPARE, 0, tokens);
        }
        self.free_spare();
        is_whole
    }

    fn has_blocks(&self) -> bool {
        // SAFETY: see `set_n_threads`.
        let n = unsafe { sys::llama_n_seq_max(self.context.as_ptr()) };
        self.n_sequences == 1 && usize::try_from(n).is_ok_and(|n| n > SPARE)
    }

    /// Lets the cells at `tokens` of a sequence belong to another one too.
    fn share_cells(&self, from: usize, to: usize, tokens: &Range<usize>) {
        let (start, end) = (position(tokens.start), position(tokens.end));
        // SAFETY: see `set_n_threads`; the context has both sequences.
        unsafe { sys::llama_memory_seq_cp(self.memory(), id(from), id(to), start, end) }
    }

    /// Returns true if the spare sequence has exactly `tokens`, and `block` is its state.
    fn is_spare(&self, tokens: &Range<usize>, block: &[u8]) -> bool {
        // SAFETY: see `set_n_threads`.
        let (first, last) = unsafe {
            let memory = self.memory();
            let first = sys::llama_memory_seq_pos_min(memory, id(SPARE));
            (first, sys::llama_memory_seq_pos_max(memory, id(SPARE)))
        };
        n_tokens(block) == Some(tokens.len())
            && (first, last) == (position(tokens.start), position(tokens.end) - 1)
    }

    fn free_spare(&self) {
        // SAFETY: see `set_n_threads`. Any tokens can be removed if all layers attend to all.
        unsafe { sys::llama_memory_seq_rm(self.memory(), id(SPARE), -1, -1) };
    }
}
