//! Where the programs lie that are tested, and those of the system that help.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// The root of the checkout.
pub fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Cargo's folder of what was built with our own profile, as `target/debug`.
pub fn build_folder() -> Outcome<PathBuf> {
    let own = env::current_exe().map_err(Failure::doing("find the running program"))?;
    let folder = own.parent().unwrap_or(&own);
    // Tests lie in `deps`, programs beside it.
    let folder = match folder.file_name() {
        Some(name) if name == "deps" => folder.parent().unwrap_or(folder),
        _ => folder,
    };
    Ok(folder.to_owned())
}

/// Cargo's target folder.
pub fn target_folder() -> Outcome<PathBuf> {
    let folder = build_folder()?;
    Ok(folder.parent().unwrap_or(&folder).to_owned())
}

/// A program of ours: `transom`, `transom-app` or `local-hub`.
///
/// # Errors
/// When it was not built.
pub fn ours(name: &str) -> Outcome<PathBuf> {
    let program = build_folder()?.join(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::stage(
        format!("find {}", program.display()),
        "build it first, with `cargo build -p transom-cli -p transom-app -p transom-hub --features \
         transom-hub/test-support`, or use `cargo xtask test`, which does",
    ))
}

/// WebKitGTK's own small browser, which every distribution puts elsewhere.
///
/// # Errors
/// When there is none.
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
        Failure::stage(
            "find WebKitGTK's MiniBrowser",
            "it comes with libwebkit2gtk-4.1-0",
        )
    })
}
