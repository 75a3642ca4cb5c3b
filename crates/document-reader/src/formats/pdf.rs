//! PDFs. Documents that are encrypted with an empty password are read.

use unpdf::ErrorKind;

use super::hyphens;
use transom_documents::protocol::{Extracted, Reply};
use transom_documents::{DocumentProblem, Format};

pub(super) fn extract(bytes: &[u8]) -> Reply {
    let document = unpdf::parse_bytes(bytes).map_err(|error| match error.kind() {
        ErrorKind::Encrypted | ErrorKind::InvalidPassword => DocumentProblem::Encrypted,
        _ => DocumentProblem::damaged(error),
    })?;
    let text = document.plain_text();
    let quality = &document.extraction_quality;
    // The library leaves out what it can't read, so a document without text may be a damaged one.
    let is_damaged = quality.undecodable_content_streams > 0 || quality.pages_incomplete;
    if text.trim().is_empty() && is_damaged {
        return Err(DocumentProblem::damaged("its pages can't be decoded"));
    }
    Ok(Extracted {
        format: Format::Pdf,
        text: hyphens::join(&text),
        pages: Some(document.page_count()),
    })
}
