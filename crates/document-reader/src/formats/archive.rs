//! The parts of documents that are ZIP archives.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::text;
use transom_documents::DocumentProblem;

/// Bytes to which the parts of a document may expand together.
const MAX_EXPANDED_BYTES: u64 = 64_000_000;

/// An open ZIP archive.
pub(super) struct Archive<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// Bytes to which further parts may expand.
    left: u64,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, DocumentProblem> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(DocumentProblem::damaged)?;
        Ok(Self {
            archive,
            left: MAX_EXPANDED_BYTES,
        })
    }

    /// Returns the text of a part, or `None` if there is no such part or it is not text.
    pub(super) fn text(&mut self, path: &str) -> Result<Option<String>, DocumentProblem> {
        let part = match self.archive.by_name(path) {
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
                return Err(DocumentProblem::Encrypted);
            }
            part => part.map_err(DocumentProblem::damaged)?,
        };
        let mut bytes = Vec::new();
        // One byte more shows that the part is larger.
        part.take(self.left + 1)
            .read_to_end(&mut bytes)
            .map_err(DocumentProblem::damaged)?;
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| {
            let megabytes = MAX_EXPANDED_BYTES / 1_000_000;
            DocumentProblem::damaged(format!("its parts expand to more than {megabytes} MB"))
        })?;
        Ok(text::decode(&bytes))
    }
}
