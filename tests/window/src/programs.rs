//! Finds the programs under test and system programs.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// Returns the root of the checkout.
pub fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Returns Cargo's build folder for our profile, such as `target/debug`.
pub fn build_folder() -> Outcome<PathBuf> {
    let own = env::current_exe().map_err(Failure::doing("find the running program"))?;
    let folder = own.parent().unwrap_or(&own);
    // Tests are in `deps`, programs next to it.
    let folder = match folder.file_name() {
        Some(name) if name == "deps" => folder.parent().unwrap_or(folder),
        _ => folder,
    };
    Ok(folder.to_owned())
}

/// Returns Cargo's target folder.
pub fn target_folder() -> Outcome<PathBuf> {
    let folder = build_folder()?;
    Ok(folder.parent().unwrap_or(&folder).to_owned())
}

/// Returns a program of ours: `transom`, `transom-app` or `local-hub`.
///
/// # Errors
/// If it was not built.
pub fn ours(name: &str) -> Outcome<PathBuf> {
    let program = build_folder()?.join(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::setup(
        format!("find {}", program.display()),
        "build it first, with `cargo build -p transom-cli -p transom-app -p transom-hub --features \
         transom-hub/test-support`, or use `cargo xtask test`, which does",
    ))
}

/// Returns WebKitGTK's own small browser, whose path depends on the distribution.
///
/// # Errors
/// If it is not installed.
pub fn mini_browser() -> Outcome<PathBuf> {
    let arch = env::consts::ARCH;
    let folders = [
        format!("/usr/lib/{arch}-linux-gnu"),
        "/usr/libexec".to_owned(),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
    ];
    let places = folders.iter().flat_map(|folder| {
        ["webkit2gtk-4.1", "webkitgtk-4.1"]
            .map(|package| Path::new(folder).join(package).join("MiniBrowser"))
    });
    let mut places = places.filter(|place| place.is_file());
    places.next().ok_or_else(|| {
        Failure::setup(
            "find WebKitGTK's MiniBrowser",
            "it comes with libwebkit2gtk-4.1-0",
        )
    })
}
