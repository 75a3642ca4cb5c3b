//! Only the user can open files of the data folder, whatever the umask.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Adds the path and mode of every file that other users can open, and counts all files.
fn collect(path: &Path, open: &mut Vec<String>) -> usize {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.permissions().mode();
    if mode & 0o077 != 0 && !metadata.is_symlink() {
        open.push(format!("{} {mode:o}", path.display()));
    }
    if !metadata.is_dir() {
        return 1;
    }
    let entries = fs::read_dir(path).unwrap();
    1 + entries
        .map(|entry| collect(&entry.unwrap().path(), open))
        .sum::<usize>()
}

#[test]
fn with_a_umask_of_zero_no_file_is_open_to_others() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("new/data");
    let run = |arguments: &str| {
        let script = format!("umask 000; exec \"$0\" {arguments}");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_transom")])
            .env_remove("TRANSOM_MODEL")
            .env("TRANSOM_DATA", &data)
            .env("HOME", home.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
    };
    run("ask Hello --max-tokens 24 --temperature 0");
    let mut open = Vec::new();
    let n_files = collect(&home.path().join("new"), &mut open);
    assert!(n_files >= 3, "{n_files}");
    assert_eq!(open, [""; 0]);
}
