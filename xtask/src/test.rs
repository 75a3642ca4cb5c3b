//! `cargo xtask test`: set up, then every check, the quick ones first.
//!
//! The pages are built before anything that compiles the app, for the app holds them; and they and
//! every program before the tests, for tests of windows start `transom-app` and `transom` themselves,
//! and a browser on the gallery.
//!
//! Clippy compiles what is tested: its driver is a compiler that lints, and takes the place of rustc
//! for the workspace's own crates, as in `cargo clippy`. So dependencies are compiled once, and not a
//! second time for a check alone.
//!
//! Tests of pages and windows run beside all others, for they mostly wait.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::chores;
use crate::problem::Problem;
use crate::progress::{self, elapsed};
use crate::setup::{self, Purpose};
use crate::skipped::{self, Skipped};
use crate::ui::{Pages, Ui};

/// Scripted stand-ins that rooms lend to the tests of the rooms above them, and what checks that
/// generated files are not stale.
const TEST_SUPPORT: &str = "transom-catalog/test-support,transom-engine/test-support,\
                            transom-engine-host/test-support,transom-hub/test-support,\
                            transom-library/test-support,transom-signals/test-support,\
                            transom-supervisor/test-support";

const FORMAT: &[&str] = &["fmt", "--all", "--check"];

/// Features of every build of tests: the same, so that nothing is built twice.
pub(crate) const FEATURES: &[&str] = &["--features", "xtask/bindings", "--features", TEST_SUPPORT];

/// The test that drives windows.
const WINDOWS: &str = "window";

/// What `cargo clippy -- -D warnings` sets for its driver, which parts arguments so.
pub(crate) const CLIPPY: [(&str, &str); 2] = [
    ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"),
    (
        "CLIPPY_ARGS",
        "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    ),
];

pub(crate) fn test() -> Result<ExitCode, Problem> {
    let started = Instant::now();
    require_components()?;
    let workspace = setup::set_up(Purpose::Tests)?;
    let mut skipped = Skipped::start(&workspace.target)?;
    let mut format = chores::cargo();
    check("format", "cargo fmt --all --check", format.args(FORMAT))?;
    facts(&mut skipped)?;
    let ui = Ui::of(&workspace)?;
    ui.installed()?;
    check("ui check", "npm run check", &mut ui.script("check")?)?;
    for pages in [Pages::App, Pages::Gallery] {
        ui.built(pages)?;
    }
    let cargo = |args: &[&str]| Check::cargo(args, &skipped);
    cargo(&["build", "--workspace", "--all-targets"]).run("clippy")?;
    let pages = Check::new("npm run test".to_owned(), ui.script("test")?);
    let windows = cargo(&["test", "--workspace", "--test", WINDOWS]);
    let examples = cargo(&["test", "--workspace", "--doc"]);
    let names = test_names()?;
    let names = names.iter().flat_map(|name| ["--test", name]);
    let others = ["test", "--workspace", "--no-fail-fast", "--lib", "--bins"];
    let tests = cargo(&others.into_iter().chain(names).collect::<Vec<_>>());
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let windows = windows.run_quietly("windows");
            let pages = pages.run_quietly("ui test");
            windows.and(pages).and(examples.run_quietly("examples"))
        });
        let tests = tests.run("tests");
        let beside = beside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        tests.and(beside)
    })?;
    if !cfg!(target_os = "linux") {
        skipped.add(
            "tests of windows and of real pressure",
            "they work on Linux only",
        );
    }
    skipped.tell()?;
    let time = elapsed(started.elapsed());
    progress::say(&format!("✓ every check passed ({time})"));
    Ok(ExitCode::SUCCESS)
}

/// Names of all integration tests but [`WINDOWS`]. Cargo has no way to leave one out, and without its
/// package others would have other features.
fn test_names() -> Result<BTreeSet<String>, Problem> {
    let metadata = chores::output_of(
        chores::cargo().args(["metadata", "--no-deps", "--format-version", "1"]),
        "list the tests",
    )?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| Problem::new(format!("cargo metadata is not JSON: {error}")))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let targets = packages
        .iter()
        .flat_map(|package| list(&package["targets"]));
    let tests = targets.filter(|target| list(&target["kind"]).contains(&"test".into()));
    let names = tests.filter_map(|test| Some(test["name"].as_str()?.to_owned()));
    Ok(names.filter(|name| name != WINDOWS).collect())
}

/// The list of models against its sources and against itself. Its script reads TOML, as Python can
/// since 3.11; an older one, as a Mac's own, leaves the rest of the checks their turn.
fn facts(skipped: &mut Skipped) -> Result<(), Problem> {
    let python = |args: &[&str]| {
        let mut python = Command::new("python3");
        python.args(args).current_dir(chores::workspace());
        python
    };
    let reads_toml = python(&["-c", "import tomllib"]).output();
    if !reads_toml.is_ok_and(|output| output.status.success()) {
        skipped.add("facts", "python3 is older than 3.11 or not there");
        return Ok(());
    }
    for (name, args) in [
        ("facts", &["tests/facts/facts.py", "--offline"][..]),
        (
            "their check",
            &["-m", "unittest", "discover", "tests/facts"],
        ),
    ] {
        let shown = format!("python3 {}", args.join(" "));
        check(name, &shown, &mut python(args))?;
    }
    Ok(())
}

fn check(name: &str, shown: &str, command: &mut Command) -> Result<(), Problem> {
    progress::say(&format!("  {name}: {shown}"));
    let started = Instant::now();
    let status = command.status();
    let status = status.map_err(|error| chores::not_started(command, name, &error))?;
    ended(name, shown, started, status)
}

fn ended(name: &str, shown: &str, started: Instant, status: ExitStatus) -> Result<(), Problem> {
    let time = elapsed(started.elapsed());
    if !status.success() {
        return Err(Problem::new(format!(
            "{name} failed after {time}; see above, and repeat only this with `{shown}`"
        )));
    }
    progress::say(&format!("✓ {name} ({time})"));
    Ok(())
}

/// A check, and how a person repeats it.
struct Check {
    shown: String,
    command: Command,
}

impl Check {
    fn new(shown: String, command: Command) -> Self {
        Self { shown, command }
    }

    /// Cargo with the compiler and the features of all tests.
    fn cargo(args: &[&str], skipped: &Skipped) -> Self {
        let args = [args, FEATURES].concat();
        let mut command = chores::cargo();
        command.args(&args).envs(CLIPPY);
        command.env(skipped::VARIABLE, skipped.file());
        Self::new(format!("cargo {}", args.join(" ")), command)
    }

    fn run(mut self, name: &str) -> Result<(), Problem> {
        check(name, &self.shown, &mut self.command)
    }

    /// Runs it beside another check: its output comes in one piece when it has ended.
    fn run_quietly(mut self, name: &str) -> Result<(), Problem> {
        progress::say(&format!("  {name}, beside what follows: {}", self.shown));
        let started = Instant::now();
        let output = self.command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| chores::not_started(&self.command, name, &error))?;
        for text in [&output.stdout, &output.stderr] {
            progress::say(String::from_utf8_lossy(text).trim_end());
        }
        ended(name, &self.shown, started, output.status)
    }
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
        let mut rustup = Command::new("rustup");
        rustup.args(["component", "add", component]);
        chores::output_of(&mut rustup, &format!("add {component} to the toolchain"))?;
    }
    Ok(())
}
