//! `cargo xtask fuzz`: looks for failures that the fixed cases of `cargo xtask test` do not reach.
//!
//! Half of the time goes to the property tests, each round with a new random seed, and half to the
//! fuzz targets in `crates/*/fuzz`, which use libFuzzer. The time of builds does not count.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::cache;
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::{self, Host, Purpose};
use crate::test::{CLIPPY, FEATURES};

const DEFAULT_MINUTES: u64 = 10;

/// The variable with the seed of proptest. `.cargo/config.toml` fixes it for all other runs.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Compiler flags for the coverage of libFuzzer, which the stable compiler supports.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares \
                        --cfg fuzzing -Ccodegen-units=1";

pub(crate) fn fuzz(args: &[String]) -> Result<ExitCode, Problem> {
    let half = minutes(args)? / 2;
    let workspace = setup::set_up(Purpose::Tests)?;
    let properties = Properties::find(&process::workspace())?;
    process::run(properties.cargo().arg("--no-run"), "build the tests")?;
    let started = Instant::now();
    while started.elapsed() < half {
        properties.check(random())?;
    }
    let targets = FuzzTarget::all(&process::workspace())?;
    for target in &targets {
        target.run(half / targets.len() as u32, &workspace.target)?;
    }
    progress::say("✓ no failures");
    Ok(ExitCode::SUCCESS)
}

fn minutes(args: &[String]) -> Result<Duration, Problem> {
    let minutes = match args {
        [] => Some(DEFAULT_MINUTES),
        [minutes] => minutes.parse().ok().filter(|minutes| *minutes > 0),
        _ => None,
    };
    let minutes = minutes.ok_or_else(|| {
        let args = args.join(" ");
        Problem::new(format!(
            "`{args}` is not a number of minutes, such as: cargo xtask fuzz 30"
        ))
    })?;
    Ok(Duration::from_secs(60 * minutes))
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[derive(Debug, Default)]
struct Properties {
    /// Integration tests with property tests; the others are in libraries.
    targets: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Properties {
    fn find(workspace: &Path) -> Result<Self, Problem> {
        let mut all = Self::default();
        for krate in entries(&workspace.join("crates"))? {
            all.collect(&krate.join("src"), None)?;
            for path in entries(&krate.join("tests"))? {
                let target = path.file_stem().unwrap_or_default().to_string_lossy();
                all.collect(&path, Some(&target))?;
            }
        }
        Ok(all)
    }

    /// Adds the property tests of a source file, or of all files below a folder.
    fn collect(&mut self, path: &Path, target: Option<&str>) -> Result<(), Problem> {
        for file in cache::rust_files(path)? {
            let source = fs::read_to_string(&file).map_err(Problem::io("use", &file))?;
            let names = property_names(&source);
            if !names.is_empty() {
                self.targets.extend(target.map(str::to_owned));
                self.names.extend(names.into_iter().map(str::to_owned));
            }
        }
        Ok(())
    }

    /// Returns cargo for the test programs with property tests, built as in `cargo xtask test`, so
    /// nothing is built twice.
    fn cargo(&self) -> Command {
        let mut cargo = process::cargo();
        cargo.args(["test", "--workspace", "--lib"]);
        cargo.args(FEATURES).envs(CLIPPY);
        for target in &self.targets {
            cargo.args(["--test", target]);
        }
        cargo
    }

    fn check(&self, seed: u64) -> Result<(), Problem> {
        progress::say(&format!("  {} properties, {SEED}={seed}", self.names.len()));
        let mut cargo = self.cargo();
        cargo.args(["--quiet", "--"]).args(&self.names);
        cargo.env(SEED, seed.to_string());
        process::run(&mut cargo, "test the properties").map_err(|_| {
            Problem::new(format!(
                "a property failed, see above; repeat it with `{SEED}={seed} cargo test -p CRATE \
                 NAME`, and commit its case: the file in proptest-regressions, or a test"
            ))
        })
    }
}

/// Returns the names of the tests in the `proptest!` blocks of a source file.
fn property_names(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    // The indentation of the current block, which its end has too.
    let mut open = None;
    for line in source.lines() {
        let code = line.trim_start();
        let indentation = line.len() - code.len();
        if code.starts_with("proptest! {") {
            open = Some(indentation);
        } else if code == "}" && open == Some(indentation) {
            open = None;
        } else if let (Some(_), Some(rest)) = (open, code.strip_prefix("fn ")) {
            names.extend(rest.split('(').next());
        }
    }
    names
}

#[derive(Debug)]
struct FuzzTarget {
    package: PathBuf,
    name: String,
}

impl FuzzTarget {
    fn all(workspace: &Path) -> Result<Vec<Self>, Problem> {
        let mut all = Vec::new();
        for krate in entries(&workspace.join("crates"))? {
            for path in entries(&krate.join("fuzz/fuzz_targets"))? {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                all.push(Self {
                    package: krate.join("fuzz"),
                    name: name.into_owned(),
                });
            }
        }
        Ok(all)
    }

    /// Runs the fuzz target for `time`. New inputs are saved in `target/fuzz` for the next run.
    fn run(&self, time: Duration, target: &Path) -> Result<(), Problem> {
        let (folder, triple) = (target.join("fuzz"), Host::detect()?.triple());
        let mut build = process::cargo();
        build
            .current_dir(&self.package)
            .args(["build", "--release", "--bin", &self.name])
            // With an explicit target, build scripts are built without coverage.
            .args(["--target", triple, "--target-dir"])
            .arg(&folder)
            .env("RUSTFLAGS", COVERAGE);
        process::run(&mut build, &format!("build the fuzz target {}", self.name))?;
        let corpus = folder.join("corpus").join(&self.name);
        let committed = self.package.join("corpus").join(&self.name);
        let failed = folder.join("failed");
        for folder in [&corpus, &failed] {
            fs::create_dir_all(folder).map_err(Problem::io("use", folder))?;
        }
        let seed = random() as u32;
        progress::say(&format!("  {}, -seed={seed}", self.name));
        let mut fuzzer = Command::new(folder.join(triple).join("release").join(&self.name));
        fuzzer
            .arg(format!("-max_total_time={}", time.as_secs()))
            .arg(format!("-seed={seed}"))
            .args(["-print_final_stats=1", "-verbosity=0"])
            .arg(format!("-artifact_prefix={}/", failed.display()))
            .args([&corpus, &committed]);
        process::run(&mut fuzzer, &format!("fuzz {}", self.name)).map_err(|_| {
            Problem::new(format!(
                "the fuzz target {} failed, see above; its input is in {}: move it to {} under a \
                 name that says what it tests",
                self.name,
                failed.display(),
                committed.display()
            ))
        })
    }
}

/// Returns the paths in a folder, sorted; none if there is no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    match folder.is_dir() {
        true => cache::entries(folder),
        false => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_given_in_whole_minutes() {
        let minutes = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            minutes(&args).map(|time| time.as_secs())
        };
        assert_eq!(minutes(&[]).unwrap(), 600);
        assert_eq!(minutes(&["3"]).unwrap(), 180);
        for wrong in [&["0"][..], &["ten"], &["1", "2"]] {
            let problem = minutes(wrong).unwrap_err().to_string();
            assert!(problem.contains(&wrong.join(" ")), "{problem}");
        }
    }

    #[test]
    fn property_tests_are_found_in_proptest_blocks() {
        let source = "\
fn helper() {}
mod tests {
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_comes_back(text in \"\\\\PC*\") {
            if text.is_empty() {
            }
        }

        #[test]
        fn long_signature(
            one in 0..3,
        ) {
        }
    }
    #[test]
    fn plain() {}
}
";
        assert_eq!(
            property_names(source),
            ["any_text_comes_back", "long_signature"]
        );
    }

    #[test]
    fn property_tests_and_fuzz_targets_are_found() {
        let properties = Properties::find(&process::workspace()).unwrap();
        assert!(properties.names.len() > 50, "{:?}", properties.names);
        assert!(
            properties.targets.contains("entries"),
            "{:?}",
            properties.targets
        );
        let targets = FuzzTarget::all(&process::workspace()).unwrap();
        assert!(
            targets.iter().any(|target| target.name == "gguf"),
            "{targets:?}"
        );
    }
}
