//! `cargo xtask screenshots` and `cargo xtask measure`: the programs of `tests/window`, with all that
//! they need set up and built before.
//!
//! Both show windows on a screen of their own, so they run on Linux only.

use std::process::ExitCode;

use crate::chores;
use crate::problem::Problem;
use crate::progress;
use crate::run::{self, Profile};
use crate::setup::{self, Purpose};
use crate::ui::{Pages, Ui};

/// Writes a picture of every state into `docs/screenshots`.
pub(crate) fn screenshots(args: &[String]) -> Result<ExitCode, Problem> {
    start("screenshots", Profile::Dev, args)
}

/// Measures how smooth and how small the app is.
pub(crate) fn measure(args: &[String]) -> Result<ExitCode, Problem> {
    start("measure", Profile::Release, args)
}

fn start(program: &str, profile: Profile, args: &[String]) -> Result<ExitCode, Problem> {
    if !cfg!(target_os = "linux") {
        return Err(Problem::new(format!(
            "`{program}` works on Linux only, where windows can be shown without a screen"
        )));
    }
    let workspace = setup::set_up(Purpose::Tests)?;
    let ui = Ui::of(&workspace)?;
    ui.built(Pages::App)?;
    ui.built(Pages::Gallery)?;
    run::build(
        profile,
        &["transom-cli", "transom-app", "transom-window-tests"],
    )?;
    let doing = format!("run {program}");
    let mut command =
        std::process::Command::new(workspace.target.join(profile.folder()).join(program));
    let status = command
        .args(args)
        // A screen of its own has no GPU: without it WebKitGTK composes the whole window anew for each
        // token, on the processor, which no machine of a person does.
        .env("WEBKIT_DISABLE_COMPOSITING_MODE", "1")
        // Nor is there one to compute: an engine on all cores would measure who gets them.
        .env("OPENBLAS_NUM_THREADS", "1")
        .status()
        .map_err(|error| chores::not_started(&command, &doing, &error))?;
    if status.success() {
        progress::say(&format!("✓ {program}"));
        return Ok(ExitCode::SUCCESS);
    }
    Err(Problem::new(format!(
        "could not {doing}; it says why, above"
    )))
}
