//! Ways in which a model file can be broken. Each changes a good file in place.

use std::fs::{self, OpenOptions};
use std::path::Path;

/// Cuts the file to its first `n_bytes`.
///
/// # Panics
/// If the file cannot be written.
pub fn truncate(path: &Path, n_bytes: u64) {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(n_bytes))
        .expect("the file can be written");
}

/// Puts `bytes` at `at`.
///
/// # Panics
/// If the file is shorter, or cannot be written.
pub fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    let mut whole = fs::read(path).expect("the file can be read");
    whole[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, whole).expect("the file can be written");
}
