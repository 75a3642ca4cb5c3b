//! Counts the bytes that are written to a folder, from its files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The list of the files, which is written again with each change of it.
const INDEX: &str = "index";

/// The files below a folder when they were last counted.
#[derive(Debug)]
pub(crate) struct SavedFiles {
    folder: PathBuf,
    known: HashMap<PathBuf, FileState>,
}

/// The size of a file and when it was written.
type FileState = (u64, Option<SystemTime>);

impl SavedFiles {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            known: HashMap::new(),
        }
    }

    /// Returns the bytes of all files but the index that are new or changed since the last call. A
    /// changed file counts as a whole.
    pub(crate) fn new_bytes(&mut self) -> u64 {
        let mut files = HashMap::new();
        add_files(&self.folder, &mut files);
        let is_new = |(path, state): &(&PathBuf, &FileState)| self.known.get(*path) != Some(*state);
        let bytes = files.iter().filter(is_new).map(|(_, (bytes, _))| bytes);
        let bytes = bytes.sum();
        self.known = files;
        bytes
    }
}

/// Adds the files below `folder`. A file that disappears meanwhile does not count.
fn add_files(folder: &Path, files: &mut HashMap<PathBuf, FileState>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => add_files(&entry.path(), files),
            Ok(_) if entry.file_name() == INDEX => {}
            Ok(metadata) => {
                let state = (metadata.len(), metadata.modified().ok());
                files.insert(entry.path(), state);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_and_changed_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = SavedFiles::new(folder.path().join("saved"));
        assert_eq!(files.new_bytes(), 0, "there is no folder yet");
        let inner = folder.path().join("saved/model");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("a"), [0; 10]).unwrap();
        fs::write(inner.join("b"), [0; 5]).unwrap();
        assert_eq!(files.new_bytes(), 15);
        fs::write(inner.join("index"), [0; 7]).unwrap();
        assert_eq!(files.new_bytes(), 0);
        fs::write(inner.join("a"), [0; 12]).unwrap();
        assert_eq!(files.new_bytes(), 12);
        fs::remove_file(inner.join("b")).unwrap();
        assert_eq!(files.new_bytes(), 0);
        fs::write(inner.join("b"), [0; 5]).unwrap();
        assert_eq!(files.new_bytes(), 5, "it was written again");
    }
}
