//! Starting other programs: cargo, compilers, pip.
//!
//! [`run_logged`] writes the output to a log file, which an error names; [`output_of`] returns it.
//! Both report a missing program with a sentence.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::problem::Problem;

pub(crate) fn workspace() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest = PathBuf::from(manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()));
    manifest.parent().unwrap_or(&manifest).to_owned()
}

/// Returns the cargo that started this program, with the workspace as its folder.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

pub(crate) fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Runs a program that prints its own errors; `action` completes "could not …".
pub(crate) fn run(command: &mut Command, action: &str) -> Result<(), Problem> {
    let status = command.status().map_err(not_started(command, action))?;
    match status.success() {
        true => Ok(()),
        false => Err(Problem::new(format!("could not {action}; see above"))),
    }
}

/// Runs a program and writes its output to `log`; `action` completes "could not …".
///
/// The output is read into memory, so the cause is known even if the disk of the log is full.
pub(crate) fn run_logged(command: &mut Command, action: &str, log: &Path) -> Result<(), Problem> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(not_started(command, action))?;
    let text = [output.stdout, output.stderr].concat();
    let log = fs::write(log, &text).is_ok().then_some(log);
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&text);
    Err(Problem::failed(action, &text, log))
}

/// Runs a program and returns its stdout.
pub(crate) fn output_of(command: &mut Command, action: &str) -> Result<String, Problem> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(not_started(command, action))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Problem::failed_with_output(action, &errors))
}

/// Returns the metadata of cargo with these arguments, which downloads missing crates.
pub(crate) fn metadata(args: &[&str], action: &str) -> Result<Value, Problem> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version", "1"]).args(args);
    serde_json::from_str(&output_of(&mut cargo, action)?)
        .map_err(|error| Problem::new(format!("cargo metadata is not JSON: {error}")))
}

/// Returns true if a program exists and succeeds, as a check such as `pip --version`.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|output| output.status.success())
}

/// Creates the error of a program that did not start.
pub(crate) fn not_started(command: &Command, action: &str) -> impl Fn(io::Error) -> Problem {
    let program = command.get_program().to_string_lossy().into_owned();
    move |error| {
        let cause = match error.kind() {
            io::ErrorKind::NotFound => format!("the program `{program}` was not found"),
            _ => format!("`{program}` did not start: {error}"),
        };
        Problem::new(format!("could not {action}: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let problem = output_of(&mut Command::new("no-such-program-here"), "list the moons");
        let sentence = problem.unwrap_err().to_string();
        assert_eq!(
            sentence,
            "could not list the moons: the program `no-such-program-here` was not found"
        );
    }

    #[test]
    fn output_is_written_to_the_log_and_the_error_has_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("step.log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'E: Could not resolve host' >&2; exit 3"]);
        let sentence = run_logged(&mut command, "fetch it", &log)
            .unwrap_err()
            .to_string();
        assert!(sentence.contains("there is no network"), "{sentence}");
        assert!(fs::read_to_string(&log).unwrap().contains("resolve"));
    }

    #[test]
    fn the_cause_is_known_without_a_log() {
        let log = Path::new("no/such/folder/step.log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'No space left on device'; exit 1"]);
        let sentence = run_logged(&mut command, "pack it", log)
            .unwrap_err()
            .to_string();
        assert!(sentence.contains("the disk is full"), "{sentence}");
        assert!(!sentence.contains("step.log"), "{sentence}");
    }
}
