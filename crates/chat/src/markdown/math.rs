//! Finds formulas before Markdown is parsed, and renders them as MathML.
//!
//! Rule: each formula is replaced by a placeholder of two noncharacters and a number, which
//! Markdown sees as one word. If the placeholder turns out to be in code or in a link's address, it
//! becomes the source again, so a false match is harmless.
//!
//! Models write `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. Dollar amounts in prose are not formulas; see
//! [`closing_dollar`].

mod tex;

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;

use super::escape::escape;
use super::fences::{self, Fences, code_end, n_leading, without_containers};

/// Precedes the number of a formula.
pub(super) const BEGIN: char = '\u{FDD0}';
/// Follows the number of a formula.
pub(super) const END: char = '\u{FDD1}';
/// Search limit in bytes for the end of a formula that spans lines.
const MAX_LENGTH: usize = 16 * 1024;

/// The formulas of a text by number, and a cache of rendered MathML.
#[derive(Debug, Default)]
pub(super) struct Formulas {
    formulas: Vec<Formula>,
    /// MathML by TeX: inline formulas first, display formulas second. `None` if the TeX cannot be
    /// rendered.
    rendered: [HashMap<String, Option<String>>; 2],
}

#[derive(Debug)]
struct Formula {
    /// The source with its delimiters.
    source: String,
    tex: String,
    is_display: bool,
    is_pending: bool,
}

impl Formulas {
    /// Replaces the formulas in `text` by placeholders and stores the formulas in place of the
    /// previous ones. If `is_complete` is false, a formula that is open at the end counts too.
    pub(super) fn replace<'t>(&mut self, text: &'t str, is_complete: bool) -> Cow<'t, str> {
        self.formulas.clear();
        if !text.contains(['$', '\\']) {
            return Cow::Borrowed(text);
        }
        let mut finder = Finder {
            text,
            is_complete,
            formulas: mem::take(&mut self.formulas),
            output: String::with_capacity(text.len()),
        };
        let mut fences = Fences::default();
        let mut at = 0;
        while at < text.len() {
            let line = line_at(text, at);
            if fences.is_code(line) {
                finder.output.push_str(line);
                at += line.len();
            } else {
                at = finder.process_line(at);
            }
        }
        self.formulas = finder.formulas;
        Cow::Owned(finder.output)
    }

    /// Returns `text` with placeholders replaced by their source.
    pub(super) fn source<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains(BEGIN) {
            return Cow::Borrowed(text);
        }
        let mut source = String::with_capacity(text.len() * 2);
        for part in parts(text) {
            match part {
                Part::Prose(prose) => source.push_str(prose),
                Part::Formula(at) => {
                    let formula = self.formulas.get(at);
                    source.push_str(formula.map_or("", |formula| &formula.source));
                }
            }
        }
        Cow::Owned(source)
    }

    /// Writes `text` as HTML with rendered formulas.
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
        let Some(formula) = self.formulas.get(at) else {
            return;
        };
        let (class, source) = if formula.is_pending {
            ("math-pending", &formula.tex)
        } else {
            let rendered = &mut self.rendered[usize::from(formula.is_display)];
            if !rendered.contains_key(&formula.tex) {
                let mathml = tex::mathml(&formula.tex, formula.is_display);
                rendered.insert(formula.tex.clone(), mathml);
            }
            if let Some(Some(mathml)) = rendered.get(&formula.tex) {
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

/// Splits text at its placeholders. The source contains no other noncharacters, but an HTML entity
/// can produce one with any number.
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

struct Finder<'t> {
    text: &'t str,
    is_complete: bool,
    formulas: Vec<Formula>,
    output: String,
}

enum Search {
    Closed {
        formula: Formula,
        end: usize,
    },
    /// The text ends before the formula is closed.
    Open {
        tex: String,
    },
    None,
}

impl Finder<'_> {
    fn add_formula(&mut self, formula: Formula) {
        self.output.push(BEGIN);
        self.output.push_str(&self.formulas.len().to_string());
        self.output.push(END);
        self.formulas.push(formula);
    }

    /// Marks the formulas that start in the line at `start`. Returns the start of the next line to
    /// process.
    fn process_line(&mut self, start: usize) -> usize {
        let text = self.text;
        let mut end = start + line_at(text, start).len();
        let mut copied = start;
        let mut at = start;
        // Only the backticks that follow keep this line from being a fence, so none of them may be
        // removed.
        let is_almost_fence = without_containers(&text[start..end]).starts_with("```");
        while let Some(step) = text[at..end].find(['$', '\\', '`']) {
            at += step;
            let rest = &text[at..end];
            let Some((opener, closer)) = delimiters(rest) else {
                at += match rest.strip_prefix('\\') {
                    Some(after) => 1 + after.chars().next().map_or(0, char::len_utf8),
                    None => code_end(rest).unwrap_or_else(|| n_leading(rest, '`')),
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
                        self.output.push_str(&text[copied..at]);
                        self.add_formula(formula);
                        copied = after;
                    }
                    at = after;
                    end = end.max(at + line_at(text, at).len());
                }
                Search::Open { tex } if !self.is_complete => {
                    self.output.push_str(&text[copied..at]);
                    self.add_formula(Formula {
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
        self.output.push_str(&text[copied..end]);
        end
    }

    /// Searches below the line `start..end` for the end of the display formula that starts at `at`.
    /// A blank line or a fence ends the search.
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

/// Returns the line of `text` that starts at `at`, including its line break.
fn line_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find('\n').map_or(rest.len(), |end| end + 1)]
}

/// Returns the opening and closing delimiters if `text` starts with a formula.
fn delimiters(text: &str) -> Option<(&'static str, &'static str)> {
    [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")]
        .into_iter()
        .find(|(opener, _)| text.starts_with(opener))
}

/// Returns where in `inner` the formula ends that a dollar after `before` would open, or `None` if
/// it is not a formula. A formula has no whitespace at its ends and no ASCII letter or digit
/// directly outside, and it is not an amount followed by words ("$5 or 6$").
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

/// Returns true if `tex` contains, outside of braces and commands, a non-Latin letter, three Latin
/// letters in a row, or two that do not look like a differential.
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

/// Returns the line without its TeX comment. Once lines are joined, the comment would hide the next
/// line too.
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
