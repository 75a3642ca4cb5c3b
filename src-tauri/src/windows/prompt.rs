//! The page of the quick prompt, which is created before the first use.

use std::time::Duration;

use tauri::{AppHandle, Manager};

use super::{create, later};
use crate::visibility::prepares_prompt;
use crate::wire::Window;

/// Time after the start until the page is created, when the app and the system have settled after a
/// login.
const PREPARE_DELAY: Duration = Duration::from_secs(8);

/// Creates the hidden page after the start, if the computer has enough memory, so that the first
/// press of the shortcut is as fast as later ones.
pub(crate) fn prepare_prompt(app: &AppHandle, memory_bytes: u64) {
    if !prepares_prompt(memory_bytes) {
        return;
    }
    later(app, PREPARE_DELAY, |app| {
        if app.get_webview_window(Window::Prompt.label()).is_none()
            && let Err(error) = create(app, Window::Prompt, true)
        {
            tracing::warn!(%error, "the quick prompt could not be prepared");
        }
    });
}
