//! Growing text to blocks of HTML, and to sentences.
//!
//! A text is cut into pieces where nothing can change any more (`split`), pieces are read (`parse`)
//! and written as HTML (`html`, `elements`, `code`, `maths`), which passes a second wall
//! (`sanitise`). The unfinished end is mended (`tail`) and drawn anew each time.
//!
//! Rule: a finished block is rendered once; what a push costs does not grow with what was
//! committed before. Blocks do not depend on the pieces in which the text came.

mod code;
mod elements;
mod html;
mod maths;
mod parse;
mod sanitise;
mod speech;
mod split;
mod stream;
mod tail;
#[cfg(test)]
mod tests;

use crate::block::{Block, Tail, settle};
use elements::Elements;
pub use speech::Speech;

/// Growing Markdown, committed in stable blocks.
#[derive(Debug, Default)]
pub struct Stream(stream::Growing<Elements>);

impl Stream {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text in any pieces, and returns the blocks that were finished by it. They are
    /// applied in order: see [`Block`] and [`settle`].
    pub fn push(&mut self, text: &str) -> Vec<Block> {
        self.0.push(text)
    }

    /// The unfinished end as it stands, with half-written emphasis, links, tables and code drawn
    /// as what they are about to become.
    pub fn tail(&mut self) -> Tail {
        self.0.tail()
    }

    /// The text is complete: the remaining blocks, and those that later text changed. The stream
    /// is empty and new afterwards.
    pub fn finish(&mut self) -> Vec<Block> {
        self.0.finish()
    }
}

/// A whole text at once: the same blocks as a [`Stream`]'s, settled.
pub fn render(text: &str) -> Vec<Block> {
    let mut stream = Stream::new();
    let mut blocks = Vec::new();
    settle(&mut blocks, stream.push(text));
    settle(&mut blocks, stream.finish());
    blocks
}
