//! `cargo xtask bundle`: what people install. On a Mac `Transom.app` and a DMG with it, on Linux a
//! Debian package and an AppImage.
//!
//! `programs` builds for machines other than this one, `layout` puts every file in its place, `check`
//! looks for what would fail only on another machine, and `mac` and `linux` pack the result. The
//! layout of the app and its check run on every system, so the tests of the bundle need no Mac.

mod check;
mod layout;
mod linux;
mod mac;
mod mach_o;
mod programs;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use layout::Sources;

use crate::cache;
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::{self, Host};
use crate::ui::{Pages, Ui};

pub(crate) use layout::RUN_PATH as MAC_RUN_PATH;

/// The programs in a bundle. The app starts the others, which are in its folder.
const PROGRAMS: [&str; 3] = ["transom-app", "transom", "transom-document-reader"];

/// Runs the command. The results are in `bundle` in the target folder.
pub(crate) fn bundle() -> Result<ExitCode, Problem> {
    let workspace = setup::set_up_for_bundle()?;
    Ui::new(&workspace)?.build(Pages::App)?;
    let folder = workspace.target.join("bundle");
    cache::make_folder(&folder)?;
    let files = match workspace.host {
        Host::Linux => linux::bundle(&workspace, &folder)?,
        Host::Mac { .. } => mac::bundle(&workspace, &folder)?,
    };
    for file in files {
        progress::say(&format!("✓ {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the app of a Mac at `app`, with programs that are linked for it and the unpacked wheel of
/// MLX, and checks it. The programs may name folders of this machine, because they are not shipped.
pub(crate) fn check_linked(programs: &Path, mlx: &Path, app: &Path) -> Result<(), Problem> {
    let sources = Sources {
        programs,
        mlx,
        checkout: &process::workspace(),
    };
    layout::assemble_app(&sources, app)?;
    check::check_app(app, &[])
}
