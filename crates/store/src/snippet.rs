//! The piece of a message to show for what was found in it.
//!
//! Rule: words are marked by the same comparison by which the index found them, and a piece never
//! ends inside a character.

use pulldown_cmark::{Event, Options, Parser, TagEnd};

use crate::conversation::{Message, Snippet, Speaker};
use crate::fold::{self, Word};
use crate::search::Phrase;

/// Bytes of text in a snippet: about two lines of a list.
const WINDOW_BYTES: usize = 180;
/// Of these, before the first word.
const LEAD_BYTES: usize = 40;

/// A stretch of the text that is one of the phrases.
struct Found {
    start: usize,
    end: usize,
    phrase: usize,
}

/// Whether every phrase is in the text.
pub(crate) fn has_all(text: &str, phrases: &[Phrase]) -> bool {
    let found = find(text, phrases);
    (0..phrases.len()).all(|phrase| found.iter().any(|found| found.phrase == phrase))
}

/// The stretch of the message with most of the phrases; `None` if it has none. An answer is shown
/// without its Markdown, unless the words are in that alone, as in a link's address.
pub(crate) fn around(message: &Message, phrases: &[Phrase]) -> Option<Snippet> {
    let plain = match message.speaker {
        Speaker::Assistant => plain_text(&message.text),
        Speaker::User => String::new(),
    };
    let candidates = [&plain, &message.text, &message.attachment];
    let best = candidates
        .into_iter()
        .filter_map(|text| {
            let found = find(text, phrases);
            let (first, n_phrases) = best_start(&found)?;
            Some((n_phrases, text, found, first))
        })
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    let (_, text, found, first) = best?;
    Some(Snippet {
        message: message.id,
        pieces: cut(text, &found, first),
    })
}

/// Returns what people read of a Markdown text, with a space between its blocks.
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

/// Every place where a phrase is; the last phrase may end in an unfinished word.
fn find(text: &str, phrases: &[Phrase]) -> Vec<Found> {
    let words: Vec<Word> = fold::words(text).collect();
    let mut all = Vec::new();
    let mut free_from = 0;
    for at in 0..words.len() {
        let phrase = phrases.iter().enumerate().position(|(index, phrase)| {
            at >= free_from && is_at(&words[at..], phrase, index + 1 == phrases.len())
        });
        if let Some(phrase) = phrase {
            let end = at + phrases[phrase].len();
            free_from = end;
            all.push(Found {
                start: words[at].start,
                end: words[end - 1].end,
                phrase,
            });
        }
    }
    all
}

fn is_at(words: &[Word], phrase: &Phrase, is_last_unfinished: bool) -> bool {
    let Some((last, others)) = phrase.split_last() else {
        return false;
    };
    let Some(word) = words.get(others.len()) else {
        return false;
    };
    let is_last_there = match is_last_unfinished {
        true => word.folded.starts_with(last.as_str()),
        false => word.folded == *last,
    };
    is_last_there
        && words
            .iter()
            .zip(others)
            .all(|(word, other)| word.folded == *other)
}

/// From which of the places on a window has most different phrases, and how many.
fn best_start(found: &[Found]) -> Option<(usize, usize)> {
    let n_phrases = |first: usize| {
        let end = found[first].start + WINDOW_BYTES - LEAD_BYTES;
        let mut seen = 0_u32;
        for place in found[first..].iter().take_while(|place| place.end <= end) {
            seen |= 1 << (place.phrase % 32);
        }
        seen.count_ones().max(1) as usize
    };
    let mut best: Option<(usize, usize)> = None;
    for first in 0..found.len() {
        let n = n_phrases(first);
        if best.is_none_or(|(_, most)| n > most) {
            best = Some((first, n));
        }
    }
    best
}

fn cut(text: &str, found: &[Found], first: usize) -> Vec<(String, bool)> {
    let start = boundary_before(text, found[first].start.saturating_sub(LEAD_BYTES));
    let end = boundary_after(text, (start + WINDOW_BYTES).max(found[first].end));
    let mut pieces = Vec::new();
    let mut at = start;
    if start > 0 {
        pieces.push(("…".to_string(), false));
    }
    for place in &found[first..] {
        if place.end > end {
            break;
        }
        push(&mut pieces, &text[at..place.start], false);
        push(&mut pieces, &text[place.start..place.end], true);
        at = place.end;
    }
    push(&mut pieces, &text[at..end], false);
    if end < text.len() {
        push(&mut pieces, "…", false);
    }
    pieces
}

/// Adds text on one line, to the last piece if that is of the same kind.
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

/// A place to begin at: after a blank nearby, else between characters.
fn boundary_before(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if at == 0 {
        return 0;
    }
    let near = &text[at..text.floor_char_boundary(at + LEAD_BYTES / 2)];
    near.find(char::is_whitespace)
        .map_or(at, |blank| at + blank)
}

/// A place to end at: before a blank nearby, else between characters.
fn boundary_after(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let at = text.ceil_char_boundary(at);
    let near = &text[at..text.ceil_char_boundary(at + LEAD_BYTES / 2)];
    near.find(char::is_whitespace)
        .map_or(at, |blank| at + blank)
}
