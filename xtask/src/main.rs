//! `cargo xtask …`: the chores that need more than cargo.
//!
//! `run` and `test` are the two commands by which anyone starts and checks the product; both begin
//! with the native set-up. The rule here: a chore may be interrupted at any moment and started
//! again, and when it fails it says why in one sentence that names the next thing to do.

mod cache;
mod chores;
mod problem;
mod progress;
mod run;
mod setup;
mod test;

use std::process::ExitCode;

use problem::Problem;

const USAGE: &str = "\
Usage: cargo xtask <chore>

  run [-- ARGS]   set up, build and start transom: a chat in the terminal, or what ARGS say,
                  as in: cargo xtask run -- ask \"What is a haiku?\"
  test            set up and run every check: format, clippy, all tests
  setup           only the set-up: MLX, and what builds llama.cpp, kept in one cache folder

Set TRANSOM_NATIVE_CACHE to keep that folder elsewhere.
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match (chore.as_str(), rest.as_slice()) {
        ("run", _) => run::run(&rest),
        ("test", []) => test::test(),
        ("setup", []) => setup::set_up().map(|_| ExitCode::SUCCESS),
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
