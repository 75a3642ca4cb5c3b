//! `cargo xtask mac-check`: what can be checked of the macOS code without a Mac.
//!
//! All crates are compiled and linted for Apple silicon, with their unit tests, and the programs are
//! linked: with Apple's library of MLX, llama.cpp without Metal, and stubs of the other libraries.
//! So a symbol, a class or a framework that does not exist is found here. The app with these programs
//! must pass the check of the bundle.
//!
//! Methods of Objective-C are looked up at run time; their names are compared with the declarations
//! that the objc2 packages generate from Apple's headers. The programs never run and are never
//! shipped.

mod compiler;
mod link;
mod objc;
mod stubs;
mod symbols;
mod toolchain;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::Value;

use crate::bundle;
use crate::cache::{self, Cache, recipe_hash, rust_files};
use crate::problem::Problem;
use crate::process;
use crate::progress::{self, elapsed};
use crate::setup::{self, BUNDLE_WHEEL, Host, Purpose, Workspace};
use crate::test::{CLIPPY, TEST_SUPPORT};
use crate::ui::{Pages, Ui};

use compiler::Compiler;
use link::{Linker, Native};
use objc::Names;
use stubs::Stubs;
use symbols::Symbols;
use toolchain::Toolchain;

pub(crate) const TARGET: &str = "aarch64-apple-darwin";

/// Packages that are not for a Mac: tests that drive windows of X11, and these commands.
const EXCLUDED: [&str; 2] = ["transom-window-tests", "xtask"];

/// Makes each class of Objective-C a symbol, as it is in programs of Apple's compiler. The programs
/// that are shipped look classes up by name.
const STATIC_CLASSES: &str = "transom-signals/static-classes";

/// The profile of cargo: nothing is optimized or debugged, or built again and again.
const PROFILE: &str = "mac-check";

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

    let folder = workspace.target.join("mac-check");
    cache::make_folder(&folder)?;
    let log = cache.log("mac-check");
    // The rest takes long and leaves the cache as it is.
    drop(cache);

    check_names(&packages)?;
    let mlx_bindings = bindings(&packages.mlx_sys, "mlx-bindings", &compiler, &folder)?;
    let llama_bindings = bindings(&packages.llama_sys, "llama-bindings", &compiler, &folder)?;
    let object = folder.join("mlxc.o");
    let wheel = workspace.cache.join(BUNDLE_WHEEL);
    let library = check_mlx(
        &workspace,
        &packages,
        &compiler,
        &mlx_bindings,
        &object,
        &log,
    )?;
    let linker = progress::step("Writing the stubs of Apple's libraries", || {
        let sdk = folder.join("sdk");
        packages.stubs()?.write(&sdk)?;
        let linker = Linker {
            program: compiler.linker(),
            sdk,
            folder: folder.clone(),
        };
        let symbol = library.any_of_mlx().unwrap_or_default();
        linker.check_that_mistakes_are_found(&wheel.join("mlx/lib"), symbol)?;
        Ok(linker)
    })?;
    let mlx = link::mlx(&object, &wheel.join("mlx/lib"), mlx_bindings, &compiler)?;
    let llama = progress::step("Building llama.cpp without Metal", || {
        let build = folder.join("llama");
        link::llama(&packages.llama_sys, llama_bindings, &compiler, &build, &log)
    })?;
    let config = folder.join("config.toml");
    let target = folder.join("cargo");
    let natives = [("mlx", &mlx), ("llama", &llama)];
    let text = configuration(&toolchain.rustc, &linker.program, &natives);
    cache::write_atomically(&config, text.as_bytes())?;
    let environment = toolchain.variables(&compiler, &linker.sdk);
    let run = |command, what: &[&str]| cargo(&config, &target, command, what, &environment);
    let all = ["--keep-going", "--workspace", "--lib", "--bins"];
    run("check", &all)?;
    run(
        "check",
        &[
            "--keep-going",
            "--workspace",
            "--tests",
            "--features",
            TEST_SUPPORT,
        ],
    )?;
    run("build", &all)?;
    progress::step("Checking the app with these programs", || {
        let programs = target.join(TARGET).join(PROFILE);
        bundle::check_linked(&programs, &wheel, &folder.join("Transom.app"))
    })?;
    let time = elapsed(started.elapsed());
    progress::say(&format!(
        "✓ the code for macOS compiles, passes its lints, and links ({time}); nothing of it has run"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Runs a command of cargo for a Mac: `check` compiles and lints, `build` also links. The option for
/// the target folder takes precedence over `CARGO_TARGET_DIR`, which the configuration does not.
fn cargo(
    config: &Path,
    target: &Path,
    command: &str,
    what: &[&str],
    environment: &[(&'static str, PathBuf)],
) -> Result<(), Problem> {
    progress::say(&format!(
        "  cargo {command} for {TARGET}: {}",
        what.join(" ")
    ));
    let mut cargo = process::cargo();
    cargo.arg("--config").arg(config).arg(command).args(what);
    cargo.args(["--target", TARGET, "--profile", PROFILE]);
    cargo.arg("--target-dir").arg(target);
    cargo.args(["--features", STATIC_CLASSES]);
    for package in EXCLUDED {
        cargo.args(["--exclude", package]);
    }
    // The run path of a bundle; these take precedence over the values in .cargo/native.toml.
    cargo.env("TRANSOM_MLX_LIB", bundle::MAC_RUN_PATH);
    cargo.envs(CLIPPY).envs(environment.iter().cloned());
    process::run(&mut cargo, &format!("{command} the crates for macOS"))
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

/// Returns the configuration of cargo. It replaces the build scripts that need Apple's headers; the
/// keys are the `links` names of the packages, so a new version of one brings its script back.
fn configuration(rustc: &Path, linker: &Path, natives: &[(&str, &Native)]) -> String {
    let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
    let [rustc, linker] = [rustc, linker].map(quoted);
    let mut text = format!(
        "\
[build]
rustc = {rustc}
[profile.{PROFILE}]
inherits = \"release\"
opt-level = 0
lto = false
codegen-units = 16
debug-assertions = true
[target.{TARGET}]
linker = {linker}
"
    );
    for (name, native) in natives {
        let bindings = quoted(&native.bindings);
        let folders: Vec<String> = native.folders.iter().map(|path| quoted(path)).collect();
        let (folders, libraries) = (folders.join(", "), &native.libraries);
        let _ = write!(
            text,
            "\
[target.{TARGET}.{name}]
rustc-link-search = [{folders}]
rustc-link-lib = {libraries:?}
rustc-env = {{ OUT_DIR = {bindings} }}
"
        );
    }
    text
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
        Problem::unless_empty("Apple's headers do not declare", &unknown)
    })
}

/// Compiles mlx-c for a Mac into `object`, and compares its symbols with the bindings and with
/// Apple's library, whose symbols are returned.
fn check_mlx(
    workspace: &Workspace,
    packages: &Packages,
    compiler: &Compiler,
    bindings: &Path,
    object: &Path,
    log: &Path,
) -> Result<Symbols, Problem> {
    progress::step("Checking the symbols of MLX", || {
        let wheel = workspace.cache.join(BUNDLE_WHEEL).join("mlx");
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
        command.arg("-o").arg(object);
        process::run_logged(&mut command, "compile mlx-c for macOS", log)?;
        let library = wheel.join("lib/libmlx.dylib");
        let bytes = |path: &Path| fs::read(path).map_err(Problem::io("read", path));
        let (object, library) = (bytes(object)?, bytes(&library)?);
        let broken = |error| Problem::new(format!("could not read symbols: {error}"));
        let object = symbols::read(&object).map_err(broken)?;
        let library = symbols::read(&library).map_err(broken)?;
        let missing = object.missing_in(&library);
        Problem::unless_empty("Apple's libmlx.dylib does not have", &missing)?;
        let declarations = read(&bindings.join("bindings.rs"))?;
        let missing = object.undefined_functions(&declarations);
        Problem::unless_empty("mlx-c does not define", &missing)?;
        Ok(library)
    })
}

/// The folders of packages, from cargo's metadata for a Mac.
struct Packages {
    mlx_sys: PathBuf,
    llama_sys: PathBuf,
    /// The runtime of Objective-C.
    runtime: PathBuf,
    /// The packages with declarations of Apple's frameworks.
    objc2: Vec<PathBuf>,
}

impl Packages {
    fn read() -> Result<Self, Problem> {
        let features = "xtask/declarations,transom-signals/static-classes";
        let args = ["--filter-platform", TARGET, "--features", features];
        Self::from_metadata(&process::metadata(&args, "fetch the packages for macOS")?)
    }

    fn from_metadata(metadata: &Value) -> Result<Self, Problem> {
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
        let objc2 = folders
            .iter()
            .filter(|(name, _)| name.starts_with("objc2-"));
        Ok(Self {
            mlx_sys: named("mlx-sys")?,
            llama_sys: named("llama-cpp-sys-2")?,
            runtime: named("objc2")?,
            objc2: objc2.map(|(_, folder)| folder.clone()).collect(),
        })
    }
}

impl Packages {
    /// Returns the stubs of Apple's libraries.
    fn stubs(&self) -> Result<Stubs, Problem> {
        let texts = |folder: &Path| -> Result<Vec<String>, Problem> {
            rust_files(folder)?.iter().map(|file| read(file)).collect()
        };
        let mut stubs = Stubs::from_list();
        stubs.add_runtime(&texts(&self.runtime.join("src/ffi"))?);
        for package in &self.objc2 {
            let source = package.join("src");
            let lib = source.join("lib.rs");
            if lib.is_file() {
                stubs.add_package(&read(&lib)?, &texts(&source)?);
            }
        }
        Ok(stubs)
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(Problem::io("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_replaces_the_scripts_that_need_a_mac() {
        let [rustc, linker] = ["/r \"1\"", "/ld"].map(Path::new);
        let native = Native {
            bindings: "/b".into(),
            folders: vec!["/l".into(), "/m".into()],
            libraries: vec!["static=mlxc".to_owned()],
        };
        let text = configuration(rustc, linker, &[("mlx", &native)]);
        for line in [
            r#"rustc = "/r \"1\"""#,
            r#"linker = "/ld""#,
            "[target.aarch64-apple-darwin.mlx]",
            r#"rustc-link-search = ["/l", "/m"]"#,
            r#"rustc-link-lib = ["static=mlxc"]"#,
            r#"rustc-env = { OUT_DIR = "/b" }"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn packages_are_found_by_name() {
        let package = |name: &str| serde_json::json!({ "name": name, "manifest_path": format!("/p/{name}/Cargo.toml") });
        let mut names = vec!["mlx-sys", "objc2", "objc2-app-kit", "block2"];
        let metadata = |names: &[&str]| {
            let packages: Vec<_> = names.iter().map(|name| package(name)).collect();
            serde_json::json!({ "packages": packages })
        };
        let problem = Packages::from_metadata(&metadata(&names)).err().unwrap();
        assert!(problem.to_string().contains("llama-cpp-sys-2"), "{problem}");
        names.push("llama-cpp-sys-2");
        let packages = Packages::from_metadata(&metadata(&names)).unwrap();
        assert_eq!(packages.mlx_sys, Path::new("/p/mlx-sys"));
        assert_eq!(packages.objc2, [Path::new("/p/objc2-app-kit")]);
    }
}
