//! A compiler with the standard library for a Mac: the installed one, or that of Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Cache};
use crate::mac_check::TARGET;
use crate::mac_check::compiler::{Compiler, SDK};
use crate::problem::Problem;
use crate::process;
use crate::progress;

/// Unpacks Debian's compiler and builds its standard library; part of the recipe.
pub(super) const SCRIPT: &str = include_str!("../../native/mac_rust.sh");

pub(super) struct Toolchain {
    pub(super) rustc: PathBuf,
    /// The driver of Clippy, which must belong to the same compiler.
    pub(super) clippy: PathBuf,
}

impl Toolchain {
    /// Returns the variables of a build: the C compiler, the stubs in the folder `sdk`, and Clippy
    /// as a compiler that lints.
    pub(super) fn variables(
        &self,
        compiler: &Compiler,
        sdk: &Path,
    ) -> Vec<(&'static str, PathBuf)> {
        let others = [
            ("RUSTC_WORKSPACE_WRAPPER", self.clippy.clone()),
            (SDK, sdk.to_owned()),
        ];
        compiler.variables().into_iter().chain(others).collect()
    }

    /// Uses the installed compiler if it has the target or rustup can add it. Otherwise builds the
    /// standard library with the compiler of Debian's package index, whose signatures apt checks.
    pub(super) fn find_or_build(cache: &Cache) -> Result<Self, Problem> {
        let has_target = || {
            let mut rustc = process::rustc();
            rustc.args(["--print", "target-libdir", "--target", TARGET]);
            let folder = process::output_of(&mut rustc, "find the standard library");
            folder.is_ok_and(|folder| PathBuf::from(folder.trim()).is_dir())
        };
        let folder = cache.folder.join("rust");
        let is_built = || folder.join("done").is_file();
        let is_added = || process::succeeds("rustup", &["target", "add", TARGET]);
        if has_target() || (!is_built() && is_added() && has_target()) {
            return Ok(Self {
                rustc: process::rustc().get_program().into(),
                clippy: "clippy-driver".into(),
            });
        }
        if !is_built() {
            progress::step("Building the standard library for macOS", || {
                // The wrappers contain the path, so the folder cannot be renamed when it is complete.
                cache::make_empty_folder(&folder)?;
                let mut script = Command::new("bash");
                script.args(["-c", SCRIPT, "mac_rust.sh"]).arg(&folder);
                let log = cache.log("mac-rust");
                process::run_logged(&mut script, "build the standard library for macOS", &log)?;
                cache::write_atomically(&folder.join("done"), b"")
            })?;
        }
        let program = |name: &str| folder.join("bin").join(name);
        Ok(Self {
            rustc: program("rustc"),
            clippy: program("clippy-driver"),
        })
    }
}
