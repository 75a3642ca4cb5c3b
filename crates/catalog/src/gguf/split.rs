//! Opens models in several files: `NAME-00001-of-00003.gguf` and its siblings.
//!
//! llama.cpp's `gguf-split` puts `split.no`, `split.count` and `split.tensors.count` into each part
//! and all other metadata into the first.

use std::path::{Path, PathBuf};

use super::view::Gguf;
use super::{GgufFile, TensorInfo};
use crate::file_error::{FaultCode, FileError};

/// Maximum number of parts, as in llama.cpp.
const MAX_PARTS: u64 = 1024;

/// The position of a file in a split model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Index of the part, from 0.
    pub index: u64,
    /// Number of parts; 1 for a model in one file.
    pub count: u64,
}

impl Split {
    /// Reads the position from a file's metadata.
    pub fn of(view: &Gguf<'_>) -> Self {
        let number = |key| view.get(key).and_then(|value| value.as_u64());
        Self {
            index: number("split.no").unwrap_or(0),
            count: number("split.count").unwrap_or(1).max(1),
        }
    }
}

/// A complete model: one file, or all parts of it.
#[derive(Debug)]
pub struct GgufModel {
    files: Vec<GgufFile>,
}

impl GgufModel {
    /// Opens a model by any of its parts.
    ///
    /// # Errors
    /// [`FileError`] of the part that is missing or wrong.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let file = GgufFile::open(path)?;
        let split = Split::of(&file.view()?);
        if split.count == 1 {
            return Ok(Self { files: vec![file] });
        }
        let (number, count) = (split.index.saturating_add(1), split.count);
        if count > MAX_PARTS || split.index >= count {
            let reason = format!(
                "it says that it is part {number} of {count}, but there are at most {MAX_PARTS}"
            );
            return Err(bad_part(path, &reason));
        }
        let paths = part_paths(path, split).ok_or_else(|| {
            let reason = format!(
                "its name must end in -{number:05}-of-{count:05}.gguf for the other parts to be found"
            );
            bad_part(path, &reason)
        })?;
        let mut files = Vec::new();
        for (index, part) in paths.iter().enumerate() {
            let file = GgufFile::open(part)?;
            let found = Split::of(&file.view()?);
            let index = index as u64;
            if found != (Split { index, count }) {
                let reason = format!(
                    "it says that it is part {} of {}, but its name says {} of {count}",
                    found.index.saturating_add(1),
                    found.count,
                    index + 1
                );
                return Err(bad_part(part, &reason));
            }
            files.push(file);
        }
        let model = Self { files };
        model.check_tensor_count()?;
        Ok(model)
    }

    /// Returns the file with the metadata.
    pub fn first(&self) -> &GgufFile {
        // `open` adds at least one file.
        &self.files[0]
    }

    /// Returns all files in order.
    pub fn files(&self) -> &[GgufFile] {
        &self.files
    }

    /// Calls `visit` with every tensor of every part.
    ///
    /// # Errors
    /// Only if a file was changed after it was opened.
    pub fn for_each_tensor(&self, mut visit: impl FnMut(&TensorInfo<'_>)) -> Result<(), FileError> {
        for file in &self.files {
            file.view()?.tensors().for_each(|tensor| visit(&tensor));
        }
        Ok(())
    }

    fn check_tensor_count(&self) -> Result<(), FileError> {
        let first = self.first();
        let expected = first.view()?.get("split.tensors.count");
        let Some(expected) = expected.and_then(|value| value.as_u64()) else {
            return Ok(());
        };
        let mut found = 0;
        self.for_each_tensor(|_| found += 1)?;
        if found == expected {
            return Ok(());
        }
        let reason = format!("all parts together have {found} tensors, but must have {expected}");
        Err(bad_part(first.path(), &reason))
    }
}

fn bad_part(path: &Path, reason: &str) -> FileError {
    let reason = format!("part of a split model: {reason}");
    FileError::new(path, FaultCode::Damaged, reason)
}

/// Returns the paths of all parts, if `path` has the name of a part.
fn part_paths(path: &Path, split: Split) -> Option<Vec<PathBuf>> {
    let name = path.file_name()?.to_str()?;
    let ending = |index: u64| format!("-{:05}-of-{:05}.gguf", index + 1, split.count);
    let stem = name.strip_suffix(&ending(split.index))?;
    let paths =
        (0..split.count).map(|index| path.with_file_name(format!("{stem}{}", ending(index))));
    Some(paths.collect())
}
