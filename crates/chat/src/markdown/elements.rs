//! Events to the HTML that windows show: the first wall.
//!
//! Rule: everything that the text says is written as text or as an attribute's value, escaped;
//! every tag and every attribute's name stands here. HTML in the text is shown, not obeyed (but a
//! bare `<br>` breaks a line). Nothing is loaded: of images their text and address are shown.

use pulldown_cmark::{Alignment, BlockQuoteKind, CodeBlockKind, Event, Tag, TagEnd};

use super::code::{Highlighter, language};
use super::html::{Hand, Html, Numbers, escape, escaped};
use super::maths::Formulas;
use super::parse::Read;
use super::sanitise::{SCHEMES, sanitised};
use super::split::Kind;

/// Elements inside each other beyond which only their texts are drawn.
const MAX_DEPTH: usize = 48;

/// The hand of the windows.
#[derive(Debug, Default)]
pub(super) struct Elements {
    highlighter: Highlighter,
    /// Only for the tests of the first wall.
    #[cfg(test)]
    pub(super) is_bare: bool,
}

impl Hand for Elements {
    const READS_FORMULAS: bool = true;
    const TABLE_CLOSE: &'static str = "</tbody></table></div>\n";

    fn elements(
        &mut self,
        reads: Vec<Read<'_>>,
        numbers: &mut Numbers,
        formulas: &Formulas,
    ) -> String {
        let mut writer = Writer {
            html: String::new(),
            highlighter: &mut self.highlighter,
            numbers,
            formulas,
            alignments: Vec::new(),
            n_cells: 0,
            is_head: false,
            ends: Vec::new(),
        };
        writer.write(&reads);
        writer.html
    }

    fn list(&self, start: Option<u64>, is_open: bool) -> (String, String) {
        let (mut open, close) = list_tags(start);
        if is_open {
            open.insert_str(3, " class=\"more\"");
        }
        (open + "\n", close)
    }

    fn code(&self, info: &str, is_open: bool) -> (String, String) {
        let language = escaped(language(info));
        let mut open = String::from("<figure class=\"code\"");
        if !language.is_empty() {
            open.push_str(&format!(" data-language=\"{language}\""));
        }
        open.push_str(&format!(
            "><figcaption><span class=\"language\">{language}</span>\
             <button type=\"button\" class=\"copy\"></button></figcaption><pre><code{}>",
            if is_open { " class=\"more\"" } else { "" }
        ));
        (open, "</code></pre></figure>\n".to_string())
    }

    fn code_lines(&mut self, info: &str, lines: &str, continues: bool) -> String {
        self.highlighter.open(info, lines, continues)
    }

    fn cut_code(&mut self, ends: bool) {
        self.highlighter.cut(ends);
    }

    fn clean(&self, kind: &Kind, is_open: bool, html: Html) -> Html {
        #[cfg(test)]
        if self.is_bare {
            return html;
        }
        let Html { open, body, close } = html;
        match kind {
            Kind::Flow => Html {
                body: sanitised(&body),
                ..Html::default()
            },
            // Rows stand in a table for the sanitiser too, or it would drop their cells.
            Kind::Rows { .. } => {
                let (before, after) = ("<table><tbody>", "</tbody></table>");
                let whole = sanitised(&format!("{before}{body}{after}"));
                let body = whole
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(after))
                    .unwrap_or_default()
                    .to_string();
                // What opens and closes it is no more than tags of ours and cells of the head.
                let shell = sanitised(&format!("{open}{close}"));
                let slot = shell.rfind("</tbody>").unwrap_or(shell.len());
                let mut open = shell[..slot].to_string();
                if is_open {
                    open = open.replace("<tbody>", "<tbody class=\"more\">");
                }
                Html {
                    open,
                    body,
                    close: shell[slot..].to_string(),
                }
            }
            Kind::Code { .. } | Kind::List { .. } => Html {
                open,
                body: sanitised(&body),
                close,
            },
        }
    }
}

fn list_tags(start: Option<u64>) -> (String, String) {
    match start {
        None => ("<ul>".to_string(), "</ul>\n".to_string()),
        Some(1) => ("<ol>".to_string(), "</ol>\n".to_string()),
        Some(start) => (format!("<ol start=\"{start}\">"), "</ol>\n".to_string()),
    }
}

struct Writer<'w> {
    html: String,
    highlighter: &'w mut Highlighter,
    numbers: &'w mut Numbers,
    formulas: &'w Formulas,
    alignments: Vec<Alignment>,
    n_cells: usize,
    is_head: bool,
    /// What closes the elements that are open; empty for those that are not drawn.
    ends: Vec<String>,
}

impl Writer<'_> {
    fn write(&mut self, reads: &[Read<'_>]) {
        let mut at = 0;
        while let Some(read) = reads.get(at) {
            at += 1;
            match &read.event {
                Event::Start(Tag::CodeBlock(kind)) => at = self.code(kind, reads, at),
                Event::Start(Tag::Image { dest_url, .. }) => {
                    let (alt, end) = self.plain(reads, at);
                    at = end;
                    self.image(&alt, dest_url);
                }
                Event::Start(tag) => self.start(tag, &reads[at..]),
                Event::End(end) => self.end(end),
                Event::TaskListMarker(is_checked) => {
                    let (label, _) = self.plain(reads, at);
                    let checked = if *is_checked { " checked=\"\"" } else { "" };
                    self.html.push_str(&format!(
                        "<input type=\"checkbox\" disabled=\"\"{checked} aria-label=\"{}\"> ",
                        escaped(label.trim())
                    ));
                }
                Event::Text(text) => self.text(text),
                Event::Html(html) | Event::InlineHtml(html) => self.shown(html),
                Event::Code(code) => {
                    let code = escaped(&self.formulas.source(code));
                    self.html.push_str(&format!("<code>{code}</code>"));
                }
                Event::InlineMath(tex) | Event::DisplayMath(tex) => self.text(tex),
                Event::SoftBreak => self.html.push('\n'),
                Event::HardBreak => self.html.push_str("<br>\n"),
                Event::Rule => self.html.push_str("<hr>\n"),
                Event::FootnoteReference(label) => {
                    let number = self.numbers.of(label);
                    self.html.push_str(&format!(
                        "<sup class=\"footnote-reference\">\
                         <a href=\"#fn-{number}\">{number}</a></sup>"
                    ));
                }
            }
        }
        // A part of a table ends in mid-table.
    }

    fn text(&mut self, text: &str) {
        let html = self.formulas.html(text, escape);
        self.html.push_str(&html);
    }

    /// HTML of the text's own: shown.
    fn shown(&mut self, html: &str) {
        let html = self.formulas.source(html);
        let tag = html.trim().to_ascii_lowercase();
        if matches!(tag.as_str(), "<br>" | "<br/>" | "<br />") {
            self.html.push_str("<br>\n");
        } else {
            escape(&html, &mut self.html);
        }
    }

    fn start(&mut self, tag: &Tag<'_>, rest: &[Read<'_>]) {
        let is_too_deep = self.ends.len() >= MAX_DEPTH;
        let (open, close) = match tag {
            _ if is_too_deep => (" ".to_string(), String::new()),
            Tag::Paragraph => ("<p>".to_string(), "</p>\n".to_string()),
            Tag::HtmlBlock => ("<p class=\"raw\">".to_string(), "</p>\n".to_string()),
            Tag::Heading { level, .. } => (format!("<{level}>"), format!("</{level}>\n")),
            Tag::BlockQuote(kind) => (quote(*kind), "</blockquote>\n".to_string()),
            Tag::List(start) => list_tags(*start),
            Tag::Item => {
                let is_task = rest
                    .iter()
                    .take(2)
                    .find(|read| !matches!(read.event, Event::Start(Tag::Paragraph)))
                    .is_some_and(|read| matches!(read.event, Event::TaskListMarker(_)));
                let class = if is_task { " class=\"task\"" } else { "" };
                (format!("<li{class}>"), "</li>\n".to_string())
            }
            Tag::FootnoteDefinition(label) => {
                let number = self.numbers.of(label);
                let open = format!(
                    "<div class=\"footnote\" id=\"fn-{number}\">\
                     <sup class=\"footnote-label\">{number}</sup>"
                );
                (open, "</div>\n".to_string())
            }
            Tag::Table(alignments) => {
                self.alignments.clone_from(alignments);
                let open = "<div class=\"table\" tabindex=\"0\"><table>".to_string();
                (open, Elements::TABLE_CLOSE.to_string())
            }
            Tag::TableHead => {
                self.is_head = true;
                self.n_cells = 0;
                (
                    "<thead><tr>".to_string(),
                    "</tr></thead><tbody>".to_string(),
                )
            }
            Tag::TableRow => {
                self.n_cells = 0;
                ("<tr>".to_string(), "</tr>".to_string())
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => ("<em>".to_string(), "</em>".to_string()),
            Tag::Strong => ("<strong>".to_string(), "</strong>".to_string()),
            Tag::Strikethrough => ("<del>".to_string(), "</del>".to_string()),
            Tag::Link {
                link_type,
                dest_url,
                title,
                ..
            } => {
                let address = self.formulas.source(dest_url).into_owned();
                let is_email = matches!(link_type, pulldown_cmark::LinkType::Email);
                let address = if is_email {
                    format!("mailto:{address}")
                } else {
                    address
                };
                link(&address, &self.formulas.source(title))
            }
            _ => (String::new(), String::new()),
        };
        self.html.push_str(&open);
        self.ends.push(close);
    }

    fn end(&mut self, end: &TagEnd) {
        if let TagEnd::TableHead = end {
            self.is_head = false;
        }
        if let Some(close) = self.ends.pop() {
            self.html.push_str(&close);
        }
    }

    fn cell(&mut self) -> (String, String) {
        let class = match self.alignments.get(self.n_cells) {
            Some(Alignment::Left) => " class=\"align-left\"",
            Some(Alignment::Center) => " class=\"align-center\"",
            Some(Alignment::Right) => " class=\"align-right\"",
            _ => "",
        };
        self.n_cells += 1;
        let name = if self.is_head { "th" } else { "td" };
        (format!("<{name}{class}>"), format!("</{name}>"))
    }

    fn code(&mut self, kind: &CodeBlockKind<'_>, reads: &[Read<'_>], from: usize) -> usize {
        let mut at = from;
        let mut lines = String::new();
        while let Some(read) = reads.get(at) {
            at += 1;
            match &read.event {
                Event::Text(text) => lines.push_str(text),
                Event::End(_) => break,
                _ => {}
            }
        }
        let lines = self.formulas.source(&lines).into_owned();
        let info = match kind {
            CodeBlockKind::Fenced(info) => self.formulas.source(info).into_owned(),
            CodeBlockKind::Indented => String::new(),
        };
        let (open, close) = Elements::default().code(&info, false);
        self.html.push_str(&open);
        self.html.push_str(&self.highlighter.nested(&info, &lines));
        self.html.push_str(&close);
        at
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

    /// The text of what is open at `from`, and where that ends.
    fn plain(&self, reads: &[Read<'_>], from: usize) -> (String, usize) {
        let mut depth = 0;
        let mut text = String::new();
        for (at, read) in reads.iter().enumerate().skip(from) {
            match &read.event {
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
        (text, reads.len())
    }
}

/// A link where its address may be opened, else its text alone with the address behind it.
fn link(address: &str, title: &str) -> (String, String) {
    let scheme = address.split(':').next().unwrap_or_default();
    let is_known = address.len() > scheme.len()
        && SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known));
    let has_controls = address.chars().any(|letter| letter.is_control());
    if !is_known || has_controls {
        return (String::new(), String::new());
    }
    let mut href = String::new();
    // Writing into a string does not fail.
    let _ = pulldown_cmark_escape::escape_href(&mut href, address);
    let title = if title.is_empty() {
        String::new()
    } else {
        format!(" title=\"{}\"", escaped(title))
    };
    let open = format!("<a href=\"{href}\"{title} rel=\"noopener noreferrer\">");
    (open, "</a>".to_string())
}

fn quote(kind: Option<BlockQuoteKind>) -> String {
    let class = match kind {
        None => return "<blockquote>\n".to_string(),
        Some(BlockQuoteKind::Note) => "note",
        Some(BlockQuoteKind::Tip) => "tip",
        Some(BlockQuoteKind::Important) => "important",
        Some(BlockQuoteKind::Warning) => "warning",
        Some(BlockQuoteKind::Caution) => "caution",
    };
    format!("<blockquote class=\"alert-{class}\">\n")
}
