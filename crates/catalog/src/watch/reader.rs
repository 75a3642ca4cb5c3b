//! Reads the user's own catalog and keeps the last state without errors.
//!
//! Rule: a missing file has no entries. A file with an error keeps the content from before the error.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::entries::{Catalog, CatalogError, CatalogErrorCode};

/// Maximum size of a catalog file. The built-in one has 100 KB.
const MAX_BYTES: u64 = 4 << 20;

pub(super) struct CatalogReader {
    file: PathBuf,
    current: Arc<Catalog>,
}

impl CatalogReader {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            current: Catalog::built_in(),
        }
    }

    /// Reads the file. Returns the current catalog and the error in the file. If the catalog is equal to
    /// the one before, returns the same `Arc`.
    pub(super) fn read(&mut self) -> (Arc<Catalog>, Option<CatalogError>) {
        let error = match self.merged() {
            Ok(merged) if *self.current == merged => None,
            Ok(merged) => {
                self.current = Arc::new(merged);
                None
            }
            Err(error) => Some(error),
        };
        (self.current.clone(), error)
    }

    fn merged(&self) -> Result<Catalog, CatalogError> {
        let built_in = Catalog::built_in();
        match text_of(&self.file)? {
            Some(text) => built_in.merged_with(&text, &self.file),
            None => Ok((*built_in).clone()),
        }
    }
}

/// Reads the text of a catalog file; `None` if the file doesn't exist.
fn text_of(file: &Path) -> Result<Option<String>, CatalogError> {
    let bytes = match transom_files::read(file, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => {
            let (code, reason) = (
                CatalogErrorCode::Unreadable,
                format!("can't be read: {error}"),
            );
            return Err(CatalogError::at(file, "", 0, code, "", reason));
        }
    };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let right = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..right]);
        let reason = "this is not UTF-8; save the file as UTF-8";
        CatalogError::at(file, &before, right, CatalogErrorCode::Syntax, "", reason)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn model(id: &str) -> String {
        format!(
            "[[model]]\nid = \"{id}\"\nname = \"{id}\"\n[model.architecture]\n\
             model_type = \"qwen3\"\nparameters = 1_000_000\nlayers = 2\nhidden_size = 64\n\
             heads = 4\nkv_heads = 4\nhead_dim = 16\nintermediate_size = 128\nvocabulary = 1000\n\
             context_length = 2048\n[[model.variant]]\nformat = \"gguf\"\nquantization = \"Q8_0\"\n\
             repository = \"o/{id}\"\n"
        )
    }

    #[test]
    fn an_equal_catalog_is_the_same_arc_and_an_error_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("mine.toml");
        fs::write(&user, model("a")).unwrap();
        let mut reader = CatalogReader::new(user.clone());
        let (first, _) = reader.read();
        assert!(first.find("a").is_some());
        fs::write(&user, format!("# another line\n{}", model("a"))).unwrap();
        let (second, error) = reader.read();
        assert!(Arc::ptr_eq(&first, &second) && error.is_none());
        fs::write(&user, "oops").unwrap();
        let (third, error) = reader.read();
        assert!(Arc::ptr_eq(&first, &third));
        assert_eq!(error.unwrap().file, user);
        fs::remove_file(&user).unwrap();
        let (last, error) = reader.read();
        assert_eq!((&*last, error), (&*Catalog::built_in(), None));
    }

    #[test]
    fn a_catalog_that_is_no_regular_file_or_too_long_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("mine.toml");
        let reason = || {
            let (list, error) = CatalogReader::new(user.clone()).read();
            assert!(!list.entries.is_empty());
            error.unwrap().reason
        };
        let made = std::process::Command::new("mkfifo").arg(&user).status();
        assert!(made.unwrap().success());
        assert_eq!(reason(), "can't be read: is not a regular file");
        fs::remove_file(&user).unwrap();
        fs::File::create(&user).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(
            reason(),
            "can't be read: has 1099511627776 bytes; the limit is 4194304"
        );
    }
}
