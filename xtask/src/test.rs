//! `cargo xtask test`: setup, then every check, the quick ones first.
//!
//! The pages are built before the app is compiled, because the app contains them. Pages and
//! programs are built before the tests, because the window tests start `transom-app` and `transom`,
//! and a browser with the gallery.
//!
//! Clippy compiles the tests: its driver is a compiler that also lints, and it replaces rustc for
//! the crates of the workspace, as in `cargo clippy`. So dependencies are compiled only once.
//!
//! Tests of pages and windows run in parallel to all others, because they mostly wait; then the longest
//! do, so that both cores have work to the end. Tests that put the machine under memory
//! pressure run alone: the app of another test would obey the signal.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::problem::Problem;
use crate::process;
use crate::progress::{self, elapsed};
use crate::setup::{self, Purpose};
use crate::skipped_checks::{self, SkippedChecks};
use crate::ui::{Pages, Ui};

/// Features with test doubles that crates provide for the tests of other crates, and with the
/// checks of generated files.
pub(crate) const TEST_SUPPORT: &str = "transom-catalog/test-support,transom-engine/test-support,\
                            transom-engine-host/test-support,transom-hub/test-support,\
                            transom-library/test-support,transom-signals/test-support,\
                            transom-supervisor/test-support";

const FORMAT: &[&str] = &["fmt", "--all", "--check"];

/// Features of every build of tests: the same, so that nothing is built twice.
pub(crate) const FEATURES: &[&str] = &["--features", "xtask/bindings", "--features", TEST_SUPPORT];

/// Free space that the tests need once everything is built. KV caches are saved only while 10 GiB are
/// free, also by the programs that tests start.
const TEST_BYTES: u64 = 12_000_000_000;

/// Space that a build of everything takes.
const BUILD_BYTES: u64 = 25_000_000_000;

const WINDOWS: &str = "window";

/// Long tests that run after those of windows, in parallel to the others.
const LONG: [&str; 4] = ["conformance", "forms", "parity", "soak"];

const PRESSURE: [&str; 2] = ["pressure", "real_pressure"];

/// The variables that `cargo clippy -- -D warnings` sets for its driver.
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
    require_space(&workspace.target)?;
    let mut skipped = SkippedChecks::start(&workspace.target)?;
    let mut format = process::cargo();
    format.args(FORMAT);
    Check::new("cargo fmt --all --check".to_owned(), format).run("format")?;
    facts(&mut skipped)?;
    let ui = Ui::new(&workspace)?;
    ui.install()?;
    Check::new("npm run check".to_owned(), ui.script("check")?).run("ui check")?;
    Check::new("npm run workflows".to_owned(), ui.script("workflows")?).run("workflows")?;
    for pages in [Pages::App, Pages::Gallery] {
        ui.build(pages)?;
    }
    let cargo = |args: &[&str]| Check::cargo(args, &skipped);
    cargo(&["build", "--workspace", "--all-targets"]).run("clippy")?;
    let pages = Check::new("npm run test".to_owned(), ui.script("test")?);
    let test =
        |targets: &[&str]| cargo(&[&["test", "--workspace", "--no-fail-fast"], targets].concat());
    let windows = test(&["--test", WINDOWS]);
    let examples = cargo(&["test", "--workspace", "--doc"]);
    let targets = |names: &[&'static str]| -> Vec<&str> {
        names.iter().flat_map(|name| ["--test", name]).collect()
    };
    let long = test(&targets(&LONG));
    let pressure = test(&targets(&PRESSURE));
    let names = test_names()?;
    let names = names.iter().flat_map(|name| ["--test", name]);
    let tests = test(
        &["--lib", "--bins"]
            .into_iter()
            .chain(names)
            .collect::<Vec<_>>(),
    );
    let parallel = thread::scope(|scope| {
        let parallel = scope.spawn(|| {
            let windows = windows.run_in_parallel("windows");
            let pages = pages.run_in_parallel("ui test");
            let examples = examples.run_in_parallel("examples");
            let long = long.run_in_parallel("long tests");
            windows.and(pages).and(examples).and(long)
        });
        let tests = tests.run("tests");
        let parallel = parallel
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        tests.and(parallel)
    });
    parallel.and(pressure.run("tests of memory pressure"))?;
    if !cfg!(target_os = "linux") {
        skipped.add(
            "tests of windows and of real pressure",
            "they run only on Linux",
        );
    }
    skipped.print()?;
    let time = elapsed(started.elapsed());
    progress::say(&format!("✓ every check passed ({time})"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the names of all integration tests that have no turn of their own. Cargo cannot exclude a
/// test, and excluding its package would change the features of other packages.
fn test_names() -> Result<BTreeSet<String>, Problem> {
    let metadata = process::metadata(&["--no-deps"], "list the tests")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let targets = packages
        .iter()
        .flat_map(|package| list(&package["targets"]));
    let tests = targets.filter(|target| list(&target["kind"]).contains(&"test".into()));
    let names = tests.filter_map(|test| Some(test["name"].as_str()?.to_owned()));
    let own_turns = [&[WINDOWS][..], &LONG, &PRESSURE].concat();
    Ok(names.filter(|name| !own_turns.contains(&&**name)).collect())
}

/// Checks the model catalog against its sources and for consistency. The script needs the TOML
/// reader of Python 3.11. With an older Python, as on a Mac, this check is skipped.
fn facts(skipped: &mut SkippedChecks) -> Result<(), Problem> {
    let python = |args: &[&str]| {
        let mut python = Command::new("python3");
        python.args(args).current_dir(process::workspace());
        python
    };
    let reads_toml = python(&["-c", "import tomllib"]).output();
    if !reads_toml.is_ok_and(|output| output.status.success()) {
        skipped.add("facts", "python3 is missing or older than 3.11");
        return Ok(());
    }
    for (name, args) in [
        ("facts", &["tests/facts/facts.py", "--offline"][..]),
        (
            "tests of facts",
            &["-m", "unittest", "discover", "tests/facts"],
        ),
    ] {
        let shown_command = format!("python3 {}", args.join(" "));
        Check::new(shown_command, python(args)).run(name)?;
    }
    Ok(())
}

/// A check, and the command with which the user can repeat it.
struct Check {
    shown_command: String,
    command: Command,
}

impl Check {
    fn new(shown_command: String, command: Command) -> Self {
        Self {
            shown_command,
            command,
        }
    }

    /// Creates a cargo command with the compiler and the features of all tests.
    fn cargo(args: &[&str], skipped: &SkippedChecks) -> Self {
        let args = [args, FEATURES].concat();
        let mut command = process::cargo();
        command.args(&args).envs(CLIPPY);
        command.env(skipped_checks::VARIABLE, &skipped.file);
        // Threads of OpenBLAS that wait for a busy core slow each other down many times.
        command.env("OPENBLAS_NUM_THREADS", "1");
        Self::new(format!("cargo {}", args.join(" ")), command)
    }

    fn run(mut self, name: &str) -> Result<(), Problem> {
        progress::say(&format!("  {name}: {}", self.shown_command));
        let started = Instant::now();
        let status = self.command.status();
        let status = status.map_err(process::not_started(&self.command, name))?;
        self.report_end(name, started, status)
    }

    /// Runs the check in parallel to another one. Its output is printed at once when it has ended.
    fn run_in_parallel(mut self, name: &str) -> Result<(), Problem> {
        progress::say(&format!(
            "  {name}, in parallel to the next check: {}",
            self.shown_command
        ));
        let started = Instant::now();
        let output = self.command.stdin(Stdio::null()).output();
        let output = output.map_err(process::not_started(&self.command, name))?;
        for text in [&output.stdout, &output.stderr] {
            progress::say(String::from_utf8_lossy(text).trim_end());
        }
        self.report_end(name, started, output.status)
    }

    fn report_end(&self, name: &str, started: Instant, status: ExitStatus) -> Result<(), Problem> {
        let time = elapsed(started.elapsed());
        if !status.success() {
            return Err(Problem::new(format!(
                "{name} failed after {time}; see above, and repeat only this with `{}`",
                self.shown_command
            )));
        }
        progress::say(&format!("✓ {name} ({time})"));
        Ok(())
    }
}

/// Fails early on a disk that is too full, instead of after a long build or in tests of saved states.
fn require_space(target: &Path) -> Result<(), Problem> {
    let is_built = target.join("debug").exists();
    let needed = TEST_BYTES + if is_built { 0 } else { BUILD_BYTES };
    let disk = rustix::fs::statvfs(process::workspace());
    let free = disk.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if free < needed {
        let gigabytes = |bytes: u64| bytes / 1_000_000_000;
        return Err(Problem::new(format!(
            "the tests need {} GB of free disk space and {} GB are free; delete other build folders \
             first, for example with `cargo clean`",
            gigabytes(needed),
            gigabytes(free)
        )));
    }
    Ok(())
}

/// Installs the two tools that the checks need and that the minimal profile of rustup lacks.
fn require_components() -> Result<(), Problem> {
    for component in ["rustfmt", "clippy"] {
        let tool = if component == "rustfmt" {
            "fmt"
        } else {
            component
        };
        let is_available = process::cargo()
            .args([tool, "--version"])
            .output()
            .is_ok_and(|output| output.status.success());
        if is_available {
            continue;
        }
        let mut rustup = Command::new("rustup");
        rustup.args(["component", "add", component]);
        process::output_of(&mut rustup, &format!("add {component} to the toolchain"))?;
    }
    Ok(())
}
