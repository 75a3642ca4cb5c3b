//! Shows the app in the Dock of a Mac, or in the menu bar only.

use std::sync::atomic::Ordering;

use tauri::{AppHandle, Manager};

use super::{SYSTEM_DELAY, build, later, on_main_thread, raise};
use crate::shell::Shell;
use crate::visibility::is_in_dock;
use crate::wire::Window;

/// Shows the app in the Dock or removes it, as the settings and the chat window need it.
pub(crate) fn update_dock(app: &AppHandle) {
    if !cfg!(target_os = "macos") {
        return;
    }
    on_main_thread(app, |app| {
        let shell = app.state::<Shell>();
        let chat = shell.pages.visibility(Window::Chat);
        let is_chat_panel = shell.pages.is_panel(Window::Chat);
        let is_wanted = is_in_dock(shell.general().show_in_dock, &chat, is_chat_panel);
        if shell.is_in_dock.swap(is_wanted, Ordering::Relaxed) == is_wanted {
            return;
        }
        if let Err(error) = build::set_in_dock(app, is_wanted) {
            tracing::warn!(%error, "the Dock icon could not be switched");
        }
        if !is_wanted {
            // The system hides the windows of an app that leaves the Dock.
            later(app, SYSTEM_DELAY, |app| {
                for window in Window::ALL {
                    raise(app, window);
                }
            });
        }
    });
}
