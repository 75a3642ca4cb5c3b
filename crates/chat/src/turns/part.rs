//! One section of a growing answer: its source, and what of it is rendered.
//!
//! Rule: text is rendered once. What was rendered is never looked at again but for the tail.

use crate::block::{Block, Tail, settle};
use crate::markdown::Stream;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Part {
    source: String,
    /// Bytes of `source` that the stream was given.
    n_rendered: usize,
    stream: Stream,
    /// Every block in the order in which it was finished, those that were replaced included: what
    /// a page that followed from the start was sent.
    sent: Vec<Block>,
    tail: Tail,
    is_finished: bool,
    /// Raised whenever blocks or tail changed.
    n_renders: u64,
}

impl Part {
    /// Adds to the source; renders nothing.
    pub(super) fn push(&mut self, text: &str) {
        self.source.push_str(text);
    }

    /// Renders what came since the last time; all of it when the section `is_over`.
    pub(super) fn render(&mut self, is_over: bool) {
        let is_new = self.n_rendered < self.source.len();
        if self.is_finished || !(is_new || is_over && self.n_rendered > 0) {
            return;
        }
        self.sent
            .extend(self.stream.push(&self.source[self.n_rendered..]));
        self.n_rendered = self.source.len();
        if is_over {
            self.sent.extend(self.stream.finish());
            self.tail = Tail::default();
            self.is_finished = true;
        } else {
            self.tail = self.stream.tail();
        }
        self.n_renders += 1;
    }

    /// Everything that was said, rendered or not.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Finished blocks of what is rendered, to be applied in this order.
    pub(super) fn sent(&self) -> &[Block] {
        &self.sent
    }

    /// The blocks that stand after all of them were applied.
    pub(super) fn settled(&self) -> Vec<Block> {
        let mut blocks = Vec::with_capacity(self.sent.len());
        settle(&mut blocks, self.sent.iter().cloned());
        blocks
    }

    /// The unfinished end of what is rendered.
    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// How often blocks or tail have changed.
    pub(super) fn n_renders(&self) -> u64 {
        self.n_renders
    }

    /// Bytes of HTML from the `n_seen`th block on.
    pub(super) fn bytes_from(&self, n_seen: usize) -> usize {
        let unseen = self.sent[n_seen..].iter();
        unseen.map(|block| block.html.len()).sum()
    }
}
