//! Formulas: found before Markdown is parsed, set as MathML.
//!
//! Rule: a formula leaves a mark of two noncharacters and a number in its place, so that Markdown
//! sees one word. Where that turns out to be code or a link's address, the mark gives way to the
//! source again: whatever is found here by mistake costs nothing.
//!
//! Models write `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. Dollars in prose are no formulas: see
//! [`closing_dollar`].

mod tex;

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;

use super::fences::{self, Fences, without_containers};
use super::writer::escape;

/// Stands before the number of a formula.
pub(super) const BEGIN: char = '\u{FDD0}';
/// Stands after the number of a formula.
pub(super) const END: char = '\u{FDD1}';
/// A formula on several lines is given up after so many bytes.
const MAX_LENGTH: usize = 16 * 1024;

/// The formulas of a text, by number, and the cached MathML of those that were set before.
#[derive(Debug, Default)]
pub(super) struct Formulas {
    found: Vec<Formula>,
    /// By TeX, first those on a line, then those on their own. `None` if it cannot be set.
    set: [HashMap<String, Option<String>>; 2],
}

#[derive(Debug)]
struct Formula {
    /// With what encloses it.
    source: String,
    tex: String,
    is_display: bool,
    is_pending: bool,
}

impl Formulas {
    /// Returns `text` with marks in the place of its formulas, which take the place of those found
    /// before. Until the text `is_complete`, one that is open at its end counts too.
    pub(super) fn mark<'t>(&mut self, text: &'t str, is_complete: bool) -> Cow<'t, str> {
        self.found.clear();
        if !text.contains(['$', '\\']) {
            return Cow::Borrowed(text);
        }
        let mut finder = Finder {
            text,
            is_complete,
            found: mem::take(&mut self.found),
            marked: String::with_capacity(text.len()),
        };
        let mut fences = Fences::default();
        let mut at = 0;
        while at < text.len() {
            let line = line_at(text, at);
            if fences.is_code(line) {
                finder.marked.push_str(line);
                at += line.len();
            } else {
                at = finder.mark_line(at);
            }
        }
        self.found = finder.found;
        Cow::Owned(finder.marked)
    }

    /// Returns text as it was written.
    pub(super) fn source<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains(BEGIN) {
            return Cow::Borrowed(text);
        }
        let mut source = String::with_capacity(text.len() * 2);
        for part in parts(text) {
            match part {
                Part::Prose(prose) => source.push_str(prose),
                Part::Formula(at) => {
                    let formula = self.found.get(at);
                    source.push_str(formula.map_or("", |formula| &formula.source));
                }
            }
        }
        Cow::Owned(source)
    }

    /// Writes text as HTML.
    pub(super) fn write(&mut self, text: &str, html: &mut String) {
        if !text.contains(BEGIN) {
            return escape(text, html);
        }
        for part in parts(text) {
            match part {
                Part::Prose(prose) => escape(prose, html),
                Part::Formula(at) => self.write_formula(at, html),
            }
        }
    }

    fn write_formula(&mut self, at: usize, html: &mut String) {
        let Some(formula) = self.found.get(at) else {
            return;
        };
        let (class, source) = if formula.is_pending {
            ("math-pending", &formula.tex)
        } else {
            let set = &mut self.set[usize::from(formula.is_display)];
            if !set.contains_key(&formula.tex) {
                let mathml = tex::mathml(&formula.tex, formula.is_display);
                set.insert(formula.tex.clone(), mathml);
            }
            if let Some(Some(mathml)) = set.get(&formula.tex) {
                return html.push_str(mathml);
            }
            ("math-error", &formula.source)
        };
        html.push_str(&format!("<code class=\"{class}\">"));
        escape(source.trim(), html);
        html.push_str("</code>");
    }
}

enum Part<'t> {
    Prose(&'t str),
    Formula(usize),
}

/// Text with marks, in parts. The source has no other noncharacters, but an entity may stand for
/// one, with any number.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    text.split(BEGIN).enumerate().flat_map(|(index, part)| {
        let (number, prose) = match part.split_once(END) {
            Some((number, prose)) if index > 0 => (number.parse().ok(), prose),
            _ => (None, part),
        };
        number
            .map(Part::Formula)
            .into_iter()
            .chain([Part::Prose(prose)])
    })
}

/// Finds the formulas of a text.
struct Finder<'t> {
    text: &'t str,
    is_complete: bool,
    found: Vec<Formula>,
    marked: String,
}

/// What a line's open formula leads to.
enum Search {
    Closed {
        formula: Formula,
        end: usize,
    },
    /// The text ends before it is closed.
    Open {
        tex: String,
    },
    None,
}

impl Finder<'_> {
    fn mark_formula(&mut self, formula: Formula) {
        self.marked.push(BEGIN);
        self.marked.push_str(&self.found.len().to_string());
        self.marked.push(END);
        self.found.push(formula);
    }

    /// Marks what begins in the line at `start`. Returns where the next line begins.
    fn mark_line(&mut self, start: usize) -> usize {
        let text = self.text;
        let mut end = start + line_at(text, start).len();
        let mut copied = start;
        let mut at = start;
        // Such a line is no fence only because of the ticks that follow: none of them may vanish.
        let is_almost_fence = without_containers(&text[start..end]).starts_with("```");
        while let Some(step) = text[at..end].find(['$', '\\', '`']) {
            at += step;
            let rest = &text[at..end];
            let Some((opener, closer)) = delimiters(rest) else {
                at += match rest.strip_prefix('\\') {
                    Some(after) => 1 + after.chars().next().map_or(0, char::len_utf8),
                    None => code_span(rest),
                };
                continue;
            };
            let is_display = matches!(opener, "$$" | "\\[");
            let inner = &rest[opener.len()..];
            let close = match opener {
                "$" => closing_dollar(&text[start..at], inner),
                _ => inner.find(closer),
            };
            if is_almost_fence && inner[..close.unwrap_or(inner.len())].contains('`') {
                at += opener.len();
                continue;
            }
            let search = match close {
                Some(n_inner) => Search::Closed {
                    end: at + opener.len() + n_inner + closer.len(),
                    formula: Formula {
                        source: rest[..opener.len() + n_inner + closer.len()].to_string(),
                        tex: inner[..n_inner].to_string(),
                        is_display,
                        is_pending: false,
                    },
                },
                None if is_display => self.search_below(start, at, end, closer),
                None if opener == "\\(" && end == text.len() && !inner.ends_with('\n') => {
                    Search::Open {
                        tex: inner.trim_end_matches('\\').to_string(),
                    }
                }
                None => Search::None,
            };
            match search {
                Search::Closed {
                    formula,
                    end: after,
                } => {
                    if !formula.tex.trim().is_empty() {
                        self.marked.push_str(&text[copied..at]);
                        self.mark_formula(formula);
                        copied = after;
                    }
                    at = after;
                    end = end.max(at + line_at(text, at).len());
                }
                Search::Open { tex } if !self.is_complete => {
                    self.marked.push_str(&text[copied..at]);
                    self.mark_formula(Formula {
                        source: text[at..].to_string(),
                        tex,
                        is_display,
                        is_pending: true,
                    });
                    return text.len();
                }
                Search::Open { .. } | Search::None => at += opener.len(),
            }
        }
        self.marked.push_str(&text[copied..end]);
        end
    }

    /// Looks for the end of the formula on its own that begins at `at`, below its line, which goes
    /// from `start` to `end`. A blank line and a fence end the search.
    fn search_below(&self, start: usize, at: usize, end: usize, closer: &str) -> Search {
        let text = self.text;
        let is_quote = text[start..].trim_start().starts_with('>');
        let mut source = text[at..end].to_string();
        let mut tex = without_comment(&text[at + closer.len()..end]);
        let mut below = end;
        while below < text.len() {
            let line = line_at(text, below);
            let inner = match is_quote {
                true => line.trim_start_matches([' ', '>']),
                false => line.trim_start_matches([' ', '\t']),
            };
            let inner_at = below + line.len() - inner.len();
            if let Some(n_inner) = inner.find(closer).filter(|_| !fences::opens(line)) {
                let n_closed = n_inner + closer.len();
                source.push_str(&inner[..n_closed]);
                tex.push_str(&inner[..n_inner]);
                return Search::Closed {
                    end: inner_at + n_closed,
                    formula: Formula {
                        source,
                        tex,
                        is_display: true,
                        is_pending: false,
                    },
                };
            }
            let is_blank = inner.trim().is_empty() && line.ends_with('\n');
            below += line.len();
            if is_blank || fences::opens(line) || below - at > MAX_LENGTH {
                return Search::None;
            }
            source.push_str(inner);
            tex.push_str(&without_comment(inner));
        }
        Search::Open { tex }
    }
}

/// Returns the line of `text` that begins at `at`, with its end.
fn line_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find('\n').map_or(rest.len(), |end| end + 1)]
}

/// What opens the formula that `text` may begin with, and what closes it.
fn delimiters(text: &str) -> Option<(&'static str, &'static str)> {
    [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")]
        .into_iter()
        .find(|(opener, _)| text.starts_with(opener))
}

/// Where in `inner` the formula ends that a dollar after `before` would open; `None` if it opens
/// none. Of a formula neither end is blank, no letter or digit of ours stands close outside, and
/// it is no amount with words ("$5 or 6$").
fn closing_dollar(before: &str, inner: &str) -> Option<usize> {
    let is_close = |letter: char| letter.is_ascii_alphanumeric();
    if inner.starts_with(char::is_whitespace) || before.ends_with(is_close) {
        return None;
    }
    let mut is_escaped = false;
    let end = inner.char_indices().find_map(|(at, letter)| {
        let is_end = letter == '$' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end.then_some(at)
    })?;
    let (tex, after) = (&inner[..end], &inner[end + 1..]);
    let is_prose = tex.ends_with(char::is_whitespace)
        || after.starts_with(is_close)
        || tex.contains('`')
        || tex.starts_with(|first: char| first.is_ascii_digit()) && has_words(tex);
    (!is_prose).then_some(end)
}

/// Whether there are letters of another script, three Latin ones in a row, or two that are a word
/// and no differential, outside braces and commands.
fn has_words(tex: &str) -> bool {
    let mut depth = 0;
    let mut word = String::new();
    let mut is_command = false;
    for letter in tex.chars().chain([' ']) {
        if letter.is_ascii_alphabetic() {
            word.push(letter);
            continue;
        }
        let is_long = word.len() >= 3 || word.len() == 2 && !word.starts_with('d');
        let is_other = letter.is_alphabetic();
        if depth <= 0 && (is_long && !is_command || is_other) {
            return true;
        }
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        word.clear();
        is_command = letter == '\\';
    }
    false
}

/// The length of the code span that `text` begins with, or of its marks if it is none.
fn code_span(text: &str) -> usize {
    let n_marks = text.bytes().take_while(|&byte| byte == b'`').count();
    let mut at = n_marks;
    while let Some(step) = text[at..].find('`') {
        at += step;
        let n_found = text[at..].bytes().take_while(|&byte| byte == b'`').count();
        at += n_found;
        if n_found == n_marks {
            return at;
        }
    }
    n_marks
}

/// A line of a formula up to its comment: in one line with the next it would hide that too.
fn without_comment(line: &str) -> String {
    let mut is_escaped = false;
    for (at, letter) in line.char_indices() {
        if letter == '%' && !is_escaped {
            return format!("{}\n", &line[..at]);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    line.to_string()
}
