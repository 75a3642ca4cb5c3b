//! Growing Markdown to plain sentences, for screen readers and titles.
//!
//! Rule: a sentence is said once and whole. It is whole when another one begins after it, or when
//! its block is finished.

use pulldown_cmark::{Event, Tag, TagEnd};
use unicode_segmentation::UnicodeSegmentation;

use super::maths::{Filter, Formulas};
use super::parse::{Part, Read, References};
use super::split::{Cut, Kind, Splitter};
use super::tail::mended;

/// Source bytes of an unfinished block beyond which its sentences wait for its end.
const LONG: usize = 16 * 1024;

/// Plain text for speaking and titles: the sentences that growing Markdown completes.
///
/// Code blocks are named ("code block", with the language), not read out; formulas are their TeX;
/// links and images are their text.
#[derive(Debug, Default)]
pub struct Speech {
    line: String,
    filter: Filter,
    formulas: Formulas,
    splitter: Splitter,
    references: References,
    /// What is not cut yet and was said, without its blanks.
    letters_said: String,
    /// Something came that may have ended a sentence.
    may_say: bool,
}

impl Speech {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text in any pieces, and returns the sentences that were completed by it.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        let mut said = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.line).replace('\r', "");
                self.take_line(&line, &mut said);
            }
        }
        self.may_say |= text.contains(['.', '!', '?', ':', '。', '！', '？', '…', '\n']);
        if self.may_say {
            self.say_open(&mut said);
        }
        said
    }

    /// The text is complete: what remains. It is empty and new afterwards.
    pub fn finish(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut said);
        }
        for line in self.filter.release() {
            self.cut_line(&line, &mut said);
        }
        let cuts = self.splitter.finish(&self.references);
        self.say_cuts(cuts, &mut said);
        *self = Self::default();
        said
    }

    fn take_line(&mut self, line: &str, said: &mut Vec<String>) {
        if self.splitter.is_in_code() {
            self.filter.pass_code();
            return self.cut_line(line, said);
        }
        for line in self.filter.line(line, &mut self.formulas) {
            self.cut_line(&line, said);
        }
    }

    fn cut_line(&mut self, line: &str, said: &mut Vec<String>) {
        let cuts = self.splitter.line(line, &self.references);
        self.say_cuts(cuts, said);
    }

    fn say_cuts(&mut self, cuts: Vec<Cut>, said: &mut Vec<String>) {
        for cut in cuts {
            self.filter.forget_code();
            let Cut::Piece(piece) = cut else { continue };
            if matches!(piece.kind, Kind::Code { .. }) && piece.continues {
                continue;
            }
            let context = self.splitter.context(&piece.kind);
            let source = self.splitter.source(&piece);
            let part = Part::new(&context, source, &self.references);
            let (reads, found) = part.read(&self.references);
            let plain = plain(&reads, &self.formulas);
            self.references.learn(found);
            let rest = after_letters(&plain, self.letters_said.chars().count());
            said.extend(sentences(rest).filter(is_said).map(str::to_string));
            // The block after it may have begun, and be said in part.
            let of_others = self.letters_said.strip_prefix(&letters(&plain));
            self.letters_said = of_others.unwrap_or_default().to_string();
        }
    }

    /// Says the whole sentences of what is open.
    fn say_open(&mut self, said: &mut Vec<String>) {
        self.may_say = false;
        let piece = self.splitter.rest();
        if self.splitter.is_in_code() {
            return;
        }
        let mark = self.formulas.mark();
        let mut source = String::new();
        let mut context = String::new();
        if let Some(piece) = &piece {
            source.push_str(self.splitter.source(piece));
            context = self.splitter.context(&piece.kind);
        }
        if source.len() > LONG {
            return;
        }
        source.push_str(&self.filter.unfinished(&self.line, &mut self.formulas));
        // The last paragraph may go on; what is before a blank line does not.
        let source = mended(&source);
        let part = Part::new(&context, &source, &self.references);
        let (reads, _) = part.read(&self.references);
        let plain = plain(&reads, &self.formulas);
        self.formulas.truncate(mark);
        let rest = after_letters(&plain, self.letters_said.chars().count());
        let mut found: Vec<&str> = sentences(rest).collect();
        // The last one may go on, or be a block of which only the name is known.
        if found.pop().is_none() {
            return;
        }
        for sentence in found {
            self.letters_said.push_str(&letters(sentence));
            if is_said(&sentence) {
                said.push(sentence.to_string());
            }
        }
    }
}

fn letters(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_whitespace())
        .collect()
}

/// `text` after so many letters, blanks not counted.
fn after_letters(text: &str, n_said: usize) -> &str {
    let mut n_left = n_said;
    for (at, letter) in text.char_indices() {
        if n_left == 0 {
            return &text[at..];
        }
        n_left -= usize::from(!letter.is_whitespace());
    }
    ""
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(UnicodeSegmentation::split_sentence_bounds)
        .map(str::trim)
}

/// Marks alone are not said.
fn is_said(sentence: &&str) -> bool {
    sentence.chars().any(char::is_alphanumeric)
}

/// The text of events, each block on its own line.
fn plain(reads: &[Read<'_>], formulas: &Formulas) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for read in reads
        .iter()
        .filter(|read| !read.is_context || is_block_of_code(read))
    {
        match &read.event {
            Event::Start(Tag::CodeBlock(kind)) => {
                is_code = true;
                let language = match kind {
                    pulldown_cmark::CodeBlockKind::Fenced(info) => super::code::language(info),
                    pulldown_cmark::CodeBlockKind::Indented => "",
                };
                let comma = if language.is_empty() { "" } else { ", " };
                text.push_str(&format!("\ncode block{comma}{language}\n"));
            }
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(_) if is_code => {}
            Event::Text(part) | Event::Code(part) => text.push_str(&formulas.spoken(part)),
            Event::SoftBreak => text.push(' '),
            Event::HardBreak | Event::Rule => text.push('\n'),
            Event::End(TagEnd::TableCell) => text.push_str(", "),
            Event::End(
                TagEnd::Paragraph
                | TagEnd::Heading(_)
                | TagEnd::Item
                | TagEnd::TableRow
                | TagEnd::TableHead
                | TagEnd::HtmlBlock,
            )
            | Event::Start(Tag::List(_) | Tag::Item) => text.push('\n'),
            _ => {}
        }
    }
    text
}

/// Of a piece of code the line that opens it is context, and all that is said of it.
fn is_block_of_code(read: &Read<'_>) -> bool {
    matches!(
        read.event,
        Event::Start(Tag::CodeBlock(_)) | Event::End(TagEnd::CodeBlock)
    )
}
