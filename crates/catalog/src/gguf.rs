//! Reads GGUF files, llama.cpp's model format.
//!
//! [`GgufFile`] maps a file, and [`Gguf`] is the checked view of its bytes. A view borrows
//! everything: keys, strings and arrays stay in the file and are decoded on demand, so a vocabulary
//! of 150,000 words costs nothing until it is read.
//!
//! The format is documented at the top of `ggml/include/gguf.h` in llama.cpp. Version 3 differs from
//! version 2 only in that it may be big-endian. Version 1 has 32-bit counts and has not been written
//! since 2023.

mod cursor;
mod facts;
mod split;
mod tensor;
mod value;
mod view;

pub use split::{GgufModel, Split};
pub use tensor::{TensorInfo, TensorType};
pub use value::{Array, Value};
pub use view::Gguf;

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::file_error::FileError;

/// A memory-mapped file with checked contents.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    mapping: Mmap,
}

impl GgufFile {
    /// Maps and checks a file.
    ///
    /// # Errors
    /// [`FileError`], which names the file and the problem.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let io = |error: std::io::Error| FileError::io(path, &error);
        let file = transom_files::open(path).map_err(io)?;
        let mapping = map(&file).map_err(io)?;
        let this = Self {
            path: path.to_owned(),
            mapping,
        };
        Gguf::parse(&this.mapping).map_err(|fault| fault.in_file(path))?;
        Ok(this)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents. They are parsed on each call, which takes about a millisecond.
    ///
    /// # Errors
    /// Only if the file was changed after it was opened.
    pub fn view(&self) -> Result<Gguf<'_>, FileError> {
        Gguf::parse(&self.mapping).map_err(|fault| fault.in_file(&self.path))
    }
}

#[expect(unsafe_code, reason = "mapping a file has no safe form")]
pub(crate) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only. Model files are replaced by renaming a complete new file,
    // never truncated in place. A user who truncates their own file can end this process with a
    // bus error, but can't make it read outside the mapping.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests;
