//! Code in colours: lines to spans with one of a few classes.
//!
//! Rule: a line of growing code is highlighted once. The state after the last whole line is kept,
//! and only the unfinished line is done again.
//!
//! The syntaxes (bat's, through two-face) are loaded when the first code block comes, not before.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::html::escape;

/// Longer lines are shown without colours: minified code would take seconds.
const MAX_LINE: usize = 1000;
/// Code blocks below the top level of which the state is kept: as many as a tail may hold, or each
/// of its updates would highlight them all.
const N_NESTED: usize = 32;
/// Longer code below the top level is shown without colours.
const MAX_NESTED: usize = 64 * 1024;

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

/// A growing text of code.
#[derive(Debug, Clone)]
struct Code {
    info: String,
    /// `None`: no colours.
    place: Option<Place>,
    /// The whole lines since the last cut.
    done: String,
    html: String,
    was_cut: bool,
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
            html: String::new(),
            was_cut: false,
        }
    }

    /// All of `text`, of which the beginning was given before.
    fn html(&mut self, text: &str) -> String {
        let n_whole = text.rfind('\n').map_or(0, |at| at + 1);
        for line in text[self.done.len().min(n_whole)..n_whole].split_inclusive('\n') {
            match &mut self.place {
                Some(place) => place.line(line, &mut self.html),
                None => escape(line, &mut self.html),
            }
            self.done.push_str(line);
        }
        let mut html = self.html.clone();
        match self.place.clone() {
            Some(mut place) if n_whole < text.len() => place.line(&text[n_whole..], &mut html),
            _ => escape(&text[n_whole..], &mut html),
        }
        html
    }

    fn cut(&mut self) {
        self.done.clear();
        self.html.clear();
        self.was_cut = true;
    }
}

/// Highlights the code blocks of one text.
#[derive(Debug, Default)]
pub(super) struct Highlighter {
    open: Option<Code>,
    nested: Vec<Code>,
}

impl Highlighter {
    /// The lines of the open top-level code block since its last cut.
    pub(super) fn open(&mut self, info: &str, lines: &str, continues: bool) -> String {
        let is_known = self.open.as_ref().is_some_and(|code| {
            code.info == info && lines.starts_with(&code.done) && continues == code.was_cut
        });
        if !is_known {
            self.open = Some(Code::new(info));
        }
        self.open
            .as_mut()
            .map(|code| code.html(lines))
            .unwrap_or_default()
    }

    /// What was given of the open block is committed; `ends`: it was its last.
    pub(super) fn cut(&mut self, ends: bool) {
        if ends {
            self.open = None;
        } else if let Some(code) = &mut self.open {
            code.cut();
        }
    }

    /// A code block inside a list or quote: drawn again with its item, not highlighted again.
    pub(super) fn nested(&mut self, info: &str, text: &str) -> String {
        if text.len() > MAX_NESTED {
            let mut html = String::new();
            escape(text, &mut html);
            return html;
        }
        let known = self
            .nested
            .iter()
            .enumerate()
            .filter(|(_, code)| code.info == info && text.starts_with(&code.done))
            .max_by_key(|(_, code)| code.done.len());
        let mut code = match known {
            Some((at, _)) => self.nested.remove(at),
            None => Code::new(info),
        };
        let html = code.html(text);
        self.nested.insert(0, code);
        self.nested.truncate(N_NESTED);
        html
    }
}
