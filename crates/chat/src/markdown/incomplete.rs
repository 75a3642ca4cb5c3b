//! Closes open Markdown syntax at the end of an incomplete text, so that the display does not
//! flicker: unfinished syntax looks as it will when it is complete.
//!
//! Rule: only a growing text is changed. A wrong guess lasts until more text arrives.

use super::fences::{Fences, code_end, n_leading};

/// A longer last paragraph is not changed, in bytes.
const MAX_CLOSED_BYTES: usize = 32 * 1024;

/// Returns true if an unfinished line of fenced code may be about to close the fence.
fn may_close_code(line: &str) -> bool {
    let marks = line.trim();
    !marks.is_empty()
        && (marks.chars().all(|letter| letter == '`') || marks.chars().all(|letter| letter == '~'))
}

/// Returns `text` without a last line whose meaning is still open, and with all open syntax in the
/// last paragraph closed.
pub(super) fn close_open_syntax(text: &str) -> String {
    let line_at = text.rfind('\n').map_or(0, |at| at + 1);
    let line = &text[line_at..];
    let mut fences = Fences::default();
    for line in text[..line_at].split_inclusive('\n') {
        fences.is_code(line);
    }
    if fences.is_open() {
        let shown = if may_close_code(line) {
            &text[..line_at]
        } else {
            text
        };
        return shown.to_string();
    }
    let paragraph_at = text.rfind("\n\n").map_or(0, |at| at + 2);
    let (before, paragraph) = text.split_at(paragraph_at);
    if paragraph.len() > MAX_CLOSED_BYTES {
        return text.to_string();
    }
    format!("{before}{}", close_paragraph(paragraph))
}

fn close_paragraph(source: &str) -> String {
    let line_at = source.rfind('\n').map_or(0, |at| at + 1);
    if is_undecided(&source[line_at..]) {
        let mut text = source[..line_at].to_string();
        complete_table(&mut text);
        return text;
    }
    let mut text = source.to_string();
    if complete_table(&mut text) {
        return text;
    }
    let from = inline_start(&text);
    let closed = close_inline(&text[from..]);
    text.truncate(from);
    text.push_str(&closed);
    text
}

/// Returns true for a line of markers alone: of a list, heading, rule, fence, setext underline or
/// table delimiter row.
fn is_undecided(line: &str) -> bool {
    let marks = line.trim();
    let marks = marks.trim_start_matches(['>', ' ']);
    let is_number = marks
        .strip_suffix(['.', ')'])
        .unwrap_or(marks)
        .chars()
        .all(|letter| letter.is_ascii_digit());
    marks.len() < 80
        && (marks.len() <= 10 && is_number
            || marks
                .chars()
                .all(|letter| "-+*=_#`~|:\\[!".contains(letter))
            || matches!(marks, "- [" | "- [ " | "- [x" | "* [" | "* [ " | "* [x"))
}

/// Adds or completes the delimiter row under a table header at the end of the text. Returns true if
/// the text ends in such a header.
fn complete_table(text: &mut String) -> bool {
    let ends_whole = text.ends_with('\n');
    let mut lines: Vec<&str> = text.lines().collect();
    let n_rows = lines
        .iter()
        .rev()
        .take_while(|line| line.trim_start().starts_with('|'))
        .count();
    let is_rule = |line: &str| line.trim().chars().all(|letter| "|:- ".contains(letter));
    if n_rows == 0 || n_rows > 2 {
        return false;
    }
    let head = lines[lines.len() - n_rows].to_string();
    if n_rows == 2 {
        if ends_whole || !is_rule(lines[lines.len() - 1]) {
            return false;
        }
        lines.pop();
    }
    let inner = head.trim().trim_start_matches('|').replace("\\|", "");
    let n_cells = inner.trim_end_matches('|').matches('|').count() + 1;
    let indent = &head[..head.len() - head.trim_start().len()];
    let rule = format!("{indent}|{}", "---|".repeat(n_cells));
    *text = format!("{}\n{rule}", lines.join("\n"));
    true
}

/// Returns where the open inline text of a paragraph starts: in its last list item or cell.
fn inline_start(text: &str) -> usize {
    let mut from = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let inner = line.trim_start();
        let is_item = ["- ", "* ", "+ ", "#", ">", "|"]
            .iter()
            .any(|mark| inner.starts_with(mark));
        let n_digits = inner.bytes().take_while(u8::is_ascii_digit).count();
        let is_numbered = n_digits > 0 && inner[n_digits..].starts_with([' ', '.', ')']);
        if is_item || is_numbered {
            let n_mark = if is_numbered { n_digits + 1 } else { 1 };
            from = at + (line.len() - inner.len()) + n_mark;
        }
        at += line.len();
    }
    if text[from.saturating_sub(1)..].starts_with('|') {
        from = text.rfind('|').map_or(from, |at| at + 1);
    }
    from.min(text.len())
}

/// Closes open emphasis and code. An open link is replaced by its text.
fn close_inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    // The open markers with their lengths and positions in `out`.
    let mut open: Vec<(char, usize, usize)> = Vec::new();
    let mut brackets: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        match letter {
            '\\' => {
                let n_pair = rest.chars().take(2).map(char::len_utf8).sum::<usize>();
                // A backslash at the end escapes nothing yet.
                if n_pair > 1 {
                    out.push_str(&rest[..n_pair]);
                }
                at += n_pair;
            }
            '`' => {
                let n_marks = n_leading(rest, '`');
                if let Some(end) = code_end(rest) {
                    out.push_str(&rest[..end]);
                    at += end;
                } else {
                    if rest.len() > n_marks {
                        out.push_str(rest.trim_end());
                        out.push_str(&rest[..n_marks]);
                    }
                    at = text.len();
                }
            }
            '*' | '_' | '~' => {
                let n_marks = n_leading(rest, letter);
                at += n_marks;
                emphasis(&mut out, &mut open, letter, n_marks, &text[at..]);
            }
            '[' => {
                brackets.push(out.len());
                out.push('[');
                at += 1;
            }
            ']' => {
                at += 1;
                let opener = brackets.pop();
                let after = &text[at..];
                let is_unfinished_link = after.starts_with('(') && !after.contains(')');
                match opener {
                    Some(opener) if is_unfinished_link || after.is_empty() => {
                        let is_note = out[opener..].starts_with("[^");
                        let inner = out[opener + 1..].trim();
                        if is_note || (inner.len() < 2 && after.is_empty()) {
                            out.push(']');
                        } else {
                            remove_opener(&mut out, &mut open, opener);
                            at = text.len();
                        }
                    }
                    _ if after.starts_with('(') && opener.is_some() => {
                        let end = after.find(')').map_or(after.len(), |end| end + 1);
                        out.push(']');
                        out.push_str(&after[..end]);
                        at += end;
                    }
                    _ => out.push(']'),
                }
            }
            '<' if rest.starts_with("<http") && !rest.contains('>') => {
                out.push_str(&rest[1..]);
                at = text.len();
            }
            _ => {
                out.push(letter);
                at += letter.len_utf8();
            }
        }
    }
    if let Some(&opener) = brackets.last() {
        let inner = &out[opener + 1..];
        let is_label = inner.starts_with(|first: char| !first.is_whitespace() && first != '^');
        if inner.is_empty() || is_label && inner.len() < 200 {
            remove_opener(&mut out, &mut open, opener);
        }
    }
    if !open.is_empty() {
        out.truncate(out.trim_end().len());
    }
    for (mark, n_marks, start) in open.into_iter().rev() {
        if start + n_marks >= out.len() {
            // It has no content yet.
            out.truncate(start.min(out.len()));
        } else {
            out.extend(std::iter::repeat_n(mark, n_marks));
        }
    }
    out
}

/// Removes the bracket that opens a link or image.
fn remove_opener(out: &mut String, open: &mut [(char, usize, usize)], opener: usize) {
    let start = opener - usize::from(out[..opener].ends_with('!'));
    out.replace_range(start..=opener, "");
    for (_, _, at) in open.iter_mut().filter(|(_, _, at)| *at > opener) {
        *at -= opener + 1 - start;
    }
}

fn emphasis(
    out: &mut String,
    open: &mut Vec<(char, usize, usize)>,
    mark: char,
    n_marks: usize,
    after: &str,
) {
    let before = out.chars().next_back();
    let next = after.chars().next();
    let is_blank = |letter: Option<char>| letter.is_none_or(char::is_whitespace);
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let mut n_left = n_marks;
    let may_close = !(is_blank(before) || mark == '_' && is_word(next));
    if may_close {
        while let Some(&(last, n_open, start)) = open.last() {
            if last != mark || n_left == 0 {
                break;
            }
            let n_pair = n_open.min(n_left);
            n_left -= n_pair;
            open.pop();
            if n_open > n_pair {
                open.push((mark, n_open - n_pair, start));
            }
        }
        out.extend(std::iter::repeat_n(mark, n_marks - n_left));
        if n_left == 0 {
            return;
        }
    }
    if next.is_none() {
        // It may be half of a closing marker or the start of an opening one.
        return;
    }
    let may_open = n_left <= 3 && !(is_blank(next) || mark == '_' && is_word(before));
    if may_open && !(mark == '~' && n_left != 2) {
        open.push((mark, n_left, out.len()));
    }
    out.extend(std::iter::repeat_n(mark, n_left));
}
