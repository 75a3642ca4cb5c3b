//! Where each file of a bundle is.
//!
//! In an app, the folders `MacOS` and `Frameworks` contain only code, because the signature covers
//! them as code; all other files are in `Resources`. A Linux package has the programs in `bin` and
//! everything else in `lib/transom`, where the wheel of MLX keeps its own layout: its libraries find
//! each other by relative paths.

use std::fs;
use std::path::Path;

use plist::Value;

use crate::bundle::PROGRAMS;
use crate::cache;
use crate::problem::Problem;

/// The oldest macOS that the app promises to run on.
pub(super) const MINIMUM_MACOS: &str = "14.0";

/// The folder of MLX, relative to the programs of the app.
pub(crate) const RUN_PATH: &str = "@executable_path/../Frameworks";

/// The folder of MLX, relative to the programs of a Linux package.
pub(super) const LINUX_RUN_PATH: &str = "$ORIGIN/../lib/transom/mlx/lib";

/// The version of the bundle: that of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The name of the file with the licenses of everything in a bundle.
pub(super) const LICENSES: &str = "THIRD_PARTY_LICENSES.txt";

/// The folders that the files of a bundle come from.
pub(super) struct Sources<'a> {
    /// The folder with [`PROGRAMS`].
    pub(super) programs: &'a Path,
    /// The unpacked wheel of MLX.
    pub(super) mlx: &'a Path,
    /// The checkout, with the starter model, the icon, the licenses and `Info.plist`.
    pub(super) checkout: &'a Path,
}

/// Makes the app at `app`, which replaces an earlier one.
pub(super) fn assemble_app(sources: &Sources, app: &Path) -> Result<(), Problem> {
    cache::make_empty_folder(app)?;
    let contents = app.join("Contents");
    let resources = contents.join("Resources");
    for program in PROGRAMS {
        copy_file(program, sources.programs, &contents.join("MacOS"))?;
    }
    let mlx = sources.mlx.join("mlx/lib");
    copy_file("libmlx.dylib", &mlx, &contents.join("Frameworks"))?;
    copy_file("mlx.metallib", &mlx, &resources)?;
    copy_file("app.icns", &sources.checkout.join("icons"), &resources)?;
    copy_shared(sources, &resources)?;
    write_info(sources, &contents.join("Info.plist"))
}

/// Makes the folders `bin` and `lib` of a Linux package in `folder`, which replaces an earlier one.
/// The program of the app is not there, because the packager adds it.
pub(super) fn assemble_linux(sources: &Sources, folder: &Path) -> Result<(), Problem> {
    cache::make_empty_folder(folder)?;
    for program in PROGRAMS.into_iter().filter(|&name| name != "transom-app") {
        copy_file(program, sources.programs, &folder.join("bin"))?;
    }
    let library = folder.join("lib/transom");
    copy_file("mlx/lib/libmlx.so", sources.mlx, &library)?;
    let others = "mlx_cpu.libs";
    copy_files(&sources.mlx.join(others), &library.join(others))?;
    copy_shared(sources, &library)
}

/// Copies what every bundle contains: the starter model and the licenses.
fn copy_shared(sources: &Sources, folder: &Path) -> Result<(), Problem> {
    let starter = "assets/starter";
    copy_files(&sources.checkout.join(starter), &folder.join(starter))?;
    let licenses = sources.checkout.join("src-tauri/licenses.txt");
    copy(&licenses, &folder.join(LICENSES))?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy_file(license, sources.checkout, folder)?;
    }
    Ok(())
}

/// Writes `Info.plist` with the version, which only Cargo's files contain.
fn write_info(sources: &Sources, to: &Path) -> Result<(), Problem> {
    let from = sources.checkout.join("src-tauri/Info.plist");
    let failed = |action: &str, path: &Path, error: plist::Error| {
        Problem::new(format!("could not {action} {}: {error}", path.display()))
    };
    let mut info = Value::from_file(&from).map_err(|error| failed("read", &from, error))?;
    let keys = info
        .as_dictionary_mut()
        .ok_or_else(|| Problem::new(format!("{} is not a dictionary", from.display())))?;
    for key in ["CFBundleShortVersionString", "CFBundleVersion"] {
        keys.insert(key.to_owned(), Value::String(VERSION.to_owned()));
    }
    info.to_file_xml(to)
        .map_err(|error| failed("write", to, error))
}

/// Copies a file to the same path below another folder.
fn copy_file(name: &str, from: &Path, to: &Path) -> Result<(), Problem> {
    copy(&from.join(name), &to.join(name))
}

/// Copies the files of a folder, without its folders.
fn copy_files(from: &Path, to: &Path) -> Result<(), Problem> {
    let paths = cache::entries(from)?;
    for path in paths.iter().filter(|path| path.is_file()) {
        copy(path, &to.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Problem> {
    if let Some(folder) = to.parent() {
        cache::make_folder(folder)?;
    }
    fs::copy(from, to).map_err(Problem::io("copy", from))?;
    Ok(())
}
