//! The shortcut of the quick prompt: which are usable, and changing it without losing the old one.
//!
//! Rule: the new shortcut is registered before the old one is given up, so a person is never left
//! without one by a choice that another program has made before.

mod taken;

use std::str::FromStr;
use std::sync::Mutex;

use tauri_plugin_global_shortcut::{Code, Modifiers, Shortcut};

use crate::wire::HotkeyView;
pub(crate) use taken::SystemShortcuts;

/// The shortcut when the user chose none: as launchers have it on a Mac, where Option-Space types
/// a space that nobody needs, and one that input methods leave alone elsewhere.
pub(crate) const DEFAULT: &str = if cfg!(target_os = "macos") {
    "Alt+Space"
} else {
    "Control+Space"
};

/// Where shortcuts are registered: the system, or a stand-in for tests.
pub(crate) trait Registry {
    /// Takes a shortcut.
    fn register(&self, shortcut: Shortcut) -> Result<(), String>;
    /// Gives it back.
    fn unregister(&self, shortcut: Shortcut) -> Result<(), String>;
}

/// The shortcut that is in force, and how it is changed.
#[derive(Debug)]
pub(crate) struct Hotkey {
    state: Mutex<State>,
    /// Why this session has none.
    unavailable: Option<String>,
}

#[derive(Debug)]
struct State {
    view: HotkeyView,
    /// What is registered; while a recorder listens, nothing is.
    registered: Option<Shortcut>,
    is_recording: bool,
}

impl Hotkey {
    /// None yet. `unavailable` says why this session cannot have any.
    pub(crate) fn new(unavailable: Option<String>) -> Self {
        let view = match &unavailable {
            Some(reason) => HotkeyView::Unavailable {
                reason: reason.clone(),
            },
            None => HotkeyView::Registered {
                shortcut: String::new(),
            },
        };
        Self {
            state: Mutex::new(State {
                view,
                registered: None,
                is_recording: false,
            }),
            unavailable,
        }
    }

    /// What is in force.
    pub(crate) fn view(&self) -> HotkeyView {
        self.lock().view.clone()
    }

    /// Has `wanted` in place of the shortcut in force, which stays if that fails; empty: none.
    /// Returns what came of it.
    pub(crate) fn set(
        &self,
        wanted: &str,
        registry: &dyn Registry,
        system: &SystemShortcuts,
    ) -> HotkeyView {
        if let Some(reason) = &self.unavailable {
            let reason = reason.clone();
            return HotkeyView::Unavailable { reason };
        }
        let mut state = self.lock();
        let has_any = state.registered.is_some();
        // While a recorder listens, the old one is not registered.
        let active = state.registered.filter(|_| !state.is_recording);
        let refused = |state: &mut State, view: HotkeyView| {
            // At the start there is nothing that could stay, and that is worth showing.
            if !has_any {
                state.view = view.clone();
            }
            view
        };
        let new = match checked(wanted, system) {
            Ok(new) => new,
            Err(view) => return refused(&mut state, view),
        };
        if let Some(shortcut) = new.filter(|_| new != active)
            && let Err(reason) = registry.register(shortcut)
        {
            tracing::warn!(wanted, reason, "the shortcut is taken");
            let shortcut = wanted.to_owned();
            return refused(&mut state, HotkeyView::Taken { shortcut });
        }
        if let Some(old) = active.filter(|_| new != active)
            && let Err(reason) = registry.unregister(old)
        {
            tracing::warn!(reason, "the old shortcut could not be given back");
        }
        state.registered = new;
        state.is_recording = false;
        state.view = HotkeyView::Registered {
            shortcut: wanted.to_owned(),
        };
        state.view.clone()
    }

    /// While a recorder listens, its keys must reach the page: the shortcut is given up, and taken
    /// again when it is done.
    pub(crate) fn record(&self, is_recording: bool, registry: &dyn Registry) {
        let mut state = self.lock();
        if state.is_recording == is_recording {
            return;
        }
        state.is_recording = is_recording;
        let Some(shortcut) = state.registered else {
            return;
        };
        let done = match is_recording {
            true => registry.unregister(shortcut),
            false => registry.register(shortcut),
        };
        if let Err(reason) = done {
            tracing::warn!(reason, is_recording, "the shortcut could not be switched");
            // Another program was quicker: what is not ours is not said to be.
            if let (false, HotkeyView::Registered { shortcut }) = (is_recording, &state.view) {
                let shortcut = shortcut.clone();
                state.view = HotkeyView::Taken { shortcut };
                state.registered = None;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        let poisoned = std::sync::PoisonError::into_inner;
        self.state.lock().unwrap_or_else(poisoned)
    }
}

/// The shortcut that a text names, `None` for an empty one, or why it cannot be used.
fn checked(text: &str, system: &SystemShortcuts) -> Result<Option<Shortcut>, HotkeyView> {
    if text.is_empty() {
        return Ok(None);
    }
    let shortcut = text.to_owned();
    let Ok(parsed) = Shortcut::from_str(text) else {
        return Err(HotkeyView::Unusable { shortcut });
    };
    if !is_usable(parsed) {
        return Err(HotkeyView::Unusable { shortcut });
    }
    if system.has(parsed) {
        return Err(HotkeyView::Taken { shortcut });
    }
    Ok(Some(parsed))
}

/// A key that people type with needs a modifier other than Shift; a function key needs none.
fn is_usable(shortcut: Shortcut) -> bool {
    use Code::{
        F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15, F16, F17, F18, F19, F20,
    };
    const FUNCTION: [Code; 20] = [
        F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15, F16, F17, F18, F19, F20,
    ];
    let strong = Modifiers::CONTROL | Modifiers::ALT | Modifiers::SUPER | Modifiers::META;
    let is_escape = shortcut.key == Code::Escape;
    !is_escape && (shortcut.mods.intersects(strong) || FUNCTION.contains(&shortcut.key))
}

/// Why this session has no global shortcuts, from the environment. Under Wayland a program hears
/// only the keys of its own windows.
pub(crate) fn unavailable(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    if cfg!(target_os = "macos") {
        return None;
    }
    let is_wayland = variable("XDG_SESSION_TYPE").is_some_and(|kind| kind == "wayland")
        || (variable("WAYLAND_DISPLAY").is_some() && variable("DISPLAY").is_none());
    is_wayland.then(|| {
        "this is a Wayland session, where programs cannot take a global shortcut; bind \
         `transom-app transom://prompt` to a key in the system's keyboard settings"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
