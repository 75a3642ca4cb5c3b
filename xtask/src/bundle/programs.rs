//! Builds the programs of a bundle: for every supported machine, and without the paths of this one.
//!
//! They are built in a folder of their own, because their flags differ from those of development.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::bundle::layout::MINIMUM_MACOS;
use crate::problem::Problem;
use crate::process;
use crate::setup::{self, Workspace};

const PACKAGES: [&str; 3] = ["transom-app", "transom-cli", "transom-document-reader"];

/// What stands for a folder of this machine in the messages of the programs.
const HIDDEN: &str = "build";

/// Returns cargo's target folder of the bundle, which is in `folder`.
pub(super) fn target(folder: &Path) -> PathBuf {
    folder.join("cargo")
}

/// Builds the programs and returns their folder. `run_path` is the folder of MLX, relative to them.
pub(super) fn build(
    workspace: &Workspace,
    folder: &Path,
    run_path: &str,
) -> Result<PathBuf, Problem> {
    let target = target(folder);
    let private = private_folders(workspace);
    let c_flags = flags("-ffile-prefix-map=", &private).join(" ");
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--target-dir"]);
    cargo.arg(&target);
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    // These take precedence over the values in .cargo/native.toml.
    cargo
        .envs(setup::instructions_for_bundle(&workspace.host)?)
        .env("TRANSOM_MLX_LIB", run_path)
        .env("CFLAGS", &c_flags)
        .env("CXXFLAGS", &c_flags)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            flags("--remap-path-prefix=", &private).join("\u{1f}"),
        );
    if !workspace.host.is_linux() {
        cargo.env("MACOSX_DEPLOYMENT_TARGET", MINIMUM_MACOS);
    }
    process::run(&mut cargo, "build transom")?;
    Ok(target.join("release"))
}

/// Returns the folders of this machine whose paths must not be in a bundle, the outer ones first.
pub(super) fn private_folders(workspace: &Workspace) -> Vec<PathBuf> {
    let named = ["HOME", "CARGO_HOME"]
        .map(env::var_os)
        .into_iter()
        .flatten();
    distinct(named.chain([
        process::workspace().into(),
        workspace.target.clone().into(),
        workspace.cache.clone().into(),
    ]))
}

/// Returns the absolute folders without the root, sorted so that the inner ones come last: compilers
/// use the last prefix that matches.
fn distinct(folders: impl Iterator<Item = OsString>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = folders
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute() && folder.parent().is_some())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

fn flags(option: &str, private: &[PathBuf]) -> Vec<String> {
    let hide = |folder: &PathBuf| format!("{option}{}={HIDDEN}", folder.display());
    private.iter().map(hide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_private_folder_is_hidden_and_the_inner_one_wins() {
        let folders = ["/home/me/transom", "/home/me", "/", "relative", "/home/me"];
        let folders = distinct(folders.into_iter().map(OsString::from));
        assert_eq!(
            flags("--remap-path-prefix=", &folders),
            [
                "--remap-path-prefix=/home/me=build",
                "--remap-path-prefix=/home/me/transom=build"
            ]
        );
    }
}
