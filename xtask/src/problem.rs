//! Errors, as one sentence for the user at the terminal.
//!
//! Every command fails with a [`Problem`]. Rule: the sentence names a cause that the user can act
//! on (no network, no space, no pip), and the log file if there is one.

use std::fmt;
use std::io;
use std::path::Path;

/// An error that ends the command.
#[derive(Debug)]
pub(crate) struct Problem(String);

impl Problem {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Returns an error with a line for each of `found`, if there are any.
    pub(crate) fn unless_empty(what: &str, found: &[String]) -> Result<(), Self> {
        match found {
            [] => Ok(()),
            _ => Err(Self(format!("{what}:\n  {}", found.join("\n  ")))),
        }
    }

    /// Creates the error of a file operation; `action` completes "could not …".
    pub(crate) fn io(action: &str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| {
            let cause = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DISK_FULL.to_owned(),
                _ => error.to_string(),
            };
            Self(format!("could not {action} {}: {cause}", path.display()))
        }
    }

    /// Creates an error of a program, with a known cause if its output shows one.
    pub(crate) fn failed(action: &str, output: &str, log: Option<&Path>) -> Self {
        let cause = diagnose(output).map(|cause| format!(": {cause}"));
        let log = log.map(|log| format!(" (the full output is in {})", log.display()));
        let details = [cause, log].into_iter().flatten();
        Self(format!("could not {action}{}", details.collect::<String>()))
    }

    /// Creates an error of a program that contains its output, because there is no log.
    pub(crate) fn failed_with_output(action: &str, output: &str) -> Self {
        let cause = diagnose(output).unwrap_or_else(|| output.trim());
        Self(format!("could not {action}: {cause}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const DISK_FULL: &str =
    "the disk is full; free some space, or point TRANSOM_NATIVE_CACHE at another disk";
const NO_NETWORK: &str = "there is no network, which the first setup needs";
const NO_PASSWORD: &str =
    "sudo needs a password and there is no terminal; run `cargo xtask setup` in a terminal";
const NO_RIGHTS: &str = "this user may not use sudo; ask the administrator of this machine";
const INTERRUPTED: &str =
    "an earlier installation was interrupted; run `sudo dpkg --configure -a` first";
const NO_PACKAGE: &str = "the package index does not have it";
const NO_LIBCLANG: &str = "libclang was not found; set LIBCLANG_PATH to its folder";
const NO_MEMORY: &str = "the machine ran out of memory; close other programs and start again";

/// Phrases in the output of programs, and what they mean. The first match counts, so a cause comes
/// before its symptoms.
const CAUSES: [(&str, &str); 25] = [
    ("No space left on device", DISK_FULL),
    ("Disk quota exceeded", DISK_FULL),
    ("Temporary failure in name resolution", NO_NETWORK),
    ("Temporary failure resolving", NO_NETWORK),
    ("Failed to establish a new connection", NO_NETWORK),
    ("Network is unreachable", NO_NETWORK),
    ("Could not resolve", NO_NETWORK),
    ("Couldn't resolve host", NO_NETWORK),
    ("Could not connect to", NO_NETWORK),
    ("Connection timed out", NO_NETWORK),
    ("spurious network error", NO_NETWORK),
    ("you may need to enable network access", NO_NETWORK),
    ("but --offline was specified", NO_NETWORK),
    ("attempting to make an HTTP request", NO_NETWORK),
    ("a password is required", NO_PASSWORD),
    ("a terminal is required to read the password", NO_PASSWORD),
    ("is not in the sudoers file", NO_RIGHTS),
    ("may not run sudo", NO_RIGHTS),
    ("dpkg was interrupted", INTERRUPTED),
    ("No matching distribution found", NO_PACKAGE),
    ("Unable to locate package", NO_PACKAGE),
    ("has no installation candidate", NO_PACKAGE),
    ("Unable to find libclang", NO_LIBCLANG),
    ("internal compiler error: Killed", NO_MEMORY),
    ("Killed signal terminated", NO_MEMORY),
];

fn diagnose(output: &str) -> Option<&'static str> {
    let mut causes = CAUSES.into_iter();
    let found = causes.find(|(phrase, _)| output.contains(phrase))?;
    Some(found.1)
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
        let problem = Problem::io("write", Path::new("a/file"))(error).to_string();
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
