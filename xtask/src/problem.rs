//! What went wrong, as one sentence for the person at the terminal.
//!
//! Every chore fails through [`Problem`]. The rule: the sentence names the cause that the person
//! can act on (no network, no space, no pip), and the log file when there is more to read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failure that ends the chore.
#[derive(Debug)]
pub(crate) struct Problem {
    sentence: String,
    log: Option<PathBuf>,
}

impl Problem {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            log: None,
        }
    }

    /// A failed file operation: `doing` completes "could not …".
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let cause = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DISK_FULL.to_owned(),
            _ => error.to_string(),
        };
        Self::new(format!("could not {doing} {}: {cause}", path.display()))
    }

    /// A program that ended badly; its output often tells a cause worth naming.
    pub(crate) fn failed(doing: &str, output: &str, log: Option<&Path>) -> Self {
        let cause = diagnose(output)
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        Self {
            sentence: format!("could not {doing}{cause}"),
            log: log.map(Path::to_owned),
        }
    }

    /// A program whose output is not kept: the sentence must hold it.
    pub(crate) fn failed_saying(doing: &str, output: &str) -> Self {
        let cause = diagnose(output).unwrap_or_else(|| output.trim());
        Self::new(format!("could not {doing}: {cause}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        match &self.log {
            Some(log) => write!(f, " (the full output is in {})", log.display()),
            None => Ok(()),
        }
    }
}

const DISK_FULL: &str =
    "the disk is full; free some space, or point TRANSOM_NATIVE_CACHE at another disk";
const NO_NETWORK: &str = "there is no network; it is needed once, for the first set-up";

/// Phrases that the programs we call print, and what they mean to a person. The first hit wins,
/// so a cause stands above the symptoms that it brings with it.
const CAUSES: &[(&[&str], &str)] = &[
    (
        &["No space left on device", "Disk quota exceeded"],
        DISK_FULL,
    ),
    (
        &[
            "Temporary failure in name resolution",
            "Temporary failure resolving",
            "Failed to establish a new connection",
            "Network is unreachable",
            "Could not resolve",
            "Couldn't resolve host",
            "Could not connect to",
            "Connection timed out",
            "spurious network error",
            "you may need to enable network access",
            "but --offline was specified",
            "attempting to make an HTTP request",
        ],
        NO_NETWORK,
    ),
    (
        &[
            "a password is required",
            "a terminal is required to read the password",
        ],
        "sudo wants a password and there is no terminal to ask in; run `cargo xtask setup` in one",
    ),
    (
        &["is not in the sudoers file", "may not run sudo"],
        "this user may not use sudo; ask whoever keeps the machine",
    ),
    (
        &["dpkg was interrupted"],
        "an earlier installation was cut off; run `sudo dpkg --configure -a` first",
    ),
    (
        &[
            "No matching distribution found",
            "Unable to locate package",
            "has no installation candidate",
        ],
        "the package index does not offer it",
    ),
    (
        &["Unable to find libclang"],
        "libclang was not found; set LIBCLANG_PATH to the folder that holds it",
    ),
    (
        &[
            "internal compiler error: Killed",
            "Killed signal terminated",
        ],
        "the machine ran out of memory; close something, or start again",
    ),
];

fn diagnose(output: &str) -> Option<&'static str> {
    CAUSES
        .iter()
        .find(|(phrases, _)| phrases.iter().any(|phrase| output.contains(phrase)))
        .map(|(_, cause)| *cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_before_its_symptoms() {
        let pip = "WARNING: Retrying after connection broken by 'NewConnectionError: \
                   Failed to establish a new connection: [Errno -3] Temporary failure in name \
                   resolution'\nERROR: No matching distribution found for mlx-cpu==0.32.2";
        assert_eq!(diagnose(pip), Some(NO_NETWORK));
        let missing = "ERROR: No matching distribution found for mlx-cpu==9";
        assert_eq!(
            diagnose(missing),
            Some("the package index does not offer it")
        );
        assert_eq!(diagnose("all went well"), None);
    }

    #[test]
    fn a_full_disk_is_called_a_full_disk() {
        let error = io::Error::from(io::ErrorKind::StorageFull);
        let problem = Problem::io("write", Path::new("a/file"), &error).to_string();
        assert!(
            problem.starts_with("could not write a/file: the disk is full"),
            "{problem}"
        );
    }

    #[test]
    fn a_failed_program_names_its_log() {
        let log = Some(Path::new("logs/compile.log"));
        let problem = Problem::failed("compile mlx-c", "a.cpp:1: oh", log).to_string();
        assert_eq!(
            problem,
            "could not compile mlx-c (the full output is in logs/compile.log)"
        );
    }
}
