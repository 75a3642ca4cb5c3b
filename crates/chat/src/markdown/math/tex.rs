//! Converts TeX to MathML with math-core.
//!
//! Rule: the output has no style attributes, because the content security policy forbids them. The
//! few that math-core writes become classes. A formula is rendered completely or not at all
//! (`None`).

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::markdown::escape::escaped;
use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};

/// Longer formulas are shown as source.
const MAX_LENGTH: usize = 8 * 1024;
/// Deeper formulas are shown as source: the parser recurses once per level.
const MAX_DEPTH: usize = 64;
/// Commands without braces nest too, as in `\sqrt\sqrt x`.
const MAX_COMMANDS: usize = 600;

thread_local! {
    static CONVERTER: RefCell<Option<LatexToMathML>> =
        RefCell::new(LatexToMathML::new(MathCoreConfig::default()).ok());
}

pub(super) fn mathml(tex: &str, is_display: bool) -> Option<String> {
    if tex.len() > MAX_LENGTH || depth(tex) > MAX_DEPTH || tex.matches('\\').count() > MAX_COMMANDS
    {
        return None;
    }
    let (normalized, is_boxed) = normalized(tex);
    let display = if is_display {
        MathDisplay::Block
    } else {
        MathDisplay::Inline
    };
    let mathml = CONVERTER.with_borrow_mut(|converter| {
        let convert = || {
            let result = converter
                .as_mut()?
                .convert_with_local_state(&normalized, display);
            result.ok().map(|result| result.mathml)
        };
        // A panic in the converter affects only this formula, not the response.
        catch_unwind(AssertUnwindSafe(convert)).ok().flatten()
    })?;
    let class = if is_boxed { " class=\"boxed\"" } else { "" };
    let math = format!("<math{class} alttext=\"{}\"", escaped(tex.trim()));
    Some(with_classes(&mathml).replacen("<math", &math, 1))
}

fn depth(tex: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for (at, byte) in tex.bytes().enumerate() {
        let rest = &tex.as_bytes()[at..];
        let opens = byte == b'{' || rest.starts_with(b"\\left") || rest.starts_with(b"\\begin");
        let closes = byte == b'}' || rest.starts_with(b"\\right") || rest.starts_with(b"\\end");
        if opens {
            depth += 1;
            deepest = deepest.max(depth);
        } else if closes {
            depth = depth.saturating_sub(1);
        }
    }
    deepest
}

/// Rewrites commands that models use and math-core lacks. Also returns whether the whole formula is
/// boxed.
fn normalized(tex: &str) -> (String, bool) {
    let mut tex = tex.trim().to_string();
    for (from, to) in [
        ("{split}", "{aligned}"),
        ("{multline}", "{gathered}"),
        ("{multline*}", "{gathered}"),
        ("{eqnarray}", "{align*}"),
        ("{eqnarray*}", "{align*}"),
        ("\\nonumber", ""),
        ("\\notag", ""),
        ("\\limits\\limits", "\\limits"),
    ] {
        if tex.contains(from) {
            tex = tex.replace(from, to);
        }
    }
    for size in ["\\large", "\\Large", "\\LARGE", "\\small", "\\normalsize"] {
        tex = replaced(&tex, size, |after| {
            let is_longer = after.starts_with(|letter: char| letter.is_ascii_alphabetic());
            (!is_longer).then(|| (String::new(), 0))
        });
    }
    for (command, before, after) in [
        ("\\tag*", "\\qquad\\text{", "}"),
        ("\\tag", "\\qquad\\text{(", ")}"),
        ("\\label", "", ""),
        ("\\require", "", ""),
        ("\\substack", "\\begin{matrix}", "\\end{matrix}"),
        ("\\mbox", "\\text{", "}"),
        ("\\textnormal", "\\text{", "}"),
    ] {
        let keeps = !after.is_empty();
        tex = with_argument(&tex, command, |inner| {
            if keeps {
                format!("{before}{inner}{after}")
            } else {
                String::new()
            }
        });
    }
    let mut is_boxed = false;
    for command in ["\\boxed", "\\fbox"] {
        if let Some(inner) = tex.strip_prefix(command).map(str::trim_start) {
            is_boxed |= argument(inner).is_some_and(|end| end == inner.len());
        }
        tex = with_argument(&tex, command, |inner| format!("{{{inner}}}"));
    }
    (tex, is_boxed)
}

/// Replaces each `command{…}` by the result of `write` for its argument.
fn with_argument(tex: &str, command: &str, write: impl Fn(&str) -> String) -> String {
    replaced(tex, command, |after| {
        let inner = after.trim_start();
        let end = argument(inner)?;
        let text = write(&inner[1..end - 1]);
        Some((text, after.len() - inner.len() + end))
    })
}

/// Replaces `part` wherever `replace` returns a text for what follows it, and as many of the bytes
/// that follow as it returns.
fn replaced(text: &str, part: &str, replace: impl Fn(&str) -> Option<(String, usize)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(part) {
        out.push_str(before);
        let (new, n_taken) = replace(after).unwrap_or_else(|| (part.to_owned(), 0));
        out.push_str(&new);
        rest = &after[n_taken..];
    }
    out.push_str(rest);
    out
}

/// Returns the length of the braced group that `tex` starts with.
fn argument(tex: &str) -> Option<usize> {
    let mut depth = 0;
    let mut is_escaped = false;
    for (at, letter) in tex.char_indices() {
        match letter {
            '{' if !is_escaped => depth += 1,
            '}' if !is_escaped => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    None
}

/// Replaces style attributes by classes. Styles without a class, such as colors, are dropped.
fn with_classes(mathml: &str) -> String {
    replaced(mathml, " style=\"", |after| {
        let end = after.find('"').unwrap_or(after.len());
        let style = &after[..end];
        let classes: Vec<&str> = [
            ("text-align: left", "cell-left"),
            ("text-align: right", "cell-right"),
            ("padding-left:1em", "cell-apart"),
            ("border-right", "rule-right"),
            ("border-left", "rule-left"),
            ("border-top", "rule-top"),
            ("border-bottom", "rule-bottom"),
        ]
        .into_iter()
        .filter_map(|(part, class)| style.contains(part).then_some(class))
        .collect();
        let attribute = match classes.is_empty() {
            true => String::new(),
            false => format!(" class=\"{}\"", classes.join(" ")),
        };
        Some((attribute, after.len().min(end + 1)))
    })
}
