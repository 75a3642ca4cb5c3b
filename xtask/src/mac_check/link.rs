//! Links for a Mac: Apple's own library of MLX, stubs of the other libraries, llama.cpp without Metal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::cache;
use crate::mac_check::compiler::{Compiler, SDK};
use crate::problem::Problem;
use crate::process;
use crate::setup::MAC_LIBRARIES;

/// The libraries of llama.cpp, and their folders in its build.
const LLAMA: [(&str, &str); 4] = [
    ("llama", "src"),
    ("ggml", "ggml/src"),
    ("ggml-cpu", "ggml/src"),
    ("ggml-base", "ggml/src"),
];

/// What llama.cpp is built with. Metal and Accelerate need headers of Apple.
const LLAMA_OPTIONS: [&str; 19] = [
    "CMAKE_BUILD_TYPE=Debug",
    "CMAKE_SYSTEM_NAME=Darwin",
    "CMAKE_SYSTEM_PROCESSOR=arm64",
    "CMAKE_OSX_ARCHITECTURES=",
    "CMAKE_OSX_SYSROOT=",
    // cmake asks for it although static libraries do not need it.
    "CMAKE_INSTALL_NAME_TOOL=/bin/true",
    "CMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
    "BUILD_SHARED_LIBS=OFF",
    "GGML_METAL=OFF",
    "GGML_ACCELERATE=OFF",
    "GGML_BLAS=OFF",
    "GGML_NATIVE=OFF",
    "GGML_OPENMP=OFF",
    "GGML_CCACHE=OFF",
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_COMMON=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_TOOLS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
];

/// A class of AppKit, and a name that looks like it.
const CLASSES: [&str; 2] = ["NSWorkspace", "NSWorkspcae"];

/// A linker that finds the stubs.
pub(super) struct Linker {
    pub(super) program: PathBuf,
    /// The folder of the stubs.
    pub(super) sdk: PathBuf,
    /// A folder for programs that try it.
    pub(super) folder: PathBuf,
}

impl Linker {
    /// Returns an error if the linker accepts a class of AppKit or a symbol of MLX that does not
    /// exist, or refuses one that does. `mlx` is the folder of Apple's library and `symbol` one of
    /// its symbols.
    pub(super) fn check_that_mistakes_are_found(
        &self,
        mlx: &Path,
        symbol: &str,
    ) -> Result<(), Problem> {
        let app_kit = ["-framework".into(), "AppKit".into()];
        let [class, misspelled] = CLASSES.map(|name| format!("_OBJC_CLASS_$_{name}"));
        let library = ["-L".into(), mlx.to_owned(), "-lmlx".into()];
        let missing = format!("{symbol}Missing");
        for (libraries, exists, lacks) in [
            (&app_kit[..], class.as_str(), misspelled),
            (&library[..], symbol, missing),
        ] {
            if let Some(error) = self.error(exists, libraries)? {
                return Err(Problem::new(format!(
                    "the linker does not find {exists}:\n{error}"
                )));
            }
            let error = self.error(&lacks, libraries)?;
            if !error.is_some_and(|error| error.contains(&lacks)) {
                return Err(Problem::new(format!(
                    "the linker does not notice that {lacks} does not exist"
                )));
            }
        }
        Ok(())
    }

    /// Links a program that needs a symbol, and returns the error of the linker.
    fn error(&self, symbol: &str, libraries: &[PathBuf]) -> Result<Option<String>, Problem> {
        let source = self.folder.join("symbol.c");
        let program = format!(
            "extern char needed __asm(\"{symbol}\");\nint main(void) {{ return needed; }}\n"
        );
        cache::write_atomically(&source, program.as_bytes())?;
        let mut linker = Command::new(&self.program);
        linker.arg(&source).args(libraries);
        linker.arg("-o").arg(self.folder.join("symbol"));
        linker.env(SDK, &self.sdk);
        let output = linker.output();
        let output = output.map_err(process::not_started(&linker, "link for macOS"))?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Some(error).filter(|_| !output.status.success()))
    }
}

/// What cargo links in place of the result of a build script.
pub(super) struct Native {
    /// The folder with `bindings.rs`.
    pub(super) bindings: PathBuf,
    pub(super) folders: Vec<PathBuf>,
    pub(super) libraries: Vec<String>,
}

/// Builds llama.cpp in `folder`.
pub(super) fn llama(
    package: &Path,
    bindings: PathBuf,
    compiler: &Compiler,
    folder: &Path,
    log: &Path,
) -> Result<Native, Problem> {
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(package.join("llama.cpp"));
    cmake.arg("-B").arg(folder);
    cmake.args(LLAMA_OPTIONS.map(|option| format!("-D{option}")));
    cmake.args(compiler.cmake_options());
    process::run_logged(&mut cmake, "configure llama.cpp for macOS", log)?;
    let mut build = Command::new("cmake");
    build.arg("--build").arg(folder);
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    build.args(["--target", "llama", "--parallel", &jobs.to_string()]);
    process::run_logged(&mut build, "build llama.cpp for macOS", log)?;
    let mut native = Native {
        bindings,
        folders: LLAMA.map(|(_, part)| folder.join(part)).into(),
        libraries: LLAMA.map(|(name, _)| format!("static={name}")).into(),
    };
    native.folders.dedup();
    native.libraries.push("dylib=c++".to_owned());
    Ok(native)
}

/// Packs the C layer of MLX, which is compiled, with Apple's library in the folder `mlx`.
pub(super) fn mlx(
    object: &Path,
    mlx: &Path,
    bindings: PathBuf,
    compiler: &Compiler,
) -> Result<Native, Problem> {
    let folder = object.with_file_name("mlx-c");
    cache::make_folder(&folder)?;
    let library = folder.join("libmlxc.a");
    if library.is_file() {
        fs::remove_file(&library).map_err(Problem::io("replace", &library))?;
    }
    let mut archive = compiler.archiver();
    archive.arg("rcs").arg(&library).arg(object);
    process::output_of(&mut archive, "pack mlx-c for macOS")?;
    Ok(Native {
        bindings,
        folders: vec![folder, mlx.to_owned()],
        libraries: MAC_LIBRARIES.map(str::to_owned).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A linker that knows only these symbols.
    fn linker(folder: &Path, known: &str) -> Linker {
        let program = folder.join("ld");
        let script = format!(
            "#!/bin/sh\nname=$(sed -n 's/.*\"\\(.*\\)\".*/\\1/p' \"$1\")\n\
             case $name in {known}) ;; *) echo \"undefined symbol: $name\" >&2; exit 1 ;; esac\n"
        );
        fs::write(&program, script).unwrap();
        cache::make_executable(&program).unwrap();
        Linker {
            program,
            sdk: folder.to_owned(),
            folder: folder.to_owned(),
        }
    }

    fn check(known: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let linker = linker(folder.path(), known);
        let checked = linker.check_that_mistakes_are_found(Path::new("/mlx"), "__ZN3mlx4core3absE");
        checked.map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_linker_that_finds_no_mistakes_is_noticed() {
        let class = "'_OBJC_CLASS_$_NSWorkspace'";
        assert_eq!(check(&format!("{class} | *absE")), Ok(()));
        let blind = check("*").unwrap_err();
        assert!(blind.contains("NSWorkspcae does not exist"), "{blind}");
        let blind = check(&format!("{class} | __ZN3mlx*")).unwrap_err();
        assert!(blind.contains("absEMissing does not exist"), "{blind}");
        let strict = check("nothing").unwrap_err();
        assert!(
            strict.contains("does not find _OBJC_CLASS_$_NSWorkspace"),
            "{strict}"
        );
    }
}
