//! `cargo xtask mac-check`: what can be checked of the macOS code without a Mac.
//!
//! All crates are type-checked and linted for Apple silicon, with their unit tests. The names that a
//! compiler cannot check are compared with other sources: classes and methods of Objective-C with the
//! declarations that the objc2 packages generate from Apple's headers, and the symbols of mlx-c with
//! Apple's own library. Nothing is linked, so a Mac may still find a missing framework. The results
//! are never shipped.

mod compiler;
mod objc;
mod symbols;
mod toolchain;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::Value;

use crate::cache::{self, Cache, recipe_hash};
use crate::problem::Problem;
use crate::process;
use crate::progress::{self, elapsed};
use crate::setup::{self, BUNDLE_WHEEL, Host, Purpose, Workspace};
use crate::test::{CLIPPY, TEST_SUPPORT};
use crate::ui::{Pages, Ui};

use compiler::Compiler;
use objc::Names;
use toolchain::Toolchain;

pub(crate) const TARGET: &str = "aarch64-apple-darwin";

/// Packages that are not for a Mac: tests that drive windows of X11, and these commands.
const EXCLUDED: [&str; 2] = ["transom-window-tests", "xtask"];

pub(crate) fn mac_check() -> Result<ExitCode, Problem> {
    let started = Instant::now();
    let workspace = setup::set_up(Purpose::Tests)?;
    if !workspace.host.is_linux() {
        return Err(Problem::new(
            "mac-check is for Linux; on a Mac, use `cargo xtask test`",
        ));
    }
    // The app includes its pages; any build of them will do.
    if !process::workspace().join("ui/dist").is_dir() {
        Ui::new(&workspace)?.build(Pages::App)?;
    }
    let recipe = recipe_hash([setup::ZIG.sha256, toolchain::SCRIPT]);
    let cache = Cache::open("mac-check", &recipe)?;
    let zig = setup::unpack_program(&setup::ZIG, "zig", &cache)?;
    let compiler = Compiler::write(&zig, &cache.folder)?;
    let toolchain = Toolchain::find_or_build(&cache)?;
    let packages = Packages::read()?;

    let overrides = workspace.target.join("mac-check");
    cache::make_folder(&overrides)?;
    let mlx = bindings(&packages.mlx_sys, "mlx-bindings", &compiler, &overrides)?;
    let llama = bindings(&packages.llama_sys, "llama-bindings", &compiler, &overrides)?;
    let config = overrides.join("config.toml");
    let text = configuration(&toolchain.rustc, &overrides.join("cargo"), &mlx, &llama);
    cache::write_atomically(&config, text.as_bytes())?;
    for profile in ["dev", "test"] {
        check_types(&config, &toolchain, &compiler, profile)?;
    }

    check_names(&packages)?;
    check_mlx(&workspace, &packages, &compiler, &overrides, &mlx, &cache)?;
    let time = elapsed(started.elapsed());
    progress::say(&format!(
        "✓ the code for macOS passes the checks that need no Mac ({time}); nothing was linked"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Type-checks and lints every library and program; with the profile `test`, their unit tests.
fn check_types(
    config: &Path,
    toolchain: &Toolchain,
    compiler: &Compiler,
    profile: &str,
) -> Result<(), Problem> {
    progress::say(&format!(
        "  types and lints for {TARGET}, profile {profile}"
    ));
    let mut cargo = process::cargo();
    cargo.arg("--config").arg(config);
    cargo.args(["check", "--workspace", "--lib", "--bins"]);
    cargo.args(["--target", TARGET, "--profile", profile]);
    for package in EXCLUDED {
        cargo.args(["--exclude", package]);
    }
    if profile == "test" {
        cargo.args(["--features", TEST_SUPPORT]);
    }
    cargo.envs(CLIPPY).envs(compiler.variables());
    cargo.env("RUSTC_WORKSPACE_WRAPPER", &toolchain.clippy);
    // Nothing is debugged or built again and again.
    cargo.envs([
        ("CARGO_PROFILE_DEV_DEBUG", "0"),
        ("CARGO_PROFILE_TEST_DEBUG", "0"),
        ("CARGO_INCREMENTAL", "0"),
    ]);
    process::run(&mut cargo, "type-check the crates for macOS")
}

/// Generates `bindings.rs` of a native package for a Mac and returns its folder.
fn bindings(
    package: &Path,
    generator: &str,
    compiler: &Compiler,
    overrides: &Path,
) -> Result<PathBuf, Problem> {
    let folder = overrides.join(generator);
    cache::make_folder(&folder)?;
    let source = match generator {
        "mlx-bindings" => package.join("src/mlx-c"),
        _ => package.to_owned(),
    };
    let mut cargo = process::cargo();
    cargo
        .args(["run", "--quiet", "--package", "xtask"])
        .args(["--features", "bindings", "--bin", generator, "--"])
        .arg(source)
        .arg(folder.join("bindings.rs"))
        .env("BINDGEN_EXTRA_CLANG_ARGS", compiler.header_arguments());
    progress::step(format!("Generating {generator} for macOS"), || {
        process::output_of(&mut cargo, "generate bindings for macOS").map(drop)
    })?;
    Ok(folder)
}

/// Returns the configuration of cargo that replaces the build scripts that need Apple's headers. The
/// keys are the `links` names of the packages, so a new version of one brings its script back.
fn configuration(rustc: &Path, target: &Path, mlx: &Path, llama: &Path) -> String {
    let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
    let [rustc, target, mlx, llama] = [rustc, target, mlx, llama].map(quoted);
    format!(
        "\
[build]
rustc = {rustc}
target-dir = {target}
[target.{TARGET}.objc2_exception_helper_0_1]
rustc-cfg = []
[target.{TARGET}.mlx]
rustc-env = {{ OUT_DIR = {mlx} }}
[target.{TARGET}.llama]
rustc-env = {{ OUT_DIR = {llama} }}
"
    )
}

/// Compares the classes and methods that our code names with those that Apple's headers declare.
fn check_names(packages: &Packages) -> Result<(), Problem> {
    progress::step("Checking names of Objective-C", || {
        let mut declared = Names::default();
        for folder in &packages.objc2 {
            for file in rust_files(&folder.join("src"))? {
                declared.add_declared(&read(&file)?);
            }
        }
        let mut unknown = Vec::new();
        let checkout = process::workspace();
        for folder in ["crates", "src-tauri/src"] {
            for file in rust_files(&checkout.join(folder))? {
                let used = Names::used_in(&read(&file)?);
                let name = file.strip_prefix(&checkout).unwrap_or(&file).display();
                let lines = used.not_in(&declared).into_iter();
                unknown.extend(lines.map(|line| format!("{name}: {line}")));
            }
        }
        report("Apple's headers do not declare", &unknown)
    })
}

/// Compiles mlx-c for a Mac and compares its symbols with Apple's library and with the bindings.
fn check_mlx(
    workspace: &Workspace,
    packages: &Packages,
    compiler: &Compiler,
    folder: &Path,
    bindings: &Path,
    cache: &Cache,
) -> Result<(), Problem> {
    progress::step("Checking the symbols of MLX", || {
        let wheel = workspace.cache.join(BUNDLE_WHEEL).join("mlx");
        let object = folder.join("mlxc.o");
        let mut command = compiler.cpp();
        command.args(setup::mlxc_flags(&Host::Mac { macos: (14, 0) }));
        // zig's C++ library expects the macros of this header.
        command.args(["-include", "math.h"]);
        for include in [packages.mlx_sys.join("src/mlx-c"), wheel.join("include")] {
            command.arg("-I").arg(include);
        }
        command
            .arg("-c")
            .arg(workspace.cache.join("mlx-c/mlxc.cpp"));
        command.arg("-o").arg(&object);
        process::run_logged(
            &mut command,
            "compile mlx-c for macOS",
            &cache.log("mac-mlxc"),
        )?;
        let library = wheel.join("lib/libmlx.dylib");
        let bytes = |path: &Path| fs::read(path).map_err(Problem::io("read", path));
        let (object, library) = (bytes(&object)?, bytes(&library)?);
        let broken = |error| Problem::new(format!("could not read symbols: {error}"));
        let object = symbols::read(&object).map_err(broken)?;
        let library = symbols::read(&library).map_err(broken)?;
        let missing = object.missing_in(&library);
        report("Apple's libmlx.dylib does not have", &missing)?;
        let declarations = read(&bindings.join("bindings.rs"))?;
        let missing = object.undefined_functions(&declarations);
        report("mlx-c does not define", &missing)
    })
}

fn report(what: &str, names: &[String]) -> Result<(), Problem> {
    match names {
        [] => Ok(()),
        _ => Err(Problem::new(format!("{what}:\n  {}", names.join("\n  ")))),
    }
}

/// The folders of packages, from cargo's metadata for a Mac.
struct Packages {
    mlx_sys: PathBuf,
    llama_sys: PathBuf,
    /// The packages with declarations of Apple's frameworks.
    objc2: Vec<PathBuf>,
}

impl Packages {
    fn read() -> Result<Self, Problem> {
        let metadata = process::output_of(
            process::cargo().args([
                "metadata",
                "--format-version",
                "1",
                "--filter-platform",
                TARGET,
            ]),
            "fetch the packages for macOS",
        )?;
        Self::from_metadata(&metadata)
    }

    fn from_metadata(metadata: &str) -> Result<Self, Problem> {
        let metadata: Value = serde_json::from_str(metadata)
            .map_err(|error| Problem::new(format!("cargo metadata is not JSON: {error}")))?;
        let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
        let folders = packages.iter().filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            Some((package["name"].as_str()?, manifest.parent()?.to_owned()))
        });
        let folders: Vec<_> = folders.collect();
        let named = |name: &str| {
            let found = folders.iter().find(|(found, _)| *found == name);
            let missing = || Problem::new(format!("the workspace does not depend on {name}"));
            found.map(|(_, folder)| folder.clone()).ok_or_else(missing)
        };
        let objc2 = folders.iter().filter(|(name, _)| name.starts_with("objc2"));
        Ok(Self {
            mlx_sys: named("mlx-sys")?,
            llama_sys: named("llama-cpp-sys-2")?,
            objc2: objc2.map(|(_, folder)| folder.clone()).collect(),
        })
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(Problem::io("read", path))
}

/// Returns the Rust files below a folder.
fn rust_files(folder: &Path) -> Result<BTreeSet<PathBuf>, Problem> {
    let mut files = BTreeSet::new();
    for path in cache::entries(folder).map_err(Problem::io("read", folder))? {
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_replaces_the_scripts_that_need_a_mac() {
        let [rustc, target, mlx, llama] = ["/r \"1\"", "/t", "/mlx", "/llama"].map(Path::new);
        let text = configuration(rustc, target, mlx, llama);
        for line in [
            r#"rustc = "/r \"1\"""#,
            "[target.aarch64-apple-darwin.mlx]",
            r#"rustc-env = { OUT_DIR = "/llama" }"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn packages_are_found_by_name() {
        let package = |name: &str| serde_json::json!({ "name": name, "manifest_path": format!("/p/{name}/Cargo.toml") });
        let mut names = vec!["mlx-sys", "objc2-app-kit", "block2"];
        let metadata = |names: &[&str]| {
            let packages: Vec<_> = names.iter().map(|name| package(name)).collect();
            serde_json::json!({ "packages": packages }).to_string()
        };
        let problem = Packages::from_metadata(&metadata(&names)).err().unwrap();
        assert!(problem.to_string().contains("llama-cpp-sys-2"), "{problem}");
        names.push("llama-cpp-sys-2");
        let packages = Packages::from_metadata(&metadata(&names)).unwrap();
        assert_eq!(packages.mlx_sys, Path::new("/p/mlx-sys"));
        assert_eq!(packages.objc2, [Path::new("/p/objc2-app-kit")]);
    }
}
