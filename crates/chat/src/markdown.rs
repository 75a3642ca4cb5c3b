//! Renders growing Markdown text as blocks of HTML.
//!
//! Rule: every render parses the whole text and writes all of its HTML, so the result depends only
//! on the text and not on how it arrived. Only pure, slow steps are cached: highlighting, MathML
//! and sanitizing.
//!
//! Steps of a render: normalize line ends, replace formulas by placeholders (`math`), close open
//! syntax at the end of an incomplete text (`incomplete`), parse with pulldown-cmark, write the
//! events as HTML (`writer`), and sanitize the HTML (`sanitize`).

mod code;
mod escape;
mod fences;
mod incomplete;
mod math;
mod render_interval;
mod sanitize;
#[cfg(test)]
mod tests;
mod writer;

use std::borrow::Cow;

use pulldown_cmark::{Options, Parser};

use crate::block::{Block, Change};
use code::Highlighter;
use math::Formulas;
pub use render_interval::RenderInterval;
use writer::{Fragment, Writer};

fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM
}

/// A text that is rendered repeatedly while it grows.
#[derive(Debug, Default)]
pub struct Document {
    version: u64,
    blocks: Vec<Block>,
    /// For each block, its HTML before sanitizing and the version in which it last changed.
    origins: Vec<(Fragment, u64)>,
    formulas: Formulas,
    highlighter: Highlighter,
    /// Set by tests of the writer.
    #[cfg(test)]
    is_unsanitized: bool,
}

impl Document {
    /// Renders `text`. If `is_complete` is false, unfinished emphasis, links, tables and code at
    /// the end are drawn as if they were closed.
    ///
    /// The result depends only on the arguments. Rendering is faster if `text` starts with the text
    /// of the previous call.
    pub fn update(&mut self, text: &str, is_complete: bool) {
        let text = normalized(text);
        let with_placeholders = self.formulas.replace(&text, is_complete);
        let source = if is_complete {
            with_placeholders
        } else {
            Cow::Owned(incomplete::close_open_syntax(&with_placeholders))
        };
        let events: Vec<_> = Parser::new_ext(&source, options()).collect();
        let fragments = Writer::new(&mut self.highlighter, &mut self.formulas).write(&events);
        self.replace_blocks(fragments);
    }

    fn replace_blocks(&mut self, fragments: Vec<Fragment>) {
        let version = self.version + 1;
        if fragments.len() < self.blocks.len() {
            self.blocks.truncate(fragments.len());
            self.origins.truncate(fragments.len());
            self.version = version;
        }
        for (index, fragment) in fragments.into_iter().enumerate() {
            let known = self.origins.get(index);
            if known.is_some_and(|(known, _)| *known == fragment) {
                continue;
            }
            let block = Block {
                is_inside: fragment.is_inside,
                html: self.sanitized(&fragment),
            };
            if index < self.blocks.len() {
                self.blocks[index] = block;
                self.origins[index] = (fragment, version);
            } else {
                self.blocks.push(block);
                self.origins.push((fragment, version));
            }
            self.version = version;
        }
    }

    fn sanitized(&self, fragment: &Fragment) -> String {
        #[cfg(test)]
        if self.is_unsanitized {
            return fragment.html.clone();
        }
        fragment.sanitized()
    }

    /// Returns the blocks of the last render.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the number of renders so far that changed any block.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the blocks that changed after `version`.
    pub fn change_since(&self, version: u64) -> Change {
        let all = (0..).zip(self.blocks.iter().zip(&self.origins));
        Change {
            n_blocks: u32::try_from(self.blocks.len()).unwrap_or(u32::MAX),
            blocks: all
                .filter(|(_, (_, (_, changed_in)))| *changed_in > version)
                .map(|(index, (block, _))| (index, block.clone()))
                .collect(),
        }
    }
}

/// Renders a complete text.
pub fn render(text: &str) -> Vec<Block> {
    let mut document = Document::default();
    document.update(text, true);
    document.blocks
}

/// Ends all lines with `\n`, and replaces the characters that formula placeholders use.
fn normalized(text: &str) -> Cow<'_, str> {
    if !text.contains(['\r', math::BEGIN, math::END]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.replace("\r\n", "\n")
            .replace('\r', "\n")
            .replace([math::BEGIN, math::END], "\u{FFFD}"),
    )
}
