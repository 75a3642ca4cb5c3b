//! The memory that a model needs, the memory budget of a machine, and whether a model fits.
//!
//! Estimates before a load and the decision at the load both use these types and numbers, so they
//! cannot disagree. Rule: everything here depends on numbers alone. It reads no file and queries no
//! system.

mod budget;
mod need;
mod working_set;

pub use budget::{Bound, BoundKind, Budget, MemoryFit, default_parked_bytes, memory_fit};
pub use need::{KvCacheChoice, MemoryNeed};
pub use working_set::usual_working_set;

/// The context length with which a model is loaded unless the user or the request sets one.
pub const DEFAULT_CONTEXT: u64 = 8192;

/// The shortest context length that is chosen automatically. With a shorter one, a question with a
/// page of text no longer fits.
pub const MIN_CONTEXT: u64 = 2048;

/// Context lengths are chosen in multiples of this, the step in which KV caches grow.
pub const CONTEXT_STEP: u64 = 256;
