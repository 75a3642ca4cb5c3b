//! Writes parser events as HTML: the first layer of protection.
//!
//! Rule: everything from the text is escaped, as text or as an attribute's value. All tag and
//! attribute names are constants in this file. HTML in the text is shown as source, except that a
//! bare `<br>` breaks the line. Nothing is loaded: images are shown as their description and
//! address.

use std::borrow::Cow;
use std::collections::HashMap;

use pulldown_cmark::{
    Alignment, BlockQuoteKind, CodeBlockKind, Event, HeadingLevel, LinkType, Tag, TagEnd,
};

use super::code::{Highlighter, language};
use super::escape::{escape, escaped};
use super::math::Formulas;
use super::sanitize::{SCHEMES, sanitized};

/// Deeper elements are drawn as text only.
const MAX_DEPTH: usize = 48;

const TABLE_CLOSE: &str = "</tbody></table></div>\n";

/// A block before sanitizing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) is_inside: bool,
    pub(super) html: String,
}

impl Fragment {
    pub(super) fn sanitized(&self) -> String {
        // Outside of a table, the sanitizer drops the tags of a row, like any HTML parser.
        if !self.html.starts_with("<tr>") {
            return sanitized(&self.html);
        }
        let (before, after) = ("<table><tbody>", "</tbody></table>");
        let table = sanitized(&format!("{before}{}{after}", self.html));
        let row = table.strip_prefix(before);
        let row = row.and_then(|row| row.strip_suffix(after));
        row.unwrap_or_default().to_string()
    }
}

/// Returns the opening and closing HTML of a code block.
fn code_tags(info: &str) -> (String, &'static str) {
    let language = escaped(language(info));
    let mut open = String::from("<figure class=\"code\"");
    if !language.is_empty() {
        open.push_str(&format!(" data-language=\"{language}\""));
    }
    open.push_str(&format!(
        "><figcaption><span class=\"language\">{language}</span>\
         <button type=\"button\" class=\"copy\"></button></figcaption><pre><code>"
    ));
    (open, "</code></pre></figure>\n")
}

pub(super) struct Writer<'w> {
    fragments: Vec<Fragment>,
    html: String,
    highlighter: &'w mut Highlighter,
    formulas: &'w mut Formulas,
    /// Footnote numbers by label, in the order in which the text mentions them.
    footnotes: HashMap<String, usize>,
    alignments: Vec<Alignment>,
    n_cells: usize,
    is_head: bool,
    /// Closing tags of the open elements; empty for elements that are not drawn.
    ends: Vec<&'static str>,
    /// The open top-level element is a list or table, whose children are separate fragments.
    is_split: bool,
}

impl<'w> Writer<'w> {
    pub(super) fn new(highlighter: &'w mut Highlighter, formulas: &'w mut Formulas) -> Self {
        highlighter.restart();
        Self {
            fragments: Vec::new(),
            html: String::new(),
            highlighter,
            formulas,
            footnotes: HashMap::new(),
            alignments: Vec::new(),
            n_cells: 0,
            is_head: false,
            ends: Vec::new(),
            is_split: false,
        }
    }

    pub(super) fn write(mut self, events: &[Event<'_>]) -> Vec<Fragment> {
        let mut at = 0;
        while at < events.len() {
            let is_end = matches!(events[at], Event::End(_));
            at = self.event(events, at);
            match self.ends.len() {
                0 => {
                    self.end_fragment(false);
                    self.is_split = false;
                }
                1 if self.is_split && is_end => self.end_fragment(true),
                _ => {}
            }
        }
        self.fragments
    }

    fn end_fragment(&mut self, is_inside: bool) {
        if !self.html.is_empty() {
            let html = std::mem::take(&mut self.html);
            self.fragments.push(Fragment { is_inside, html });
        }
    }

    /// Writes the event at `at`. Returns the index of the next event.
    fn event(&mut self, events: &[Event<'_>], at: usize) -> usize {
        let next = at + 1;
        match &events[at] {
            Event::Start(Tag::CodeBlock(kind)) => return self.code(kind, events, next),
            Event::Start(Tag::Image { dest_url, .. }) => {
                let (alt, end) = self.plain(events, next);
                self.image(&alt, dest_url);
                return end;
            }
            Event::Start(tag) => {
                let close = self.open(tag, &events[next..]);
                self.ends.push(close);
            }
            Event::End(end) => self.end(end),
            Event::TaskListMarker(is_checked) => {
                let (label, _) = self.plain(events, next);
                let checked = if *is_checked { " checked=\"\"" } else { "" };
                self.html.push_str(&format!(
                    "<input type=\"checkbox\" disabled=\"\"{checked} aria-label=\"{}\"> ",
                    escaped(label.trim())
                ));
            }
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.formulas.write(text, &mut self.html);
            }
            Event::Html(html) | Event::InlineHtml(html) => self.raw_html(html),
            Event::Code(code) => {
                self.html.push_str("<code>");
                escape(&self.formulas.source(code), &mut self.html);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::FootnoteReference(label) => {
                let number = self.footnote(label);
                self.html.push_str(&format!(
                    "<sup class=\"footnote-reference\">\
                     <a href=\"#fn-{number}\">{number}</a></sup>"
                ));
            }
        }
        next
    }

    fn footnote(&mut self, label: &str) -> usize {
        let next = self.footnotes.len() + 1;
        *self.footnotes.entry(label.to_string()).or_insert(next)
    }

    /// Writes HTML that the text contains, as visible source.
    fn raw_html(&mut self, html: &str) {
        let html = self.formulas.source(html);
        let tag = html.trim().to_ascii_lowercase();
        if matches!(tag.as_str(), "<br>" | "<br/>" | "<br />") {
            self.html.push_str("<br>\n");
        } else {
            escape(&html, &mut self.html);
        }
    }

    /// Writes the opening tag of an element. Returns its closing tag.
    fn open(&mut self, tag: &Tag<'_>, rest: &[Event<'_>]) -> &'static str {
        let is_top = self.ends.is_empty();
        let (open, close) = match tag {
            _ if self.ends.len() >= MAX_DEPTH => (" ", ""),
            Tag::Paragraph => ("<p>", "</p>\n"),
            Tag::HtmlBlock => ("<p class=\"raw\">", "</p>\n"),
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => ("<h1>", "</h1>\n"),
                HeadingLevel::H2 => ("<h2>", "</h2>\n"),
                HeadingLevel::H3 => ("<h3>", "</h3>\n"),
                HeadingLevel::H4 => ("<h4>", "</h4>\n"),
                HeadingLevel::H5 => ("<h5>", "</h5>\n"),
                HeadingLevel::H6 => ("<h6>", "</h6>\n"),
            },
            Tag::BlockQuote(kind) => (quote(*kind), "</blockquote>\n"),
            Tag::List(start) => {
                let close = match start {
                    None => "</ul>\n",
                    Some(_) => "</ol>\n",
                };
                match start {
                    None => self.html.push_str("<ul>"),
                    Some(1) => self.html.push_str("<ol>"),
                    Some(start) => self.html.push_str(&format!("<ol start=\"{start}\">")),
                }
                if !is_top {
                    return close;
                }
                self.is_split = true;
                self.html.push_str(close);
                self.end_fragment(false);
                return "";
            }
            Tag::Item => {
                let is_task = rest
                    .iter()
                    .take(2)
                    .find(|event| !matches!(event, Event::Start(Tag::Paragraph)))
                    .is_some_and(|event| matches!(event, Event::TaskListMarker(_)));
                let open = if is_task {
                    "<li class=\"task\">"
                } else {
                    "<li>"
                };
                (open, "</li>\n")
            }
            Tag::FootnoteDefinition(label) => {
                let number = self.footnote(label);
                self.html.push_str(&format!(
                    "<div class=\"footnote\" id=\"fn-{number}\">\
                     <sup class=\"footnote-label\">{number}</sup>"
                ));
                ("", "</div>\n")
            }
            Tag::Table(alignments) => {
                self.alignments.clone_from(alignments);
                self.is_split |= is_top;
                let close = if is_top { "" } else { TABLE_CLOSE };
                ("<div class=\"table\" tabindex=\"0\"><table>", close)
            }
            Tag::TableHead => {
                self.is_head = true;
                self.n_cells = 0;
                ("<thead><tr>", "</tr></thead><tbody>")
            }
            Tag::TableRow => {
                self.n_cells = 0;
                ("<tr>", "</tr>")
            }
            Tag::TableCell => {
                let (name, close) = match self.is_head {
                    true => ("<th", "</th>"),
                    false => ("<td", "</td>"),
                };
                let class = match self.alignments.get(self.n_cells) {
                    Some(Alignment::Left) => " class=\"align-left\">",
                    Some(Alignment::Center) => " class=\"align-center\">",
                    Some(Alignment::Right) => " class=\"align-right\">",
                    _ => ">",
                };
                self.n_cells += 1;
                self.html.push_str(name);
                (class, close)
            }
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link {
                link_type,
                dest_url,
                title,
                ..
            } => {
                let mut address = self.formulas.source(dest_url);
                if *link_type == LinkType::Email {
                    address = format!("mailto:{address}").into();
                }
                return link(&address, &self.formulas.source(title), &mut self.html);
            }
            _ => ("", ""),
        };
        self.html.push_str(open);
        close
    }

    fn end(&mut self, end: &TagEnd) {
        if let Some(close) = self.ends.pop() {
            self.html.push_str(close);
        }
        if let TagEnd::TableHead = end {
            self.is_head = false;
            if self.is_split && self.ends.len() == 1 {
                self.html.push_str(TABLE_CLOSE);
                self.end_fragment(false);
            }
        }
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>, events: &[Event<'_>], from: usize) -> usize {
        let end = events[from..]
            .iter()
            .position(|event| matches!(event, Event::End(_)))
            .map_or(events.len(), |n| from + n);
        let lines: String = events[from..end]
            .iter()
            .filter_map(|event| match event {
                Event::Text(text) => Some(self.formulas.source(text)),
                _ => None,
            })
            .collect();
        let info = match kind {
            CodeBlockKind::Fenced(info) => self.formulas.source(info),
            CodeBlockKind::Indented => Cow::Borrowed(""),
        };
        let chunks = self.highlighter.chunks(&info, &lines);
        let (open, close) = code_tags(&info);
        if self.ends.is_empty() {
            self.html = open + close;
            self.end_fragment(false);
            self.fragments.extend(chunks.iter().map(|chunk| Fragment {
                is_inside: true,
                html: format!("<span class=\"lines\">{chunk}</span>"),
            }));
        } else {
            self.html.push_str(&open);
            self.html.extend(chunks);
            self.html.push_str(close);
        }
        end + 1
    }

    fn image(&mut self, alt: &str, address: &str) {
        let address = self.formulas.source(address);
        let shown = if alt.trim().is_empty() {
            address.as_ref()
        } else {
            alt
        };
        self.html.push_str(&format!(
            "<span class=\"image\" data-address=\"{}\">{}</span>",
            escaped(&address),
            escaped(shown)
        ));
    }

    /// Returns the plain text of the element that is open at `from`, and the index after its end.
    fn plain(&self, events: &[Event<'_>], from: usize) -> (String, usize) {
        let mut depth = 0;
        let mut text = String::new();
        for (at, event) in events.iter().enumerate().skip(from) {
            match event {
                Event::Start(Tag::List(_) | Tag::CodeBlock(_)) => return (text, at),
                Event::Start(_) => depth += 1,
                Event::End(_) if depth == 0 => return (text, at + 1),
                Event::End(_) => depth -= 1,
                Event::Text(inner) | Event::Code(inner) | Event::InlineHtml(inner) => {
                    text.push_str(&self.formulas.source(inner));
                }
                Event::SoftBreak | Event::HardBreak => text.push(' '),
                _ => {}
            }
        }
        (text, events.len())
    }
}

/// Opens a link if its URL is allowed; otherwise only its text is written. Returns the closing tag.
fn link(address: &str, title: &str, html: &mut String) -> &'static str {
    let scheme = address.split(':').next().unwrap_or_default();
    let is_known = address.len() > scheme.len()
        && SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known));
    if !is_known || address.contains(char::is_control) {
        return "";
    }
    html.push_str("<a href=\"");
    // Writing to a string cannot fail.
    let _ = pulldown_cmark_escape::escape_href(&mut *html, address);
    if !title.is_empty() {
        html.push_str("\" title=\"");
        escape(title, html);
    }
    html.push_str("\" rel=\"noopener noreferrer\">");
    "</a>"
}

fn quote(kind: Option<BlockQuoteKind>) -> &'static str {
    match kind {
        None => "<blockquote>\n",
        Some(BlockQuoteKind::Note) => "<blockquote class=\"alert-note\">\n",
        Some(BlockQuoteKind::Tip) => "<blockquote class=\"alert-tip\">\n",
        Some(BlockQuoteKind::Important) => "<blockquote class=\"alert-important\">\n",
        Some(BlockQuoteKind::Warning) => "<blockquote class=\"alert-warning\">\n",
        Some(BlockQuoteKind::Caution) => "<blockquote class=\"alert-caution\">\n",
    }
}
