//! One section of a growing answer: its source, and what of it is rendered.

use crate::block::{Block, Change};
use crate::markdown::Document;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Part {
    source: String,
    document: Document,
    /// Bytes of `source` that are rendered.
    n_rendered: usize,
    is_finished: bool,
}

impl Part {
    /// Adds to the source; renders nothing.
    pub(super) fn push(&mut self, text: &str) {
        self.source.push_str(text);
    }

    /// Renders the source if it grew since the last time, and as complete once `is_over`.
    pub(super) fn render(&mut self, is_over: bool) {
        let is_new = self.n_rendered < self.source.len();
        if self.is_finished || self.source.is_empty() || !(is_new || is_over) {
            return;
        }
        self.document.read(&self.source, is_over);
        self.n_rendered = self.source.len();
        self.is_finished = is_over;
    }

    /// Everything that was said, rendered or not.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The blocks of what is rendered.
    pub(super) fn blocks(&self) -> &[Block] {
        self.document.blocks()
    }

    /// Returns the number of renders so far that changed any block.
    pub(super) fn version(&self) -> u64 {
        self.document.version()
    }

    /// Returns what is different from an earlier version.
    pub(super) fn change_since(&self, version: u64) -> Change {
        self.document.change_since(version)
    }
}
