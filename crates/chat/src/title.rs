//! Derives the title of a conversation from its first question, until a model writes one.
//!
//! Rule: a title is one short line of plain text, cut between words in scripts with spaces and
//! between characters in others. Only a conversation without a title gets one.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use transom_files::visible;
use transom_store::{AttachedText, attached_text};
use unicode_segmentation::UnicodeSegmentation;

/// Maximum length in grapheme clusters, including the ellipsis.
pub const MAX_CHARACTERS: usize = 60;

/// Cutting at a word boundary may lose this many characters; a longer word is cut inside.
const MAX_LOST: usize = 20;

/// Returns the title for `question`, or for the first text of a stored `attachment` if the question
/// has no text: the name of its file, else its beginning. Empty if neither has any.
pub fn title(question: &str, attachment: &str) -> String {
    let of = |text: &str| shortened(first_sentence(&plain(text)));
    let title = of(question);
    if !title.is_empty() {
        return title;
    }
    match attached_text::split(attachment).first() {
        Some(AttachedText {
            name: Some(name), ..
        }) => shortened(visible(name).trim()),
        Some(AttachedText { name: None, text }) => of(text),
        None => title,
    }
}

/// Returns a title that a model wrote, as one short line of plain text; `None` if it has no letter.
pub(crate) fn written(text: &str) -> Option<String> {
    let title = shortened(&plain(text));
    title.chars().any(char::is_alphanumeric).then_some(title)
}

/// Returns the text of the first Markdown block that has any, on one line and without markup.
/// Addresses of links and images are left out; code counts only if there is nothing else.
fn plain(markdown: &str) -> String {
    // A title needs only the beginning, and a question may contain a whole file.
    let beginning: String = markdown.chars().take(2_000).collect();
    let mut prose = Prose::default();
    for event in Parser::new_ext(&beginning, Options::ENABLE_STRIKETHROUGH) {
        prose.add(event);
    }
    let Prose { text, code, .. } = prose;
    let text = if text.trim().is_empty() { code } else { text };
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    visible(&line).into_owned()
}

#[derive(Default)]
struct Prose {
    text: String,
    code: String,
    is_in_code: bool,
}

impl Prose {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) if self.is_in_code => self.code.push_str(&text),
            Event::Text(text) | Event::Code(text) => self.text.push_str(&text),
            // A user who types `a <b> c` means these characters.
            Event::InlineHtml(html) | Event::Html(html) => self.text.push_str(&html),
            Event::SoftBreak | Event::HardBreak => self.text.push(' '),
            Event::Start(Tag::CodeBlock(_)) => self.is_in_code = true,
            Event::End(TagEnd::CodeBlock) => self.is_in_code = false,
            // A block's end ends its sentence.
            Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::HtmlBlock,
            ) => self.text.push('\n'),
            _ => {}
        }
    }
}

/// Returns the first non-empty sentence without its final period. A question mark stays.
fn first_sentence(text: &str) -> &str {
    let sentences = text.unicode_sentences().map(str::trim);
    let mut sentences = sentences.filter(|sentence| !sentence.is_empty());
    let first = sentences.next().unwrap_or_default();
    first.trim_end_matches(['.', '。', ':', '：', ',', ';', ' '])
}

fn shortened(text: &str) -> String {
    let characters: Vec<(usize, &str)> = text.grapheme_indices(true).collect();
    if characters.len() <= MAX_CHARACTERS {
        return text.to_owned();
    }
    // Leaves one character for the ellipsis.
    let n_kept = MAX_CHARACTERS - 1;
    let cut = characters[n_kept].0;
    let words_end = text.split_word_bound_indices().map(|(at, _)| at);
    let earliest = characters[n_kept - MAX_LOST].0;
    let cut = words_end
        .take_while(|at| *at <= cut)
        .filter(|at| *at >= earliest)
        .last()
        .unwrap_or(cut);
    let kept = text[..cut].trim_end_matches([' ', ',', ';', ':', '、', '，', '-', '–']);
    format!("{kept}…")
}

#[cfg(test)]
mod tests;
