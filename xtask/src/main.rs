//! `cargo xtask …`: the development commands that need more than cargo.
//!
//! `run` starts the product and `test` checks it; each command begins with the setup that it needs.
//! Rule: a command may be interrupted at any moment and started again. When it fails, it says why
//! in one sentence that names what to do next.

mod bundle;
mod cache;
mod fuzz;
mod mac_check;
mod problem;
mod process;
mod progress;
mod run;
mod setup;
mod skipped_checks;
mod test;
mod ui;

use std::process::ExitCode;

use problem::Problem;
use run::Profile;
use setup::Purpose;

const USAGE: &str = "\
Usage: cargo xtask <command>

  run               set up, build and open the app; without a display, a chat in the terminal
  run -- ARGS       the command line, as in: cargo xtask run -- ask \"What is a haiku?\"
  test              set up and run every check: format, clippy, the pages, all tests
  bundle            build what people install: an app and a DMG, or a .deb and an AppImage
  fuzz [MINUTES]    property tests with random seeds, and the fuzz targets [default: 10]
  mac-check         compile, lint and link the macOS code on Linux
  setup             only set up what run and test need, in one cache folder
  screenshots       set up, build, and write screenshots of every state to docs/screenshots
  measure           set up, build, and measure the app: start, memory, CPU time per token

Set TRANSOM_NATIVE_CACHE to use another cache folder.
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let result = match (command.as_str(), rest.as_slice()) {
        ("run", _) => run::run(&rest),
        ("test", []) => test::test(),
        ("bundle", []) => bundle::bundle(),
        ("fuzz", args) => fuzz::fuzz(args),
        ("mac-check", []) => mac_check::mac_check(),
        ("setup", []) => setup::set_up(Purpose::Tests).map(|_| ExitCode::SUCCESS),
        ("screenshots", args) => run::run_windows("screenshots", Profile::Dev, &[], args),
        ("measure", args) => run::run_windows("measure", Profile::Release, &run::MEASURE, args),
        ("" | "help" | "--help" | "-h", []) => {
            progress::say(USAGE.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Problem::new(format!(
            "`{}` is not a command of xtask.\n\n{USAGE}",
            [&[command], rest.as_slice()].concat().join(" ")
        ))),
    };
    result.unwrap_or_else(|problem| {
        progress::say(&format!("\ncargo xtask: {problem}"));
        ExitCode::FAILURE
    })
}
