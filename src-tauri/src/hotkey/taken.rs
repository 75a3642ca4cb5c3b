//! Shortcuts that the system or every program has already. On a Mac a program may register one of
//! them and be told that all is well, but never hears it, or takes it from all others.
//!
//! Rule: what is taken is a table and the system's own list; nothing is tried here.

use serde_json::Value;
use tauri_plugin_global_shortcut::{Code, Modifiers, Shortcut};

/// The main modifier of shortcuts in programs.
const MAIN: Modifiers = if cfg!(target_os = "macos") {
    Modifiers::SUPER
} else {
    Modifiers::CONTROL
};

/// Cut, copy, paste and what else every program has: taking one would break all of them.
const OF_PROGRAMS: [Code; 13] = [
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

/// The Mac's own, as the system numbers them, with whether each is on until somebody switches it
/// off: Spotlight, the Finder's search, switching input sources (on where there are several, which
/// is then written down), Mission Control, screenshots.
const OF_MAC: [(&str, Modifiers, Code, bool); 12] = [
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

/// The shortcuts that are not to be had.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SystemShortcuts {
    of_system: Vec<(Modifiers, Code)>,
}

impl SystemShortcuts {
    /// Those of this computer now: people change them.
    pub(crate) fn read() -> Self {
        match cfg!(target_os = "macos") {
            true => Self::of_mac(&symbolic_hotkeys()),
            false => Self::of_other(),
        }
    }

    fn of_other() -> Self {
        let of_system = vec![(Modifiers::ALT, Code::Tab), (Modifiers::ALT, Code::F4)];
        Self { of_system }
    }

    /// A Mac's, from its preferences as JSON; what they do not mention is as it was delivered.
    fn of_mac(preferences: &Value) -> Self {
        let list = &preferences["AppleSymbolicHotKeys"];
        let is_on = |number: &str, by_default: bool| {
            let enabled = &list[number]["enabled"];
            let number = enabled.as_i64().map(|on| on != 0);
            enabled.as_bool().or(number).unwrap_or(by_default)
        };
        let of_system = OF_MAC.iter();
        let of_system = of_system.filter(|(number, _, _, by_default)| is_on(number, *by_default));
        let mut of_system: Vec<_> = of_system.map(|(_, mods, key, _)| (*mods, *key)).collect();
        of_system.push((Modifiers::SUPER, Code::Tab));
        Self { of_system }
    }

    /// Whether the system or every program has it.
    pub(crate) fn has(&self, shortcut: Shortcut) -> bool {
        // The parser writes the key with the Apple or the Windows sign in either way.
        let mut mods = shortcut.mods;
        if mods.contains(Modifiers::META) {
            mods.remove(Modifiers::META);
            mods.insert(Modifiers::SUPER);
        }
        let is_of_programs = mods == MAIN && OF_PROGRAMS.contains(&shortcut.key);
        is_of_programs || self.of_system.contains(&(mods, shortcut.key))
    }
}

/// The Mac's list of its own shortcuts; nothing where it cannot be read.
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
    fn a_new_mac_has_spotlight_and_leaves_option_space_free() {
        let mac = SystemShortcuts::of_mac(&Value::Null);
        assert!(has(&mac, "Super+Space"));
        assert!(has(&mac, "Super+Shift+4"));
        assert!(has(&mac, "Super+Tab"));
        assert!(!has(&mac, "Alt+Space"));
        assert!(!has(&mac, "Control+Space"));
    }

    #[test]
    fn what_was_switched_on_or_off_on_a_mac_counts() {
        let preferences = json!({ "AppleSymbolicHotKeys": {
            "60": { "enabled": true }, "64": { "enabled": 0 }
        }});
        let mac = SystemShortcuts::of_mac(&preferences);
        assert!(has(&mac, "Control+Space"));
        assert!(!has(&mac, "Super+Space"));
    }

    #[test]
    fn what_every_program_has_is_not_taken_from_them() {
        let main = if cfg!(target_os = "macos") {
            "Super"
        } else {
            "Control"
        };
        let system = SystemShortcuts::of_other();
        assert!(has(&system, &format!("{main}+C")));
        assert!(!has(&system, &format!("{main}+Shift+C")));
        assert!(has(&system, "Alt+F4"));
    }
}
