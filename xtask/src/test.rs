//! `cargo xtask test`: set up, then every check, the quick ones first.

use std::process::ExitCode;
use std::time::Instant;

use crate::chores;
use crate::problem::Problem;
use crate::progress::{self, elapsed};
use crate::setup;

/// Scripted stand-ins that rooms lend to the tests of the rooms above them.
const TEST_SUPPORT: &str = "transom-catalog/test-support,transom-engine/test-support,\
                            transom-engine-host/test-support,transom-signals/test-support,\
                            transom-supervisor/test-support";

/// A check's name and cargo's arguments.
const CHECKS: [(&str, &[&str]); 3] = [
    ("format", &["fmt", "--all", "--check"]),
    (
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "xtask/bindings",
            "--features",
            TEST_SUPPORT,
            "--",
            "-D",
            "warnings",
        ],
    ),
    (
        "tests",
        &["test", "--workspace", "--features", TEST_SUPPORT],
    ),
];

pub(crate) fn test() -> Result<ExitCode, Problem> {
    let started = Instant::now();
    require_components()?;
    setup::set_up()?;
    for (name, args) in CHECKS {
        progress::say(&format!("  {name}: cargo {}", args.join(" ")));
        let check_started = Instant::now();
        let mut check = chores::cargo();
        check.args(args);
        let status = check
            .status()
            .map_err(|error| chores::not_started(&check, name, &error))?;
        let time = elapsed(check_started.elapsed());
        if !status.success() {
            return Err(Problem::new(format!(
                "{name} failed after {time}; see above, and repeat only this with `cargo {}`",
                args.join(" ")
            )));
        }
        progress::say(&format!("✓ {name} ({time})"));
    }
    let time = elapsed(started.elapsed());
    progress::say(&format!("✓ every check passed ({time})"));
    Ok(ExitCode::SUCCESS)
}

/// rustup's minimal profile leaves out two tools that the checks need.
fn require_components() -> Result<(), Problem> {
    for component in ["rustfmt", "clippy"] {
        let tool = if component == "rustfmt" {
            "fmt"
        } else {
            component
        };
        let is_there = chores::cargo()
            .args([tool, "--version"])
            .output()
            .is_ok_and(|output| output.status.success());
        if is_there {
            continue;
        }
        let mut rustup = std::process::Command::new("rustup");
        rustup.args(["component", "add", component]);
        chores::output_of(&mut rustup, &format!("add {component} to the toolchain"))?;
    }
    Ok(())
}
