//! Where a growing text can be cut for good.
//!
//! Rule: pulldown-cmark decides. A line is a cut if, with everything since the last cut before it,
//! it is read as the beginning of another top-level block: then nothing that follows can change
//! what stands before. So that long blocks are cut too, code is cut between lines, a list between
//! items and a table between rows; those pieces are read with a context (see `parse`).
//!
//! Lines come one by one and whole, so where cuts lie does not depend on how the text came.

use std::mem::{Discriminant, discriminant};
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, MetadataBlockKind, Tag, TagEnd};

use super::parse::{Part, Read, References};

/// Source bytes after which a list or table is cut at the next item or row.
const LONG: usize = 2048;
/// Source bytes of code after which it is cut at the next line; its HTML is some four times longer.
const LONG_CODE: usize = 1024;
/// From here on a block that cannot be cut is looked at only each time it grew by an eighth.
const HUGE: usize = 8192;

/// A finished piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// Where it stands in the splitter's text.
    pub(super) source: Range<usize>,
    /// It goes on with the piece before it.
    pub(super) continues: bool,
    /// More of it may come, so a page has to be able to append.
    pub(super) is_open: bool,
}

/// How a piece is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it stands.
    Flow,
    /// Lines of fenced code; the line that opens it is no part of them.
    Code {
        /// The line that opens it.
        fence: Range<usize>,
    },
    /// Items of a list.
    List {
        /// Number of the first item of the whole list.
        start: Option<u64>,
        /// An item like the piece's own, without contents: a marker with what stands before it.
        marker: String,
        /// Its items' texts are paragraphs.
        is_loose: bool,
    },
    /// Rows of a table.
    Rows {
        /// Its first two lines.
        head: Range<usize>,
    },
}

/// What a line led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// A piece is finished.
    Piece(Piece),
    /// The open list has turned loose: what was cut of it reads differently from now on.
    Loose,
}

/// A text that is cut as it grows.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    text: String,
    /// Everything before is cut.
    cut_at: usize,
    open: Open,
    is_loose: bool,
    was_blank: bool,
    look_again_at: usize,
}

#[derive(Debug, Default)]
enum Open {
    /// Nothing but blank lines.
    #[default]
    Nothing,
    Flow,
    Code {
        fence: Range<usize>,
        is_cut: bool,
    },
    /// A list of which pieces were cut.
    List {
        start: Option<u64>,
    },
    /// A table of which pieces were cut.
    Rows {
        head: Range<usize>,
    },
}

impl Splitter {
    /// The piece that is not finished, as if it were.
    pub(super) fn rest(&self) -> Option<Piece> {
        (self.cut_at < self.text.len() || self.is_in_code())
            .then(|| self.piece(self.cut_at..self.text.len(), true))
            .flatten()
    }

    /// The open block is fenced code at the top level.
    pub(super) fn is_in_code(&self) -> bool {
        matches!(self.open, Open::Code { .. })
    }

    /// Takes a whole line with its end; the last line of a text may lack it.
    pub(super) fn line(&mut self, line: &str, references: &References) -> Vec<Cut> {
        let start = self.text.len();
        self.text.push_str(line);
        let is_blank = line.trim_matches([' ', '\t', '\n']).is_empty();
        let mut cuts = Vec::new();
        match &self.open {
            Open::Code { .. } => self.code_line(start, &mut cuts),
            Open::Nothing if is_blank => self.cut_at = self.text.len(),
            Open::Nothing => self.begin(start),
            _ if is_blank => {}
            _ => self.look(start, references, &mut cuts),
        }
        self.was_blank = is_blank;
        cuts
    }

    /// The text is complete.
    pub(super) fn finish(&mut self, references: &References) -> Vec<Cut> {
        let mut cuts = Vec::new();
        self.end_group(self.text.len(), references, &mut cuts);
        cuts
    }

    fn begin(&mut self, start: usize) {
        self.cut_at = start;
        self.is_loose = false;
        self.look_again_at = 0;
        let line = start..self.text.len();
        self.open = if opens_code(&self.text[line.clone()]) {
            self.cut_at = line.end;
            Open::Code {
                fence: line,
                is_cut: false,
            }
        } else {
            Open::Flow
        };
    }

    fn code_line(&mut self, start: usize, cuts: &mut Vec<Cut>) {
        let Open::Code { fence, is_cut } = &self.open else {
            return;
        };
        if closes_code(&self.text[fence.clone()], &self.text[start..]) {
            if start > self.cut_at || !is_cut {
                cuts.extend(self.piece(self.cut_at..start, false).map(Cut::Piece));
            }
            self.open = Open::Nothing;
            self.cut_at = self.text.len();
        } else if self.text.len() - self.cut_at >= LONG_CODE {
            cuts.extend(
                self.piece(self.cut_at..self.text.len(), true)
                    .map(Cut::Piece),
            );
            self.cut_at = self.text.len();
            if let Open::Code { is_cut, .. } = &mut self.open {
                *is_cut = true;
            }
        }
    }

    /// Whether the line at `start` ends what is open, or a part of it.
    fn look(&mut self, start: usize, references: &References, cuts: &mut Vec<Cut>) {
        let n_open = self.text.len() - self.cut_at;
        let line = self.text[start..].trim_start_matches(' ');
        let may_begin = self.was_blank
            || n_open >= LONG
            || line.starts_with(['#', '`', '~', '>', '-', '*', '+', '_', '<', '|', ':', '['])
            || line.starts_with(|first: char| first.is_ascii_digit())
            || !self.is_in_paragraph();
        if !may_begin || n_open < self.look_again_at {
            return;
        }
        let Some(piece) = self.piece(self.cut_at..self.text.len(), true) else {
            return;
        };
        let part = self.part(&piece, references);
        let (reads, _) = part.read(references);
        let tops = tops(&reads);
        let here = start - self.cut_at;
        self.note_looseness(&reads, cuts);
        let Some(last) = tops.last() else {
            return;
        };
        let begins_here =
            last.start >= here && tops.len() > 1 && last.kind == first_kind(&self.text[start..]);
        // Right after a definition of a link such a line may still be its title.
        let may_be_title = !self.was_blank
            && last.is(Shape::Paragraph)
            && self.text[self.cut_at + last.start..].starts_with(['"', '\'', '(']);
        let table_begins = last.is(Shape::Table)
            && tops.len() > 1
            && self.text[self.cut_at + last.start..start].lines().count() == 1;
        if begins_here && !may_be_title {
            self.end_group(start, references, cuts);
            self.begin(start);
        } else if table_begins {
            let at = self.cut_at + last.start;
            self.end_group(at, references, cuts);
            self.begin(at);
        } else if n_open >= LONG && tops.len() == 1 {
            self.cut_inside(start, here, &reads, tops[0].shape, cuts);
        }
        if self.text.len() - self.cut_at >= HUGE {
            self.look_again_at = (self.text.len() - self.cut_at) / 8 * 9;
        }
    }

    /// Cuts a long list or table before the line at `start`, if an item or row begins there.
    fn cut_inside(
        &mut self,
        start: usize,
        here: usize,
        reads: &[Read<'_>],
        shape: Shape,
        cuts: &mut Vec<Cut>,
    ) {
        let begins = match shape {
            Shape::List(_) => last_item(reads),
            Shape::Table => last_row(reads),
            _ => None,
        };
        if start == self.cut_at || begins.is_none_or(|at| at < here) {
            return;
        }
        let continues = self.is_continued();
        let mut source = self.cut_at..start;
        match shape {
            Shape::List(number) => {
                let is_readable = [self.cut_at, start]
                    .into_iter()
                    .all(|at| item_marker(&self.text[at..]).is_some());
                if !is_readable {
                    return;
                }
                if !continues {
                    self.open = Open::List { start: number };
                }
                self.is_loose |= is_loose_list(reads);
            }
            _ if !continues => {
                let lines = self.text[source.clone()].split_inclusive('\n');
                let n_head: usize = lines.take(2).map(str::len).sum();
                let head = source.start..source.start + n_head;
                source.start = head.end;
                self.open = Open::Rows { head };
            }
            _ => {}
        }
        cuts.extend(self.piece_at(source, continues, true).map(Cut::Piece));
        self.cut_at = start;
    }

    /// Everything before `end` is finished.
    fn end_group(&mut self, end: usize, references: &References, cuts: &mut Vec<Cut>) {
        let Some(mut piece) = self.piece(self.cut_at..end, false) else {
            return;
        };
        // What followed a list or table without being cut off from it is a piece of its own.
        let mut list_end = end;
        if matches!(piece.kind, Kind::List { .. } | Kind::Rows { .. }) {
            let part = self.part(&piece, references);
            let (reads, _) = part.read(references);
            self.note_looseness(&reads, cuts);
            if let Some(second) = tops(&reads).get(1) {
                list_end = self.cut_at + second.start;
            }
            if let Kind::List { is_loose, .. } = &mut piece.kind {
                *is_loose = self.is_loose;
            }
        }
        if list_end > self.cut_at || !piece.continues {
            cuts.push(Cut::Piece(Piece {
                source: self.cut_at..list_end,
                ..piece
            }));
        }
        if list_end < end {
            cuts.push(Cut::Piece(Piece {
                kind: Kind::Flow,
                source: list_end..end,
                continues: false,
                is_open: false,
            }));
        }
        self.open = Open::Nothing;
        self.cut_at = end;
    }

    fn note_looseness(&mut self, reads: &[Read<'_>], cuts: &mut Vec<Cut>) {
        if matches!(self.open, Open::List { .. }) && !self.is_loose && is_loose_list(reads) {
            self.is_loose = true;
            cuts.push(Cut::Loose);
        }
    }

    fn is_continued(&self) -> bool {
        matches!(self.open, Open::List { .. } | Open::Rows { .. })
    }

    /// The last line could be a paragraph's, which few lines interrupt.
    fn is_in_paragraph(&self) -> bool {
        matches!(self.open, Open::Flow)
            && !self.text[self.cut_at..].starts_with(['#', '<', '[', ' ', '\t', '-', '*', '_'])
    }

    fn piece(&self, source: Range<usize>, is_open: bool) -> Option<Piece> {
        let continues = match &self.open {
            Open::Nothing => return None,
            Open::Flow => false,
            Open::Code { is_cut, .. } => *is_cut,
            Open::List { .. } | Open::Rows { .. } => true,
        };
        self.piece_at(source, continues, is_open)
    }

    fn piece_at(&self, source: Range<usize>, continues: bool, is_open: bool) -> Option<Piece> {
        let kind = match &self.open {
            Open::Nothing => return None,
            Open::Flow => Kind::Flow,
            Open::Code { fence, .. } => Kind::Code {
                fence: fence.clone(),
            },
            Open::List { start } => Kind::List {
                start: *start,
                marker: item_marker(&self.text[source.start..])?,
                is_loose: self.is_loose,
            },
            Open::Rows { head } => Kind::Rows { head: head.clone() },
        };
        Some(Piece {
            kind,
            source,
            continues,
            is_open,
        })
    }

    /// A piece with its context.
    pub(super) fn part(&self, piece: &Piece, references: &References) -> Part {
        Part::new(&self.context(&piece.kind), self.source(piece), references)
    }

    /// The lines of a piece.
    pub(super) fn source(&self, piece: &Piece) -> &str {
        &self.text[piece.source.clone()]
    }

    /// What has to stand before a piece for it to be read as it is meant.
    pub(super) fn context(&self, kind: &Kind) -> String {
        match kind {
            Kind::Flow => String::new(),
            Kind::Code { fence } => {
                let fence = &self.text[fence.clone()];
                format!("{}\n", fence.trim_end_matches('\n'))
            }
            Kind::List {
                marker, is_loose, ..
            } => {
                let gap = if *is_loose { "\n\n" } else { "\n" };
                format!("{marker}x{gap}")
            }
            Kind::Rows { head } => self.text[head.clone()].to_string(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Paragraph,
    List(Option<u64>),
    Table,
    Other,
}

#[derive(Debug)]
struct Top {
    start: usize,
    shape: Shape,
    kind: Discriminant<Tag<'static>>,
}

impl Top {
    fn is(&self, shape: Shape) -> bool {
        self.shape == shape
    }
}

/// The top-level blocks.
fn tops(reads: &[Read<'_>]) -> Vec<Top> {
    let mut depth = 0;
    let mut tops = Vec::new();
    for read in reads {
        let shape = match &read.event {
            Event::Start(Tag::Paragraph) => Shape::Paragraph,
            Event::Start(Tag::List(start)) => Shape::List(*start),
            Event::Start(Tag::Table(_)) => Shape::Table,
            _ => Shape::Other,
        };
        if depth == 0 && !matches!(read.event, Event::End(_)) {
            tops.push(Top {
                start: read.range.start,
                shape,
                kind: kind(&read.event),
            });
        }
        match &read.event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    tops
}

/// What a line begins that stands alone. After the definition of a link a line is read as if a
/// paragraph were open, so it may be something else there.
fn first_kind(line: &str) -> Discriminant<Tag<'static>> {
    let part = Part::new("", line, &References::default());
    let (reads, _) = part.read(&References::default());
    kind(reads.first().map_or(&Event::Rule, |read| &read.event))
}

/// The kind of the element that an event begins; a rule counts as a metadata block, which there
/// is none of.
fn kind(event: &Event<'_>) -> Discriminant<Tag<'static>> {
    let tag = match event {
        Event::Start(tag) => tag.clone().into_static(),
        _ => Tag::MetadataBlock(MetadataBlockKind::YamlStyle),
    };
    discriminant(&tag)
}

fn last_item(reads: &[Read<'_>]) -> Option<usize> {
    let mut depth = 0;
    let mut last = None;
    for read in reads {
        match &read.event {
            Event::Start(Tag::Item) if depth == 1 => last = Some(read.range.start),
            _ => {}
        }
        match &read.event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    last
}

fn last_row(reads: &[Read<'_>]) -> Option<usize> {
    reads.iter().rev().find_map(|read| match read.event {
        Event::Start(Tag::TableRow) => Some(read.range.start),
        _ => None,
    })
}

/// Whether the list that `reads` begins with wraps its items' text in paragraphs.
fn is_loose_list(reads: &[Read<'_>]) -> bool {
    let mut depth = 0;
    for read in reads {
        match &read.event {
            Event::Start(Tag::Paragraph) if depth == 2 => return true,
            Event::Start(_) => depth += 1,
            Event::End(TagEnd::List(_)) if depth == 1 => return false,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    false
}

fn opens_code(line: &str) -> bool {
    if !line.trim_start_matches(' ').starts_with(['`', '~']) {
        return false;
    }
    let part = Part::new("", line, &References::default());
    let (reads, _) = part.read(&References::default());
    matches!(
        reads.first().map(|read| &read.event),
        Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))))
    )
}

fn closes_code(fence: &str, line: &str) -> bool {
    let inner = line.trim_matches([' ', '\t', '\n']);
    let is_fence = |mark: char| inner.len() >= 3 && inner.chars().all(|letter| letter == mark);
    if !is_fence('`') && !is_fence('~') {
        return false;
    }
    let both = format!("{fence}{line}");
    let probe = format!("{}\nx\n", both.trim_end_matches('\n'));
    let part = Part::new("", &probe, &References::default());
    let (reads, _) = part.read(&References::default());
    tops(&reads).len() > 1
}

/// What begins an item in `line`: blanks, a bullet or number, and a blank.
fn item_marker(line: &str) -> Option<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let rest = &line[indent..];
    let n_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let mark = rest[n_digits..].chars().next()?;
    let is_marker = match n_digits {
        0 => ['-', '*', '+'].contains(&mark),
        _ => ['.', ')'].contains(&mark),
    };
    let number = if n_digits > 0 { "1" } else { "" };
    is_marker.then(|| format!("{}{number}{mark} ", &line[..indent]))
}
