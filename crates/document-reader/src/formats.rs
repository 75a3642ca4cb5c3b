//! Recognizes the format of a file by its content, and extracts its text.
//!
//! A library that panics, hangs or takes too much memory ends only this process.

mod archive;
mod epub;
mod html;
mod hyphens;
mod office;
mod open_document;
mod pdf;
mod text;
mod xml;

use archive::Archive;

use transom_documents::protocol::{Extracted, MAX_TEXT_BYTES, Reply};
use transom_documents::{Content, DocumentProblem, Format};

/// The first bytes of a ZIP archive, as books, OpenDocument and Office documents since 2007 are.
const ZIP: &[u8] = b"PK\x03\x04";

/// The first bytes of a compound file, as earlier and encrypted Office documents are.
const COMPOUND_FILE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// The first bytes of a Rich Text document, which is text with much markup.
const RICH_TEXT: &[u8] = b"{\\rtf";

/// The position and the first bytes of PNG, JPEG, GIF, TIFF (in both byte orders), WebP, and HEIC or
/// AVIF.
const IMAGES: [(usize, &[u8]); 8] = [
    (0, b"\x89PNG\r\n\x1a\n"),
    (0, b"\xff\xd8\xff"),
    (0, b"GIF8"),
    (0, b"II*\0"),
    (0, b"MM\0*"),
    (8, b"WEBP"),
    (4, b"ftyphei"),
    (4, b"ftypavif"),
];

/// Extracts the text of a file.
pub(crate) fn extract(bytes: &[u8]) -> Reply {
    let mut extracted = if bytes.trim_ascii_start().starts_with(b"%PDF-") {
        pdf::extract(bytes)?
    } else if bytes.starts_with(ZIP) {
        extract_archive(bytes)?
    } else if bytes.starts_with(COMPOUND_FILE) {
        office::extract(bytes, Content::Binary)?
    } else if is_image(bytes) {
        return Err(not_text(Content::Image));
    } else if bytes.starts_with(RICH_TEXT) {
        return Err(not_text(Content::RichText));
    } else {
        let text = text::decode(bytes).ok_or_else(|| not_text(Content::Binary))?;
        match html::is_html(&text) {
            true => html::extract(&text)?,
            false => Extracted::new(Format::Text, text),
        }
    };
    if extracted.text.trim().is_empty() {
        let pages = extracted.pages;
        return Err(DocumentProblem::NoText { pages });
    }
    if extracted.text.contains('\r') {
        extracted.text = extracted.text.replace("\r\n", "\n").replace('\r', "\n");
    }
    let bytes = extracted.text.len() as u64;
    if bytes > MAX_TEXT_BYTES {
        return Err(DocumentProblem::TooMuchText {
            bytes,
            limit_bytes: MAX_TEXT_BYTES,
        });
    }
    Ok(extracted)
}

/// Extracts the text of a ZIP archive, whose first file says what it is if it is no Office document.
fn extract_archive(bytes: &[u8]) -> Reply {
    let Ok(mut archive) = Archive::open(bytes) else {
        return office::extract(bytes, Content::Archive);
    };
    let kind = archive.text("mimetype").ok().flatten().unwrap_or_default();
    match kind.trim() {
        epub::MIME_TYPE => epub::extract(archive),
        kind if kind.starts_with(open_document::MIME_TYPE) => open_document::extract(archive),
        _ => office::extract(bytes, Content::Archive),
    }
}

fn is_image(bytes: &[u8]) -> bool {
    let mut images = IMAGES.iter();
    images.any(|(position, start)| {
        bytes
            .get(*position..)
            .is_some_and(|rest| rest.starts_with(start))
    })
}

fn not_text(content: Content) -> DocumentProblem {
    DocumentProblem::NotText { content }
}

#[cfg(test)]
mod tests;
