//! llama.cpp's C interface, made safe.
//!
//! Everything `unsafe` of this room is below here. Used directly rather than through a wrapper
//! crate, because the room needs what those leave out: a thread pool that outlives a step, stopping
//! inside a step, and shifting the cache.
//!
//! Rule: whatever is handed out here cannot outlive what it points into, and no function here may be
//! called with a token id, a position or a file that has not been checked.

mod batch;
mod context;
mod log;
mod model;
mod threads;
mod vocab;

pub(crate) use batch::Batch;
pub(crate) use context::{Context, ContextParams, StepError, WORDS_AT};
pub(crate) use log::{begin, first_error};
pub(crate) use model::{Model, supports_gpu};
pub(crate) use threads::Threads;
pub(crate) use vocab::Vocab;

/// A token id as llama.cpp keeps it. Ids are below the vocabulary's size, which is an `i32`.
pub(crate) fn signed(token: u32) -> i32 {
    i32::try_from(token).unwrap_or(i32::MAX)
}
