//! `cargo xtask …`: the chores that need more than cargo.
//!
//! `run` and `test` are the two commands by which anyone starts and checks the product; each chore
//! begins with the set-up that it needs. The rule here: a chore may be interrupted at any moment and started
//! again, and when it fails it says why in one sentence that names the next thing to do.

mod cache;
mod chores;
mod fuzz;
mod problem;
mod progress;
mod run;
mod setup;
mod skipped;
mod test;
mod ui;
mod windows;

use std::process::ExitCode;

use problem::Problem;
use setup::Purpose;

const USAGE: &str = "\
Usage: cargo xtask <chore>

  run               set up, build and open the app; without a display, a chat in the terminal
  run -- ARGS       the command line, as in: cargo xtask run -- ask \"What is a haiku?\"
  test              set up and run every check: format, clippy, the pages, all tests
  fuzz [MINUTES]    property tests with random seeds and the readers' fuzzers [default: 10]
  setup             only the set-up, of all that run and test need, kept in one cache folder
  screenshots       set up, build, and write pictures of every state to docs/screenshots
  measure           set up, build, and measure the app: start, memory, work for a token

Set TRANSOM_NATIVE_CACHE to keep that folder elsewhere.
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match (chore.as_str(), rest.as_slice()) {
        ("run", _) => run::run(&rest),
        ("test", []) => test::test(),
        ("fuzz", args) => fuzz::fuzz(args),
        ("setup", []) => setup::set_up(Purpose::Tests).map(|_| ExitCode::SUCCESS),
        ("screenshots", args) => windows::screenshots(args),
        ("measure", args) => windows::measure(args),
        ("" | "help" | "--help" | "-h", []) => {
            progress::say(USAGE.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Problem::new(format!(
            "`{}` is not a chore that I know.\n\n{USAGE}",
            [&[chore], rest.as_slice()].concat().join(" ")
        ))),
    };
    outcome.unwrap_or_else(|problem| {
        progress::say(&format!("\ncargo xtask: {problem}"));
        ExitCode::FAILURE
    })
}
