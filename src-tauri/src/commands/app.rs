//! Commands for the app itself: status, settings, shortcut, clipboard, windows, About.
//!
//! Rule: all changes of settings take effect in [`apply`], whichever way they were made.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_opener::OpenerExt;
use transom_store::{Appearance, ConversationId, Settings};

use super::{choose_files, save};
use crate::backend::{Backend, shared_settings};
use crate::hotkey::{self, SystemShortcuts};
use crate::shell::Shell;
use crate::task::blocking;
use crate::wire::{
    AboutView, AppEvent, CapturedText, CommandError, CommandResult, FileSource, HotkeyView,
    StatusView, TextSource, Window, ZoomStep,
};
use crate::{
    about, attachments, diagnostics, insertion, local_api, lock, login_item, tray, windows, zoom,
};

#[tauri::command]
pub(crate) async fn status(shell: State<'_, Shell>) -> CommandResult<StatusView> {
    Ok(shell.backend().await?.status_view().await)
}

#[tauri::command]
pub(crate) async fn settings(shell: State<'_, Shell>) -> CommandResult<Settings> {
    Ok(shell.backend().await?.settings())
}

/// Changes settings and applies the change.
#[tauri::command]
pub(crate) async fn update_settings(app: AppHandle, patch: Value) -> CommandResult<Settings> {
    local_api::check(&patch)?;
    let shell = app.state::<Shell>();
    let backend = shell.backend().await?;
    let _changing = backend.changing_settings.lock().await;
    let before = backend.settings();
    // Also without a change: the port may be free now.
    let has_local_api = patch.get("local_api").is_some();
    let old_behavior = before.behavior.clone();
    let patched = shell.blocking(move |backend| {
        let settings = backend.store.patch_settings(&patch)?;
        let shared = match settings.behavior == old_behavior {
            true => Ok(()),
            false => shared_settings::write(&settings, backend.data_folder()),
        };
        Ok((settings, shared))
    });
    let (settings, shared) = patched.await?;
    if let Err(detail) = shared {
        tracing::warn!(detail, "the shared settings could not be written");
        shell.notice(AppEvent::notice("other", detail));
    }
    backend.settings_changed(settings.clone());
    apply(&app, Some(&before), &settings);
    if has_local_api {
        apply_local_api(&app, backend.clone());
    }
    shell.send(&AppEvent::Settings {
        settings: Box::new(settings.clone()),
    });
    Ok(settings)
}

/// Applies settings to the app: all of them at startup, later only those that changed. Do not call
/// this on the main thread, because registering the shortcut waits for it.
pub(crate) fn apply(app: &AppHandle, before: Option<&Settings>, now: &Settings) {
    let was = before.map(|settings| &settings.general);
    let general = &now.general;
    if was.is_none_or(|was| was.appearance != general.appearance) {
        app.set_theme(match general.appearance {
            Appearance::System => None,
            Appearance::Light => Some(tauri::Theme::Light),
            Appearance::Dark => Some(tauri::Theme::Dark),
        });
    }
    windows::update_dock(app);
    let frames = &app.state::<Shell>().frames;
    frames.set_chat_in_window(general.chat_in_window);
    frames.save();
    if was.is_some_and(|was| was.chat_in_window != general.chat_in_window) {
        windows::change_chat_form(app);
    }
    #[cfg(target_os = "macos")]
    if was.is_none_or(|was| {
        was.language != general.language || was.chat_in_window != general.chat_in_window
    }) {
        crate::menu_bar::draw(app);
    }
    if was.is_none_or(|was| was.zoom != general.zoom) {
        windows::zoom(app);
    }
    // Not at startup: the system owns the login item, and the user may have removed it there.
    if was.is_some_and(|was| was.launch_at_login != general.launch_at_login) {
        launch_at_login(app, general.launch_at_login);
    }
    // At startup the check begins by itself.
    if was.is_some_and(|was| !was.check_for_updates && general.check_for_updates) {
        app.state::<Shell>().updates.turned_on();
    }
    if was.is_none_or(|was| was.hotkey != general.hotkey) {
        let shortcut = general.hotkey.as_deref().unwrap_or(hotkey::DEFAULT);
        let system = SystemShortcuts::read();
        let shell = app.state::<Shell>();
        let view = shell.hotkey.set(shortcut, app, &system);
        if let HotkeyView::Taken { shortcut } = view {
            shell.notice(AppEvent::notice("hotkey_taken", shortcut));
        }
    }
    tray::draw(app);
}

/// Starts, changes or ends the local API, as the settings say.
pub(crate) fn apply_local_api(app: &AppHandle, backend: Arc<Backend>) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        app.state::<Shell>().local_api.apply(&backend).await;
    });
}

fn launch_at_login(app: &AppHandle, is_enabled: bool) {
    if let Err(error) = login_item::set(app, is_enabled) {
        tracing::warn!(%error, "the login item could not be switched");
        app.state::<Shell>()
            .notice(AppEvent::notice("login_item", error.to_string()));
    }
}

/// Stores whether the system opens the app at login, which the user can change there.
async fn read_login_item(app: AppHandle) -> CommandResult<()> {
    let on = app.clone();
    let read = move || login_item::is_enabled(&on).map_err(CommandError::other);
    let is_enabled = blocking(read).await?;
    if is_enabled != app.state::<Shell>().general().launch_at_login {
        let patch = json!({ "general": { "launch_at_login": is_enabled } });
        update_settings(app, patch).await?;
    }
    Ok(())
}

#[tauri::command]
pub(crate) async fn set_hotkey(app: AppHandle, shortcut: String) -> CommandResult<HotkeyView> {
    let shell = app.state::<Shell>();
    let system = blocking(|| Ok(SystemShortcuts::read())).await?;
    let view = shell.hotkey.set(&shortcut, &app, &system);
    if let HotkeyView::Registered { .. } = view {
        let chosen = match shortcut == hotkey::DEFAULT {
            true => Value::Null,
            false => Value::String(shortcut),
        };
        update_settings(app.clone(), json!({ "general": { "hotkey": chosen } })).await?;
    }
    Ok(view)
}

#[tauri::command]
pub(crate) async fn record_hotkey(app: AppHandle, is_recording: bool) -> CommandResult<()> {
    app.state::<Shell>().hotkey.record(is_recording, &app);
    Ok(())
}

/// Maximum number of characters to capture, more than any context holds.
const MAX_CAPTURED: usize = 400_000;

/// Returns the clipboard's text, or the text that was selected when the quick prompt was called.
#[tauri::command]
pub(crate) async fn capture_text(
    app: AppHandle,
    source: TextSource,
) -> CommandResult<CapturedText> {
    let text = match source {
        TextSource::Clipboard => {
            let app = app.clone();
            blocking(move || Ok(app.state::<Shell>().clipboard.text())).await?
        }
        TextSource::Selection => insertion::selection(&app).await,
    };
    let text = text.map_err(|reason| {
        tracing::info!(reason, ?source, "the text cannot be captured");
        CommandError::other(reason)
    })?;
    let text = text.chars().take(MAX_CAPTURED).collect();
    Ok(CapturedText { source, text })
}

#[tauri::command]
pub(crate) async fn insert_text(app: AppHandle, text: String, replaces: bool) -> CommandResult<()> {
    let destination = insertion::destination(&app).await?;
    windows::hide(&app, Window::Prompt);
    insertion::insert(&app, destination, text, replaces).await
}

/// Reads documents for the composer, which gets their texts as events.
#[tauri::command]
pub(crate) async fn attach_files(
    app: AppHandle,
    page: WebviewWindow,
    source: FileSource,
) -> CommandResult<()> {
    let window = Window::from_label(page.label()).ok_or(CommandError::NotFound)?;
    let files = match source {
        FileSource::Dialog => choose_files(&page).await?,
        FileSource::Clipboard => {
            let copied = app.clone();
            let files = blocking(move || Ok(copied.state::<Shell>().clipboard.files())).await?;
            files.map_err(CommandError::other)?
        }
    };
    attachments::read(&app, window, files).await;
    Ok(())
}

#[tauri::command]
pub(crate) async fn copy(app: AppHandle, text: String) -> CommandResult<()> {
    let copied = blocking(move || Ok(app.state::<Shell>().clipboard.copy(text)));
    copied.await?.map_err(CommandError::other)
}

#[tauri::command]
pub(crate) async fn open_link(app: AppHandle, url: String) -> CommandResult<()> {
    let reason = "only http, https and mailto addresses are opened";
    let url = external_url(&url).ok_or_else(|| CommandError::invalid("url", reason))?;
    let opened = app.opener().open_url(url, None::<&str>);
    opened.map_err(CommandError::other)
}

/// Returns a URL that may be opened outside of the app, normalized by the parser.
fn external_url(url: &str) -> Option<String> {
    let url = tauri::Url::parse(url).ok()?;
    matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.into())
}

#[tauri::command]
pub(crate) async fn about(app: AppHandle) -> CommandResult<AboutView> {
    let backend = app.state::<Shell>().backend().await?;
    Ok(about::view(&app, &backend.hardware))
}

#[tauri::command]
pub(crate) async fn licenses() -> CommandResult<String> {
    Ok(about::LICENSES.to_owned())
}

#[tauri::command]
pub(crate) async fn save_diagnostics(
    page: WebviewWindow,
    shell: State<'_, Shell>,
) -> CommandResult<Option<String>> {
    let backend = shell.backend().await?;
    let about = about::view(page.app_handle(), &backend.hardware);
    let status = backend.status_view().await;
    let text = move || {
        let log = transom_library::diagnostics::log_lines(backend.data_folder());
        let (settings, library) = (backend.settings(), backend.library());
        let home = std::env::home_dir();
        diagnostics::text(&about, &status, &settings, &library, &log, home.as_deref())
    };
    save(&page, "transom-diagnostics.txt", text).await
}

#[tauri::command]
pub(crate) async fn open_data_folder(app: AppHandle, shell: State<'_, Shell>) -> CommandResult<()> {
    let folder = shell.data_folder.to_string_lossy().into_owned();
    let opened = app.opener().open_path(folder, None::<&str>);
    opened.map_err(CommandError::other)
}

#[tauri::command]
pub(crate) async fn show_window(
    app: AppHandle,
    window: Window,
    conversation: Option<ConversationId>,
    pane: Option<String>,
) -> CommandResult<()> {
    let event = AppEvent::Shown {
        window,
        conversation,
        pane,
    };
    windows::show(&app, window, event);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit_prompt(app: AppHandle, height: f64) -> CommandResult<()> {
    windows::fit_prompt(&app, height);
    Ok(())
}

/// Changes the zoom of all pages.
#[tauri::command]
pub(crate) async fn zoom(app: AppHandle, step: ZoomStep) -> CommandResult<()> {
    let settings = settings(app.state()).await?;
    let zoom = zoom::after(step, settings.general.zoom);
    update_settings(app, json!({ "general": { "zoom": zoom } })).await?;
    Ok(())
}

/// Keeps a window open while its page is printed.
#[derive(Default)]
pub(crate) struct Printing(Mutex<Option<windows::KeepOpen>>);

/// Opens the system's dialog that prints the page or saves it as PDF. The window stays open until the
/// page calls this with false, because not every system tells when its dialog closes.
#[tauri::command]
pub(crate) async fn print_page(
    app: AppHandle,
    page: WebviewWindow,
    printing: State<'_, Printing>,
    is_printing: bool,
) -> CommandResult<()> {
    let window = Window::from_label(page.label()).ok_or(CommandError::NotFound)?;
    let guard = is_printing.then(|| windows::keep_open(&app, window));
    let before = std::mem::replace(&mut *lock(&printing.0), guard);
    drop(before);
    if is_printing {
        page.print().map_err(CommandError::other)?;
        // GTK's dialog blocks the main thread until it closes, and leaves the focus to no window.
        #[cfg(not(target_os = "macos"))]
        windows::raise(&app, window);
    }
    Ok(())
}

#[tauri::command]
pub(crate) async fn hide_window(app: AppHandle, page: WebviewWindow) -> CommandResult<()> {
    let window = Window::from_label(page.label()).ok_or(CommandError::NotFound)?;
    windows::hide(&app, window);
    Ok(())
}

#[tauri::command]
pub(crate) async fn page_ready(
    app: AppHandle,
    page: WebviewWindow,
    shell: State<'_, Shell>,
) -> CommandResult<()> {
    let window = Window::from_label(page.label()).ok_or(CommandError::NotFound)?;
    // The chat moved to its other form.
    let goes_on = shell.pages.opens_temporary(window);
    windows::ready(&app, window);
    if window == Window::Chat {
        for notice in shell.take_notices() {
            shell.pages.send(&app, window, notice);
        }
        // A temporary chat ends with its page.
        if !goes_on && let Some(backend) = shell.backend_if_open() {
            backend.discard_temporary().await;
        }
    }
    if window == Window::Settings
        && let Err(error) = read_login_item(app.clone()).await
    {
        tracing::info!(?error, "the login item could not be read");
    }
    Ok(())
}

/// Runs a menu action. An error becomes a notice, because no page is waiting for the result.
pub(crate) fn run_in_background<F>(app: &AppHandle, work: impl FnOnce(AppHandle) -> F)
where
    F: Future<Output = CommandResult<()>> + Send + 'static,
{
    let work = work(app.clone());
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        if let Err(error) = work.await {
            tracing::warn!(?error, "a menu action failed");
            let notice = AppEvent::notice("other", error.into_reason());
            app.state::<Shell>().notice(notice);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::external_url;

    #[test]
    fn only_web_and_mail_urls_are_opened() {
        assert!(external_url("https://example.com/a?b").is_some());
        assert!(external_url("mailto:a@example.com").is_some());
        for url in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "transom://compose?text=x",
            "ssh://host",
            "/etc/passwd",
            "",
        ] {
            assert_eq!(external_url(url), None, "{url}");
        }
    }
}
