//! Growing text: lines are cut into pieces (`split`), pieces become blocks (a [`Hand`]).
//!
//! Rule: blocks depend on the lines alone, not on how they came, and a piece is rendered once. The
//! exceptions are told by a block's index: a list that turned loose, and pieces that speak of a
//! link or footnote which only later text defined.

use super::html::{Hand, Html, Numbers};
use super::maths::{Filter, Formulas};
use super::parse::{Found, References};
use super::split::{Cut, Kind, Piece, Splitter};
use super::tail;
use crate::block::{Block, Tail};

/// Source bytes of an unfinished block beyond which the tail shows only its end.
const LONG_TAIL: usize = 32 * 1024;
/// How much of its end.
const TAIL_END: usize = 4 * 1024;

/// A text that grows, in a hand.
#[derive(Debug, Default)]
pub(super) struct Growing<H> {
    /// The last line, without its end.
    line: String,
    /// The last character was a carriage return, which ended a line.
    was_return: bool,
    filter: Filter,
    splitter: Splitter,
    pages: Pages<H>,
}

/// What is rendered, and with what.
#[derive(Debug, Default)]
struct Pages<H> {
    hand: H,
    references: References,
    numbers: Numbers,
    formulas: Formulas,
    groups: Vec<Group>,
    n_blocks: u32,
}

/// Pieces that belong together: the first does not continue, the others do.
#[derive(Debug)]
struct Group {
    pieces: Vec<Piece>,
    first_index: u32,
    missing: Vec<String>,
    has_footnotes: bool,
}

impl<H: Hand> Growing<H> {
    pub(super) fn push(&mut self, text: &str) -> Vec<Block> {
        let mut blocks = Vec::new();
        for piece in text.split_inclusive(['\n', '\r']) {
            let line = piece.trim_end_matches(['\n', '\r']);
            let is_second_half = self.was_return && piece == "\n";
            self.was_return = piece.ends_with('\r');
            if is_second_half {
                continue;
            }
            self.line.push_str(line);
            if line.len() < piece.len() {
                self.line.push('\n');
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut blocks);
            }
        }
        blocks
    }

    pub(super) fn finish(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut blocks);
        }
        for line in self.filter.release() {
            self.cut_line(&line, &mut blocks);
        }
        for cut in self.splitter.finish(&self.pages.references) {
            self.pages.take(cut, &self.splitter, &mut blocks);
        }
        self.pages.settle(&self.splitter, &mut blocks);
        *self = Self::default();
        blocks
    }

    fn take_line(&mut self, line: &str, blocks: &mut Vec<Block>) {
        if !H::READS_FORMULAS || self.splitter.is_in_code() {
            self.filter.pass_code();
            return self.cut_line(line, blocks);
        }
        for line in self.filter.line(line, &mut self.pages.formulas) {
            self.cut_line(&line, blocks);
        }
    }

    fn cut_line(&mut self, line: &str, blocks: &mut Vec<Block>) {
        for cut in self.splitter.line(line, &self.pages.references) {
            self.filter.forget_code();
            self.pages.take(cut, &self.splitter, blocks);
        }
    }

    pub(super) fn tail(&mut self) -> Tail {
        let piece = self.splitter.rest();
        let mark = self.pages.formulas.mark();
        let tail = self.tail_of(piece);
        self.pages.formulas.truncate(mark);
        tail
    }

    fn tail_of(&mut self, piece: Option<Piece>) -> Tail {
        let piece = piece.unwrap_or(Piece {
            kind: Kind::Flow,
            source: 0..0,
            continues: false,
            is_open: true,
        });
        let mut source = self.splitter.source(&piece).to_string();
        if let Kind::Code { .. } = piece.kind {
            if !tail::may_close_code(&self.line) {
                source.push_str(&self.line);
            }
            if source.is_empty() && piece.continues {
                return Tail::default();
            }
        } else {
            let line = if H::READS_FORMULAS {
                self.filter.unfinished(&self.line, &mut self.pages.formulas)
            } else {
                self.line.clone()
            };
            source.push_str(&line);
            if source.len() > LONG_TAIL {
                let at = source.ceil_char_boundary(source.len() - TAIL_END);
                // Not in the middle of a formula's mark.
                let begin = super::maths::after_mark(&source[at..]);
                source.replace_range(..at + begin, "…");
            }
            source = tail::mended(&source);
            if source.trim().is_empty() {
                return Tail::default();
            }
        }
        let mut numbers = self.pages.numbers.clone();
        let context = self.splitter.context(&piece.kind);
        let drawn = self.pages.hand.draw(
            &piece,
            &context,
            &source,
            &self.pages.references,
            &mut numbers,
            &self.pages.formulas,
        );
        Tail {
            continues: piece.continues,
            html: drawn.0.joined(piece.continues),
        }
    }
}

#[cfg(test)]
impl Growing<super::elements::Elements> {
    /// Without the second wall.
    pub(super) fn bare() -> Self {
        let mut growing = Self::default();
        growing.pages.hand.is_bare = true;
        growing
    }
}

impl<H: Hand> Pages<H> {
    fn take(&mut self, cut: Cut, splitter: &Splitter, blocks: &mut Vec<Block>) {
        match cut {
            Cut::Loose => {
                if let Some(last) = self.groups.len().checked_sub(1) {
                    for piece in &mut self.groups[last].pieces {
                        if let Kind::List { is_loose, .. } = &mut piece.kind {
                            *is_loose = true;
                        }
                    }
                    self.redraw(last, splitter, blocks);
                }
            }
            Cut::Piece(piece) => {
                let (html, found) = self.draw(&piece, splitter);
                if !piece.continues {
                    self.groups.push(Group {
                        pieces: Vec::new(),
                        first_index: self.n_blocks,
                        missing: Vec::new(),
                        has_footnotes: false,
                    });
                }
                let continues = piece.continues;
                if let Some(group) = self.groups.last_mut() {
                    group.pieces.push(piece);
                    group.missing.extend(found.missing.iter().cloned());
                    group.has_footnotes |= found.has_footnotes;
                }
                self.references.learn(found);
                blocks.push(Block {
                    index: self.n_blocks,
                    continues,
                    html: html.joined(continues),
                });
                self.n_blocks += 1;
            }
        }
    }

    fn draw(&mut self, piece: &Piece, splitter: &Splitter) -> (Html, Found) {
        let context = splitter.context(&piece.kind);
        let drawn = self.hand.draw(
            piece,
            &context,
            splitter.source(piece),
            &self.references,
            &mut self.numbers,
            &self.formulas,
        );
        if let Kind::Code { .. } = piece.kind {
            self.hand.cut_code(!piece.is_open);
        }
        drawn
    }

    fn redraw(&mut self, at: usize, splitter: &Splitter, blocks: &mut Vec<Block>) {
        let pieces = self.groups[at].pieces.clone();
        let first_index = self.groups[at].first_index;
        for (piece, index) in pieces.iter().zip(first_index..) {
            let (html, _) = self.draw(piece, splitter);
            blocks.push(Block {
                index,
                continues: piece.continues,
                html: html.joined(piece.continues),
            });
        }
    }

    /// Draws anew what speaks of something that was defined after it.
    fn settle(&mut self, splitter: &Splitter, blocks: &mut Vec<Block>) {
        // Numbers follow the first mention, and a mention may only now be known as one.
        let has_footnotes = self.references.n_footnotes() > 0;
        self.numbers = Numbers::default();
        for at in 0..self.groups.len() {
            let group = &self.groups[at];
            let is_resolved = group
                .missing
                .iter()
                .any(|label| self.references.defines_link(label));
            if is_resolved || has_footnotes && group.has_footnotes {
                self.redraw(at, splitter, blocks);
            }
        }
    }
}
