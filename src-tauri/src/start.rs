//! The start of the program: plugins, icon, actions of menus, backend, and the loops that send
//! events to pages.
//!
//! Rule: the icon appears before anything is opened, and nothing here wakes an idle app.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tauri::menu::MenuEvent;
use tauri::tray::{MouseButton, MouseButtonState, TrayIconEvent};
use tauri::{AppHandle, Manager, RunEvent, WindowEvent};
#[cfg(target_os = "macos")]
use tauri_plugin_deep_link::DeepLinkExt;
use tauri_plugin_global_shortcut::{GlobalShortcutExt, Shortcut, ShortcutState};
use transom_chat::TurnEvent;
use transom_supervisor::instance;

use crate::arguments::{self, LaunchAction};
use crate::backend::Backend;
use crate::commands::{app as app_commands, catalog as catalog_commands, models as model_commands};
use crate::deletion::Deletion;
use crate::hotkey::Registry;
use crate::insertion::Insertion;
use crate::shell::Shell;
use crate::tray::menu::Action;
use crate::visibility::hidden_by_quit;
use crate::wire::{AppEvent, DownloadState, DownloadView, Window};
use crate::{
    commands, dropped, idle_memory, lock, log, quit, status_view, tray, update_host, windows,
};

/// Minimum time between two status events.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// How long the icon's menu names a program after its last request. Otherwise a program with many
/// short requests would change the menu again and again, and a changed menu closes.
const NAMED_TIME: Duration = Duration::from_secs(3);

/// Time after the backend is open until the start is over: the supervisor has read its folders, and
/// the page of the quick prompt is not made yet.
const START_TIME: Duration = Duration::from_secs(3);

/// Lists all commands for Tauri.
macro_rules! handlers {
    ($($file:ident: $($name:ident),+;)+) => {
        tauri::generate_handler![$($(commands::$file::$name),+),+]
    };
}

/// Runs the app until the user quits it.
///
/// # Errors
/// If the system has no data folder, or no screen for windows.
pub fn run() -> anyhow::Result<()> {
    let data_folder = instance::data_folder()?;
    log::init(&data_folder);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
    let context = tauri::generate_context!();
    #[cfg(target_os = "linux")]
    if crate::second_instance::forward_to_running_app(&context.config().identifier)? {
        return Ok(());
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let app = tauri::Builder::default()
        // First, so that a second start ends before it does anything.
        .plugin(tauri_plugin_single_instance::init(|app, arguments, _| {
            let arguments = arguments.get(1..).unwrap_or_default();
            perform(app, arguments::launch_action(arguments));
        }))
        .plugin(tauri_plugin_deep_link::init())
        .plugin(tauri_plugin_dialog::init())
        .plugin(
            tauri_plugin_opener::Builder::new()
                .open_js_links_on_click(false)
                .build(),
        )
        // Does nothing until `updates` calls it; pages may not.
        .plugin(tauri_plugin_updater::Builder::new().build())
        .plugin(
            tauri_plugin_global_shortcut::Builder::new()
                .with_handler(|app, _, event| on_hotkey(app, event.state))
                .build(),
        );
    #[cfg(target_os = "macos")]
    let app = app.plugin(tauri_nspanel::init());
    let app = app
        .invoke_handler(commands!(handlers))
        .on_window_event(on_window_event)
        .on_menu_event(on_menu_event)
        .on_tray_icon_event(on_tray_icon_event)
        .manage(Deletion::default())
        .manage(Insertion::default())
        .manage(app_commands::Printing::default())
        .setup(move |app| {
            let app = app.handle();
            app.manage(Shell::new(app.clone(), data_folder));
            set_up(app, arguments::launch_action(&arguments));
            Ok(())
        })
        .build(context)?;
    app.run(on_run_event);
    Ok(())
}

fn set_up(app: &AppHandle, action: LaunchAction) {
    // Otherwise the Dock shows an icon until the settings are read.
    #[cfg(target_os = "macos")]
    {
        let _ = app.set_activation_policy(tauri::ActivationPolicy::Accessory);
        crate::menu_bar::draw(app);
    }
    #[cfg(target_os = "macos")]
    let action = match crate::login_item::started_the_app() {
        true => LaunchAction::Icon,
        false => action,
    };
    let created = tray::create(app);
    if let Err(reason) = &created {
        tracing::warn!(reason, "there is no icon");
    }
    // On other systems a link is an argument of a second start.
    #[cfg(target_os = "macos")]
    app.deep_link().on_open_url({
        let app = app.clone();
        move |event| {
            for url in event.urls() {
                if let Some(action) = arguments::parse_link(url.as_str()) {
                    perform(&app, action);
                }
            }
        }
    });
    perform(app, reachable_action(action, created.is_ok()));
    tauri::async_runtime::spawn(open_backend(app.clone()));
    tauri::async_runtime::spawn(quit::on_signals(app.clone()));
}

/// Shows the chat if there is no icon, because nobody could find an app without any window.
fn reachable_action(action: LaunchAction, has_tray: bool) -> LaunchAction {
    match (action, has_tray) {
        (LaunchAction::Icon, false) => LaunchAction::show(Window::Chat),
        (action, _) => action,
    }
}

/// Performs the action of a start or a link.
fn perform(app: &AppHandle, action: LaunchAction) {
    match action {
        LaunchAction::Icon => {}
        LaunchAction::Show { window, pane } => {
            windows::show(app, window, AppEvent::shown(window, pane));
        }
        LaunchAction::Compose(text) => {
            perform(app, LaunchAction::show(Window::Chat));
            let pages = &app.state::<Shell>().pages;
            pages.send(app, Window::Chat, AppEvent::Compose { text });
        }
    }
}

/// Opens the backend, and sends the status to pages until the app ends.
async fn open_backend(app: AppHandle) {
    let shell = app.state::<Shell>();
    let (for_turns, for_catalog, for_models) = (app.clone(), app.clone(), app.clone());
    let (backend, notices) = Backend::open(
        &shell.data_folder,
        move |event| on_turn_event(&for_turns, event),
        move || for_catalog.state::<Shell>().send(&AppEvent::Catalog),
        move || model_commands::changed(&for_models),
    )
    .await;
    let backend = Arc::new(backend);
    // A change that waits for the backend comes after the settings of the start.
    let changing = backend.changing_settings.lock().await;
    shell.set_backend(backend.clone());
    tauri::async_runtime::spawn(publish_downloads(app.clone(), backend.clone()));
    for notice in notices {
        shell.notice(notice);
    }
    app_commands::apply(&app, None, &backend.settings());
    drop(changing);
    app_commands::apply_local_api(&app, backend.clone());
    windows::prepare_prompt(&app, backend.hardware.memory_bytes);
    tauri::async_runtime::spawn(update_host::check_regularly(app.clone()));
    tauri::async_runtime::spawn(async {
        tokio::time::sleep(START_TIME).await;
        idle_memory::release();
    });
    tracing::info!("the backend is open");
    publish_status(&app, &backend).await;
}

/// Sends the status to pages when it changes, at most once per [`STATUS_INTERVAL`]. Waits while
/// nothing changes. A supervisor that quits is replaced, including the app's own, which ends before
/// the app only after a failure.
async fn publish_status(app: &AppHandle, backend: &Backend) {
    let shell = app.state::<Shell>();
    loop {
        let mut changes = backend.handle().status();
        let mut named_until = None;
        loop {
            let view = status_view::from_status(&changes.borrow_and_update(), backend.is_client());
            let now = tokio::time::Instant::now();
            if view.background.is_some() {
                lock(&shell.user).clone_from(&view.background);
                named_until = Some(now + NAMED_TIME);
            } else if named_until.is_some_and(|until| until <= now) {
                *lock(&shell.user) = None;
                named_until = None;
                tray::draw(app);
            }
            // Without a request, the next change may be the end of that time.
            let wakes_at = named_until.filter(|_| view.background.is_none());
            if shell.set_status(&view) {
                shell.send(&AppEvent::Status {
                    status: Box::new(view),
                });
                tray::draw(app);
            }
            tokio::time::sleep(STATUS_INTERVAL).await;
            let changed = match wakes_at {
                Some(until) => {
                    let changed = tokio::time::timeout_at(until, changes.changed());
                    changed.await.unwrap_or(Ok(()))
                }
                None => changes.changed().await,
            };
            if changed.is_err() {
                break;
            }
        }
        *lock(&shell.user) = None;
        let was_client = backend.is_client();
        tracing::info!(was_client, "the supervisor quit");
        let Some(notices) = backend.reconnect().await else {
            return;
        };
        if !was_client {
            let detail = "The part of Transom that runs models failed and was started again.";
            shell.notice(AppEvent::notice("other", detail));
        }
        for notice in notices {
            shell.notice(notice);
        }
    }
}

/// Resumes the downloads, and sends their progress to pages.
async fn publish_downloads(app: AppHandle, backend: Arc<Backend>) {
    // Before the queue is opened, because downloads of the last session are a change too.
    let mut changes = backend.model_source.downloads();
    if let Err(error) = backend.model_source.open().await {
        // The user is told when a download is requested.
        tracing::warn!(%error, "downloads could not be resumed");
    }
    let shell = app.state::<Shell>();
    let mut n_done = 0;
    while changes.changed().await.is_ok() {
        changes.borrow_and_update();
        let Ok(downloads) = catalog_commands::downloads(app.state()).await else {
            continue;
        };
        let is_done = |one: &&DownloadView| matches!(one.state, DownloadState::Done { .. });
        let done = downloads.iter().filter(is_done).count();
        *lock(&shell.downloads) = downloads.clone();
        shell.send(&AppEvent::Downloads { downloads });
        if std::mem::replace(&mut n_done, done) < done {
            shell.send(&AppEvent::Models);
        }
        tray::draw(&app);
    }
}

fn on_turn_event(app: &AppHandle, event: TurnEvent) {
    let shell = app.state::<Shell>();
    match event {
        TurnEvent::ConversationChanged { .. } => shell.send(&AppEvent::Conversations),
        TurnEvent::SaveFailed { kind, reason, .. } => {
            tracing::error!(reason, "a response cannot be saved");
            shell.notice(AppEvent::store_notice("unsaved", kind, reason));
        }
        TurnEvent::SaveRecovered { .. } => {
            tracing::info!("the response could be saved after an earlier failure")
        }
    }
}

/// Shows or hides the chat for a click on the icon, which only macOS reports.
fn on_tray_icon_event(app: &AppHandle, event: TrayIconEvent) {
    if let TrayIconEvent::Click {
        button: MouseButton::Left,
        button_state: MouseButtonState::Up,
        ..
    } = event
    {
        windows::toggle(app, Window::Chat);
    }
}

/// Handles a chosen item of the icon's menu or of the menu bar.
fn on_menu_event(app: &AppHandle, event: MenuEvent) {
    match tray::action_of(event.id().as_ref()) {
        Some(action) => perform_menu_action(app, action),
        None => tracing::warn!(id = event.id().as_ref(), "an unknown menu item"),
    }
}

fn perform_menu_action(app: &AppHandle, action: Action) {
    let show =
        |window, pane: Option<String>| windows::show(app, window, AppEvent::shown(window, pane));
    let shell = app.state::<Shell>();
    match action {
        Action::OpenChat => show(Window::Chat, None),
        Action::ChatInWindow(is_in_window) => open_chat(app, is_in_window),
        Action::NewChat => {
            show(Window::Chat, None);
            press(app, Window::Chat, "Mod+N".to_owned());
        }
        Action::QuickPrompt => show(Window::Prompt, None),
        Action::Settings => show(Window::Settings, None),
        Action::Models => show(Window::Settings, Some("models".to_owned())),
        Action::LocalApi => show(Window::Settings, Some("api".to_owned())),
        Action::About => show(Window::Settings, Some("about".to_owned())),
        Action::Zoom(step) => {
            app_commands::run_in_background(app, move |app| app_commands::zoom(app, step))
        }
        Action::Press(keys) => {
            if let Some((window, _)) = shell.pages.focused() {
                press(app, window, keys);
            }
        }
        Action::Quit => quit::quit(app),
        Action::QuitOrHide => match hidden_by_quit(shell.pages.focused()) {
            Some(panel) => windows::hide(app, panel),
            None => quit::quit(app),
        },
        Action::Eject => app_commands::run_in_background(app, model_commands::eject),
        Action::Choose(id) => {
            app_commands::run_in_background(app, |app| model_commands::choose_model(app, id))
        }
        Action::Pause(is_paused) => {
            app_commands::run_in_background(app, move |app| model_commands::pause(app, is_paused))
        }
    }
}

fn press(app: &AppHandle, window: Window, keys: String) {
    let pages = &app.state::<Shell>().pages;
    pages.send(app, window, AppEvent::Shortcut { keys });
}

/// Opens the chat in the other form. A visible one moves when the settings change.
fn open_chat(app: &AppHandle, is_in_window: bool) {
    app_commands::run_in_background(app, move |app| async move {
        let patch = json!({ "general": { "chat_in_window": is_in_window } });
        app_commands::update_settings(app.clone(), patch).await?;
        let pages = &app.state::<Shell>().pages;
        if !pages.visibility(Window::Chat).is_visible {
            windows::show(&app, Window::Chat, AppEvent::shown(Window::Chat, None));
        }
        Ok(())
    });
}

fn on_hotkey(app: &AppHandle, state: ShortcutState) {
    let shell = app.state::<Shell>();
    let now = Instant::now();
    match state {
        ShortcutState::Pressed if lock(&shell.key_repeat).is_new(now) => {
            windows::toggle(app, Window::Prompt);
        }
        ShortcutState::Pressed => {}
        ShortcutState::Released => lock(&shell.key_repeat).released(now),
    }
}

fn on_window_event(window: &tauri::Window, event: &WindowEvent) {
    let Some(which) = Window::from_label(window.label()) else {
        return;
    };
    if let WindowEvent::DragDrop(event) = event {
        dropped::on_event(window.app_handle(), which, event);
    }
    windows::on_event(window.app_handle(), which, event);
}

fn on_run_event(app: &AppHandle, event: RunEvent) {
    match event {
        // The last window was closed. The app continues.
        RunEvent::ExitRequested {
            code: None, api, ..
        } => api.prevent_exit(),
        // The system ends the app, for example at logout.
        RunEvent::Exit => quit::before_exit(app),
        #[cfg(target_os = "macos")]
        RunEvent::Reopen { .. } => {
            perform(app, LaunchAction::show(Window::Chat));
        }
        _ => {}
    }
}

impl Registry for AppHandle {
    fn register(&self, shortcut: Shortcut) -> Result<(), String> {
        let registered = self.global_shortcut().register(shortcut);
        registered.map_err(|error| error.to_string())
    }

    fn unregister(&self, shortcut: Shortcut) -> Result<(), String> {
        let done = self.global_shortcut().unregister(shortcut);
        done.map_err(|error| error.to_string())
    }
}
