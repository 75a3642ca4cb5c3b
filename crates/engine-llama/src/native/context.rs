//! A llama.cpp context: KV cache, compute buffers, and the step.
#![expect(unsafe_code, reason = "calls into C")]

use std::ffi::{CString, c_void};
use std::fs::File;
use std::io::{self, Seek};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering};

use llama_cpp_sys_2 as sys;
use transom_catalog::KvType;
use transom_engine::JobControl;

use super::sequence_state::{SEQUENCE_OFFSET, alone, beside_others};
use super::{Batch, Model, ThreadPool};

/// The part of a sequence's state that later tokens overwrite:
/// `LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`, a macro that the bindings omit.
const PARTIAL: sys::llama_state_seq_flags = 1;

/// llama.cpp allocates a cache for a multiple of this number of tokens.
const TOKENS_UNIT: usize = 256;

/// Bytes of a session file before its tokens: magic, version, and the number of tokens.
const TOKENS_OFFSET: u64 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextParams {
    /// Number of sequences, at most [`super::MAX_SEQUENCES`]; each has a cache of its own.
    pub(crate) n_sequences: usize,
    /// Capacity of each cache in tokens.
    pub(crate) n_tokens: usize,
    /// Maximum number of tokens per step.
    pub(crate) n_batch: usize,
    /// Maximum number of tokens per step that return logits.
    pub(crate) n_logits: usize,
    pub(crate) cache_type: KvType,
    /// Computes attention without storing the matrix of scores.
    pub(crate) flash_attention: bool,
    /// Steps return pooled vectors; see [`Context::set_embeds`].
    pub(crate) embeds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepError {
    Stopped,
    /// llama.cpp failed with this code.
    Failed(i32),
}

/// The caches of one sequence or of several, and the buffers of a step.
///
/// The methods without a sequence are about sequence 0.
#[derive(Debug)]
pub(crate) struct Context {
    context: NonNull<sys::llama_context>,
    n_sequences: usize,
    n_tokens: usize,
    /// The job of the running step, for `should_abort`; null between steps.
    job: Box<AtomicPtr<JobControl>>,
    // Dropped after the context, which uses both.
    _threads: Rc<ThreadPool>,
    model: Rc<Model>,
}

impl Context {
    /// Creates a context. Returns `None` if it does not fit into memory or the model does not
    /// support the parameters; `log` has the reason.
    pub(crate) fn new(
        model: Rc<Model>,
        threads: Rc<ThreadPool>,
        params: ContextParams,
    ) -> Option<Self> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let n_threads = i32::try_from(threads.len()).unwrap_or(1);
        let job = Box::new(AtomicPtr::new(std::ptr::null_mut()));
        // SAFETY: the model is alive, and `self` keeps it, the threads and `job` alive for longer
        // than the context.
        let context = unsafe {
            let mut raw = sys::llama_context_default_params();
            // llama.cpp rounds up the tokens of each sequence, not of all.
            let n_tokens = match params.n_sequences {
                1 => params.n_tokens,
                _ => params.n_tokens.next_multiple_of(TOKENS_UNIT),
            };
            raw.n_ctx = count(n_tokens.saturating_mul(params.n_sequences));
            raw.n_batch = count(params.n_batch);
            raw.n_ubatch = count(params.n_batch);
            // See `blocks`.
            let has_spare = params.n_sequences == 1 && model.attends_to_all() && !params.embeds;
            raw.n_seq_max = count(params.n_sequences + usize::from(has_spare));
            raw.kv_unified = has_spare;
            raw.n_outputs_max = count(params.n_logits);
            raw.n_threads = n_threads;
            raw.n_threads_batch = n_threads;
            raw.type_k = raw_type(params.cache_type);
            raw.type_v = raw_type(params.cache_type);
            raw.flash_attn_type = if params.flash_attention {
                sys::LLAMA_FLASH_ATTN_TYPE_ENABLED
            } else {
                sys::LLAMA_FLASH_ATTN_TYPE_DISABLED
            };
            raw.embeddings = params.embeds;
            raw.no_perf = true;
            // Layers with a sliding window keep all tokens too. Otherwise no part of a conversation
            // could be removed, and every turn would need a full prefill.
            raw.swa_full = true;
            raw.abort_callback = Some(should_abort);
            raw.abort_callback_data = (&raw const *job).cast_mut().cast::<c_void>();
            let context = NonNull::new(sys::llama_init_from_model(model.as_ptr(), raw))?;
            let pool = threads.as_ptr();
            sys::llama_attach_threadpool(context.as_ptr(), pool, pool);
            context
        };
        Some(Self {
            context,
            n_sequences: params.n_sequences,
            n_tokens: params.n_tokens,
            job,
            _threads: threads,
            model,
        })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.n_tokens
    }

    /// Sets how many of the pool's threads compute the next steps.
    pub(crate) fn set_n_threads(&mut self, n: usize) {
        let n = i32::try_from(n).unwrap_or(1).max(1);
        // SAFETY: the context is alive; so in all functions below.
        unsafe { sys::llama_set_n_threads(self.context.as_ptr(), n, n) }
    }

    /// Processes a batch. Stops inside it, where the device can, when `job` is stopped. After an
    /// error the cache may hold any part of the batch; the caller must [`Context::remove`] it.
    pub(crate) fn step(&mut self, batch: &mut Batch, job: &JobControl) -> Result<(), StepError> {
        self.job
            .store((&raw const *job).cast_mut(), Ordering::Release);
        // SAFETY: the batch points into vectors of one length that live for the call; its ids and
        // positions were checked by the caller, as the head of `native` demands.
        let code = unsafe { sys::llama_decode(self.context.as_ptr(), batch.as_raw()) };
        self.job.store(std::ptr::null_mut(), Ordering::Release);
        match code {
            0 => Ok(()),
            2 => Err(StepError::Stopped),
            code => Err(StepError::Failed(code)),
        }
    }

    /// Returns the logits of the `index`-th token of the last batch, one per token of the
    /// vocabulary. `None` if the batch did not request them.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        let index = i32::try_from(index).ok()?;
        let n_vocab = self.model.vocab().len();
        // SAFETY: llama.cpp returns null for an index without logits, else a row of the vocabulary's
        // length that stays as it is until the next step, which needs `&mut self`.
        unsafe {
            let row = sys::llama_get_logits_ith(self.context.as_ptr(), index);
            (!row.is_null()).then(|| std::slice::from_raw_parts(row, n_vocab))
        }
    }

    /// Sets whether the next steps return the pooled vector of their tokens, as the file says how to
    /// pool. Such a step has an output for each token.
    pub(crate) fn set_embeds(&mut self, embeds: bool) {
        // SAFETY: see `set_n_threads`.
        unsafe { sys::llama_set_embeddings(self.context.as_ptr(), embeds) }
    }

    /// Returns true if a token attends only to those before it.
    pub(crate) fn is_causal(&self) -> bool {
        // SAFETY: see `set_n_threads`.
        unsafe { sys::llama_get_causal_attn(self.context.as_ptr()) }
    }

    /// Returns the pooled vector of the last step; `None` if it did not embed.
    pub(crate) fn embedding(&self) -> Option<&[f32]> {
        let n_values = self.model.embedding_size();
        // SAFETY: llama.cpp waits for the step and returns null if there is no vector, else one of the
        // model's output size that stays as it is until the next step, which needs `&mut self`.
        unsafe {
            let vector = sys::llama_get_embeddings_seq(self.context.as_ptr(), 0);
            (!vector.is_null()).then(|| std::slice::from_raw_parts(vector, n_values))
        }
    }

    /// Waits until the last step has finished.
    pub(crate) fn synchronize(&self) {
        // SAFETY: see `set_n_threads`.
        unsafe { sys::llama_synchronize(self.context.as_ptr()) }
    }

    pub(crate) fn clear(&mut self) {
        // SAFETY: see `set_n_threads`.
        unsafe { sys::llama_memory_clear(self.memory(), false) }
    }

    /// Removes the tokens at `range` of a sequence, which leaves a gap. Returns false if the model
    /// cannot do that; then nothing has changed.
    #[must_use]
    pub(crate) fn remove(&mut self, sequence: usize, range: Range<usize>) -> bool {
        let (start, end) = (position(range.start), position(range.end));
        // SAFETY: see `set_n_threads`; llama.cpp checks the id of the sequence.
        unsafe { sys::llama_memory_seq_rm(self.memory(), id(sequence), start, end) }
    }

    /// Returns true if layers with a sliding window still have the tokens that a token at position
    /// `n` sees, where `n` is the number of tokens.
    pub(crate) fn has_window_before(&self, n: usize) -> bool {
        n == 0 || n >= self.first_rewind()
    }

    /// Returns the lowest number of tokens, other than 0, for which [`Context::has_window_before`] is
    /// true.
    ///
    /// Layers with a sliding window may not have all tokens, although they have space for them: after
    /// a state was restored or tokens were moved, llama.cpp searches free cells from the start, and
    /// reuses those that left the window.
    pub(crate) fn first_rewind(&self) -> usize {
        let window = self.model.sliding_window();
        if window == 0 {
            return 0;
        }
        // SAFETY: see `set_n_threads`.
        let first = unsafe { sys::llama_memory_seq_pos_min(self.memory(), 0) };
        match usize::try_from(first) {
            Ok(0) => 0,
            Ok(first) => first + window - 1,
            // -1 if such layers have no tokens left.
            Err(_) => usize::MAX,
        }
    }

    pub(crate) fn can_shift(&self) -> bool {
        // SAFETY: see `set_n_threads`.
        unsafe { sys::llama_memory_can_shift(self.memory()) }
    }

    /// Moves the tokens at `range` down by `by` positions, into a gap. The cache must support it.
    /// The next step rotates their keys.
    pub(crate) fn shift_down(&mut self, range: Range<usize>, by: usize) {
        let (start, end) = (position(range.start), position(range.end));
        // SAFETY: see `set_n_threads`; the caller has asked `can_shift`.
        unsafe { sys::llama_memory_seq_add(self.memory(), 0, start, end, -position(by)) }
    }

    /// Returns a copy of the contents of a sequence's cache, in llama.cpp's own form. Returns `None` if
    /// there is not enough memory for it, or if llama.cpp fails. Keys whose rotation is pending are
    /// written wrongly, so a step must come between [`Context::shift_down`] and this.
    ///
    /// If layers have a window or a recurrent state, it is the state of the whole context, so this must
    /// have one sequence: llama.cpp omits tokens outside the window from a sequence's state, and
    /// rewinding needs them.
    pub(crate) fn state(&self, sequence: usize) -> Option<Vec<u8>> {
        let n_bytes = self.state_size(sequence);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(n_bytes).ok()?;
        let start = bytes.as_mut_ptr();
        // SAFETY: the buffer has space for the length that llama.cpp is told, and llama.cpp has
        // written the number of bytes that it returns.
        unsafe {
            let context = self.context.as_ptr();
            let n = match self.model.attends_to_all() {
                true => sys::llama_state_seq_get_data(context, start, n_bytes, id(sequence)),
                false => sys::llama_state_get_data(context, start, n_bytes),
            };
            bytes.set_len(n.min(n_bytes));
        }
        let is_whole = n_bytes > 0 && bytes.len() == n_bytes;
        is_whole.then(|| alone(bytes, sequence, self.n_sequences))
    }

    /// Returns the length in bytes of [`Context::state`], or a few more.
    pub(crate) fn state_size(&self, sequence: usize) -> usize {
        let context = self.context.as_ptr();
        // SAFETY: see `set_n_threads`.
        unsafe {
            match self.model.attends_to_all() {
                true => sys::llama_state_seq_get_size(context, id(sequence)),
                false => sys::llama_state_get_size(context),
            }
        }
    }

    /// Restores what [`Context::state`] returned for a sequence of any context of this model. Returns
    /// false if that failed; then the cache of `sequence` is empty.
    #[must_use]
    pub(crate) fn set_state(&mut self, sequence: usize, bytes: &[u8]) -> bool {
        let bytes = beside_others(bytes, sequence, self.n_sequences);
        let context = self.context.as_ptr();
        let (start, n_bytes) = (bytes.as_ptr(), bytes.len());
        // SAFETY: llama.cpp reads no further than the length that it is told, and refuses a state of
        // other layers, sizes or types.
        let n = unsafe {
            match self.model.attends_to_all() {
                true => sys::llama_state_seq_set_data(context, start, n_bytes, id(sequence)),
                false => sys::llama_state_set_data(context, start, n_bytes),
            }
        };
        self.empty_unless(n == n_bytes, sequence)
    }

    /// Writes [`Context::state`] to an empty file, layer by layer, in the format of llama.cpp's
    /// session files. The file may have no name.
    ///
    /// # Errors
    /// The system's error, or that llama.cpp could not write everything.
    pub(crate) fn save_file(&self, file: &File) -> io::Result<()> {
        let c_path = path_of(file)?;
        let (context, path) = (self.context.as_ptr(), c_path.as_ptr());
        let tokens = NonNull::dangling().as_ptr();
        // SAFETY: the path ends in a zero, and no tokens are read.
        let (is_written, n_omitted) = unsafe {
            match self.model.attends_to_all() {
                true => {
                    let n = sys::llama_state_seq_save_file(context, path, 0, tokens, 0);
                    (n > 0, SEQUENCE_OFFSET as u64)
                }
                false => (sys::llama_state_save_file(context, path, tokens, 0), 0),
            }
        };
        // llama.cpp does not check whether the last bytes reached the disk.
        let n_bytes = TOKENS_OFFSET + self.state_size(0) as u64 - n_omitted;
        if is_written && file.metadata()?.len() == n_bytes {
            Ok(())
        } else {
            Err(io::Error::other("llama.cpp could not write all of it"))
        }
    }

    /// Restores the state from a file that [`Context::save_file`] wrote. Returns false if that
    /// failed; then the cache is empty. The caller must trust the file, as llama.cpp does.
    #[must_use]
    pub(crate) fn load_file(&mut self, file: &File) -> bool {
        let Ok(c_path) = path_of(file) else {
            return self.empty_unless(false, 0);
        };
        let (context, path) = (self.context.as_ptr(), c_path.as_ptr());
        let tokens = NonNull::dangling().as_ptr();
        let mut n_read = 0;
        let count = &raw mut n_read;
        // SAFETY: the path ends in a zero; llama.cpp writes no token where there is space for none.
        let is_whole = unsafe {
            match self.model.attends_to_all() {
                true => sys::llama_state_seq_load_file(context, path, 0, tokens, 0, count) > 0,
                false => sys::llama_state_load_file(context, path, tokens, 0, count),
            }
        };
        self.empty_unless(is_whole && n_read == 0, 0)
    }

    /// Returns only the current recurrent states.
    pub(crate) fn recurrent_state(&self) -> Vec<u8> {
        // SAFETY: as in `state`.
        unsafe {
            let context = self.context.as_ptr();
            let mut bytes = vec![0; sys::llama_state_seq_get_size_ext(context, 0, PARTIAL)];
            let start = bytes.as_mut_ptr();
            let n = sys::llama_state_seq_get_data_ext(context, start, bytes.len(), 0, PARTIAL);
            bytes.truncate(n);
            bytes
        }
    }

    /// Restores what [`Context::recurrent_state`] returned; keys and values of attention layers do
    /// not change. Returns false if that failed; then the cache is empty.
    #[must_use]
    pub(crate) fn set_recurrent_state(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: as in `set_state`.
        let n = unsafe {
            let context = self.context.as_ptr();
            sys::llama_state_seq_set_data_ext(context, bytes.as_ptr(), bytes.len(), 0, PARTIAL)
        };
        self.empty_unless(n == bytes.len(), 0)
    }

    /// Empties the cache of a sequence unless it was restored as a whole.
    fn empty_unless(&mut self, is_whole: bool, sequence: usize) -> bool {
        if is_whole {
            return true;
        }
        // A cache of any kind can be cleared as a whole.
        if !self.remove(sequence, 0..usize::MAX) || !self.model.attends_to_all() {
            self.clear();
        }
        false
    }

    fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: see `set_n_threads`.
        unsafe { sys::llama_get_memory(self.context.as_ptr()) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `llama_init_from_model`; what it uses is dropped after it.
        unsafe { sys::llama_free(self.context.as_ptr()) }
    }
}

fn raw_type(kind: KvType) -> sys::ggml_type {
    match kind {
        KvType::F16 => sys::GGML_TYPE_F16,
        KvType::Q8_0 => sys::GGML_TYPE_Q8_0,
    }
}

fn id(sequence: usize) -> sys::llama_seq_id {
    sys::llama_seq_id::try_from(sequence).unwrap_or(sys::llama_seq_id::MAX)
}

fn position(n: usize) -> sys::llama_pos {
    sys::llama_pos::try_from(n).unwrap_or(sys::llama_pos::MAX)
}

unsafe extern "C" fn should_abort(job: *mut c_void) -> bool {
    // SAFETY: `Context::new` passes its `job`, which lives as long as the context. What it points to
    // is null or the control of the step that this is called from, which borrows it.
    unsafe {
        let job = (*job.cast::<AtomicPtr<JobControl>>()).load(Ordering::Acquire);
        job.as_ref().is_some_and(JobControl::is_stopped)
    }
}

/// Returns a path that opens `file` from its start, even if it has no name.
fn path_of(mut file: &File) -> io::Result<CString> {
    // On macOS the opened file has the same position as this one.
    file.rewind()?;
    let folder = match cfg!(target_os = "linux") {
        true => "/proc/self/fd",
        false => "/dev/fd",
    };
    Ok(CString::new(format!("{folder}/{}", file.as_raw_fd()))?)
}

mod blocks;
