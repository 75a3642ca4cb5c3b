//! The memory that a model needs, the memory that models may use together, and whether a model fits.
//!
//! Estimates before a load and the decision at the load both use these types and numbers, so they
//! cannot disagree. Rule: everything here depends on numbers alone. It reads no file and asks no
//! system.

mod budget;
mod need;

pub use budget::{Bound, BoundKind, Budget, Verdict, decide};
pub use need::{KvCacheChoice, MemoryNeed};

/// Tokens of context that a model is loaded with unless somebody chose.
pub const DEFAULT_CONTEXT: u64 = 8192;

/// Fewest tokens of context that are chosen without asking a person: with fewer, a question with a
/// page of text no longer fits.
pub const LEAST_CONTEXT: u64 = 2048;

/// Context lengths are chosen in multiples of this, the step in which KV caches grow.
pub const CONTEXT_STEP: u64 = 256;
