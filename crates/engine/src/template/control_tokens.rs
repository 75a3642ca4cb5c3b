//! Prevents text in messages from becoming control tokens.
//!
//! In a rendered prompt, a typed `<|im_end|>` looks like the template's own. Templates also trim,
//! cut and join messages, so positions in a message cannot be followed through them. Therefore a
//! mark goes into the message's text: a character that occurs nowhere else, after every character
//! with which a control token could begin. After rendering, a control token with a mark after its
//! first character comes from a message, and the others come from the template.
//!
//! Rule: without the marks, the rendered text is exactly the one that `transformers` renders.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::chat::{ChatPrompt, Message, Role};
use crate::error::EngineError;
use crate::text::STRIPPED_MARKERS;

/// The spellings of a vocabulary's control tokens, which mark where messages begin and end.
#[derive(Debug, Clone, Default)]
pub struct ControlTokens {
    spellings: HashSet<String>,
    /// Lengths of the spellings in bytes, longest first.
    lengths: Vec<usize>,
    /// Starts of control tokens; a mark goes after their first character.
    openings: Vec<String>,
}

impl<S: Into<String>> FromIterator<S> for ControlTokens {
    fn from_iter<I: IntoIterator<Item = S>>(spellings: I) -> Self {
        let spellings = spellings.into_iter().map(S::into);
        // A mark needs a position between two characters.
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

/// Returns the start of a control token that is marked in every message. A single character is
/// enough, so that a template cannot build a token from parts of a message (by removing
/// `/no_think`, for example). Letters and white space are too common for that.
fn opening(spelling: &str) -> String {
    match spelling.chars().next() {
        Some(c) if !c.is_alphanumeric() && !c.is_whitespace() => c.to_string(),
        _ => spelling.to_owned(),
    }
}

impl ControlTokens {
    /// Returns true if `text` is a control token.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.spellings.contains(text)
    }

    /// Returns the longest control token that `text` starts with.
    pub fn at_start_of<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut candidates = self.lengths.iter().filter_map(|&len| text.get(..len));
        candidates.find(|candidate| self.spellings.contains(*candidate))
    }

    /// Returns true if `text` has to be marked.
    fn may_start_in(&self, text: &str) -> bool {
        self.openings.iter().any(|opening| text.contains(opening))
    }

    /// Puts `mark` after each character of `text` with which a control token could begin, except
    /// where an `exempt` text starts.
    fn mark<'t>(&self, text: &'t str, mark: char, exempt: &[&str]) -> Cow<'t, str> {
        if !self.may_start_in(text) {
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

#[derive(Debug, Clone, Copy)]
pub(super) struct Marker<'a> {
    tokens: &'a ControlTokens,
    mark: char,
}

impl<'a> Marker<'a> {
    /// Creates a marker whose mark does not occur in `prompt` or in the template's `source`.
    ///
    /// # Errors
    /// [`EngineError::Template`] if every candidate occurs.
    pub(super) fn new(
        tokens: &'a ControlTokens,
        source: &str,
        prompt: &ChatPrompt,
    ) -> Result<Self, EngineError> {
        let mut texts = prompt.texts();
        texts.push(Cow::Borrowed(source));
        let is_in = |mark: char, text: &str| text.contains(mark) || text.contains(&escaped(mark));
        let mark = marks().find(|&mark| !texts.iter().any(|text| is_in(mark, text)));
        let mark = mark.ok_or_else(|| EngineError::Template {
            reason: "the conversation contains all of Unicode's noncharacters; remove them"
                .to_owned(),
        })?;
        Ok(Self { tokens, mark })
    }

    /// Marks the content of a message. Templates search assistant messages for reasoning, so
    /// reasoning markers stay unmarked there.
    pub(super) fn content<'m>(&self, message: &'m Message) -> Cow<'m, str> {
        let exempt: &[&str] = match message.role {
            Role::Assistant => &STRIPPED_MARKERS,
            Role::System | Role::User | Role::Tool => &[],
        };
        self.tokens.mark(&message.content, self.mark, exempt)
    }

    /// Like [`Marker::content`], for a message that the response continues: with one more mark at
    /// its end, which [`Marker::cut_after`] finds.
    pub(super) fn unfinished_content(&self, message: &Message) -> String {
        let content = self.content(message);
        format!("{}{}", content.trim_end(), self.mark)
    }

    /// Removes what the template wrote after `message`, the last one, and adds the white space at
    /// its end. Returns `None` if the template changed more of it than the white space around it.
    pub(super) fn cut_after(&self, rendered: &str, message: &Message) -> Option<String> {
        let content = self.content(message);
        let text = content.trim_end();
        let (rendered, _) = rendered.rsplit_once(self.mark)?;
        let whitespace = &content[text.len()..];
        let is_unchanged = rendered.ends_with(text.trim_start());
        is_unchanged.then(|| format!("{rendered}{whitespace}"))
    }

    /// Marks any other text that the template did not write: names, ids, arguments, definitions.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.tokens.mark(text, self.mark, &[])
    }

    /// Removes the marks from the rendered text, and records which control tokens had one.
    pub(super) fn finish(self, rendered: &str) -> RenderedPrompt {
        // Templates may print a whole list, which escapes unusual characters.
        let mut mark = [0; 4];
        let rendered = rendered.replace(&escaped(self.mark), self.mark.encode_utf8(&mut mark));
        let mut text = String::with_capacity(rendered.len());
        let mut literals = Vec::new();
        let mut last_char = 0;
        for c in rendered.chars() {
            if c == self.mark {
                literals.push(last_char);
            } else {
                last_char = text.len();
                text.push(c);
            }
        }
        literals.retain(|&at| self.tokens.at_start_of(&text[at..]).is_some());
        RenderedPrompt {
            text,
            literals,
            mark: self.mark,
        }
    }
}

/// Returns Unicode's noncharacters. They are reserved for use inside programs, and no text should
/// contain them.
pub(super) fn marks() -> impl Iterator<Item = char> {
    let planes = (0..=0x10).flat_map(|plane| [plane << 16 | 0xFFFE, plane << 16 | 0xFFFF]);
    (0xFDD0..=0xFDEF).chain(planes).filter_map(char::from_u32)
}

/// Returns how minijinja prints a mark inside a list.
fn escaped(mark: char) -> String {
    mark.escape_debug().to_string()
}

/// Returns true for a character that may be a mark.
pub(super) fn is_mark(c: char) -> bool {
    let code = u32::from(c);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// A conversation rendered by its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    text: String,
    literals: Vec<usize>,
    mark: char,
}

impl RenderedPrompt {
    /// Returns a text without a template, in which every control token is plain text.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] if every character that can be a mark occurs in it.
    pub(crate) fn plain(text: &str, tokens: &ControlTokens) -> Result<Self, EngineError> {
        let mark = marks().find(|&mark| !text.contains(mark)).ok_or_else(|| {
            let value = "a text with all of Unicode's noncharacters";
            EngineError::invalid_parameter("text", value, "a text without them")
        })?;
        let starts = text.char_indices().map(|(at, _)| at);
        Ok(Self {
            text: text.to_owned(),
            literals: starts
                .filter(|&at| tokens.at_start_of(&text[at..]).is_some())
                .collect(),
            mark,
        })
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the offsets in bytes of control-token spellings that come from a message or a tool,
    /// in ascending order. The tokenizer must read these as plain text.
    pub fn literal_tokens(&self) -> &[usize] {
        &self.literals
    }

    /// Splits the text at the control tokens that the template wrote.
    pub fn pieces<'a>(&'a self, tokens: &'a ControlTokens) -> impl Iterator<Item = Piece<'a>> {
        let mut pieces = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < self.text.len() {
            let rest = &self.text[at..];
            let token = tokens.at_start_of(rest);
            match token.filter(|_| self.literals.binary_search(&at).is_err()) {
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

    /// Returns the text with a mark after the first character of each control-token spelling from a
    /// message, so that a tokenizer does not find it, and the mark, which occurs nowhere else.
    pub(crate) fn marked(&self) -> (String, char) {
        let mut marked = String::with_capacity(self.text.len() + 4 * self.literals.len());
        let mut from = 0;
        for &at in &self.literals {
            let first = self.text[at..].chars().next().map_or(0, char::len_utf8);
            marked.push_str(&self.text[from..at + first]);
            marked.push(self.mark);
            from = at + first;
        }
        marked.push_str(&self.text[from..]);
        (marked, self.mark)
    }
}

/// A part of a rendered prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text without any control token of the template; may be empty.
    Text(&'a str),
    /// A control token.
    Control(&'a str),
}
