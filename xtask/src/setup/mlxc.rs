//! mlx-c, the C layer over MLX: compiled from the source that is part of mlx-sys.
//!
//! mlx-c has about thirty C++ files, so setup calls the compiler directly: the command line tools
//! of a Mac do not contain cmake, and an interrupted build continues with the next file. On Linux,
//! three small shims replace parts of macOS that mlx-c and mlx-rs expect.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::{self, Cache};
use crate::problem::Problem;
use crate::process;
use crate::progress::{self, Step};
use crate::setup::Host;
use crate::setup::wheel::MLX_VERSION;

/// Our files that replace parts of macOS. The first line of each says what it replaces.
pub(crate) const SHIMS: [(&str, &str); 3] = [
    ("fmt_shim.h", include_str!("../../native/fmt_shim.h")),
    (HALF_SHIM, include_str!("../../native/half_shim.h")),
    ("mach_time.c", include_str!("../../native/mach_time.c")),
];

/// Defines the 16-bit types of mlx-c if the compiler has none; the bindings need it too.
pub(crate) const HALF_SHIM: &str = "half_shim.h";

/// The source of mlx-sys and the target folder, from the metadata of cargo.
pub(crate) struct Source {
    pub(crate) mlx_c: PathBuf,
    /// The version of mlx-sys.
    pub(crate) version: String,
    /// The target folder of cargo.
    pub(crate) target: PathBuf,
}

impl Source {
    /// Reads the metadata of cargo, which downloads missing crates.
    pub(crate) fn locate(host: &Host) -> Result<Self, Problem> {
        let metadata = process::output_of(
            process::cargo()
                .args(["metadata", "--format-version", "1"])
                .args(["--filter-platform", host.triple()]),
            "fetch the crates that Transom is made of",
        )?;
        Self::from_metadata(&metadata)
    }

    fn from_metadata(metadata: &str) -> Result<Self, Problem> {
        let metadata: serde_json::Value = serde_json::from_str(metadata)
            .map_err(|error| Problem::new(format!("cargo metadata is not JSON: {error}")))?;
        let package = metadata["packages"]
            .as_array()
            .and_then(|packages| packages.iter().find(|package| package["name"] == "mlx-sys"))
            .ok_or_else(|| Problem::new("the workspace does not depend on mlx-sys"))?;
        let text = |value: &serde_json::Value| {
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

    /// Returns the C++ files to compile, from the CMakeLists.txt of mlx-c.
    fn files(&self) -> Result<Vec<PathBuf>, Problem> {
        let text = self.cmake_lists()?;
        let files = listed_files(&text);
        if files.is_empty() {
            let folder = self.mlx_c.display();
            let problem = format!("{folder}/CMakeLists.txt lists no files");
            return Err(Problem::new(problem));
        }
        Ok(files.iter().map(|file| self.mlx_c.join(file)).collect())
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

/// Builds the static library and returns its folder.
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
    cache.get_or_build_folder("mlxc", |part| {
        let objects = cache.folder.join("objects");
        cache::make_folder(&objects)?;
        let mut files = source.files()?;
        if host.is_linux() {
            files.push(shims.join("mach_time.c"));
        }
        let title = format!("Compiling mlx-c, {} files", files.len());
        progress::step(title, |step| {
            let includes = [shims.as_path(), &source.mlx_c, &wheel.join("mlx/include")];
            in_parallel(&files, step, |file| {
                compile(file, &objects, &includes, host, cache)
            })?;

            let mut ar = Command::new("ar");
            ar.arg("crs").arg(part.join("libmlxc.a"));
            ar.args(files.iter().map(|file| object_of(file, &objects)));
            process::run_logged(&mut ar, "pack mlx-c into a library", &cache.log("ar"))?;
            let _ = fs::remove_dir_all(&objects);
            Ok(())
        })
    })
}

/// Compiles all files, with one compiler per core. No compiler is started after the first error.
fn in_parallel(
    files: &[PathBuf],
    step: &Step,
    compile: impl Fn(&Path) -> Result<(), Problem> + Sync,
) -> Result<(), Problem> {
    let next = AtomicUsize::new(0);
    let n_done = AtomicUsize::new(0);
    let failure = OnceLock::new();
    let n_threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            match compile(file) {
                Ok(()) => {
                    let n_done = 1 + n_done.fetch_add(1, Ordering::Relaxed);
                    step.detail(format!("{n_done} done"));
                }
                Err(problem) => {
                    next.store(files.len(), Ordering::Relaxed);
                    let _ = failure.set(problem);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads.min(files.len()) {
            scope.spawn(work);
        }
        work();
    });
    failure.into_inner().map_or(Ok(()), Err)
}

fn compile(
    file: &Path,
    objects: &Path,
    includes: &[&Path],
    host: &Host,
    cache: &Cache,
) -> Result<(), Problem> {
    let object = object_of(file, objects);
    if object.is_file() {
        return Ok(());
    }
    let part = object.with_added_extension("part");
    let is_c = file.extension().is_some_and(|extension| extension == "c");
    let mut compiler = Command::new(if is_c { "cc" } else { "c++" });
    if is_c {
        compiler.args(["-O2", "-fPIC"]);
    } else {
        compiler.args(compile_flags(host));
        for include in includes {
            compiler.arg("-I").arg(include);
        }
    }
    compiler.arg("-c").arg(file).arg("-o").arg(&part);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let log = cache.log(&format!("compile-{name}"));
    process::run_logged(&mut compiler, &format!("compile {}", file.display()), &log)?;
    cache::rename(&part, &object)
}

fn object_of(file: &Path, objects: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default();
    objects.join(name).with_added_extension("o")
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
        let source = Source::from_metadata(&metadata.to_string()).unwrap();
        assert_eq!(source.mlx_c, mlx_c);

        fs::write(mlx_c.join("CMakeLists.txt"), CMAKE).unwrap();
        assert!(source.check_mlx_version().is_ok());
        fs::write(mlx_c.join("CMakeLists.txt"), "GIT_TAG v9.9.9)").unwrap();
        let sentence = source.check_mlx_version().unwrap_err().to_string();
        assert!(sentence.contains("needs MLX 9.9.9"), "{sentence}");
    }

    #[test]
    fn a_workspace_without_mlx_sys_is_an_error() {
        assert!(Source::from_metadata(r#"{"packages":[]}"#).is_err());
        assert!(Source::from_metadata("no json").is_err());
    }
}
