//! The quick prompt beyond its window: its page is created before the first use, and a call reads
//! the program in front and loads the model.

use std::time::Duration;

use tauri::{AppHandle, Manager};
use transom_store::ConversationSettings;

use super::{create, on_main_thread};
use crate::commands::models::load_model;
use crate::insertion;
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
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        tokio::time::sleep(PREPARE_DELAY).await;
        on_main_thread(&app, |app| {
            if app.get_webview_window(Window::Prompt.label()).is_none()
                && let Err(error) = create(app, Window::Prompt, true)
            {
                tracing::warn!(%error, "the quick prompt could not be prepared");
            }
        });
    });
}

/// Handles a call of the quick prompt, before it takes the focus.
pub(super) fn called(app: &AppHandle) {
    insertion::remember(app);
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        // The question reports why a model cannot be loaded.
        if let Err(error) = load_model(app.state(), ConversationSettings::default()).await {
            tracing::debug!(?error, "the model is not loaded ahead");
        }
    });
}
