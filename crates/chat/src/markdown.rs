//! A growing Markdown text to blocks of HTML.
//!
//! Rule: every reading parses the whole text and writes all of its HTML, so what is shown depends
//! on the text alone and not on how it arrived. Only pure and slow steps are cached: highlighting,
//! MathML and sanitizing.
//!
//! A reading: line ends are normalized, formulas are replaced by marks (`maths`), the unfinished
//! end of a growing text is mended (`tail`), pulldown-cmark parses, `writer` writes the events as
//! HTML, and `sanitise` checks it.

mod code;
mod fences;
mod maths;
mod pace;
mod sanitise;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

use std::borrow::Cow;

use pulldown_cmark::{Options, Parser};

use crate::block::{Block, Change};
use code::Highlighter;
use maths::Formulas;
pub use pace::Pace;
use writer::{Fragment, Writer};

fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM
}

/// A text that is rendered again and again while it grows.
#[derive(Debug, Default)]
pub struct Document {
    version: u64,
    blocks: Vec<Block>,
    /// For each block, what it was sanitized from and the version that it is of.
    origins: Vec<(Fragment, u64)>,
    formulas: Formulas,
    highlighter: Highlighter,
    /// Only for the tests of the writer.
    #[cfg(test)]
    is_unsanitised: bool,
}

impl Document {
    /// Returns an empty document.
    pub fn new() -> Self {
        Self::default()
    }

    /// Renders `text`. Until it `is_complete`, half-written emphasis, links, tables and code at
    /// its end are drawn as what they are about to become.
    ///
    /// The result depends on the arguments alone. It is faster if `text` begins with the text of
    /// the previous call.
    pub fn read(&mut self, text: &str, is_complete: bool) {
        let text = normalized(text);
        let marked = self.formulas.mark(&text, is_complete);
        let source = if is_complete {
            marked
        } else {
            Cow::Owned(tail::mended(&marked))
        };
        let events: Vec<_> = Parser::new_ext(&source, options()).collect();
        let fragments = Writer::new(&mut self.highlighter, &mut self.formulas).write(&events);
        self.take(fragments);
    }

    fn take(&mut self, fragments: Vec<Fragment>) {
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
                html: self.sanitised(&fragment),
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

    fn sanitised(&self, fragment: &Fragment) -> String {
        #[cfg(test)]
        if self.is_unsanitised {
            return fragment.html.clone();
        }
        fragment.sanitised()
    }

    /// All blocks as of the last reading.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the number of readings so far that changed any block.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns what is different from an earlier version.
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
    let mut document = Document::new();
    document.read(text, true);
    document.blocks
}

/// Ends all lines with `\n`, and replaces the characters that mark formulas.
fn normalized(text: &str) -> Cow<'_, str> {
    if !text.contains(['\r', maths::BEGIN, maths::END]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.replace("\r\n", "\n")
            .replace('\r', "\n")
            .replace([maths::BEGIN, maths::END], "\u{FFFD}"),
    )
}
