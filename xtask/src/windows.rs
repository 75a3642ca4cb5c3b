//! `cargo xtask screenshots` and `cargo xtask measure`: run the programs of `tests/window` after
//! setting up and building all that they need.
//!
//! Both show windows on a virtual screen, so they run only on Linux.

use std::process::ExitCode;

use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::run::{self, Profile};
use crate::setup::{self, Purpose};
use crate::ui::{Pages, Ui};

/// Writes a screenshot of every state to `docs/screenshots`.
pub(crate) fn screenshots(args: &[String]) -> Result<ExitCode, Problem> {
    start("screenshots", Profile::Dev, &[], args)
}

/// Measures the speed and the memory of the app.
pub(crate) fn measure(args: &[String]) -> Result<ExitCode, Problem> {
    start("measure", Profile::Release, &MEASURE, args)
}

/// The variables of `measure`, for which the screen without a GPU would change the results.
const MEASURE: [(&str, &str); 2] = [
    // Otherwise, WebKitGTK would composite the whole window on the CPU for each token, unlike on a
    // real machine. Not for screenshots: without compositing, WebKitGTK may never send the picture of
    // a page that does not change.
    ("WEBKIT_DISABLE_COMPOSITING_MODE", "1"),
    // The engine has no GPU either. On all cores, it would compete with the app for them.
    ("OPENBLAS_NUM_THREADS", "1"),
];

fn start(
    program: &str,
    profile: Profile,
    variables: &[(&str, &str)],
    args: &[String],
) -> Result<ExitCode, Problem> {
    if !cfg!(target_os = "linux") {
        return Err(Problem::new(format!(
            "`{program}` runs only on Linux, where windows can be shown on a virtual screen"
        )));
    }
    let workspace = setup::set_up(Purpose::Tests)?;
    let ui = Ui::new(&workspace)?;
    ui.build(Pages::App)?;
    ui.build(Pages::Gallery)?;
    run::build(
        profile,
        &["transom-cli", "transom-app", "transom-window-tests"],
    )?;
    let action = format!("run {program}");
    let mut command =
        std::process::Command::new(workspace.target.join(profile.folder()).join(program));
    let status = command
        .args(args)
        .envs(variables.iter().copied())
        .status()
        .map_err(|error| process::not_started(&command, &action, &error))?;
    if status.success() {
        progress::say(&format!("✓ {program}"));
        return Ok(ExitCode::SUCCESS);
    }
    Err(Problem::new(format!("could not {action}; see above")))
}
