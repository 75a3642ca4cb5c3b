//! mlx-c, the C layer over MLX: compiled from the source that is part of mlx-sys, with its bindings and a
//! function of our own.
//!
//! Setup calls the compiler directly, because the command line tools of a Mac do not contain cmake. On
//! Linux, three small shims replace parts of macOS that mlx-c and mlx-rs expect.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::cache::{self, Cache};
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::Host;
use crate::setup::bindings;
use crate::setup::wheel::MLX_VERSION;

/// Our files that replace parts of macOS. The first line of each says what it replaces.
pub(crate) const SHIMS: [(&str, &str); 3] = [
    ("fmt_shim.h", include_str!("../../native/fmt_shim.h")),
    (HALF_SHIM, include_str!("../../native/half_shim.h")),
    ("mach_time.c", include_str!("../../native/mach_time.c")),
];

/// Defines the 16-bit types of mlx-c if the compiler has none; the bindings need it too.
pub(crate) const HALF_SHIM: &str = "half_shim.h";

/// What Transom adds to mlx-c; part of the recipe.
pub(crate) const IN_PLACE: &str = include_str!("../../native/in_place.cpp");

/// The source of mlx-sys and the target folder, from the metadata of cargo.
pub(crate) struct Source {
    pub(crate) mlx_c: PathBuf,
    pub(crate) version: String,
    pub(crate) target: PathBuf,
}

impl Source {
    /// Reads the metadata of cargo, which downloads missing crates.
    pub(crate) fn locate(host: &Host) -> Result<Self, Problem> {
        let args = ["--filter-platform", host.triple()];
        let action = "fetch the crates that Transom is made of";
        Self::from_metadata(&process::metadata(&args, action)?)
    }

    fn from_metadata(metadata: &Value) -> Result<Self, Problem> {
        let package = metadata["packages"]
            .as_array()
            .and_then(|packages| packages.iter().find(|package| package["name"] == "mlx-sys"))
            .ok_or_else(|| Problem::new("the workspace does not depend on mlx-sys"))?;
        let text = |value: &Value| {
            let missing = || Problem::new("cargo metadata lacks a path of mlx-sys");
            value.as_str().map(str::to_owned).ok_or_else(missing)
        };
        Ok(Self {
            mlx_c: Path::new(&text(&package["manifest_path"])?).with_file_name("src/mlx-c"),
            version: text(&package["version"])?,
            target: PathBuf::from(text(&metadata["target_directory"])?),
        })
    }

    /// Checks that the wheel and mlx-c have the same version of MLX.
    pub(crate) fn check_mlx_version(&self) -> Result<(), Problem> {
        match git_tag(&self.cmake_lists()?) {
            Some(MLX_VERSION) => Ok(()),
            tag => Err(Problem::new(format!(
                "mlx-sys {} needs MLX {} and xtask/src/setup/wheel.rs pins {MLX_VERSION}; change \
                 the version and the checksums there",
                self.version,
                tag.unwrap_or("of unknown version")
            ))),
        }
    }

    /// Returns a C++ file that includes all files of mlx-c, which its CMakeLists.txt lists, and has our own.
    fn unit(&self) -> Result<String, Problem> {
        let text = self.cmake_lists()?;
        let files = listed_files(&text);
        if files.is_empty() {
            let folder = self.mlx_c.display();
            let problem = format!("{folder}/CMakeLists.txt lists no files");
            return Err(Problem::new(problem));
        }
        let include = |file: &str| format!("#include \"{file}\"\n");
        let includes: String = files.into_iter().map(include).collect();
        Ok(includes + IN_PLACE)
    }

    fn cmake_lists(&self) -> Result<String, Problem> {
        let path = self.mlx_c.join("CMakeLists.txt");
        fs::read_to_string(&path).map_err(Problem::io("read", &path))
    }
}

fn git_tag(cmake: &str) -> Option<&str> {
    let tag = cmake
        .lines()
        .find_map(|line| line.trim().strip_prefix("GIT_TAG v"))?;
    tag.split([')', ' ']).next()
}

fn listed_files(cmake: &str) -> Vec<&str> {
    cmake
        .lines()
        .filter_map(|line| line.trim().strip_prefix("${CMAKE_CURRENT_LIST_DIR}/"))
        .map(|file| file.trim_end_matches(')'))
        .filter(|file| file.ends_with(".cpp"))
        .collect()
}

/// Replaces the folder in the messages of mlx-c, which name a source file: a bundle must not contain
/// paths of the machine that built it. Part of the recipe.
pub(crate) const HIDE_PATH: &str = "-fmacro-prefix-map=";

/// Returns the compiler flags, which are part of the recipe.
pub(crate) fn compile_flags(host: &Host) -> Vec<&'static str> {
    let mut flags = vec!["-std=c++20", "-O2", "-fPIC", "-DNDEBUG"];
    match host {
        Host::Linux => flags.extend(["-include", "fmt_shim.h", "-include", HALF_SHIM]),
        // The CMake package of MLX sets these macros. 14.0 is the oldest macOS for which Apple
        // publishes MLX.
        Host::Mac { .. } => flags.extend([
            "-mmacosx-version-min=14.0",
            "-D_METAL_",
            "-DACCELERATE_NEW_LAPACK",
        ]),
    }
    flags
}

/// Builds the static library and `bindings.rs`, and returns their folder.
pub(crate) fn build(
    host: &Host,
    source: &Source,
    wheel: &Path,
    cache: &Cache,
) -> Result<PathBuf, Problem> {
    let shims = cache.folder.join("shims");
    cache::make_folder(&shims)?;
    for (name, text) in SHIMS {
        cache::write_atomically(&shims.join(name), text.as_bytes())?;
    }
    cache.get_or_build_folder("mlx-c", |part| {
        progress::step("Compiling mlx-c and generating its bindings", || {
            // The compiler uses one core for as long as the generator is built on the others.
            thread::scope(|scope| {
                let bindings =
                    scope.spawn(|| bindings::generate(host, source, &shims, part, cache));
                let library = build_library(host, source, wheel, &shims, part, cache);
                let bindings = bindings.join();
                library.and(bindings.unwrap_or_else(|panic| panic::resume_unwind(panic)))
            })
        })
    })
}

fn build_library(
    host: &Host,
    source: &Source,
    wheel: &Path,
    shims: &Path,
    folder: &Path,
    cache: &Cache,
) -> Result<(), Problem> {
    // One unit of all files: the headers of MLX, which take longest, are parsed once.
    let unit = folder.join("mlxc.cpp");
    cache::write_atomically(&unit, source.unit()?.as_bytes())?;
    let mut compiler = Command::new("c++");
    compiler.args(compile_flags(host));
    for include in [shims, &source.mlx_c, &wheel.join("mlx/include")] {
        compiler.arg("-I").arg(include);
        compiler.arg(format!("{HIDE_PATH}{}=mlx", include.display()));
    }
    let mut objects = vec![compile(compiler, &unit, folder, cache)?];
    if host.is_linux() {
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-fPIC"]);
        objects.push(compile(
            compiler,
            &shims.join("mach_time.c"),
            folder,
            cache,
        )?);
    }
    let mut ar = Command::new("ar");
    ar.arg("crs").arg(folder.join("libmlxc.a")).args(&objects);
    process::run_logged(&mut ar, "pack mlx-c into a library", &cache.log("ar"))
}

/// Compiles a file into `folder` and returns the object file.
fn compile(
    mut compiler: Command,
    file: &Path,
    folder: &Path,
    cache: &Cache,
) -> Result<PathBuf, Problem> {
    let name = file.file_name().unwrap_or_default();
    let object = folder.join(name).with_added_extension("o");
    compiler.arg("-c").arg(file).arg("-o").arg(&object);
    let log = cache.log(&format!("compile-{}", name.to_string_lossy()));
    process::run_logged(&mut compiler, &format!("compile {}", file.display()), &log)?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CMAKE: &str = "
        GIT_TAG v0.32.2)
        set(mlxc-src
            ${CMAKE_CURRENT_LIST_DIR}/mlx/c/array.cpp
            # ${CMAKE_CURRENT_LIST_DIR}/mlx/c/object.cpp
            ${CMAKE_CURRENT_LIST_DIR}/mlx/c/version.cpp)
        add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/examples)";

    #[test]
    fn files_and_version_are_read_from_cmake() {
        assert_eq!(
            listed_files(CMAKE),
            ["mlx/c/array.cpp", "mlx/c/version.cpp"]
        );
        assert_eq!(git_tag(CMAKE), Some("0.32.2"));
        assert_eq!(git_tag("nothing"), None);
    }

    #[test]
    fn the_mlx_version_of_the_source_must_be_the_pinned_one() {
        let folder = tempfile::tempdir().unwrap();
        let mlx_c = folder.path().join("src/mlx-c");
        fs::create_dir_all(&mlx_c).unwrap();
        let metadata = serde_json::json!({
            "target_directory": "t",
            "packages": [{
                "name": "mlx-sys",
                "version": "0.7.0",
                "manifest_path": folder.path().join("Cargo.toml"),
            }],
        });
        let source = Source::from_metadata(&metadata).unwrap();
        assert_eq!(source.mlx_c, mlx_c);

        fs::write(mlx_c.join("CMakeLists.txt"), CMAKE).unwrap();
        assert!(source.check_mlx_version().is_ok());
        fs::write(mlx_c.join("CMakeLists.txt"), "GIT_TAG v9.9.9)").unwrap();
        let sentence = source.check_mlx_version().unwrap_err().to_string();
        assert!(sentence.contains("needs MLX 9.9.9"), "{sentence}");
    }

    #[test]
    fn a_workspace_without_mlx_sys_is_an_error() {
        assert!(Source::from_metadata(&serde_json::json!({ "packages": [] })).is_err());
        assert!(Source::from_metadata(&Value::Null).is_err());
    }
}
