//! A piece of Markdown to its HTML, in three parts: what opens its element, what is in it, what
//! closes it. A continuation is only what is in it.
//!
//! Rule: how elements look is a [`Hand`]'s. What is read, and in which context, is the same for
//! all hands, so that the tests can hold this road against pulldown-cmark's own HTML.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

use super::maths::Formulas;
use super::parse::{Found, Part, Read, References};
use super::split::{Kind, Piece};

/// The numbers of footnotes, by label, in the order in which the text mentions them.
#[derive(Debug, Default, Clone)]
pub(super) struct Numbers(HashMap<String, usize>);

impl Numbers {
    pub(super) fn of(&mut self, label: &str) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(label.to_string()).or_insert(next)
    }
}

/// HTML of a piece.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Html {
    pub(super) open: String,
    pub(super) body: String,
    pub(super) close: String,
}

impl Html {
    pub(super) fn joined(self, continues: bool) -> String {
        if continues {
            self.body
        } else {
            self.open + &self.body + &self.close
        }
    }
}

/// Writes elements.
pub(super) trait Hand: Default {
    /// Whether formulas are looked for before Markdown is read.
    const READS_FORMULAS: bool;

    /// Events of whole elements to HTML that is not yet sanitised.
    fn elements(
        &mut self,
        reads: Vec<Read<'_>>,
        numbers: &mut Numbers,
        formulas: &Formulas,
    ) -> String;

    /// What opens and closes a list of which `is_open` says that more may come.
    fn list(&self, start: Option<u64>, is_open: bool) -> (String, String);

    /// What closes a table.
    const TABLE_CLOSE: &'static str;

    /// What opens and closes fenced code.
    fn code(&self, info: &str, is_open: bool) -> (String, String);

    /// The lines of the open code block since its last cut; the last one may be unfinished.
    fn code_lines(&mut self, info: &str, lines: &str, continues: bool) -> String;

    /// What was drawn of the open code block is committed; `ends`: it was its last.
    fn cut_code(&mut self, ends: bool);

    /// The second wall: `html` with nothing in it that runs, loads or styles anything.
    fn clean(&self, kind: &Kind, is_open: bool, html: Html) -> Html;

    /// A piece with its context.
    fn draw(
        &mut self,
        piece: &Piece,
        context: &str,
        source: &str,
        references: &References,
        numbers: &mut Numbers,
        formulas: &Formulas,
    ) -> (Html, Found) {
        let part = Part::new(context, source, references);
        let (reads, mut found) = part.read(references);
        let html = match &piece.kind {
            Kind::Flow => Html {
                body: self.elements(reads, numbers, formulas),
                ..Html::default()
            },
            Kind::Code { .. } => {
                found = Found::default();
                let (info, lines) = code_in(&reads);
                let (open, close) = self.code(&info, piece.is_open);
                Html {
                    open,
                    body: self.code_lines(&info, &lines, piece.continues),
                    close,
                }
            }
            Kind::List { start, .. } => {
                let (open, close) = self.list(*start, piece.is_open);
                Html {
                    open,
                    body: self.elements(items_in(reads), numbers, formulas),
                    close,
                }
            }
            Kind::Rows { .. } => {
                let n_head = reads
                    .iter()
                    .position(|read| matches!(read.event, Event::End(TagEnd::TableHead)))
                    .map_or(0, |at| at + 1);
                let open = self.elements(reads[..n_head].to_vec(), numbers, formulas);
                let whole = self.elements(reads, numbers, formulas);
                let body = whole
                    .strip_prefix(&open)
                    .and_then(|rest| rest.strip_suffix(Self::TABLE_CLOSE))
                    .unwrap_or_default()
                    .to_string();
                Html {
                    open,
                    body,
                    close: Self::TABLE_CLOSE.to_string(),
                }
            }
        };
        (self.clean(&piece.kind, piece.is_open, html), found)
    }
}

/// `text` for HTML, as text or in an attribute's quotes.
pub(super) fn escape(text: &str, html: &mut String) {
    // Writing into a string does not fail.
    let _ = pulldown_cmark_escape::escape_html(html, text);
}

pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 8);
    escape(text, &mut html);
    html
}

/// The language line and the text of the code block that `reads` is.
pub(super) fn code_in(reads: &[Read<'_>]) -> (String, String) {
    let mut info = String::new();
    let mut lines = String::new();
    for read in reads {
        match &read.event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(fenced))) => {
                info = fenced.to_string();
            }
            Event::Text(text) => lines.push_str(text),
            _ => {}
        }
    }
    (info, lines)
}

/// The items of a list, without the list around them and the item before them that is context.
fn items_in(reads: Vec<Read<'_>>) -> Vec<Read<'_>> {
    let mut depth = 0;
    let mut is_in_context = false;
    let mut items = Vec::with_capacity(reads.len());
    for read in reads {
        if let Event::End(_) = read.event {
            depth -= 1;
        }
        let is_edge = depth == 0;
        if depth == 1 && matches!(read.event, Event::Start(Tag::Item)) {
            is_in_context = read.is_context;
        }
        if let Event::Start(_) = read.event {
            depth += 1;
        }
        if !is_edge && !is_in_context {
            items.push(read);
        }
    }
    items
}
