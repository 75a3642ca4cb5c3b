//! Reads the source files of the checkout, for the tests of the whole product.
//!
//! `tidy` and `architecture` check the source with rules that are plain functions. Each rule has a
//! test with a bad sample on which it fails. The other tests in this folder use the product from
//! outside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// Returns what `cargo metadata` with these arguments says of the workspace. Needs no network.
///
/// # Panics
/// If cargo fails.
pub fn cargo_metadata(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo runs, since it runs this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON")
}

/// A text file of the checkout.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path from the root, with forward slashes.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Folders and files that are not written by hand.
const SKIPPED: [&str; 4] = ["target", "node_modules", "__pycache__", "native.toml"];

/// The hidden folders that belong to the project; others belong to editors and tools.
const HIDDEN: [&str; 3] = [".cargo", ".ci", ".github"];

/// Returns every file below the root with one of the extensions, sorted by path.
///
/// # Errors
/// A folder cannot be read, or a file is not UTF-8.
pub fn files_with(extensions: &[&str]) -> io::Result<Vec<SourceFile>> {
    let root = root();
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if SKIPPED.contains(&&*name) || (name.starts_with('.') && !HIDDEN.contains(&&*name)) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if has_extension(&path, extensions) {
                let text = fs::read_to_string(&path)?;
                let path = path.strip_prefix(&root).unwrap_or(&path);
                let path = path.to_string_lossy().replace('\\', "/");
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .is_some_and(|extension| extensions.iter().any(|known| extension == *known))
}
