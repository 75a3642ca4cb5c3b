//! `cargo xtask run`: set up, build, and become the product.
//!
//! With a display that is the app, which starts its models from the `transom` beside it; without
//! one, or with arguments, it is the command line, and nothing is installed or built for windows.

use std::io::{self, IsTerminal};
use std::process::{Command, ExitCode};

use crate::chores;
use crate::problem::Problem;
use crate::setup::{self, Purpose};
use crate::ui::{Pages, Ui};

/// Asked when nobody is at the terminal to ask something else.
const BUILT_IN_PROMPT: &str = "What can you do?";

/// The link that opens the chat window at once: a first start should show something.
const OPEN_CHAT: &str = "transom://chat";

/// Returns only when the program could not be started.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Problem> {
    // `cargo xtask run -- ask` hands us the two dashes as well.
    let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
    if args.is_empty() && has_display(cfg!(target_os = "macos"), is_set) {
        return run_app();
    }
    let workspace = setup::set_up(Purpose::CommandLine)?;
    build(Profile::Release, &["transom-cli"])?;
    let mut transom = Command::new(workspace.target.join("release/transom"));
    transom.args(arguments(args, io::stdin().is_terminal()));
    become_program(&mut transom)
}

fn run_app() -> Result<ExitCode, Problem> {
    let workspace = setup::set_up(Purpose::App)?;
    Ui::of(&workspace)?.built(Pages::App)?;
    build(Profile::Release, &["transom-cli", "transom-app"])?;
    let mut app = Command::new(workspace.target.join("release/transom-app"));
    become_program(app.arg(OPEN_CHAT))
}

/// How a program is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Profile {
    /// Quickly, as for tests.
    Dev,
    /// As it is used.
    Release,
}

impl Profile {
    /// Its folder in cargo's target folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

pub(crate) fn build(profile: Profile, packages: &[&str]) -> Result<(), Problem> {
    let doing = "build transom";
    let mut build = chores::cargo();
    build.arg("build");
    if profile == Profile::Release {
        build.arg("--release");
    }
    for package in packages {
        build.args(["--package", package]);
    }
    let status = build
        .status()
        .map_err(|error| chores::not_started(&build, doing, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Problem::new(
        "could not build transom; the compiler says why, above",
    ))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Whether a window could be seen here. A Mac that is reached over SSH shows none.
fn has_display(is_mac: bool, is_set: impl Fn(&str) -> bool) -> bool {
    if is_mac {
        !is_set("SSH_CONNECTION")
    } else {
        is_set("WAYLAND_DISPLAY") || is_set("DISPLAY")
    }
}

/// What transom is started with.
fn arguments(args: &[String], is_interactive: bool) -> Vec<&str> {
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
    }

    #[test]
    fn arguments_are_passed_on_as_they_are() {
        for is_interactive in [true, false] {
            let args = owned(&["ask", "--", "-1"]);
            assert_eq!(arguments(&args, is_interactive), ["ask", "--", "-1"]);
            assert_eq!(arguments(&owned(&["bench"]), is_interactive), ["bench"]);
        }
    }

    #[test]
    fn a_window_is_opened_where_it_can_be_seen() {
        let with = |is_mac, set: &'static [&str]| has_display(is_mac, |name| set.contains(&name));
        assert!(with(false, &["DISPLAY"]) && with(false, &["WAYLAND_DISPLAY"]));
        assert!(!with(false, &[]));
        assert!(with(true, &[]));
        assert!(!with(true, &["SSH_CONNECTION"]));
    }
}
