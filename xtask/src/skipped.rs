//! Checks that could not run on this machine, each with its reason.
//!
//! A test that is skipped appends a line to the file that [`VARIABLE`] names; those of
//! `transom_signals::test_support::skipped` do. The end of `cargo xtask test` lists them all.

use std::fs;
use std::path::{Path, PathBuf};

use crate::problem::Problem;
use crate::progress;

/// Names the file, for the tests.
pub(crate) const VARIABLE: &str = "TRANSOM_SKIPPED_TESTS";

/// What was skipped in one run.
pub(crate) struct Skipped {
    /// The file that tests append to.
    file: PathBuf,
    own: Vec<String>,
}

impl Skipped {
    /// Starts a list in the folder `target`; an earlier one is gone.
    pub(crate) fn start(target: &Path) -> Result<Self, Problem> {
        let file = target.join("skipped-tests");
        let made = fs::create_dir_all(target).and_then(|()| fs::write(&file, ""));
        made.map_err(|error| Problem::new(format!("could not write {}: {error}", file.display())))?;
        let own = Vec::new();
        Ok(Self { file, own })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Adds what this program itself skips.
    pub(crate) fn add(&mut self, name: &str, reason: &str) {
        self.own.push(format!("{name}: {reason}"));
    }

    /// Lists what was skipped.
    pub(crate) fn tell(&self) -> Result<(), Problem> {
        let told = fs::read_to_string(&self.file).map_err(|error| {
            Problem::new(format!("could not read {}: {error}", self.file.display()))
        })?;
        for line in self.summary(&told) {
            progress::say(&line);
        }
        Ok(())
    }

    /// Returns the lines to show, where the tests wrote `told`.
    fn summary(&self, told: &str) -> Vec<String> {
        let mut all: Vec<&str> = self.own.iter().map(String::as_str).collect();
        all.extend(told.lines());
        all.sort_unstable();
        all.dedup();
        let count = match all.len() {
            0 => "no check was skipped".to_owned(),
            1 => "1 check was skipped:".to_owned(),
            n => format!("{n} checks were skipped:"),
        };
        let lines = all.iter().map(|line| format!("    {line}"));
        std::iter::once(format!("- {count}")).chain(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skipped_check_is_listed_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let mut skipped = Skipped::start(folder.path()).unwrap();
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
    fn an_earlier_list_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = Skipped::start(folder.path()).unwrap().file().to_owned();
        fs::write(&file, "old: reason\n").unwrap();
        Skipped::start(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
