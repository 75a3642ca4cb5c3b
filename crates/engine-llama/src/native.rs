//! Safe bindings of llama.cpp's C interface.
//!
//! All `unsafe` code that calls llama.cpp is in this module. It uses no wrapper crate, because
//! those lack a thread pool that outlives a step, stopping inside a step, and shifting the cache.
//!
//! Rule: values returned here cannot outlive what they point into. Callers must check token ids,
//! positions and files before they pass them.

mod batch;
mod context;
mod log;
mod model;
mod sequence_state;
mod thread_pool;
mod vocab;

pub(crate) use batch::Batch;
pub(crate) use context::{Context, ContextParams, StepError};
pub(crate) use log::{init, take_first_error};
pub(crate) use model::{Model, supports_gpu};
pub(crate) use sequence_state::part_of_state;
pub(crate) use thread_pool::ThreadPool;
pub(crate) use vocab::Vocab;

/// Maximum number of sequences in one context.
pub(crate) const MAX_SEQUENCES: usize = 16;

/// Converts a token id to llama.cpp's type. Ids are below the vocabulary's size, which is an `i32`.
pub(crate) fn signed(token: u32) -> i32 {
    i32::try_from(token).unwrap_or(i32::MAX)
}
