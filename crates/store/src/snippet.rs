//! The piece of a message that is shown for a search result.
//!
//! Rule: highlighting compares words in the same way as the index, and a piece never ends inside a
//! character.

use pulldown_cmark::{Event, Options, Parser, TagEnd};

use crate::attached_text;
use crate::conversation::{Message, MessageRole, Snippet};
use crate::normalize::{self, NormalizedWord};

/// The bytes of text in a snippet: about two lines of a list.
const WINDOW_BYTES: usize = 180;
/// The bytes of these before the first match.
const LEAD_BYTES: usize = 40;

/// Words of the query without a space between them, which must follow one another in the text.
pub(crate) type Phrase = Vec<String>;

/// A range of the text that matches a phrase.
struct PhraseMatch {
    start: usize,
    end: usize,
    phrase: usize,
}

pub(crate) fn has_all(text: &str, phrases: &[Phrase]) -> bool {
    let matches = find(text, phrases);
    (0..phrases.len()).all(|phrase| matches.iter().any(|found| found.phrase == phrase))
}

/// Returns the part of the message with the most phrases; `None` if it has none. A response is
/// shown without its Markdown, unless only the Markdown matches, for example the address of a link.
pub(crate) fn around(message: &Message, phrases: &[Phrase]) -> Option<Snippet> {
    let plain = match message.role {
        MessageRole::Assistant => plain_text(&message.text),
        MessageRole::User => String::new(),
    };
    let attachment = attached_text::readable(&message.attachment);
    let candidates = [&plain, &message.text, &attachment];
    let best = candidates
        .into_iter()
        .filter_map(|text| {
            let matches = find(text, phrases);
            let (first, n_phrases) = best_start(&matches)?;
            Some((n_phrases, text, matches, first))
        })
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    let (_, text, matches, first) = best?;
    Some(Snippet {
        message: message.id,
        pieces: pieces_around(text, &matches, first),
    })
}

/// Returns the visible text of Markdown, with a space between blocks.
fn plain_text(markdown: &str) -> String {
    let mut plain = String::with_capacity(markdown.len());
    for event in Parser::new_ext(markdown, Options::all()) {
        match event {
            Event::Text(text) | Event::Code(text) => plain.push_str(&text),
            Event::InlineMath(tex) | Event::DisplayMath(tex) => plain.push_str(&tex),
            Event::End(
                TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link,
            )
            | Event::Start(_) => {}
            _ => plain.push(' '),
        }
    }
    plain
}

/// Returns all matches of the phrases. The last phrase may end in an unfinished word.
fn find(text: &str, phrases: &[Phrase]) -> Vec<PhraseMatch> {
    let words: Vec<NormalizedWord> = normalize::words(text).collect();
    let mut all = Vec::new();
    let mut free_from = 0;
    for at in 0..words.len() {
        let phrase = phrases.iter().enumerate().position(|(index, phrase)| {
            at >= free_from && is_at(&words[at..], phrase, index + 1 == phrases.len())
        });
        if let Some(phrase) = phrase {
            let end = at + phrases[phrase].len();
            free_from = end;
            all.push(PhraseMatch {
                start: words[at].start,
                end: words[end - 1].end,
                phrase,
            });
        }
    }
    all
}

fn is_at(words: &[NormalizedWord], phrase: &Phrase, is_last_unfinished: bool) -> bool {
    let Some((last, others)) = phrase.split_last() else {
        return false;
    };
    let Some(word) = words.get(others.len()) else {
        return false;
    };
    let is_last_there = match is_last_unfinished {
        true => word.normalized.starts_with(last.as_str()),
        false => word.normalized == *last,
    };
    is_last_there
        && words
            .iter()
            .zip(others)
            .all(|(word, other)| word.normalized == *other)
}

/// Returns the match from which a window contains the most different phrases, and their number.
fn best_start(matches: &[PhraseMatch]) -> Option<(usize, usize)> {
    let n_phrases = |first: usize| {
        let end = matches[first].start + WINDOW_BYTES - LEAD_BYTES;
        let mut seen = 0_u32;
        for found in matches[first..].iter().take_while(|found| found.end <= end) {
            seen |= 1 << (found.phrase % 32);
        }
        seen.count_ones().max(1) as usize
    };
    (0..matches.len())
        .map(|first| (first, n_phrases(first)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn pieces_around(text: &str, matches: &[PhraseMatch], first: usize) -> Vec<(String, bool)> {
    let start = boundary_before(text, matches[first].start.saturating_sub(LEAD_BYTES));
    let end = boundary_after(text, (start + WINDOW_BYTES).max(matches[first].end));
    let mut pieces = Vec::new();
    let mut at = start;
    if start > 0 {
        pieces.push(("…".to_string(), false));
    }
    for found in &matches[first..] {
        if found.end > end {
            break;
        }
        push(&mut pieces, &text[at..found.start], false);
        push(&mut pieces, &text[found.start..found.end], true);
        at = found.end;
    }
    push(&mut pieces, &text[at..end], false);
    if end < text.len() {
        push(&mut pieces, "…", false);
    }
    pieces
}

/// Appends text as one line, to the last piece if that is of the same kind.
fn push(pieces: &mut Vec<(String, bool)>, text: &str, is_word: bool) {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        let letter = if letter.is_whitespace() { ' ' } else { letter };
        let is_doubled = letter == ' '
            && match line.chars().last() {
                Some(last) => last == ' ',
                None => pieces.last().is_none_or(|(text, _)| text.ends_with(' ')),
            };
        if !is_doubled {
            line.push(letter);
        }
    }
    if line.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some((text, kind)) if *kind == is_word => text.push_str(&line),
        _ => pieces.push((line, is_word)),
    }
}

/// Returns where to begin: after a space nearby, else between characters.
fn boundary_before(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if at == 0 {
        return 0;
    }
    let near = &text[at..text.floor_char_boundary(at + LEAD_BYTES / 2)];
    near.find(char::is_whitespace)
        .map_or(at, |blank| at + blank)
}

/// Returns where to end: before a space nearby, else between characters.
fn boundary_after(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let at = text.ceil_char_boundary(at);
    let near = &text[at..text.ceil_char_boundary(at + LEAD_BYTES / 2)];
    near.find(char::is_whitespace)
        .map_or(at, |blank| at + blank)
}
