//! `cargo xtask run`: set up, build, and become the product.

use std::io::{self, IsTerminal};
use std::process::{Command, ExitCode};

use crate::chores;
use crate::problem::Problem;
use crate::setup;

/// Asked when nobody is at the terminal to ask something else.
const BUILT_IN_PROMPT: &str = "What can you do?";

/// Returns only when the program could not be started.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Problem> {
    let workspace = setup::set_up()?;
    let doing = "build transom";
    let mut build = chores::cargo();
    build.args(["build", "--release", "--package", "transom-cli"]);
    let status = build
        .status()
        .map_err(|error| chores::not_started(&build, doing, &error))?;
    if !status.success() {
        return Err(Problem::new(
            "could not build transom; the compiler says why, above",
        ));
    }
    let mut transom = Command::new(workspace.target.join("release/transom"));
    transom.args(arguments(args, io::stdin().is_terminal()));
    become_program(&mut transom)
}

/// What transom is started with.
fn arguments(args: &[String], is_interactive: bool) -> Vec<&str> {
    // `cargo xtask run -- ask` hands us the two dashes as well.
    let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
    match (args, is_interactive) {
        ([], true) => vec!["chat"],
        ([], false) => vec!["ask", BUILT_IN_PROMPT],
        (args, _) => args.iter().map(String::as_str).collect(),
    }
}

/// Replaces this process, so that Ctrl-C and the exit code are the program's own.
#[cfg(unix)]
fn become_program(program: &mut Command) -> Result<ExitCode, Problem> {
    use std::os::unix::process::CommandExt;
    let error = program.exec();
    Err(chores::not_started(program, "start transom", &error))
}

#[cfg(not(unix))]
fn become_program(_program: &mut Command) -> Result<ExitCode, Problem> {
    Err(Problem::new("this system is not supported yet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn without_arguments_it_chats_and_without_a_terminal_it_asks() {
        assert_eq!(arguments(&[], true), ["chat"]);
        assert_eq!(arguments(&[], false), ["ask", BUILT_IN_PROMPT]);
        assert_eq!(arguments(&owned(&["--"]), true), ["chat"]);
    }

    #[test]
    fn arguments_are_passed_on_as_they_are() {
        for is_interactive in [true, false] {
            let args = owned(&["--", "ask", "--", "-1"]);
            assert_eq!(arguments(&args, is_interactive), ["ask", "--", "-1"]);
            assert_eq!(arguments(&owned(&["bench"]), is_interactive), ["bench"]);
        }
    }
}
