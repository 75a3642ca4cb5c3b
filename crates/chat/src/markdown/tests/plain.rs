//! A hand that writes what pulldown-cmark's own writer writes, and what a page makes of blocks.
//!
//! Rule: nothing of the product's looks is in here, so what differs from one reading of the whole
//! text can only come from cutting it.

use pulldown_cmark::{Event, Parser, Tag, TagEnd, html::push_html};

use crate::block::{Block, settle};
use crate::markdown::html::{Hand, Html, Numbers};
use crate::markdown::maths::Formulas;
use crate::markdown::parse::{Read, options};
use crate::markdown::split::Kind;
use crate::markdown::stream::Growing;

/// Where continuations go.
const SLOT: &str = "<!--more-->";

#[derive(Debug, Default)]
pub(super) struct Plain;

impl Hand for Plain {
    const READS_FORMULAS: bool = false;
    const TABLE_CLOSE: &'static str = "</tbody></table>\n";

    fn elements(&mut self, reads: Vec<Read<'_>>, numbers: &mut Numbers, _: &Formulas) -> String {
        let mut html = String::new();
        push_html(
            &mut html,
            reads.into_iter().map(|read| numbered(read.event, numbers)),
        );
        html
    }

    fn list(&self, start: Option<u64>, _: bool) -> (String, String) {
        let (mut open, mut close) = (String::new(), String::new());
        push_html(&mut open, [Event::Start(Tag::List(start))].into_iter());
        let end = TagEnd::List(start.is_some());
        push_html(&mut close, [Event::End(end)].into_iter());
        (open, close)
    }

    fn code(&self, info: &str, _: bool) -> (String, String) {
        let language = info.split(' ').next().unwrap();
        let mut open = String::from("<pre><code");
        if !language.is_empty() {
            open.push_str(" class=\"language-");
            pulldown_cmark_escape::escape_html(&mut open, language).unwrap();
            open.push('"');
        }
        open.push('>');
        (open, "</code></pre>\n".to_string())
    }

    fn code_lines(&mut self, _: &str, lines: &str, _: bool) -> String {
        let mut html = String::new();
        push_html(&mut html, [Event::Text(lines.into())].into_iter());
        html
    }

    fn cut_code(&mut self, _: bool) {}

    fn clean(&self, _: &Kind, is_open: bool, mut html: Html) -> Html {
        if is_open {
            html.close.insert_str(0, SLOT);
        }
        html
    }
}

/// One reading has one writer, whose numbers of footnotes run through the text.
fn numbered<'a>(event: Event<'a>, numbers: &mut Numbers) -> Event<'a> {
    let escaped = |label: &str| {
        let mut html = String::new();
        pulldown_cmark_escape::escape_html(&mut html, label).unwrap();
        html
    };
    match event {
        Event::FootnoteReference(label) => Event::InlineHtml(
            format!(
                "<sup class=\"footnote-reference\"><a href=\"#{}\">{}</a></sup>",
                escaped(&label),
                numbers.of(&label),
            )
            .into(),
        ),
        Event::Start(Tag::FootnoteDefinition(label)) => Event::Html(
            format!(
                "\u{1}<div class=\"footnote-definition\" id=\"{}\"><sup class=\"footnote-definition-label\">{}</sup>",
                escaped(&label),
                numbers.of(&label),
            )
            .into(),
        ),
        Event::End(TagEnd::FootnoteDefinition) => Event::Html("</div>\n".into()),
        other => other,
    }
}

/// Both without line breaks between blocks, which a writer puts by what it wrote before.
fn comparable(html: &str) -> String {
    html.replace('\u{1}', "")
        .split('\n')
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
        .replace("\n<", "<")
}

pub(super) fn one_shot(text: &str) -> String {
    // Lines end alike before they are read: pulldown-cmark keeps some returns in code.
    let text = text.replace("\r\n", "\n");
    let mut html = String::new();
    push_html(&mut html, Parser::new_ext(&text, options()));
    comparable(&html)
}

/// The HTML that a page shows in the end.
pub(super) fn streamed(text: &str, cuts: &[usize]) -> String {
    let mut stream = Growing::<Plain>::default();
    let mut blocks: Vec<Block> = Vec::new();
    let mut start = 0;
    for &cut in cuts {
        settle(&mut blocks, stream.push(&text[start..cut]));
        stream.tail();
        start = cut;
    }
    settle(&mut blocks, stream.push(&text[start..]));
    settle(&mut blocks, stream.finish());
    let mut html = String::new();
    let mut slot = None;
    for block in &blocks {
        if block.continues {
            let at: usize = slot.expect("a continuation has a group before it");
            html.insert_str(at, &block.html);
            slot = Some(at + block.html.len());
            continue;
        }
        let start = html.len();
        html.push_str(&block.html);
        slot = block.html.find(SLOT).map(|at| start + at);
    }
    comparable(&html.replace(SLOT, ""))
}

pub(super) fn streamed_at(text: &str, cut: usize) -> String {
    streamed(text, &[cut])
}
