//! `cargo xtask run`: sets up, builds and starts the product.
//!
//! With a display this is the app, which runs models with the `transom` in the same folder. Without
//! a display, or with arguments, it is the command line, and nothing is installed or built for
//! windows.
//!
//! It builds the profile of the tests, in which all code that a response waits for is optimized: the
//! first response comes sooner, and tests and program share what is compiled.

use std::io::{self, IsTerminal};
use std::process::{Command, ExitCode};

use crate::problem::Problem;
use crate::process;
use crate::setup::{self, Purpose};
use crate::ui::{Pages, Ui};

/// The prompt if there is no terminal.
const BUILT_IN_PROMPT: &str = "What can you do?";

/// The link that opens the chat window at once, so that the first start shows a window.
const OPEN_CHAT: &str = "transom://chat";

/// Runs the command. Returns only if the program could not be started.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Problem> {
    // `cargo xtask run -- ask` passes the two dashes too.
    let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
    if args.is_empty() && has_display(cfg!(target_os = "macos"), is_set) {
        return run_app();
    }
    let workspace = setup::set_up(Purpose::CommandLine)?;
    build(Profile::Dev, &["transom-cli"])?;
    let mut transom = Command::new(workspace.target.join("debug/transom"));
    transom.args(arguments(args, io::stdin().is_terminal()));
    exec(&mut transom)
}

fn run_app() -> Result<ExitCode, Problem> {
    let workspace = setup::set_up(Purpose::App)?;
    Ui::new(&workspace)?.build(Pages::App)?;
    build(Profile::Dev, &["transom-cli", "transom-app"])?;
    let mut app = Command::new(workspace.target.join("debug/transom-app"));
    exec(app.arg(OPEN_CHAT))
}

/// The cargo profile of a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Profile {
    /// A fast build, as for tests.
    Dev,
    /// An optimized build.
    Release,
}

impl Profile {
    /// Returns the folder in the target folder of cargo.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

pub(crate) fn build(profile: Profile, packages: &[&str]) -> Result<(), Problem> {
    let action = "build transom";
    let mut build = process::cargo();
    build.arg("build");
    if profile == Profile::Release {
        build.arg("--release");
    }
    for package in packages {
        build.args(["--package", package]);
    }
    let status = build
        .status()
        .map_err(|error| process::not_started(&build, action, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Problem::new(
        "could not build transom; see the errors of the compiler above",
    ))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Returns true if windows can be shown. Over SSH, a Mac shows none.
fn has_display(is_mac: bool, is_set: impl Fn(&str) -> bool) -> bool {
    if is_mac {
        !is_set("SSH_CONNECTION")
    } else {
        is_set("WAYLAND_DISPLAY") || is_set("DISPLAY")
    }
}

/// Returns the arguments of `transom`.
fn arguments(args: &[String], is_interactive: bool) -> Vec<&str> {
    match (args, is_interactive) {
        ([], true) => vec!["chat"],
        ([], false) => vec!["ask", BUILT_IN_PROMPT],
        (args, _) => args.iter().map(String::as_str).collect(),
    }
}

/// Replaces this process with the program, which so gets Ctrl-C and sets the exit code.
#[cfg(unix)]
fn exec(program: &mut Command) -> Result<ExitCode, Problem> {
    use std::os::unix::process::CommandExt;
    let error = program.exec();
    Err(process::not_started(program, "start transom", &error))
}

#[cfg(not(unix))]
fn exec(_program: &mut Command) -> Result<ExitCode, Problem> {
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
    fn the_app_is_started_where_windows_can_be_shown() {
        let with = |is_mac, set: &'static [&str]| has_display(is_mac, |name| set.contains(&name));
        assert!(with(false, &["DISPLAY"]) && with(false, &["WAYLAND_DISPLAY"]));
        assert!(!with(false, &[]));
        assert!(with(true, &[]));
        assert!(!with(true, &["SSH_CONNECTION"]));
    }
}
