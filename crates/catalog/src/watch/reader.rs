//! Reads the catalog files and keeps the last state without errors.
//!
//! Rule: a missing file has no entries. A file with an error keeps the content from before the error.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::entries::{Catalog, CatalogError, CatalogErrorCode};

/// Maximum size of a catalog file. The built-in one has 100 KB.
const MAX_BYTES: u64 = 4 << 20;

pub(super) struct CatalogReader {
    built_in: Option<PathBuf>,
    user: Option<PathBuf>,
    /// The last built-in catalog without an error.
    base: Arc<Catalog>,
    /// The last text of the user's own catalog without an error.
    text: Option<String>,
    current: Arc<Catalog>,
}

impl CatalogReader {
    pub(super) fn new(built_in: Option<PathBuf>, user: Option<PathBuf>) -> Self {
        let base = Catalog::built_in();
        Self {
            built_in,
            user,
            current: base.clone(),
            base,
            text: None,
        }
    }

    /// Reads the files. Returns the current catalog and all errors, the user's first. If the catalog is
    /// equal to the one before, returns the same `Arc`.
    pub(super) fn read(&mut self) -> (Arc<Catalog>, Vec<CatalogError>) {
        let mut errors = Vec::new();
        if let Some(file) = &self.built_in {
            let read = |text: String| Catalog::read(&text, file);
            match text_of(file).and_then(|text| text.map(read).transpose()) {
                Ok(Some(base)) => self.base = Arc::new(base),
                Ok(None) => self.base = Catalog::built_in(),
                Err(error) => errors.push(error),
            }
        }
        let merged = self.merged();
        let current = merged.unwrap_or_else(|error| {
            errors.insert(0, error);
            // The user's text from before may not be valid with another built-in catalog.
            let before = self.text.as_deref().zip(self.user.as_deref());
            let before = before.map(|(text, file)| self.base.merged_with(text, file));
            match before {
                Some(Ok(merged)) => merged,
                Some(Err(_)) | None => (*self.base).clone(),
            }
        });
        if *self.current != current {
            self.current = Arc::new(current);
        }
        (self.current.clone(), errors)
    }

    fn merged(&mut self) -> Result<Catalog, CatalogError> {
        let Some(file) = &self.user else {
            return Ok((*self.base).clone());
        };
        let text = text_of(file)?;
        let merged = match &text {
            Some(text) => self.base.merged_with(text, file)?,
            None => (*self.base).clone(),
        };
        self.text = text;
        Ok(merged)
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

    fn model(id: &str, draft: &str) -> String {
        format!(
            "[[model]]\nid = \"{id}\"\nname = \"{id}\"\n{draft}\n[model.architecture]\n\
             model_type = \"qwen3\"\nparameters = {}\nlayers = 2\nhidden_size = 64\nheads = 4\n\
             kv_heads = 4\nhead_dim = 16\nintermediate_size = 128\nvocabulary = 1000\n\
             context_length = 2048\n[[model.variant]]\nformat = \"gguf\"\nquantization = \"Q8_0\"\n\
             repository = \"o/{id}\"\n",
            1_000_000 * id.len()
        )
    }

    fn ids(list: &Catalog) -> Vec<&str> {
        list.entries.iter().map(|entry| &*entry.id).collect()
    }

    #[test]
    fn an_equal_catalog_is_the_same_arc() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("mine.toml");
        fs::write(&user, model("a", "")).unwrap();
        let mut reader = CatalogReader::new(None, Some(user.clone()));
        let (first, _) = reader.read();
        fs::write(&user, format!("# another line\n{}", model("a", ""))).unwrap();
        let (second, errors) = reader.read();
        assert!(Arc::ptr_eq(&first, &second) && errors.is_empty());
    }

    #[test]
    fn a_catalog_that_is_no_regular_file_or_too_long_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("mine.toml");
        let read = || CatalogReader::new(None, Some(user.clone())).read();
        let made = std::process::Command::new("mkfifo").arg(&user).status();
        assert!(made.unwrap().success());
        let (list, errors) = read();
        assert!(!list.entries.is_empty());
        assert_eq!(errors[0].reason, "can't be read: is not a regular file");
        fs::remove_file(&user).unwrap();
        fs::File::create(&user).unwrap().set_len(1 << 40).unwrap();
        let (_, errors) = read();
        assert_eq!(
            errors[0].reason,
            "can't be read: has 1099511627776 bytes; the limit is 4194304"
        );
    }

    #[test]
    fn the_users_last_valid_text_is_merged_with_a_new_built_in_catalog() {
        let folder = tempfile::tempdir().unwrap();
        let [base, user] = ["base.toml", "mine.toml"].map(|name| folder.path().join(name));
        fs::write(&base, model("a", "")).unwrap();
        fs::write(&user, model("bb", "draft = \"a\"")).unwrap();
        let mut reader = CatalogReader::new(Some(base.clone()), Some(user.clone()));
        assert_eq!(ids(&reader.read().0), ["a", "bb"]);
        fs::write(&user, "oops").unwrap();
        fs::write(&base, model("a", "") + &model("c", "")).unwrap();
        let (list, errors) = reader.read();
        assert_eq!((ids(&list), errors.len()), (vec!["a", "c", "bb"], 1));
        assert_eq!(errors[0].file, user);
        // Without its draft model the user's model can't stay.
        fs::write(&base, model("c", "")).unwrap();
        let (list, _) = reader.read();
        assert_eq!(ids(&list), ["c"]);
        // Both files may have an error at once; the user's comes first.
        fs::write(&base, "oops").unwrap();
        let (list, errors) = reader.read();
        assert_eq!((ids(&list), errors.len()), (vec!["c"], 2));
        assert_eq!(errors[0].file, user);
        fs::write(&base, model("a", "")).unwrap();
        fs::write(&user, model("bb", "draft = \"a\"")).unwrap();
        let (list, errors) = reader.read();
        assert_eq!((ids(&list), errors.len()), (vec!["a", "bb"], 0));
    }
}
