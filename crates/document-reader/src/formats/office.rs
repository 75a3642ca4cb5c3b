//! Documents of Word, Excel and PowerPoint, of all versions, as Markdown.

use undoc::render::{RenderOptions, to_markdown};
use undoc::{Error, ErrorKind, FormatType};

use transom_documents::protocol::{Extracted, Reply};
use transom_documents::{Content, DocumentProblem, Format};

/// Extracts the text of an Office document; `otherwise` is what the file contains if it is none.
pub(super) fn extract(bytes: &[u8], otherwise: Content) -> Reply {
    let format = undoc::detect_format_from_bytes(bytes).map_err(|error| match error.kind() {
        // `MissingComponent` means that the archive has no list of the parts of an Office document.
        ErrorKind::UnknownFormat | ErrorKind::UnsupportedFormat | ErrorKind::MissingComponent => {
            DocumentProblem::NotText { content: otherwise }
        }
        _ => problem(&error),
    })?;
    let document = undoc::parse_bytes(bytes).map_err(|error| problem(&error))?;
    let options = RenderOptions {
        // The text is for a model, which reads `snake_case` better than `snake\_case`.
        escape_special_chars: false,
        include_images: false,
        ..RenderOptions::default()
    };
    let text = to_markdown(&document, &options).map_err(|error| problem(&error))?;
    let format = match format {
        FormatType::Doc | FormatType::Docx => Format::Word,
        FormatType::Xls | FormatType::Xlsx => Format::Excel,
        FormatType::Ppt | FormatType::Pptx => Format::PowerPoint,
    };
    Ok(Extracted::new(format, text))
}

fn problem(error: &Error) -> DocumentProblem {
    match error.kind() {
        ErrorKind::Encrypted => DocumentProblem::Encrypted,
        _ => DocumentProblem::damaged(error),
    }
}
