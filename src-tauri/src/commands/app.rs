//! Commands for the app itself: status, settings, shortcut, clipboard, windows, About.
//!
//! Rule: all changes of settings take effect in [`apply`], whichever way they were made.

use std::future::Future;

use serde_json::{Value, json};
use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_autostart::ManagerExt;
use tauri_plugin_opener::OpenerExt;
use transom_store::{Appearance, ConversationId, Settings};

use super::conversations::choose_save_path;
use super::other;
use crate::backend::shared_settings;
use crate::hotkey::{self, SystemShortcuts};
use crate::shell::{Shell, blocking};
use crate::start::{SystemRegistry, draw_tray};
use crate::wire::{
    AboutView, AppEvent, CapturedText, CommandError, HotkeyView, StatusView, TextSource, Window,
};
use crate::{about, diagnostics, status_view, windows};

type CommandResult<T> = Result<T, CommandError>;

#[tauri::command]
pub(crate) async fn status(shell: State<'_, Shell>) -> CommandResult<StatusView> {
    let backend = shell.backend().await?;
    let status = backend.handle().current_status().await;
    Ok(status_view::from_status(&status, backend.is_client()))
}

#[tauri::command]
pub(crate) async fn settings(shell: State<'_, Shell>) -> CommandResult<Settings> {
    Ok(shell.backend().await?.settings())
}

#[tauri::command]
pub(crate) async fn update_settings(app: AppHandle, patch: Value) -> CommandResult<Settings> {
    change_settings(&app, patch).await
}

/// Changes settings and applies the change.
pub(crate) async fn change_settings(app: &AppHandle, patch: Value) -> CommandResult<Settings> {
    let backend = app.state::<Shell>().backend().await?;
    let before = backend.settings();
    let store = backend.store.clone();
    let folder = backend.data_folder().to_owned();
    let old_behavior = before.behavior.clone();
    let (settings, shared) = blocking(move || {
        let settings = store.patch_settings(&patch)?;
        let shared = match settings.behavior == old_behavior {
            true => Ok(()),
            false => shared_settings::write(&settings, &folder),
        };
        Ok((settings, shared))
    })
    .await?;
    if let Err(detail) = shared {
        tracing::warn!(detail, "the shared settings could not be written");
        app.state::<Shell>()
            .notice(AppEvent::notice("other", detail));
    }
    backend.settings_changed(settings.clone());
    apply(app, Some(&before), &settings);
    app.state::<Shell>().send(&AppEvent::Settings {
        settings: Box::new(settings.clone()),
    });
    Ok(settings)
}

/// Applies settings to the app: all of them at startup, later only those that changed. Do not call
/// this on the main thread, because registering the shortcut waits for it.
pub(crate) fn apply(app: &AppHandle, before: Option<&Settings>, now: &Settings) {
    let shell = app.state::<Shell>();
    let was = before.map(|settings| &settings.general);
    let general = &now.general;
    shell.pin_chat(general.pin_chat);
    if was.is_none_or(|was| was.appearance != general.appearance) {
        app.set_theme(match general.appearance {
            Appearance::System => None,
            Appearance::Light => Some(tauri::Theme::Light),
            Appearance::Dark => Some(tauri::Theme::Dark),
        });
    }
    if was.is_none_or(|was| was.show_in_dock != general.show_in_dock) {
        show_in_dock(app, general.show_in_dock);
    }
    // Not at startup: the system owns the login item, and the user may have removed it there.
    if was.is_some_and(|was| was.launch_at_login != general.launch_at_login) {
        launch_at_login(app, general.launch_at_login);
    }
    if was.is_none_or(|was| was.hotkey != general.hotkey) {
        register_hotkey(app, general.hotkey.as_deref());
    }
    draw_tray(app);
}

#[cfg(target_os = "macos")]
fn show_in_dock(app: &AppHandle, is_shown: bool) {
    let policy = match is_shown {
        true => tauri::ActivationPolicy::Regular,
        false => tauri::ActivationPolicy::Accessory,
    };
    if let Err(error) = app.set_activation_policy(policy) {
        tracing::warn!(%error, "the Dock icon could not be switched");
    }
}

#[cfg(not(target_os = "macos"))]
fn show_in_dock(_: &AppHandle, _: bool) {}

fn launch_at_login(app: &AppHandle, is_enabled: bool) {
    let login = app.autolaunch();
    let done = match is_enabled {
        true => login.enable(),
        false => login.disable(),
    };
    if let Err(error) = done {
        tracing::warn!(%error, "the login item could not be switched");
        app.state::<Shell>()
            .notice(AppEvent::notice("login_item", error.to_string()));
    }
}

/// Registers the selected shortcut, and shows a notice if it is taken.
fn register_hotkey(app: &AppHandle, chosen: Option<&str>) -> HotkeyView {
    let shell = app.state::<Shell>();
    let requested = chosen.unwrap_or(hotkey::DEFAULT);
    let registry = SystemRegistry(app.clone());
    let view = shell
        .hotkey
        .set(requested, &registry, &SystemShortcuts::read());
    if let HotkeyView::Taken { shortcut } = &view {
        shell.notice(AppEvent::notice("hotkey_taken", shortcut.clone()));
    }
    view
}

#[tauri::command]
pub(crate) async fn set_hotkey(app: AppHandle, shortcut: String) -> CommandResult<HotkeyView> {
    let shell = app.state::<Shell>();
    let registry = SystemRegistry(app.clone());
    let requested = shortcut.clone();
    let system = blocking(|| Ok(SystemShortcuts::read())).await?;
    let view = shell.hotkey.set(&requested, &registry, &system);
    if let HotkeyView::Registered { .. } = view {
        let chosen = match shortcut == hotkey::DEFAULT {
            true => Value::Null,
            false => Value::String(shortcut),
        };
        change_settings(&app, json!({ "general": { "hotkey": chosen } })).await?;
    }
    Ok(view)
}

#[tauri::command]
pub(crate) async fn record_hotkey(app: AppHandle, is_recording: bool) -> CommandResult<()> {
    let registry = SystemRegistry(app.clone());
    app.state::<Shell>().hotkey.record(is_recording, &registry);
    Ok(())
}

#[tauri::command]
pub(crate) async fn capture_text(
    app: AppHandle,
    source: TextSource,
) -> CommandResult<CapturedText> {
    let shared = app.clone();
    let text = blocking(move || Ok(shared.state::<Shell>().clipboard.capture(source))).await?;
    text.map_err(|reason| {
        tracing::info!(reason, ?source, "the text cannot be captured");
        other(reason)
    })
}

#[tauri::command]
pub(crate) async fn copy(app: AppHandle, text: String) -> CommandResult<()> {
    blocking(move || app.state::<Shell>().clipboard.copy(text).map_err(other)).await
}

#[tauri::command]
pub(crate) async fn open_link(app: AppHandle, url: String) -> CommandResult<()> {
    let url = external_url(&url).ok_or_else(|| CommandError::Invalid {
        field: "url".to_owned(),
        reason: "only http, https and mailto addresses are opened".to_owned(),
    })?;
    app.opener().open_url(url, None::<&str>).map_err(other)
}

/// Returns a URL that may be opened outside of the app, normalized by the parser.
fn external_url(url: &str) -> Option<String> {
    let url = tauri::Url::parse(url).ok()?;
    matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.into())
}

#[tauri::command]
pub(crate) async fn about(app: AppHandle, shell: State<'_, Shell>) -> CommandResult<AboutView> {
    let hardware = shell.backend().await?.hardware.clone();
    let has_tray = shell.tray.exists();
    Ok(about::view(&app, &shell, &hardware, has_tray))
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
    let about = about::view(
        page.app_handle(),
        &shell,
        &backend.hardware,
        shell.tray.exists(),
    );
    let status = status_view::from_status(
        &backend.handle().current_status().await.clone(),
        backend.is_client(),
    );
    let (settings, folder) = (backend.settings(), shell.data_folder.clone());
    let Some(path) = choose_save_path(&page, "transom-diagnostics.txt").await? else {
        return Ok(None);
    };
    blocking(move || {
        let log = diagnostics::log_tail(&folder);
        let added = diagnostics::added(&folder);
        let home = std::env::home_dir();
        let text = diagnostics::text(&about, &status, &settings, &added, &log, home);
        std::fs::write(&path, text).map_err(|error| CommandError::Storage {
            kind: None,
            reason: format!("{}: {error}", path.display()),
        })?;
        Ok(Some(path.to_string_lossy().into_owned()))
    })
    .await
}

#[tauri::command]
pub(crate) async fn open_data_folder(app: AppHandle, shell: State<'_, Shell>) -> CommandResult<()> {
    let folder = shell.data_folder.to_string_lossy().into_owned();
    app.opener().open_path(folder, None::<&str>).map_err(other)
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
    windows::ready(&app, window);
    if window == Window::Chat {
        for notice in shell.take_notices() {
            shell.pages.send(&app, window, notice);
        }
        // A temporary chat ends with its page.
        if let Some(backend) = shell.backend_if_open() {
            backend.discard_temporary().await;
        }
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
            let detail = match error {
                CommandError::Other { reason }
                | CommandError::Storage { reason, .. }
                | CommandError::Invalid { reason, .. } => reason,
                CommandError::Hub { error } => error.reason,
                CommandError::NotFound | CommandError::Turn { .. } => String::new(),
            };
            app.state::<Shell>()
                .notice(AppEvent::notice("other", detail));
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
