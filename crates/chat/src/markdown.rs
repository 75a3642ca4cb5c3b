//! Growing text to blocks of HTML, and to sentences.
//!
//! Rule: a finished block is rendered once; what a push costs does not grow with what was
//! committed before.

use pulldown_cmark::{Event, Parser};

use crate::block::{Block, Tail, settle};

/// Growing Markdown, committed in stable blocks.
#[derive(Debug, Default)]
pub struct Stream {
    text: String,
}

impl Stream {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text in any pieces, and returns the blocks that were finished by it. They are
    /// applied in order: see [`Block`] and [`settle`].
    pub fn push(&mut self, text: &str) -> Vec<Block> {
        self.text.push_str(text);
        Vec::new()
    }

    /// The unfinished end, as it stands.
    pub fn tail(&mut self) -> Tail {
        Tail {
            continues: false,
            html: inert(&self.text),
        }
    }

    /// The text is complete: the remaining blocks, and those that later text changed. The stream
    /// is empty and new afterwards.
    pub fn finish(&mut self) -> Vec<Block> {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return Vec::new();
        }
        vec![Block {
            index: 0,
            continues: false,
            html: inert(&text),
        }]
    }
}

fn inert(text: &str) -> String {
    let events = Parser::new(text).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        other => other,
    });
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    ammonia::clean(&html)
}

/// A whole text at once: the same blocks as a [`Stream`]'s, settled.
pub fn render(text: &str) -> Vec<Block> {
    let mut stream = Stream::new();
    let mut blocks = stream.push(text);
    let rest = stream.finish();
    settle(&mut blocks, rest);
    blocks
}

/// Plain text for speaking and titles: the sentences that growing Markdown completes.
#[derive(Debug, Default)]
pub struct Speech {
    text: String,
}

impl Speech {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text in any pieces, and returns the sentences that were completed by it.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        self.text.push_str(text);
        Vec::new()
    }

    /// The text is complete: what remains.
    pub fn finish(&mut self) -> Vec<String> {
        let text = std::mem::take(&mut self.text);
        if text.trim().is_empty() {
            Vec::new()
        } else {
            vec![text.trim().to_string()]
        }
    }
}
