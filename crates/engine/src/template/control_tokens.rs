//! Keeps text that people type or paste from turning into control tokens.
//!
//! A prompt is one text, in which a typed `<|im_end|>` looks just like the template's own. Templates
//! also trim, cut and join what they are given, so no position in a message can be followed through
//! them. Therefore a mark goes into the message's text itself: a character that occurs nowhere else,
//! behind every character with which a control token could begin. After rendering, a control token
//! with a mark behind its first character was typed, and the others are the template's own.
//!
//! Rule: without the marks, the rendered text is exactly the one that `transformers` renders.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::chat::{ChatPrompt, Message, Role};
use crate::error::EngineError;
use crate::text::STRIPPED_MARKERS;

/// How a vocabulary spells its control tokens, which mark where messages begin and end.
#[derive(Debug, Clone, Default)]
pub struct ControlTokens {
    spellings: HashSet<String>,
    /// Lengths of the spellings in bytes, longest first.
    lengths: Vec<usize>,
    /// What a mark goes behind the first character of.
    openings: Vec<String>,
}

impl<S: Into<String>> FromIterator<S> for ControlTokens {
    fn from_iter<I: IntoIterator<Item = S>>(spellings: I) -> Self {
        let spellings = spellings.into_iter().map(S::into);
        // A mark needs a place between two characters.
        let spellings: HashSet<String> = spellings
            .filter(|text| text.chars().nth(1).is_some())
            .collect();
        let mut lengths: Vec<usize> = spellings.iter().map(String::len).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let mut openings: Vec<String> = spellings.iter().map(|text| opening(text)).collect();
        openings.sort_unstable();
        openings.dedup();
        Self {
            spellings,
            lengths,
            openings,
        }
    }
}

/// The start of a control token that is marked wherever it is typed. A single character is enough,
/// so that a template can't build a token from pieces of a message (by removing `/no_think`, for
/// example). Letters and white space are too common for that.
fn opening(spelling: &str) -> String {
    match spelling.chars().next() {
        Some(c) if !c.is_alphanumeric() && !c.is_whitespace() => c.to_string(),
        _ => spelling.to_owned(),
    }
}

impl ControlTokens {
    /// Returns the longest control token that `text` starts with.
    pub fn at_start_of<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut candidates = self.lengths.iter().filter_map(|&len| text.get(..len));
        candidates.find(|candidate| self.spellings.contains(*candidate))
    }

    /// Returns true if `text` has to be marked.
    fn could_begin_in(&self, text: &str) -> bool {
        self.openings.iter().any(|opening| text.contains(opening))
    }

    /// Puts `mark` behind each character of `text` with which a control token could begin, except at
    /// the start of an `exempt` text.
    fn mark<'t>(&self, text: &'t str, mark: char, exempt: &[&str]) -> Cow<'t, str> {
        if !self.could_begin_in(text) {
            return Cow::Borrowed(text);
        }
        let mut marked = String::with_capacity(text.len() + 16);
        for (at, c) in text.char_indices() {
            marked.push(c);
            let rest = &text[at..];
            let begins = |start: &str| rest.starts_with(start);
            if self.openings.iter().any(|opening| begins(opening))
                && !exempt.iter().any(|marker| begins(marker))
            {
                marked.push(mark);
            }
        }
        Cow::Owned(marked)
    }
}

/// Puts marks into the texts of one conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marker<'a> {
    tokens: &'a ControlTokens,
    mark: char,
}

impl<'a> Marker<'a> {
    /// A marker whose mark does not occur in `prompt` or in the template's `source`.
    ///
    /// # Errors
    /// [`EngineError::Template`] if every candidate occurs.
    pub(super) fn new(
        tokens: &'a ControlTokens,
        source: &str,
        prompt: &ChatPrompt,
    ) -> Result<Self, EngineError> {
        let tools: Vec<String> = prompt.tools.iter().map(ToString::to_string).collect();
        let contents = prompt.messages.iter().map(|message| &*message.content);
        let texts: Vec<&str> = contents
            .chain(tools.iter().map(String::as_str))
            .chain([source])
            .collect();
        let is_in = |mark: char, text: &str| text.contains(mark) || text.contains(&escaped(mark));
        let mark = marks().find(|&mark| !texts.iter().any(|text| is_in(mark, text)));
        let mark = mark.ok_or_else(|| EngineError::Template {
            reason: "the conversation contains all of Unicode's noncharacters; remove them"
                .to_owned(),
        })?;
        Ok(Self { tokens, mark })
    }

    /// The content of a message. Templates look for reasoning in what the assistant said, so its
    /// markers stay as they are there.
    pub(super) fn content<'m>(&self, message: &'m Message) -> Cow<'m, str> {
        let exempt: &[&str] = match message.role {
            Role::Assistant => &STRIPPED_MARKERS,
            Role::System | Role::User | Role::Tool => &[],
        };
        self.tokens.mark(&message.content, self.mark, exempt)
    }

    /// Any other text that the template did not write.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.tokens.mark(text, self.mark, &[])
    }

    /// Takes the marks out of what was rendered, and notes which control tokens had one.
    pub(super) fn settle(self, rendered: &str) -> RenderedPrompt {
        // Templates may print a whole list, which escapes unusual characters.
        let mut mark = [0; 4];
        let rendered = rendered.replace(&escaped(self.mark), self.mark.encode_utf8(&mut mark));
        let mut text = String::with_capacity(rendered.len());
        let mut typed = Vec::new();
        let mut last = 0;
        for c in rendered.chars() {
            if c == self.mark {
                typed.push(last);
            } else {
                last = text.len();
                text.push(c);
            }
        }
        typed.retain(|&at| self.tokens.at_start_of(&text[at..]).is_some());
        RenderedPrompt {
            text,
            typed,
            mark: self.mark,
        }
    }
}

/// Noncharacters: Unicode keeps them free for uses inside a program, and no text should have one.
pub(super) fn marks() -> impl Iterator<Item = char> {
    let planes = (0..=0x10).flat_map(|plane| [plane << 16 | 0xFFFE, plane << 16 | 0xFFFF]);
    (0xFDD0..=0xFDEF).chain(planes).filter_map(char::from_u32)
}

/// How minijinja writes a mark inside a list.
fn escaped(mark: char) -> String {
    mark.escape_debug().to_string()
}

/// Returns true for a character that may be a mark.
pub(super) fn is_mark(c: char) -> bool {
    let code = u32::from(c);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// A conversation as its template wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    text: String,
    typed: Vec<usize>,
    mark: char,
}

impl RenderedPrompt {
    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The offsets in bytes of what looks like a control token but came from a message or a tool, in
    /// ascending order. The tokenizer must read these as plain text.
    pub fn typed(&self) -> &[usize] {
        &self.typed
    }

    /// Splits the text at the control tokens that the template wrote.
    pub fn pieces<'a>(&'a self, tokens: &'a ControlTokens) -> impl Iterator<Item = Piece<'a>> {
        let mut pieces = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < self.text.len() {
            let rest = &self.text[at..];
            let token = tokens.at_start_of(rest);
            match token.filter(|_| self.typed.binary_search(&at).is_err()) {
                Some(token) => {
                    pieces.push(Piece::Text(&self.text[from..at]));
                    pieces.push(Piece::Control(token));
                    at += token.len();
                    from = at;
                }
                None => at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
        pieces.push(Piece::Text(&self.text[from..]));
        pieces.into_iter()
    }

    /// The text with a mark behind the first character of each typed control token, so that a
    /// tokenizer does not find it, and the mark, which occurs nowhere else.
    pub(crate) fn marked(&self) -> (String, char) {
        let mut marked = String::with_capacity(self.text.len() + 4 * self.typed.len());
        let mut from = 0;
        for &at in &self.typed {
            let first = self.text[at..].chars().next().map_or(0, char::len_utf8);
            marked.push_str(&self.text[from..at + first]);
            marked.push(self.mark);
            from = at + first;
        }
        marked.push_str(&self.text[from..]);
        (marked, self.mark)
    }
}

/// Part of a rendered prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text without any control token of the template; may be empty.
    Text(&'a str),
    /// A control token.
    Control(&'a str),
}
