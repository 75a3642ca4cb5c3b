//! Reads a list of models from TOML.

use std::path::Path;

use super::{Entry, Mistake};

/// The entries without a mistake, and all mistakes, in the order of the file.
pub(super) fn entries(text: &str, file: &Path, is_users: bool) -> (Vec<Entry>, Vec<Mistake>) {
    let _ = (text, file, is_users);
    (Vec::new(), Vec::new())
}
