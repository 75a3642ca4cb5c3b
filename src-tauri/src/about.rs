//! The data of the About page: versions, licenses, and features that this session lacks.

use tauri::AppHandle;
use transom_signals::Hardware;

use crate::hotkey;
use crate::shell::Shell;
use crate::wire::{AboutView, DependencyView, HotkeyView};

/// Licenses of everything in the app, collected by `licenses.py`.
pub(crate) const LICENSES: &str = include_str!("../licenses.txt");

/// The components listed first, with their versions from the lock file and their licenses.
const DEPENDENCIES: [(&str, Option<&str>, &str); 8] = [
    ("MLX", option_env!("TRANSOM_VERSION_MLX_SYS"), "MIT"),
    (
        "llama.cpp",
        option_env!("TRANSOM_VERSION_LLAMA_CPP_SYS_2"),
        "MIT",
    ),
    (
        "Tauri",
        option_env!("TRANSOM_VERSION_TAURI"),
        "MIT OR Apache-2.0",
    ),
    (
        "SQLite",
        option_env!("TRANSOM_VERSION_RUSQLITE"),
        "blessing",
    ),
    (
        "Tokenizers",
        option_env!("TRANSOM_VERSION_TOKENIZERS"),
        "Apache-2.0",
    ),
    (
        "MiniJinja",
        option_env!("TRANSOM_VERSION_MINIJINJA"),
        "Apache-2.0",
    ),
    (
        "pulldown-cmark",
        option_env!("TRANSOM_VERSION_PULLDOWN_CMARK"),
        "MIT",
    ),
    ("syntect", option_env!("TRANSOM_VERSION_SYNTECT"), "MIT"),
];

/// Returns the data of the About page.
pub(crate) fn view(
    app: &AppHandle,
    shell: &Shell,
    hardware: &Hardware,
    has_tray: bool,
) -> AboutView {
    let hotkey = shell.hotkey.view();
    let dependencies = DEPENDENCIES
        .iter()
        .map(|(name, version, license)| DependencyView {
            name: (*name).to_owned(),
            version: version.unwrap_or_default().to_owned(),
            license: (*license).to_owned(),
        });
    let is_wayland = matches!(hotkey, HotkeyView::Unavailable { .. });
    let missing = [
        (!has_tray, "tray"),
        (is_wayland, "global_shortcut"),
        (is_wayland, "selection"),
    ];
    let missing = missing.iter().filter(|(is_missing, _)| *is_missing);
    AboutView {
        version: app.package_info().version.to_string(),
        dependencies: dependencies.collect(),
        data_folder: shell.data_folder.to_string_lossy().into_owned(),
        system: system(),
        chip: hardware.chip_name.clone(),
        memory_bytes: hardware.memory_bytes,
        missing: missing.map(|(_, code)| (*code).to_owned()).collect(),
        hotkey,
        default_hotkey: hotkey::DEFAULT.to_owned(),
        platform: if cfg!(target_os = "macos") {
            "macos"
        } else {
            "linux"
        }
        .to_owned(),
        languages: shell.languages.clone(),
    }
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
        for (name, version, license) in DEPENDENCIES {
            assert!(version.is_some_and(|version| !version.is_empty()), "{name}");
            assert!(!license.is_empty(), "{name}");
        }
        for part in ["tauri ", "llama-cpp-sys-2 ", "mlx-sys ", "svelte "] {
            assert!(LICENSES.contains(part), "licenses.txt lacks {part}");
        }
    }
}
