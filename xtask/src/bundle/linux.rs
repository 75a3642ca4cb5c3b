//! The Debian package and the AppImage, which the bundler of Tauri packs.
//!
//! The bundler is downloaded through npm, as a program and with a fixed version, and for an AppImage
//! it downloads linuxdeploy. It adds the app itself, its icons and its desktop entry.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::bundle::layout::{self, LINUX_RUN_PATH, Sources};
use crate::bundle::{check, programs};
use crate::cache;
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::Workspace;

/// The bundler.
const TAURI: &str = "@tauri-apps/cli@2.12.5";

/// The template of the desktop entry of both packages. That of the bundler lacks the field of a link,
/// so the app would not learn which `transom://` link opens it.
const DESKTOP_ENTRY: &str = "src-tauri/transom.desktop";

/// The library of the tray icon on Debian and Ubuntu, and its place in an AppImage.
const TRAY: (&str, &str) = (
    "/usr/lib/x86_64-linux-gnu/libayatana-appindicator3.so.1",
    "/usr/lib/libayatana-appindicator3.so.1",
);

/// The licenses of the libraries of GCC in the wheel of MLX, as Debian and Ubuntu name their files.
const GCC_LICENSES: [&str; 2] = ["GPL-3", "LGPL-2.1"];

/// Makes the packages in `folder` and returns their paths.
pub(super) fn bundle(workspace: &Workspace, folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let checkout = process::workspace();
    let node = workspace.node.as_ref();
    let node = node.ok_or_else(|| Problem::new("setup did not provide Node"))?;
    let programs = programs::build(workspace, folder, LINUX_RUN_PATH)?;
    let files = folder.join("linux");
    progress::step("Assembling the packages", || {
        let sources = Sources {
            programs: &programs,
            mlx: &workspace.mlx,
            checkout: &checkout,
        };
        layout::assemble_linux(&sources, &files)?;
        for license in GCC_LICENSES {
            let from = Path::new("/usr/share/common-licenses").join(license);
            let to = files.join("lib/transom").join(license);
            fs::copy(&from, to).map_err(Problem::io("copy", &from))?;
        }
        let private = programs::private_folders(workspace);
        check::check_linux(&programs, LINUX_RUN_PATH, &private)
    })?;
    let packed = programs.join("bundle");
    cache::make_empty_folder(&packed)?;
    let configuration = configuration(&files, &checkout).to_string();
    let mut packages = Vec::new();
    for (kind, extension) in [("deb", "deb"), ("appimage", "AppImage")] {
        let mut tauri = node.npm(&checkout.join("src-tauri"))?;
        tauri
            .args(["exec", "--yes", "--package", TAURI, "--", "tauri"])
            .args(["bundle", "--ci", "--bundles", kind, "--config"])
            .arg(&configuration)
            .env("CARGO_TARGET_DIR", programs::target(folder));
        process::run(&mut tauri, &format!("make the .{extension}"))?;
        let from = packed.join(kind);
        let paths = cache::entries(&from)?;
        let is_package = |path: &&PathBuf| path.extension().is_some_and(|end| end == extension);
        let package = paths.iter().find(is_package);
        let missing = || Problem::new(format!("there is no package in {}", from.display()));
        let package = package.ok_or_else(missing)?;
        let to = folder.join(package.file_name().unwrap_or_default());
        fs::rename(package, &to).map_err(Problem::io("move", package))?;
        packages.push(to);
    }
    Ok(packages)
}

/// Returns the configuration that adds the folders `bin` and `lib` in `files` to both packages.
///
/// The bundler does not see that the app has a tray icon, because it creates the icon in code. The
/// app loads that library at run time, so linuxdeploy does not see it either.
fn configuration(files: &Path, checkout: &Path) -> Value {
    let added = json!({
        "/usr/bin/transom": files.join("bin/transom"),
        "/usr/bin/transom-document-reader": files.join("bin/transom-document-reader"),
        "/usr/lib/transom": files.join("lib/transom"),
    });
    let mut appimage = added.clone();
    appimage[TRAY.1] = TRAY.0.into();
    json!({
        "bundle": {
            "linux": {
                "deb": {
                    // OpenBLAS, which the copy of MLX uses, the tray icon, and the certificates of
                    // servers, without which nothing can be downloaded.
                    "depends": [
                        "libopenblas0-pthread",
                        "libayatana-appindicator3-1",
                        "ca-certificates",
                    ],
                    "files": added,
                    // The bundler uses it for the AppImage too.
                    "desktopTemplate": checkout.join(DESKTOP_ENTRY),
                },
                "appimage": { "files": appimage },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_packages_contain_the_programs_and_the_library() {
        let configuration = configuration(Path::new("/files"), Path::new("/checkout"));
        let linux = &configuration["bundle"]["linux"];
        for package in ["deb", "appimage"] {
            let files = &linux[package]["files"];
            assert_eq!(files["/usr/bin/transom"], "/files/bin/transom");
            assert_eq!(files["/usr/lib/transom"], "/files/lib/transom");
        }
        assert_eq!(linux["appimage"]["files"][TRAY.1], TRAY.0);
        assert_eq!(
            linux["deb"]["files"].as_object().map(|files| files.len()),
            Some(3)
        );
    }

    #[test]
    fn the_app_learns_which_link_opens_it() {
        let checkout = process::workspace();
        let configuration = configuration(Path::new("/files"), &checkout);
        let template = &configuration["bundle"]["linux"]["deb"]["desktopTemplate"];
        let entry = fs::read_to_string(template.as_str().unwrap()).unwrap();
        assert!(entry.lines().any(|line| line == "Exec={{exec}} %u"));
    }
}
