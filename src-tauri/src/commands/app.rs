//! The app itself: status, settings, the shortcut, clipboard, windows, and what it is made of.
//!
//! Rule: a setting takes effect here, in [`apply`], once and for every way in which it can change.

use std::future::Future;

use serde_json::{Value, json};
use tauri::{AppHandle, Manager, State, WebviewWindow};
use tauri_plugin_autostart::ManagerExt;
use tauri_plugin_opener::OpenerExt;
use transom_store::{Appearance, ConversationId, Settings};

use super::conversations::ask_where;
use super::other;
use crate::hotkey::{self, SystemShortcuts};
use crate::rooms::shared_settings;
use crate::shell::{Shell, blocking};
use crate::start::{SystemRegistry, draw_tray};
use crate::wire::{AboutView, HotkeyView, News, Refusal, StatusView, TakenFrom, TakenText, Window};
use crate::{about, diagnostics, status_view, windows};

type Done<T> = Result<T, Refusal>;

#[tauri::command]
pub(crate) async fn status(shell: State<'_, Shell>) -> Done<StatusView> {
    let rooms = shell.rooms().await?;
    let status = rooms.handle().current_status().await;
    Ok(status_view::of(&status, rooms.is_guest()))
}

#[tauri::command]
pub(crate) async fn settings(shell: State<'_, Shell>) -> Done<Settings> {
    Ok(shell.rooms().await?.settings())
}

#[tauri::command]
pub(crate) async fn update_settings(app: AppHandle, patch: Value) -> Done<Settings> {
    change_settings(&app, patch).await
}

/// Changes settings, and has the change take effect.
pub(crate) async fn change_settings(app: &AppHandle, patch: Value) -> Done<Settings> {
    let rooms = app.state::<Shell>().rooms().await?;
    let before = rooms.settings();
    let store = rooms.store.clone();
    let folder = rooms.data_folder().to_owned();
    let was = before.behavior.clone();
    let (settings, shared) = blocking(move || {
        let settings = store.patch_settings(&patch)?;
        let shared = match settings.behavior == was {
            true => Ok(()),
            false => shared_settings::write(&settings, &folder),
        };
        Ok((settings, shared))
    })
    .await?;
    if let Err(detail) = shared {
        tracing::warn!(detail, "other programs do not learn of the settings");
        app.state::<Shell>().notice(News::notice("other", detail));
    }
    rooms.settings_changed(settings.clone());
    apply(app, Some(&before), &settings);
    app.state::<Shell>().tell(&News::Settings {
        settings: Box::new(settings.clone()),
    });
    Ok(settings)
}

/// Has settings take effect in the shell: all of them at the start, else those that changed. Not to
/// be called on the main thread, which the shortcut's registration waits for.
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
    // Not at the start: the login item is the system's to keep, and a person may have removed it.
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

fn launch_at_login(app: &AppHandle, is_wanted: bool) {
    let login = app.autolaunch();
    let done = match is_wanted {
        true => login.enable(),
        false => login.disable(),
    };
    if let Err(error) = done {
        tracing::warn!(%error, "the login item could not be switched");
        app.state::<Shell>()
            .notice(News::notice("login_item", error.to_string()));
    }
}

/// Has the chosen shortcut in force, and tells if that cannot be.
fn register_hotkey(app: &AppHandle, chosen: Option<&str>) -> HotkeyView {
    let shell = app.state::<Shell>();
    let wanted = chosen.unwrap_or(hotkey::DEFAULT);
    let registry = SystemRegistry(app.clone());
    let view = shell
        .hotkey
        .set(wanted, &registry, &SystemShortcuts::read());
    if let HotkeyView::Taken { shortcut } = &view {
        shell.notice(News::notice("hotkey_taken", shortcut.clone()));
    }
    view
}

#[tauri::command]
pub(crate) async fn set_hotkey(app: AppHandle, shortcut: String) -> Done<HotkeyView> {
    let shell = app.state::<Shell>();
    let registry = SystemRegistry(app.clone());
    let wanted = shortcut.clone();
    let system = blocking(|| Ok(SystemShortcuts::read())).await?;
    let view = shell.hotkey.set(&wanted, &registry, &system);
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
pub(crate) async fn record_hotkey(app: AppHandle, is_recording: bool) -> Done<()> {
    let registry = SystemRegistry(app.clone());
    app.state::<Shell>().hotkey.record(is_recording, &registry);
    Ok(())
}

#[tauri::command]
pub(crate) async fn take(app: AppHandle, source: TakenFrom) -> Done<TakenText> {
    let of = app.clone();
    let taken = blocking(move || Ok(of.state::<Shell>().board.take(source))).await?;
    taken.map_err(|reason| {
        tracing::info!(reason, ?source, "the text cannot be read");
        other(reason)
    })
}

#[tauri::command]
pub(crate) async fn copy(app: AppHandle, text: String) -> Done<()> {
    blocking(move || app.state::<Shell>().board.copy(text).map_err(other)).await
}

#[tauri::command]
pub(crate) async fn open_link(app: AppHandle, url: String) -> Done<()> {
    let url = outside(&url).ok_or_else(|| Refusal::Invalid {
        field: "url".to_owned(),
        reason: "only http, https and mailto addresses are opened".to_owned(),
    })?;
    app.opener().open_url(url, None::<&str>).map_err(other)
}

/// An address that may be opened outside, written as it was understood.
fn outside(url: &str) -> Option<String> {
    let url = tauri::Url::parse(url).ok()?;
    matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.into())
}

#[tauri::command]
pub(crate) async fn about(app: AppHandle, shell: State<'_, Shell>) -> Done<AboutView> {
    let hardware = shell.rooms().await?.hardware.clone();
    let has_tray = shell.tray.is_there();
    Ok(about::view(&app, &shell, &hardware, has_tray))
}

#[tauri::command]
pub(crate) async fn licences() -> Done<String> {
    Ok(about::LICENCES.to_owned())
}

#[tauri::command]
pub(crate) async fn save_diagnostics(
    page: WebviewWindow,
    shell: State<'_, Shell>,
) -> Done<Option<String>> {
    let rooms = shell.rooms().await?;
    let about = about::view(
        page.app_handle(),
        &shell,
        &rooms.hardware,
        shell.tray.is_there(),
    );
    let status = status_view::of(
        &rooms.handle().current_status().await.clone(),
        rooms.is_guest(),
    );
    let (settings, folder) = (rooms.settings(), shell.data_folder.clone());
    let Some(path) = ask_where(&page, "transom-diagnostics.txt").await? else {
        return Ok(None);
    };
    blocking(move || {
        let log = diagnostics::last_of_log(&folder);
        let added = diagnostics::added(&folder);
        let home = std::env::home_dir();
        let text = diagnostics::text(&about, &status, &settings, &added, &log, home);
        std::fs::write(&path, text).map_err(|error| Refusal::Storage {
            reason: format!("{}: {error}", path.display()),
        })?;
        Ok(Some(path.to_string_lossy().into_owned()))
    })
    .await
}

#[tauri::command]
pub(crate) async fn open_data_folder(app: AppHandle, shell: State<'_, Shell>) -> Done<()> {
    let folder = shell.data_folder.to_string_lossy().into_owned();
    app.opener().open_path(folder, None::<&str>).map_err(other)
}

#[tauri::command]
pub(crate) async fn show_window(
    app: AppHandle,
    window: Window,
    conversation: Option<ConversationId>,
    pane: Option<String>,
) -> Done<()> {
    let shown = News::Shown {
        window,
        conversation,
        pane,
    };
    windows::show(&app, window, shown);
    Ok(())
}

#[tauri::command]
pub(crate) async fn fit_prompt(app: AppHandle, height: f64) -> Done<()> {
    windows::fit_prompt(&app, height);
    Ok(())
}

#[tauri::command]
pub(crate) async fn hide_window(app: AppHandle, page: WebviewWindow) -> Done<()> {
    let window = Window::of_label(page.label()).ok_or(Refusal::NotFound)?;
    windows::hide(&app, window);
    Ok(())
}

#[tauri::command]
pub(crate) async fn page_ready(
    app: AppHandle,
    page: WebviewWindow,
    shell: State<'_, Shell>,
) -> Done<()> {
    let window = Window::of_label(page.label()).ok_or(Refusal::NotFound)?;
    windows::ready(&app, window);
    if window == Window::Chat {
        for notice in shell.take_notices() {
            shell.pages.tell(&app, window, notice);
        }
    }
    Ok(())
}

/// Does what the tray's menu asks for; what is refused is told as a notice, since no page asked.
pub(crate) fn in_background<F>(app: &AppHandle, work: impl FnOnce(AppHandle) -> F)
where
    F: Future<Output = Done<()>> + Send + 'static,
{
    let work = work(app.clone());
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        if let Err(refusal) = work.await {
            tracing::warn!(?refusal, "the menu's wish was refused");
            let detail = match refusal {
                Refusal::Other { reason }
                | Refusal::Storage { reason }
                | Refusal::Invalid { reason, .. } => reason,
                Refusal::Hub { trouble } => trouble.reason,
                Refusal::NotFound | Refusal::Turn { .. } => String::new(),
            };
            app.state::<Shell>().notice(News::notice("other", detail));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::outside;

    #[test]
    fn only_addresses_of_the_web_and_of_mail_are_opened() {
        assert!(outside("https://example.com/a?b").is_some());
        assert!(outside("mailto:a@example.com").is_some());
        for url in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "transom://compose?text=x",
            "ssh://host",
            "/etc/passwd",
            "",
        ] {
            assert_eq!(outside(url), None, "{url}");
        }
    }
}
