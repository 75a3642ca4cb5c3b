//! Formulas: found before Markdown is read, set as MathML.
//!
//! Rule: a formula leaves a mark of two noncharacters and a number in its place, so that Markdown
//! sees one word. Where that turns out to be code or a link's address, the mark gives way to the
//! source again: whatever is found here by mistake costs nothing.
//!
//! Models write `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. Dollars in prose are no formulas: see
//! [`closing_dollar`].

mod tex;

use std::borrow::Cow;
use std::cell::OnceCell;

const BEGIN: char = '\u{FDD0}';
const END: char = '\u{FDD1}';
/// A formula on several lines is given up after so many bytes.
const MAX_HELD: usize = 16 * 1024;

/// The formulas of a text, by number.
#[derive(Debug, Default)]
pub(super) struct Formulas(Vec<Formula>);

#[derive(Debug)]
struct Formula {
    /// With what encloses it.
    source: String,
    tex: String,
    is_display: bool,
    is_pending: bool,
    mathml: OnceCell<Option<String>>,
}

impl Formula {
    /// `None` if it cannot be set. Set once: a tail asks again and again.
    fn mathml(&self) -> Option<&str> {
        let set = || tex::mathml(&self.tex, self.is_display);
        self.mathml.get_or_init(set).as_deref()
    }
}

impl Formulas {
    fn add(&mut self, formula: Formula) -> String {
        self.0.push(formula);
        format!("{BEGIN}{}{END}", self.0.len() - 1)
    }

    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    /// Text with its formulas as `show` gives them; what is no formula goes to `show` as is.
    fn spread(&self, text: &str, mut show: impl FnMut(Result<&Formula, &str>)) {
        let mut rest = text;
        while let Some(start) = rest.find(BEGIN) {
            show(Err(&rest[..start]));
            rest = &rest[start + BEGIN.len_utf8()..];
            let Some(end) = rest.find(END) else { break };
            if let Some(formula) = rest[..end]
                .parse()
                .ok()
                .and_then(|at: usize| self.0.get(at))
            {
                show(Ok(formula));
            }
            rest = &rest[end + END.len_utf8()..];
        }
        show(Err(rest));
    }

    /// Text as it was written.
    pub(super) fn source<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !text.contains(BEGIN) {
            return Cow::Borrowed(text);
        }
        let mut source = String::with_capacity(text.len() * 2);
        self.spread(text, |part| {
            source.push_str(part.map_or_else(|prose| prose, |formula| &formula.source));
        });
        Cow::Owned(source)
    }

    /// Text as it is spoken: formulas by what is between their signs.
    pub(super) fn spoken<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !text.contains(BEGIN) {
            return Cow::Borrowed(text);
        }
        let mut spoken = String::with_capacity(text.len() * 2);
        self.spread(text, |part| {
            spoken.push_str(part.map_or_else(|prose| prose, |formula| formula.tex.trim()));
        });
        Cow::Owned(spoken)
    }

    /// Text as HTML, its prose by `escape`.
    pub(super) fn html(&self, text: &str, escape: impl Fn(&str, &mut String)) -> String {
        let mut html = String::with_capacity(text.len() * 2);
        self.spread(text, |part| match part {
            Err(prose) => escape(prose, &mut html),
            Ok(formula) if formula.is_pending => {
                html.push_str("<code class=\"math-pending\">");
                escape(formula.tex.trim(), &mut html);
                html.push_str("</code>");
            }
            Ok(formula) => match formula.mathml() {
                Some(mathml) => html.push_str(mathml),
                None => {
                    html.push_str("<code class=\"math-error\">");
                    escape(formula.source.trim(), &mut html);
                    html.push_str("</code>");
                }
            },
        });
        html
    }
}

/// Finds formulas in lines as they come. Lines of a formula that is not closed yet are held, and
/// come out as one; or as they were if a blank line or too much text comes first.
#[derive(Debug, Default)]
pub(super) struct Filter {
    held: Vec<String>,
    n_held: usize,
    /// What closes what is held.
    closer: &'static str,
    /// Where in the first held line its formula begins.
    begins: usize,
    /// The mark and length of a fence that is open below the top level.
    fence: Option<(u8, usize)>,
    /// The last line opened it.
    is_new_fence: bool,
}

impl Filter {
    /// A whole line; gives the lines that are ready.
    pub(super) fn line(&mut self, line: &str, formulas: &mut Formulas) -> Vec<String> {
        let line = without_marks(line);
        if self.is_code(&line) {
            let mut lines = self.release();
            lines.push(line.into_owned());
            return lines;
        }
        if self.held.is_empty() {
            return self.scan(line.into_owned(), formulas);
        }
        let inner = self.held_part(&line).to_string();
        if let Some(at) = inner.find(self.closer) {
            let (joined, rest) = self.join(&inner, at, formulas);
            return self.scan_from(joined, rest, formulas);
        }
        self.n_held += line.len();
        let is_over = inner.trim().is_empty() || self.n_held > MAX_HELD;
        self.held.push(line.into_owned());
        if is_over { self.release() } else { Vec::new() }
    }

    /// The lines that are held, as they were.
    pub(super) fn release(&mut self) -> Vec<String> {
        self.n_held = 0;
        std::mem::take(&mut self.held)
    }

    /// Another block began at the top level: no fence is open below it.
    pub(super) fn forget_code(&mut self) {
        if !self.is_new_fence {
            self.fence = None;
        }
    }

    /// A line of code at the top level went past: of its fences nothing is known here.
    pub(super) fn pass_code(&mut self) {
        self.fence = None;
        self.is_new_fence = false;
    }

    /// What is held and an unfinished `line`, with formulas, the last of which may be open.
    pub(super) fn unfinished(&self, line: &str, formulas: &mut Formulas) -> String {
        let line = without_marks(line);
        if self.fence.is_some() {
            return line.into_owned();
        }
        if let Some(first) = self.held.first() {
            let mut tex = first[self.begins + 2..].to_string();
            for line in &self.held[1..] {
                tex.push_str(self.held_part(line));
            }
            tex.push_str(self.held_part(&line));
            let (tex, rest, is_pending) = match tex.find(self.closer) {
                Some(at) => {
                    let rest = tex[at + self.closer.len()..].to_string();
                    (tex[..at].to_string(), rest, false)
                }
                None => (tex, String::new(), true),
            };
            let mark = formulas.add(Formula {
                source: format!("{}{tex}", &first[self.begins..self.begins + 2]),
                tex,
                is_display: true,
                is_pending,
                mathml: OnceCell::new(),
            });
            return format!("{}{mark}{rest}", &first[..self.begins]);
        }
        let (mut text, open) = found(line.into_owned(), 0, formulas);
        if let Some(open) = open {
            let source = text.split_off(open.at);
            let tex = source[2..].trim_end_matches('\\').to_string();
            let mark = formulas.add(Formula {
                source,
                tex,
                is_display: open.is_display,
                is_pending: true,
                mathml: OnceCell::new(),
            });
            text.push_str(&mark);
        }
        text
    }

    fn scan(&mut self, line: String, formulas: &mut Formulas) -> Vec<String> {
        self.scan_from(line, 0, formulas)
    }

    fn scan_from(&mut self, line: String, from: usize, formulas: &mut Formulas) -> Vec<String> {
        let (line, open) = found(line, from, formulas);
        match open {
            Some(open) if open.is_display && line.ends_with('\n') => {
                self.closer = open.closer;
                self.begins = open.at;
                self.n_held = line.len();
                self.held.push(line);
                Vec::new()
            }
            _ => vec![line],
        }
    }

    /// The held lines with `last`, in which they are closed `at`, as one line with a mark; and
    /// where in it the text after the mark begins.
    fn join(&mut self, last: &str, at: usize, formulas: &mut Formulas) -> (String, usize) {
        let held = std::mem::take(&mut self.held);
        let mut source = held[0][self.begins..].to_string();
        let mut tex = without_comment(&held[0][self.begins + 2..]);
        for line in &held[1..] {
            let part = self.held_part(line);
            source.push_str(part);
            tex.push_str(&without_comment(part));
        }
        source.push_str(&last[..at + self.closer.len()]);
        tex.push_str(&last[..at]);
        let mark = formulas.add(Formula {
            source,
            tex,
            is_display: true,
            is_pending: false,
            mathml: OnceCell::new(),
        });
        let mut joined = format!("{}{mark}", &held[0][..self.begins]);
        let rest = joined.len();
        joined.push_str(&last[at + self.closer.len()..]);
        self.n_held = 0;
        (joined, rest)
    }

    /// A line inside a quote goes on after its `>`.
    fn held_part<'a>(&self, line: &'a str) -> &'a str {
        let is_quote = self
            .held
            .first()
            .is_some_and(|first| first.trim_start().starts_with('>'));
        if is_quote {
            line.trim_start_matches([' ', '>'])
        } else {
            line.trim_start_matches([' ', '\t'])
        }
    }

    /// Whether `line` is in or beside a fence, which may stand in a list or quote.
    fn is_code(&mut self, line: &str) -> bool {
        let inner = without_containers(line);
        let mark = inner.bytes().next().unwrap_or_default();
        let is_mark = matches!(mark, b'`' | b'~');
        let n_marks = inner
            .bytes()
            .take_while(|&byte| is_mark && byte == mark)
            .count();
        let is_fence = n_marks >= 3;
        let rest = &inner[n_marks..];
        self.is_new_fence = false;
        match self.fence {
            Some((open, n_open)) => {
                if is_fence && mark == open && n_marks >= n_open && rest.trim().is_empty() {
                    self.fence = None;
                }
                true
            }
            None if is_fence && !(mark == b'`' && rest.contains('`')) => {
                self.fence = Some((mark, n_marks));
                self.is_new_fence = true;
                true
            }
            None => false,
        }
    }
}

/// A formula that is not closed on its line.
struct OpenFormula {
    at: usize,
    closer: &'static str,
    is_display: bool,
}

/// `line` with marks for the formulas after `from` that are closed on it, and the first that is
/// not.
fn found(line: String, from: usize, formulas: &mut Formulas) -> (String, Option<OpenFormula>) {
    let mut text = String::new();
    let mut copied = 0;
    let mut at = from;
    // Such a line is no fence only because of the ticks that follow: none of them may vanish.
    let is_almost_fence = without_containers(&line).starts_with("```");
    while let Some(step) = line[at..].find(['$', '\\', '`']) {
        at += step;
        let rest = &line[at..];
        let (opener, closer, is_display) = if rest.starts_with('`') {
            at += code_span(rest);
            continue;
        } else if rest.starts_with("$$") {
            ("$$", "$$", true)
        } else if rest.starts_with("\\[") {
            ("\\[", "\\]", true)
        } else if rest.starts_with("\\(") {
            ("\\(", "\\)", false)
        } else if rest.starts_with('$') {
            ("$", "$", false)
        } else {
            let skipped = rest.chars().take(2).map(char::len_utf8).sum::<usize>();
            at += skipped;
            continue;
        };
        let inner = &rest[opener.len()..];
        let end = match opener {
            "$" => closing_dollar(&line[..at], inner),
            _ => inner.find(closer),
        };
        match end {
            Some(end) if is_almost_fence && inner[..end].contains('`') => at += opener.len(),
            None if is_almost_fence && inner.contains('`') => at += opener.len(),
            Some(end) if !inner[..end].trim().is_empty() => {
                let n_all = opener.len() + end + closer.len();
                text.push_str(&line[copied..at]);
                text.push_str(&formulas.add(Formula {
                    source: rest[..n_all].to_string(),
                    tex: inner[..end].to_string(),
                    is_display,
                    is_pending: false,
                    mathml: OnceCell::new(),
                }));
                at += n_all;
                copied = at;
            }
            Some(end) => at += opener.len() + end + closer.len(),
            None if opener == "$" => at += 1,
            None => {
                text.push_str(&line[copied..at]);
                let open = OpenFormula {
                    at: text.len(),
                    closer,
                    is_display,
                };
                text.push_str(rest);
                return (text, Some(open));
            }
        }
    }
    if copied == 0 {
        return (line, None);
    }
    text.push_str(&line[copied..]);
    (text, None)
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

/// `line` without what stands before a block that is in lists and quotes.
fn without_containers(line: &str) -> &str {
    line.trim_start_matches(|letter: char| " \t>-*+.)".contains(letter) || letter.is_ascii_digit())
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

/// Where in the end of a text its first whole letter stands, which may be cut in a formula's mark.
pub(super) fn after_mark(end: &str) -> usize {
    match (end.find(END), end.find(BEGIN)) {
        (Some(end), begin) if begin.is_none_or(|begin| end < begin) => end + END.len_utf8(),
        _ => 0,
    }
}

fn without_marks(line: &str) -> Cow<'_, str> {
    if line.contains([BEGIN, END]) {
        Cow::Owned(line.replace([BEGIN, END], "\u{FFFD}"))
    } else {
        Cow::Borrowed(line)
    }
}
