//! One section of a growing response: its source text and its rendered blocks.

use crate::markdown::Document;

#[derive(Default)]
pub(super) struct RenderedSection {
    source: String,
    pub(super) document: Document,
    /// Bytes of `source` that are rendered.
    n_rendered: usize,
    is_finished: bool,
}

impl RenderedSection {
    pub(super) fn push(&mut self, text: &str) {
        self.source.push_str(text);
    }

    /// Renders the source if it grew; as a complete text once `is_over` is true.
    pub(super) fn render(&mut self, is_over: bool) {
        let is_new = self.n_rendered < self.source.len();
        if self.is_finished || self.source.is_empty() || !(is_new || is_over) {
            return;
        }
        self.document.update(&self.source, is_over);
        self.n_rendered = self.source.len();
        self.is_finished = is_over;
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }
}
