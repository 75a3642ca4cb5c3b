//! The global shortcut of the quick prompt: which shortcuts can be used, and changing it safely.
//!
//! Rule: the new shortcut is registered before the old one is released, so the user never ends up
//! without a shortcut because another program has the new one.

mod reserved;

use std::str::FromStr;
use std::sync::Mutex;

use tauri_plugin_global_shortcut::{Code, Modifiers, Shortcut};

use crate::lock;
use crate::wire::HotkeyView;
pub(crate) use reserved::SystemShortcuts;

/// The default shortcut. On a Mac it is that of other launchers, where Option-Space types a rarely
/// needed space. Elsewhere it is one that input methods do not use.
pub(crate) const DEFAULT: &str = if cfg!(target_os = "macos") {
    "Alt+Space"
} else {
    "Control+Space"
};

/// Registers shortcuts: the system, or a fake for tests.
pub(crate) trait Registry {
    fn register(&self, shortcut: Shortcut) -> Result<(), String>;
    fn unregister(&self, shortcut: Shortcut) -> Result<(), String>;
}

/// The current shortcut.
#[derive(Debug)]
pub(crate) struct Hotkey {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    view: HotkeyView,
    /// The registered shortcut. It is released while a recorder listens.
    registered: Option<Shortcut>,
    is_recording: bool,
}

impl Hotkey {
    /// Starts without a shortcut. `unavailable` says why this session can't have any.
    pub(crate) fn new(unavailable: Option<String>) -> Self {
        let state = State {
            view: match unavailable {
                Some(reason) => HotkeyView::Unavailable { reason },
                None => HotkeyView::Registered {
                    shortcut: String::new(),
                },
            },
            registered: None,
            is_recording: false,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Returns the state of the current shortcut.
    pub(crate) fn view(&self) -> HotkeyView {
        lock(&self.state).view.clone()
    }

    /// Replaces the current shortcut by `requested`; empty means none. If that fails, the current
    /// one stays. Returns the result.
    pub(crate) fn set(
        &self,
        requested: &str,
        registry: &dyn Registry,
        system: &SystemShortcuts,
    ) -> HotkeyView {
        let mut state = lock(&self.state);
        if let HotkeyView::Unavailable { .. } = state.view {
            return state.view.clone();
        }
        let has_any = state.registered.is_some();
        // While a recorder listens, the old shortcut is not registered.
        let active = state.registered.filter(|_| !state.is_recording);
        let refused = |state: &mut State, view: HotkeyView| {
            // At startup there is no previous shortcut, so the failure is shown.
            if !has_any {
                state.view = view.clone();
            }
            view
        };
        let new = match parse(requested, system) {
            Ok(new) => new,
            Err(view) => return refused(&mut state, view),
        };
        if let Some(shortcut) = new.filter(|_| new != active)
            && let Err(reason) = registry.register(shortcut)
        {
            tracing::warn!(requested, reason, "the shortcut could not be registered");
            let shortcut = requested.to_owned();
            return refused(&mut state, HotkeyView::Taken { shortcut });
        }
        if let Some(old) = active.filter(|_| new != active)
            && let Err(reason) = registry.unregister(old)
        {
            tracing::warn!(reason, "the old shortcut could not be released");
        }
        state.registered = new;
        state.is_recording = false;
        state.view = HotkeyView::Registered {
            shortcut: requested.to_owned(),
        };
        state.view.clone()
    }

    /// Starts or ends recording. While a recorder listens, the shortcut is released so that its
    /// keys reach the page.
    pub(crate) fn record(&self, is_recording: bool, registry: &dyn Registry) {
        let mut state = lock(&self.state);
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
            // Another program took the shortcut in the meantime.
            if let (false, HotkeyView::Registered { shortcut }) = (is_recording, &state.view) {
                let shortcut = shortcut.clone();
                state.view = HotkeyView::Taken { shortcut };
                state.registered = None;
            }
        }
    }
}

/// Parses a shortcut; `None` for an empty text. Returns why it can't be used otherwise.
fn parse(text: &str, system: &SystemShortcuts) -> Result<Option<Shortcut>, HotkeyView> {
    if text.is_empty() {
        return Ok(None);
    }
    let shortcut = text.to_owned();
    let parsed = Shortcut::from_str(text).ok();
    match parsed.filter(|parsed| is_usable(*parsed)) {
        None => Err(HotkeyView::Unusable { shortcut }),
        Some(parsed) if system.has(parsed) => Err(HotkeyView::Taken { shortcut }),
        parsed => Ok(parsed),
    }
}

/// Returns true for a function key, or for a key with a modifier other than Shift.
fn is_usable(shortcut: Shortcut) -> bool {
    use Code::{
        F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15, F16, F17, F18, F19, F20,
    };
    const FUNCTION: [Code; 20] = [
        F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15, F16, F17, F18, F19, F20,
    ];
    let modifiers = Modifiers::CONTROL | Modifiers::ALT | Modifiers::SUPER | Modifiers::META;
    let is_escape = shortcut.key == Code::Escape;
    !is_escape && (shortcut.mods.intersects(modifiers) || FUNCTION.contains(&shortcut.key))
}

/// Returns why this session has no global shortcuts, according to the environment. On Wayland, a
/// program receives only the keys of its own windows.
pub(crate) fn unavailable(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    if cfg!(target_os = "macos") {
        return None;
    }
    let is_wayland = variable("XDG_SESSION_TYPE").is_some_and(|kind| kind == "wayland")
        || (variable("WAYLAND_DISPLAY").is_some() && variable("DISPLAY").is_none());
    is_wayland.then(|| {
        "this is a Wayland session, where programs cannot register a global shortcut; bind \
         `transom-app transom://prompt` to a key in the system's keyboard settings"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
