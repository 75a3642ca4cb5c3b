//! `cargo xtask run`: sets up, builds and starts the product, and `cargo xtask screenshots` and
//! `cargo xtask measure`: the same for the programs of `tests/window`.
//!
//! With a display `run` starts the app, which runs models with the `transom` in the same folder.
//! Without a display, or with arguments, it starts the command line, and nothing is installed or
//! built for windows.
//!
//! It builds the profile of the tests, in which all code that a response waits for is optimized: the
//! first response comes sooner, and tests and program share what is compiled.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::{self, Purpose};
use crate::ui::{Pages, Ui};

/// The prompt if there is no terminal.
const BUILT_IN_PROMPT: &str = "What can you do?";

/// The package of the program that reads documents.
const READER: &str = "transom-document-reader";

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
    build(Profile::Dev, command_line(args))?;
    let mut transom = Command::new(workspace.target.join("debug/transom"));
    transom.args(arguments(args, io::stdin().is_terminal()));
    exec(&mut transom)
}

fn run_app() -> Result<ExitCode, Problem> {
    let workspace = setup::set_up(Purpose::App)?;
    Ui::new(&workspace)?.build(Pages::App)?;
    build(Profile::Dev, &["transom-cli", READER, "transom-app"])?;
    let mut app = Command::new(workspace.target.join("debug/transom-app"));
    exec(app.arg(OPEN_CHAT))
}

/// Variables of `measure`, for which a virtual screen without a GPU would change the results.
pub(crate) const MEASURE: [(&str, &str); 2] = [
    // Otherwise, WebKitGTK would composite the whole window on the CPU for each token, unlike on a
    // real machine. Not for screenshots: without compositing, WebKitGTK may never send the picture of
    // a page that does not change.
    ("WEBKIT_DISABLE_COMPOSITING_MODE", "1"),
    // The engine has no GPU either. On all cores, it would compete with the app for them.
    ("OPENBLAS_NUM_THREADS", "1"),
];

/// Builds and runs a program of `tests/window`, which shows windows on a virtual screen.
pub(crate) fn run_windows(
    program: &str,
    profile: Profile,
    variables: &[(&str, &str)],
    args: &[String],
) -> Result<ExitCode, Problem> {
    if !cfg!(target_os = "linux") {
        return Err(Problem::new(format!(
            "`{program}` runs only on Linux, where windows can be shown on a virtual screen"
        )));
    }
    let workspace = setup::set_up(Purpose::Tests)?;
    let ui = Ui::new(&workspace)?;
    ui.build(Pages::App)?;
    ui.build(Pages::Gallery)?;
    let packages = ["transom-cli", READER, "transom-app", "transom-window-tests"];
    build(profile, &packages)?;
    let mut command = Command::new(workspace.target.join(profile.folder()).join(program));
    command.args(args).envs(variables.iter().copied());
    process::run(&mut command, &format!("run {program}"))?;
    progress::say(&format!("✓ {program}"));
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    /// Returns the folder in the target folder of cargo.
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

fn build(profile: Profile, packages: &[&str]) -> Result<(), Problem> {
    let mut build = process::cargo();
    build.arg("build");
    if profile == Profile::Release {
        build.arg("--release");
    }
    for package in packages {
        build.args(["--package", package]);
    }
    process::run(&mut build, "build transom")
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

/// Returns the packages of the command line. The chat in the terminal reads no documents, so its
/// first response need not wait for the libraries that can.
fn command_line(args: &[String]) -> &'static [&'static str] {
    match args {
        [] => &["transom-cli"],
        _ => &["transom-cli", READER],
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
fn exec(program: &mut Command) -> Result<ExitCode, Problem> {
    let error = program.exec();
    Err(process::not_started(program, "start transom")(error))
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
