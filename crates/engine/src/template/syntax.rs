//! Rewrites the few parts of Jinja2's syntax that minijinja does not read.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Tags with which `transformers` finds the assistant's text. They only mark, so blocks without
/// effect replace them; `with` opens a scope, as the original tag does.
const BLOCKS: [(&str, &str); 2] = [("generation", "with"), ("endgeneration", "endwith")];

/// Maximum number of tokens in a tag. Expressions nest no deeper than this, and each level takes
/// stack when minijinja compiles it.
pub(super) const MAX_TAG_LEN: usize = 1000;
/// Maximum number of `elif` branches in a template, each of which is a level as well.
const MAX_BRANCHES: usize = 250;

/// Rewrites a template's source. Line numbers do not change, for the sake of messages.
pub(crate) fn for_minijinja(source: &str) -> String {
    // Jinja2 reads every kind of line break as a plain one.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut output = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        output.push_str(before);
        match replacement(tag) {
            Some((text, len)) => {
                output.push_str(&text);
                rest = &tag[len..];
            }
            None => {
                output.push_str("{%");
                rest = &tag[2..];
            }
        }
    }
    output.push_str(rest);
    output
}

/// Returns the replacement of the tag at the start of `source`, and the tag's length.
fn replacement(source: &str) -> Option<(String, usize)> {
    let end = source.find("%}")?;
    let inside = &source[2..end];
    let name = inside
        .trim_start_matches(['-', '+'])
        .trim_end_matches(['-', '+'])
        .trim();
    let (name, block) = BLOCKS.into_iter().find(|(block, _)| *block == name)?;
    Some((
        format!("{{%{}%}}", inside.replacen(name, block, 1)),
        end + 2,
    ))
}

/// Checks that compiling a template takes a limited amount of stack. Syntax errors are left to the
/// compiler.
///
/// # Errors
/// What is too long, with its line.
pub(crate) fn check_depth(source: &str, syntax: &SyntaxConfig) -> Result<(), String> {
    let (mut tag_len, mut n_branches) = (0, 0);
    for (token, span) in tokenize(source, false, syntax.clone()).map_while(Result::ok) {
        match token {
            Token::BlockStart | Token::VariableStart => tag_len = 0,
            Token::Ident("elif") if tag_len == 0 => n_branches += 1,
            _ => {}
        }
        let too_much = match token {
            _ if n_branches > MAX_BRANCHES => "there are too many branches",
            _ if tag_len > MAX_TAG_LEN => "an expression is too long",
            Token::BlockStart | Token::VariableStart => continue,
            _ => {
                tag_len += 1;
                continue;
            }
        };
        return Err(format!("{too_much} (line {})", span.start_line));
    }
    Ok(())
}
