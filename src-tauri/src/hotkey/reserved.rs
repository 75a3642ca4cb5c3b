//! Shortcuts that the system or all programs use already. On a Mac, registering one of them
//! succeeds, but the app never receives it, or takes it from all other programs.
//!
//! Rule: this uses a table and the system's own list, and registers nothing.

use serde_json::Value;
use tauri_plugin_global_shortcut::{Code, Modifiers, Shortcut};

/// The main modifier of shortcuts in programs.
const MAIN: Modifiers = if cfg!(target_os = "macos") {
    Modifiers::SUPER
} else {
    Modifiers::CONTROL
};

/// Copy, paste and other shortcuts of every program, which would stop working everywhere.
const PROGRAM_SHORTCUTS: [Code; 13] = [
    Code::KeyA,
    Code::KeyC,
    Code::KeyF,
    Code::KeyH,
    Code::KeyN,
    Code::KeyO,
    Code::KeyP,
    Code::KeyQ,
    Code::KeyS,
    Code::KeyV,
    Code::KeyW,
    Code::KeyX,
    Code::KeyZ,
];

/// Shortcuts of macOS with their system numbers, and whether they are enabled by default:
/// Spotlight, Finder search, input sources (enabled and listed in the preferences if there are
/// several), Mission Control, screenshots.
const MAC_SHORTCUTS: [(&str, Modifiers, Code, bool); 12] = [
    ("64", Modifiers::SUPER, Code::Space, true),
    ("65", SUPER_ALT, Code::Space, true),
    ("60", Modifiers::CONTROL, Code::Space, false),
    ("61", CONTROL_ALT, Code::Space, false),
    ("32", Modifiers::CONTROL, Code::ArrowUp, true),
    ("33", Modifiers::CONTROL, Code::ArrowDown, true),
    ("79", Modifiers::CONTROL, Code::ArrowLeft, true),
    ("81", Modifiers::CONTROL, Code::ArrowRight, true),
    ("28", SUPER_SHIFT, Code::Digit3, true),
    ("30", SUPER_SHIFT, Code::Digit4, true),
    ("184", SUPER_SHIFT, Code::Digit5, true),
    ("27", Modifiers::SUPER, Code::Backquote, true),
];

const SUPER_ALT: Modifiers = Modifiers::SUPER.union(Modifiers::ALT);
const CONTROL_ALT: Modifiers = Modifiers::CONTROL.union(Modifiers::ALT);
const SUPER_SHIFT: Modifiers = Modifiers::SUPER.union(Modifiers::SHIFT);

/// Shortcuts that are not available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SystemShortcuts {
    reserved: Vec<(Modifiers, Code)>,
}

impl SystemShortcuts {
    /// Reads the current list of this computer, because users change it.
    pub(crate) fn read() -> Self {
        match cfg!(target_os = "macos") {
            true => Self::for_mac(&symbolic_hotkeys()),
            false => Self::for_linux(),
        }
    }

    fn for_linux() -> Self {
        let reserved = vec![(Modifiers::ALT, Code::Tab), (Modifiers::ALT, Code::F4)];
        Self { reserved }
    }

    /// Reads a Mac's list from its preferences as JSON. Missing entries have their default.
    fn for_mac(preferences: &Value) -> Self {
        let list = &preferences["AppleSymbolicHotKeys"];
        let is_on = |number: &str, by_default: bool| {
            let enabled = &list[number]["enabled"];
            let number = enabled.as_i64().map(|on| on != 0);
            enabled.as_bool().or(number).unwrap_or(by_default)
        };
        let reserved = MAC_SHORTCUTS.iter();
        let reserved = reserved.filter(|(number, _, _, by_default)| is_on(number, *by_default));
        let mut reserved: Vec<_> = reserved.map(|(_, mods, key, _)| (*mods, *key)).collect();
        reserved.push((Modifiers::SUPER, Code::Tab));
        Self { reserved }
    }

    /// Returns true if the system or every program uses this shortcut.
    pub(crate) fn has(&self, shortcut: Shortcut) -> bool {
        // The parser uses META or SUPER for the Command or Windows key.
        let mut mods = shortcut.mods;
        if mods.contains(Modifiers::META) {
            mods.remove(Modifiers::META);
            mods.insert(Modifiers::SUPER);
        }
        let is_program_shortcut = mods == MAIN && PROGRAM_SHORTCUTS.contains(&shortcut.key);
        is_program_shortcut || self.reserved.contains(&(mods, shortcut.key))
    }
}

/// Reads the Mac's list of shortcuts; null if that fails.
fn symbolic_hotkeys() -> Value {
    let Some(home) = std::env::home_dir() else {
        return Value::Null;
    };
    let list = home.join("Library/Preferences/com.apple.symbolichotkeys.plist");
    let output = std::process::Command::new("/usr/bin/plutil")
        .args(["-convert", "json", "-o", "-"])
        .arg(list)
        .output();
    let json = output.ok().map(|output| output.stdout);
    json.and_then(|json| serde_json::from_slice(&json).ok())
        .unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn has(system: &SystemShortcuts, text: &str) -> bool {
        system.has(text.parse().unwrap())
    }

    #[test]
    fn by_default_a_mac_reserves_spotlight_but_not_option_space() {
        let mac = SystemShortcuts::for_mac(&Value::Null);
        assert!(has(&mac, "Super+Space"));
        assert!(has(&mac, "Super+Shift+4"));
        assert!(has(&mac, "Super+Tab"));
        assert!(!has(&mac, "Alt+Space"));
        assert!(!has(&mac, "Control+Space"));
    }

    #[test]
    fn preferences_of_a_mac_override_the_defaults() {
        let preferences = json!({ "AppleSymbolicHotKeys": {
            "60": { "enabled": true }, "64": { "enabled": 0 }
        }});
        let mac = SystemShortcuts::for_mac(&preferences);
        assert!(has(&mac, "Control+Space"));
        assert!(!has(&mac, "Super+Space"));
    }

    #[test]
    fn shortcuts_of_every_program_are_reserved() {
        let main = if cfg!(target_os = "macos") {
            "Super"
        } else {
            "Control"
        };
        let system = SystemShortcuts::for_linux();
        assert!(has(&system, &format!("{main}+C")));
        assert!(!has(&system, &format!("{main}+Shift+C")));
        assert!(has(&system, "Alt+F4"));
    }
}
