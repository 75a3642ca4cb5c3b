//! Text documents of OpenDocument (ODT), such as those of LibreOffice: written as a web page, whose
//! reader then lays out lists and tables.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::archive::Archive;
use super::{html, xml};
use transom_documents::protocol::{Extracted, Reply};
use transom_documents::{DocumentProblem, Format};

/// How the file `mimetype` of a text document or its template begins.
pub(super) const MIME_TYPE: &str = "application/vnd.oasis.opendocument.text";

/// Elements with text that is not of the document: comments, deleted text, and the marks of notes.
const LEFT_OUT: [&str; 3] = [
    "office:annotation",
    "text:tracked-changes",
    "text:note-citation",
];

/// Extracts the text of a document.
pub(super) fn extract(mut archive: Archive<'_>) -> Reply {
    let manifest = archive.text("META-INF/manifest.xml")?;
    if manifest.is_some_and(|manifest| manifest.contains("encryption-data")) {
        return Err(DocumentProblem::Encrypted);
    }
    let content = archive.text("content.xml")?;
    let content =
        content.ok_or_else(|| DocumentProblem::damaged("it has no text in content.xml"))?;
    let page = page_of(&content).map_err(DocumentProblem::damaged)?;
    Ok(Extracted::new(Format::OpenDocument, html::text_of(&page)?))
}

/// Writes a document as a web page. Text and references to characters are the same in both formats.
fn page_of(content: &str) -> Result<String, quick_xml::Error> {
    let mut reader = Reader::from_str(content);
    reader.config_mut().expand_empty_elements = true;
    let mut page = String::new();
    // The depth in an element that is left out.
    let mut depth = 0_usize;
    loop {
        match reader.read_event()? {
            Event::Start(element) => {
                if depth > 0 || LEFT_OUT.contains(&element.name().into_inner()) {
                    depth += 1;
                } else {
                    open(&mut page, &element);
                }
            }
            Event::End(_) if depth > 0 => depth -= 1,
            Event::End(element) => {
                if let Some(tag) = tag(element.name().into_inner()) {
                    page += &format!("</{tag}>");
                }
            }
            Event::Text(text) if depth == 0 => page.push_str(&text),
            Event::GeneralRef(name) if depth == 0 => page += &format!("&{};", &*name),
            Event::Eof => return Ok(page),
            _ => {}
        }
    }
}

/// Writes the start of an element.
fn open(page: &mut String, element: &BytesStart<'_>) {
    let name = element.name().into_inner();
    if let Some(tag) = tag(name) {
        *page += &format!("<{tag}>");
    }
    match name {
        "text:h" => {
            let level = xml::value(element, "text:outline-level");
            let level = level.parse().unwrap_or(1_usize).clamp(1, 6);
            *page += &"#".repeat(level);
            page.push(' ');
        }
        "text:line-break" => *page += "<br>",
        "text:s" | "text:tab" => page.push(' '),
        _ => {}
    }
}

/// Returns the element of a web page that lays out text like an element of a document.
fn tag(name: &str) -> Option<&'static str> {
    Some(match name {
        "text:h" | "text:p" => "p",
        "text:list" => "ul",
        "text:list-item" => "li",
        "table:table" => "table",
        "table:table-row" => "tr",
        "table:table-cell" => "td",
        _ => return None,
    })
}
