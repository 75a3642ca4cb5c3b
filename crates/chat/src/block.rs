//! Rendered pieces of a text.

use serde::{Deserialize, Serialize};

/// A finished top-level block of Markdown. Its HTML never changes again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Block {
    /// Sanitised HTML: nothing in it runs, loads or styles anything.
    pub html: String,
}

/// The unfinished end of a growing text, drawn anew with each update.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Tail {
    /// Sanitised HTML; empty when everything so far is committed.
    pub html: String,
}
