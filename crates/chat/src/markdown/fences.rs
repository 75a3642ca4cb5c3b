//! Detects fenced code blocks line by line, without a Markdown parser.
//!
//! Formulas are found and incomplete text is closed before Markdown is parsed, so neither can use
//! the parser. A wrong guess is harmless: a formula in code becomes its source again, and a missed
//! formula is shown as its source.

#[derive(Debug, Default)]
pub(super) struct Fences {
    open: Option<Fence>,
}

#[derive(Debug, PartialEq, Eq)]
struct Fence {
    mark: char,
    n_marks: usize,
    /// The fence is inside a list or quote, which ends at the first line that is not indented.
    is_nested: bool,
}

impl Fences {
    /// Returns true if the next line is code, unless it closes the fence.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns true if `line`, the next line, is inside a fence or is a fence.
    pub(super) fn is_code(&mut self, line: &str) -> bool {
        if let Some(open) = &self.open {
            let inner = line.trim_start_matches([' ', '\t', '>']);
            let is_after = open.is_nested && inner.len() == line.len() && !inner.trim().is_empty();
            if !is_after {
                if closes(inner, open) {
                    self.open = None;
                }
                return true;
            }
        }
        self.open = opened(line);
        self.open.is_some()
    }
}

pub(super) fn opens(line: &str) -> bool {
    opened(line).is_some()
}

fn opened(line: &str) -> Option<Fence> {
    let inner = without_containers(line);
    let mark = inner
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let n_marks = n_leading(inner, mark);
    let is_fence = n_marks >= 3;
    let is_code_span = mark == '`' && inner[n_marks..].contains('`');
    let before = &line[..line.len() - inner.len()];
    (is_fence && !is_code_span).then(|| Fence {
        mark,
        n_marks,
        is_nested: before.len() > 3 || !before.trim().is_empty(),
    })
}

fn closes(inner: &str, open: &Fence) -> bool {
    let n_marks = n_leading(inner, open.mark);
    n_marks >= open.n_marks && inner[n_marks..].trim().is_empty()
}

/// Counts the leading occurrences of `mark`, an ASCII character.
pub(super) fn n_leading(text: &str, mark: char) -> usize {
    text.chars().take_while(|&letter| letter == mark).count()
}

/// Returns where the code span ends that `text` starts with; `None` if its backticks open none.
pub(super) fn code_end(text: &str) -> Option<usize> {
    let n_marks = n_leading(text, '`');
    let mut at = n_marks;
    while let Some(step) = text[at..].find('`') {
        at += step;
        let n_found = n_leading(&text[at..], '`');
        at += n_found;
        if n_found == n_marks {
            return Some(at);
        }
    }
    None
}

/// Returns `line` without indentation and without the markers of lists and quotes.
pub(super) fn without_containers(line: &str) -> &str {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let n_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = match n_digits {
            0 => rest.strip_prefix(['-', '*', '+']),
            _ => rest[n_digits..].strip_prefix(['.', ')']),
        };
        rest = match after.filter(|after| after.starts_with([' ', '\t'])) {
            Some(after) => after,
            None => match rest.strip_prefix('>') {
                Some(after) => after,
                None => return rest,
            },
        };
    }
}
