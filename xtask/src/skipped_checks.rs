//! The checks that were skipped on this machine, with reasons.
//!
//! A skipped test appends a line to the file in the variable [`VARIABLE`], with
//! `transom_signals::test_support::skipped`. `cargo xtask test` lists them at its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::problem::Problem;
use crate::progress;

/// The variable with the path of the file, for tests.
pub(crate) const VARIABLE: &str = "TRANSOM_SKIPPED_TESTS";

/// The checks that were skipped in one run.
pub(crate) struct SkippedChecks {
    /// The file that tests append to.
    pub(crate) file: PathBuf,
    own: Vec<String>,
}

impl SkippedChecks {
    /// Starts a new list in the folder `target`, which replaces an earlier one.
    pub(crate) fn start(target: &Path) -> Result<Self, Problem> {
        let file = target.join("skipped-tests");
        let made = fs::create_dir_all(target).and_then(|()| fs::write(&file, ""));
        made.map_err(Problem::io("write", &file))?;
        let own = Vec::new();
        Ok(Self { file, own })
    }

    pub(crate) fn add(&mut self, name: &str, reason: &str) {
        self.own.push(format!("{name}: {reason}"));
    }

    pub(crate) fn print(&self) -> Result<(), Problem> {
        let text = fs::read_to_string(&self.file).map_err(Problem::io("read", &self.file))?;
        for line in self.summary(&text) {
            progress::say(&line);
        }
        Ok(())
    }

    /// Returns the lines to print; `text` has the lines of the tests.
    fn summary(&self, text: &str) -> Vec<String> {
        let own = self.own.iter().map(String::as_str);
        let all: BTreeSet<&str> = own.chain(text.lines()).collect();
        let count = match all.len() {
            0 => "no check was skipped".to_owned(),
            1 => "1 check was skipped:".to_owned(),
            n => format!("{n} checks were skipped:"),
        };
        let lines = all.iter().map(|line| format!("    {line}"));
        std::iter::once(format!("- {count}")).chain(lines).collect()
    }
}

/// Appends a test of this program to the list, if `cargo xtask test` runs it.
#[cfg(test)]
pub(crate) fn skip(name: &str, reason: &str) {
    use std::io::Write;
    if let Some(file) = std::env::var_os(VARIABLE) {
        let file = fs::OpenOptions::new().append(true).open(file);
        let line = format!("{name}: {reason}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of skipped checks is there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skipped_check_is_listed_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let mut skipped = SkippedChecks::start(folder.path()).unwrap();
        assert_eq!(skipped.summary(""), ["- no check was skipped"]);
        assert_eq!(
            skipped.summary("ladder: no groups\n"),
            ["- 1 check was skipped:", "    ladder: no groups"]
        );
        skipped.add("facts", "no Python");
        assert_eq!(
            skipped.summary("ladder: no groups\n"),
            [
                "- 2 checks were skipped:",
                "    facts: no Python",
                "    ladder: no groups"
            ]
        );
    }

    #[test]
    fn an_earlier_list_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = SkippedChecks::start(folder.path()).unwrap().file;
        fs::write(&file, "old: reason\n").unwrap();
        SkippedChecks::start(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
