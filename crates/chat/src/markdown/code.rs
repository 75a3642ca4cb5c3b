//! Code in colours: lines to spans with one of a few classes.
//!
//! Rule: a line of growing code is highlighted once. The state after the last whole line is cached,
//! and only the unfinished line is highlighted again.
//!
//! The syntaxes (bat's, through two-face) are loaded when the first code block comes, not before.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::writer::escape;

/// Longer lines are shown without colours: minified code would take seconds.
const MAX_LINE: usize = 1000;
/// Lines in a chunk. A browser lays out the text of one element together, and anew for each
/// letter that is added to it.
const CHUNK_LINES: usize = 16;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Scopes from the special to the general, and the classes that they get.
const CLASSES: [(&str, &str); 44] = [
    ("markup.inserted", "inserted"),
    ("markup.deleted", "deleted"),
    ("meta.diff.header", "heading"),
    ("meta.diff.range", "heading"),
    ("markup.heading", "heading"),
    ("entity.name.section", "heading"),
    ("markup.bold", "strong"),
    ("markup.italic", "emphasis"),
    ("markup.underline.link", "link"),
    ("markup.raw", "string"),
    ("invalid", "invalid"),
    ("comment", "comment"),
    ("punctuation.definition.comment", "comment"),
    ("constant.character.escape", "escape"),
    ("constant.other.placeholder", "escape"),
    ("punctuation.definition.string", "string"),
    ("string", "string"),
    ("constant.numeric", "number"),
    ("constant.character", "string"),
    ("constant", "constant"),
    ("support.constant", "constant"),
    ("keyword.operator.word", "keyword"),
    ("keyword.operator.logical.python", "keyword"),
    ("keyword.operator", "operator"),
    ("keyword", "keyword"),
    ("storage.type.function", "keyword"),
    ("storage", "keyword"),
    ("entity.name.function", "function"),
    ("support.function", "function"),
    ("variable.function", "function"),
    ("meta.function-call.generic", "function"),
    ("entity.name.tag", "tag"),
    ("entity.other.attribute-name", "attribute"),
    ("variable.annotation", "attribute"),
    ("meta.annotation", "attribute"),
    ("entity.name.type", "type"),
    ("entity.name.class", "type"),
    ("entity.name", "type"),
    ("entity.other.inherited-class", "type"),
    ("support.type.property-name", "attribute"),
    ("support.type", "type"),
    ("support.class", "type"),
    ("variable.language", "variable"),
    ("variable.parameter", "variable"),
];

static SCOPES: LazyLock<Vec<(Scope, &str)>> = LazyLock::new(|| {
    CLASSES
        .iter()
        .filter_map(|(scope, class)| Some((Scope::new(scope).ok()?, *class)))
        .collect()
});

/// The language in the line that opens a code block, as it is shown.
pub(super) fn language(info: &str) -> &str {
    let word = info
        .split([' ', '\t', ',', '{', ':'])
        .find(|word| !word.is_empty())
        .unwrap_or_default();
    word.trim_start_matches('.').trim_end_matches('}')
}

fn syntax(info: &str) -> Option<&'static SyntaxReference> {
    let name = language(info);
    if name.is_empty() {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let known = match lower.as_str() {
        "text" | "txt" | "plain" | "plaintext" | "none" | "output" => return None,
        "shell" | "console" | "shellsession" | "sh-session" | "zsh" => "bash",
        "jsonc" | "json5" => "json",
        "c++" => "cpp",
        "c#" => "cs",
        "objective-c" | "objc" => "m",
        "golang" => "go",
        "python3" | "py3" => "python",
        "docker" => "dockerfile",
        "ps1" | "pwsh" => "powershell",
        "react" => "jsx",
        "tex" => "latex",
        other => other,
    };
    SYNTAXES.find_syntax_by_token(known)
}

/// Code that is being highlighted, between two lines.
#[derive(Debug, Clone)]
struct Place {
    parse: ParseState,
    scopes: ScopeStack,
}

impl Place {
    fn line(&mut self, line: &str, html: &mut String) {
        if line.len() > MAX_LINE {
            return escape(line, html);
        }
        let Ok(changes) = self.parse.parse_line(line, &SYNTAXES) else {
            return escape(line, html);
        };
        let mut open: Option<&str> = None;
        let mut write = |text: &str, class: Option<&'static str>| {
            if text.is_empty() {
                return;
            }
            // Blanks look alike in all classes.
            let class = if text.trim().is_empty() { open } else { class };
            if class != open {
                if open.is_some() {
                    html.push_str("</span>");
                }
                if let Some(class) = class {
                    html.push_str("<span class=\"hl-");
                    html.push_str(class);
                    html.push_str("\">");
                }
                open = class;
            }
            escape(text, html);
        };
        let mut done = 0;
        for (at, change) in &changes {
            write(&line[done..*at], class_of(&self.scopes));
            done = *at;
            // What a scope that was never pushed would pop is a fault of the syntax, not of ours.
            let _ = self.scopes.apply(change);
        }
        let rest = line[done..].trim_end_matches('\n');
        write(rest, class_of(&self.scopes));
        if open.is_some() {
            html.push_str("</span>");
        }
        if line.ends_with('\n') {
            html.push('\n');
        }
    }
}

fn class_of(scopes: &ScopeStack) -> Option<&'static str> {
    scopes.as_slice().iter().rev().find_map(|scope| {
        SCOPES
            .iter()
            .find_map(|(prefix, class)| prefix.is_prefix_of(*scope).then_some(*class))
    })
}

/// A code block that may grow.
#[derive(Debug)]
struct Code {
    info: String,
    /// `None`: no colours.
    place: Option<Place>,
    /// The whole lines, whose HTML is in `chunks`.
    done: String,
    n_lines: usize,
    chunks: Vec<String>,
}

impl Code {
    fn new(info: &str) -> Self {
        let place = syntax(info).map(|syntax| Place {
            parse: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        });
        Self {
            info: info.to_string(),
            place,
            done: String::new(),
            n_lines: 0,
            chunks: Vec::new(),
        }
    }

    /// Returns the HTML of `text`, which begins with the lines that are done.
    fn chunks(&mut self, text: &str) -> Vec<String> {
        let n_whole = text.rfind('\n').map_or(0, |at| at + 1);
        for line in text[self.done.len()..n_whole].split_inclusive('\n') {
            let html = open_chunk(&mut self.chunks, self.n_lines);
            write_line(self.place.as_mut(), line, html);
            self.done.push_str(line);
            self.n_lines += 1;
        }
        let mut chunks = self.chunks.clone();
        if n_whole < text.len() {
            let html = open_chunk(&mut chunks, self.n_lines);
            write_line(self.place.clone().as_mut(), &text[n_whole..], html);
        }
        chunks
    }
}

/// Returns the chunk that the line with the index `n_lines` belongs to.
fn open_chunk(chunks: &mut Vec<String>, n_lines: usize) -> &mut String {
    let at = n_lines / CHUNK_LINES;
    if at == chunks.len() {
        chunks.push(String::new());
    }
    &mut chunks[at]
}

fn write_line(place: Option<&mut Place>, line: &str, html: &mut String) {
    match place {
        Some(place) => place.line(line, html),
        None => escape(line, html),
    }
}

/// Highlights the code blocks of one text, and caches what it did in the last reading.
#[derive(Debug, Default)]
pub(super) struct Highlighter {
    /// In the order of the text.
    blocks: Vec<Code>,
    n_read: usize,
}

impl Highlighter {
    /// The text is read from its start again.
    pub(super) fn restart(&mut self) {
        self.n_read = 0;
    }

    /// Returns the HTML of the next code block in chunks of whole lines.
    pub(super) fn chunks(&mut self, info: &str, text: &str) -> Vec<String> {
        let at = self.n_read;
        self.n_read += 1;
        match self.blocks.get_mut(at) {
            Some(code) if code.info == info && text.starts_with(&code.done) => {}
            Some(code) => *code = Code::new(info),
            None => self.blocks.push(Code::new(info)),
        }
        self.blocks[at].chunks(text)
    }
}
