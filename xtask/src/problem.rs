//! Errors, as one sentence for the user at the terminal.
//!
//! Every command fails with a [`Problem`]. Rule: the sentence names a cause that the user can act
//! on (no network, no space, no pip), and the log file if there is one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error that ends the command.
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

    /// Creates an error of a file operation; `action` completes "could not …".
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let cause = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DISK_FULL.to_owned(),
            _ => error.to_string(),
        };
        Self::new(format!("could not {action} {}: {cause}", path.display()))
    }

    /// Creates an error of a program, with a known cause if its output shows one.
    pub(crate) fn failed(action: &str, output: &str, log: Option<&Path>) -> Self {
        let cause = diagnose(output)
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        Self {
            sentence: format!("could not {action}{cause}"),
            log: log.map(Path::to_owned),
        }
    }

    /// Creates an error of a program that contains its output, because there is no log.
    pub(crate) fn failed_with_output(action: &str, output: &str) -> Self {
        let cause = diagnose(output).unwrap_or_else(|| output.trim());
        Self::new(format!("could not {action}: {cause}"))
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
const NO_NETWORK: &str = "there is no network, which the first setup needs";

/// Phrases in the output of programs, and what they mean. The first match counts, so a cause comes
/// before its symptoms.
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
        "sudo needs a password and there is no terminal; run `cargo xtask setup` in a terminal",
    ),
    (
        &["is not in the sudoers file", "may not run sudo"],
        "this user may not use sudo; ask the administrator of this machine",
    ),
    (
        &["dpkg was interrupted"],
        "an earlier installation was interrupted; run `sudo dpkg --configure -a` first",
    ),
    (
        &[
            "No matching distribution found",
            "Unable to locate package",
            "has no installation candidate",
        ],
        "the package index does not have it",
    ),
    (
        &["Unable to find libclang"],
        "libclang was not found; set LIBCLANG_PATH to its folder",
    ),
    (
        &[
            "internal compiler error: Killed",
            "Killed signal terminated",
        ],
        "the machine ran out of memory; close other programs and start again",
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
            Some("the package index does not have it")
        );
        assert_eq!(diagnose("all went well"), None);
    }

    #[test]
    fn a_full_disk_is_named() {
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
