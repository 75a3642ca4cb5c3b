//! The data of the About page: versions, licenses, and features that this session lacks.

use tauri::{AppHandle, Manager};
use transom_engine::Route;
use transom_signals::Hardware;

use crate::clipboard::may_read_selection;
use crate::shell::Shell;
use crate::wire::{AboutView, DependencyView, HotkeyView};
use crate::{hotkey, tray};

/// Licenses of everything in the app, collected by `licenses.py`.
pub(crate) const LICENSES: &str = include_str!("../licenses.txt");

/// The components listed first: their names, packages and licenses.
const DEPENDENCIES: [(&str, &str, &str); 8] = [
    ("MLX", "mlx-sys", "MIT"),
    ("llama.cpp", "llama-cpp-sys-2", "MIT"),
    ("Tauri", "tauri", "MIT OR Apache-2.0"),
    ("SQLite", "rusqlite", "blessing"),
    ("Tokenizers", "tokenizers", "Apache-2.0"),
    ("MiniJinja", "minijinja", "Apache-2.0"),
    ("pulldown-cmark", "pulldown-cmark", "MIT"),
    ("syntect", "syntect", "MIT"),
];

/// Returns the data of the About page.
pub(crate) fn view(app: &AppHandle, hardware: &Hardware) -> AboutView {
    let shell = app.state::<Shell>();
    let hotkey = shell.hotkey.view();
    let dependencies = DEPENDENCIES
        .iter()
        .map(|(name, package, license)| DependencyView {
            name: (*name).to_owned(),
            version: version_of(package).unwrap_or_default().to_owned(),
            license: (*license).to_owned(),
        });
    let is_wayland = matches!(hotkey, HotkeyView::Unavailable { .. });
    let missing = [
        (!tray::exists(app), "tray"),
        (is_wayland, "global_shortcut"),
        (is_wayland, "selection"),
        (!may_read_selection(), "accessibility"),
    ];
    let missing = missing.iter().filter(|(is_missing, _)| *is_missing);
    let platform = match cfg!(target_os = "macos") {
        true => "macos",
        false => "linux",
    };
    AboutView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        dependencies: dependencies.collect(),
        data_folder: shell.data_folder.to_string_lossy().into_owned(),
        system: system(),
        chip: hardware.chip_name.clone(),
        memory_bytes: hardware.memory_bytes,
        missing: missing.map(|(_, code)| (*code).to_owned()).collect(),
        hotkey,
        default_hotkey: hotkey::DEFAULT.to_owned(),
        platform: platform.to_owned(),
        languages: shell.languages.clone(),
        routes: Route::tasks()
            .map(|route| (route, route.settings().clone()))
            .collect(),
    }
}

/// Returns the version of a package in the list of licenses.
fn version_of(package: &str) -> Option<&'static str> {
    let mut lines = LICENSES.lines();
    let line = lines.find_map(|line| line.strip_prefix(package)?.strip_prefix(' '))?;
    line.split(' ').next()
}

/// Returns the system's name: `macOS 26.1`, `Debian GNU/Linux 12 (bookworm)`.
fn system() -> String {
    if cfg!(target_os = "macos") {
        let list = "/System/Library/CoreServices/SystemVersion.plist";
        let text = std::fs::read_to_string(list).unwrap_or_default();
        format!("macOS {}", product_version(&text).unwrap_or_default())
    } else {
        let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        pretty_name(&text).unwrap_or_else(|| "Linux".to_owned())
    }
}

/// Parses the version from SystemVersion.plist, whose format is the same on all versions of macOS.
fn product_version(plist: &str) -> Option<&str> {
    let after = plist.split_once("<key>ProductVersion</key>")?.1;
    let (_, after) = after.split_once("<string>")?;
    Some(after.split_once("</string>")?.0)
}

fn pretty_name(os_release: &str) -> Option<String> {
    let line = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_system_is_read_from_its_files() {
        let debian = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        let name = pretty_name(debian);
        assert_eq!(name.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        let mac = "<key>ProductVersion</key>\n\t<string>26.1</string>";
        assert_eq!(product_version(mac), Some("26.1"));
        assert_eq!(pretty_name(""), None);
        assert_eq!(product_version(""), None);
    }

    #[test]
    fn every_dependency_has_a_version_and_a_license() {
        for (name, package, license) in DEPENDENCIES {
            let version = version_of(package).unwrap_or_default();
            assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name}");
            assert!(!license.is_empty(), "{name}");
        }
        for part in ["tauri ", "llama-cpp-sys-2 ", "mlx-sys ", "svelte "] {
            assert!(LICENSES.contains(part), "licenses.txt lacks {part}");
        }
    }
}
