//! Damages model files. Each function changes a valid file in place, and panics if it can't, which is
//! an error of the test.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::gguf::{Gguf, TensorInfo};

/// Truncates the file to its first `n_bytes`.
///
/// # Panics
/// If the file cannot be written.
pub fn truncate(path: &Path, n_bytes: u64) {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(n_bytes))
        .expect("the file can be written");
}

/// Truncates the file in the middle of its tensors' bytes.
///
/// # Panics
/// If the file is not a valid GGUF file, or can't be written.
pub fn truncate_in_tensors(path: &Path) {
    let bytes = fs::read(path).expect("the file can be read");
    let data_at = Gguf::parse(&bytes).expect("a good file").data_offset();
    truncate(path, (data_at + bytes.len() as u64) / 2);
}

/// Writes `bytes` at offset `at`.
///
/// # Panics
/// If the file is shorter, or can't be written.
pub fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    let mut whole = fs::read(path).expect("the file can be read");
    whole[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, whole).expect("the file can be written");
}

/// Overwrites the magic number, so that the file is no GGUF file.
///
/// # Panics
/// If the file cannot be written.
pub fn magic(path: &Path) {
    overwrite(path, 0, b"GGML");
}

/// Changes the architecture to a name of the same length that no engine knows.
///
/// # Panics
/// If the file is not a valid GGUF file, or can't be written.
pub fn architecture(path: &Path) {
    let whole = fs::read(path).expect("the file can be read");
    let view = Gguf::parse(&whole).expect("a good file");
    let name = view.get("general.architecture");
    let name = name.and_then(|value| value.as_str()).expect("a good file");
    let at = name.as_ptr() as usize - whole.as_ptr() as usize;
    let unknown = "x".repeat(name.len());
    overwrite(path, at, unknown.as_bytes());
}

/// Renames a tensor, so that the model lacks it. The length of the name stays the same.
///
/// # Panics
/// If the file is not a valid GGUF file with such a tensor, or can't be written.
pub fn rename_tensor(path: &Path, name: &str) {
    let whole = fs::read(path).expect("the file can be read");
    let view = Gguf::parse(&whole).expect("a good file");
    let is_it = |tensor: &TensorInfo<'_>| tensor.name == name;
    let tensor = view.tensors().find(is_it).expect("the file has it");
    let at = tensor.name.as_ptr() as usize - whole.as_ptr() as usize;
    overwrite(path, at, b"X");
}
