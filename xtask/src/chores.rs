//! Starting other programs: cargo, compilers, pip.
//!
//! [`quietly`] puts their output into a log file, which a failure names; [`output_of`] returns it.
//! Both turn a program that is not there into a sentence, never into a raw system error.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::problem::Problem;

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let manifest = PathBuf::from(manifest);
    manifest.parent().unwrap_or(&manifest).to_owned()
}

/// The cargo that started us, working in the workspace.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(workspace());
    command
}

/// Runs a program and keeps its output in `log`; `doing` completes "could not …".
///
/// The output goes through memory, so that its cause is known even when the log's own disk is full.
pub(crate) fn quietly(command: &mut Command, doing: &str, log: &Path) -> Result<(), Problem> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(command, doing, &error))?;
    let text = [output.stdout, output.stderr].concat();
    let log = fs::write(log, &text).is_ok().then_some(log);
    if output.status.success() {
        Ok(())
    } else {
        let text = String::from_utf8_lossy(&text);
        Err(Problem::failed(doing, &text, log))
    }
}

/// Runs a program and returns what it wrote to stdout.
pub(crate) fn output_of(command: &mut Command, doing: &str) -> Result<String, Problem> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(command, doing, &error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(Problem::failed_saying(doing, &errors))
    }
}

/// Whether a program is there and ends well; for probes such as `pip --version`.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(crate) fn not_started(command: &Command, doing: &str, error: &std::io::Error) -> Problem {
    let program = command.get_program().to_string_lossy().into_owned();
    let cause = match error.kind() {
        std::io::ErrorKind::NotFound => format!("the program `{program}` was not found"),
        _ => format!("`{program}` did not start: {error}"),
    };
    Problem::new(format!("could not {doing}: {cause}"))
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
    fn output_goes_to_the_log_and_a_failure_reads_its_cause_there() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("step.log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'E: Could not resolve host' >&2; exit 3"]);
        let sentence = quietly(&mut command, "fetch it", &log)
            .unwrap_err()
            .to_string();
        assert!(sentence.contains("there is no network"), "{sentence}");
        assert!(fs::read_to_string(&log).unwrap().contains("resolve"));
    }

    #[test]
    fn the_cause_is_known_even_where_no_log_can_be_written() {
        let log = Path::new("no/such/folder/step.log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'No space left on device'; exit 1"]);
        let sentence = quietly(&mut command, "pack it", log)
            .unwrap_err()
            .to_string();
        assert!(sentence.contains("the disk is full"), "{sentence}");
        assert!(!sentence.contains("step.log"), "{sentence}");
    }
}
