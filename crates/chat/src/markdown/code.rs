//! Syntax highlighting: turns lines of code into spans with a few classes.
//!
//! Rule: each line of growing code is highlighted once. The state after the last complete line is
//! cached, and only the incomplete line is highlighted again.
//!
//! The syntaxes (bat's, through two-face) are loaded with the first code block.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::escape::escape;

/// Longer lines are not highlighted: minified code would take seconds.
const MAX_LINE: usize = 1000;
/// Lines per chunk. A browser lays out the text of one element as a whole, again for each added
/// letter.
const CHUNK_LINES: usize = 16;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Scopes, most specific first, and their classes.
const CLASSES: [(&str, &str); 41] = [
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
    ("storage", "keyword"),
    ("entity.name.function", "function"),
    ("support.function", "function"),
    ("variable.function", "function"),
    ("meta.function-call.generic", "function"),
    ("entity.name.tag", "tag"),
    ("entity.other.attribute-name", "attribute"),
    ("variable.annotation", "attribute"),
    ("meta.annotation", "attribute"),
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

/// Returns the language in a code block's info string, as it is displayed.
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

#[derive(Debug, Clone)]
struct HighlightState {
    parse: ParseState,
    scopes: ScopeStack,
}

impl HighlightState {
    fn write_line(&mut self, line: &str, html: &mut String) {
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
            // Whitespace looks the same in all classes.
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
            // A pop without a push is a mistake in the syntax definition.
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

#[derive(Debug)]
struct Code {
    info: String,
    /// `None` if the code is not highlighted.
    state: Option<HighlightState>,
    /// The complete lines. Their HTML is in `chunks`.
    done: String,
    n_lines: usize,
    chunks: Vec<String>,
}

impl Code {
    fn new(info: &str) -> Self {
        let state = syntax(info).map(|syntax| HighlightState {
            parse: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        });
        Self {
            info: info.to_string(),
            state,
            done: String::new(),
            n_lines: 0,
            chunks: Vec::new(),
        }
    }

    /// Returns the HTML of `text`, which starts with the lines that are already done.
    fn chunks(&mut self, text: &str) -> Vec<String> {
        let n_whole = text.rfind('\n').map_or(0, |at| at + 1);
        for line in text[self.done.len()..n_whole].split_inclusive('\n') {
            let html = open_chunk(&mut self.chunks, self.n_lines);
            write_line(self.state.as_mut(), line, html);
            self.done.push_str(line);
            self.n_lines += 1;
        }
        let mut chunks = self.chunks.clone();
        if n_whole < text.len() {
            let html = open_chunk(&mut chunks, self.n_lines);
            write_line(self.state.clone().as_mut(), &text[n_whole..], html);
        }
        chunks
    }
}

/// Returns the chunk of the line with index `n_lines`.
fn open_chunk(chunks: &mut Vec<String>, n_lines: usize) -> &mut String {
    let at = n_lines / CHUNK_LINES;
    if at == chunks.len() {
        chunks.push(String::new());
    }
    &mut chunks[at]
}

fn write_line(state: Option<&mut HighlightState>, line: &str, html: &mut String) {
    match state {
        Some(state) => state.write_line(line, html),
        None => escape(line, html),
    }
}

/// Highlights the code blocks of one text and caches the results of the last render.
#[derive(Debug, Default)]
pub(super) struct Highlighter {
    /// In text order.
    blocks: Vec<Code>,
    next_block: usize,
}

impl Highlighter {
    /// Starts at the first code block again.
    pub(super) fn restart(&mut self) {
        self.next_block = 0;
    }

    /// Returns the HTML of the next code block, in chunks of complete lines.
    pub(super) fn chunks(&mut self, info: &str, text: &str) -> Vec<String> {
        let at = self.next_block;
        self.next_block += 1;
        match self.blocks.get_mut(at) {
            Some(code) if code.info == info && text.starts_with(&code.done) => {}
            Some(code) => *code = Code::new(info),
            None => self.blocks.push(Code::new(info)),
        }
        self.blocks[at].chunks(text)
    }
}
