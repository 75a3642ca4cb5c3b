//! From the start of the program to its end: plugins, icon, rooms, and the one loop that tells pages
//! of the status.
//!
//! Rule: the icon is up before anything is opened, and nothing here wakes an idle app.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tauri::{AppHandle, Manager, RunEvent, WindowEvent};
#[cfg(target_os = "macos")]
use tauri_plugin_deep_link::DeepLinkExt;
use tauri_plugin_global_shortcut::{GlobalShortcutExt, Shortcut, ShortcutState};
use transom_chat::Happening;
use transom_store::Settings;
use transom_supervisor::instance;

use crate::arguments::{self, Wish};
use crate::commands::{
    app as of_app, catalogue as of_catalogue, conversations_changed, models as of_models,
};
use crate::hotkey::Registry;
use crate::models::Names;
use crate::rooms::Rooms;
use crate::shell::{self, Shell};
use crate::wire::{DownloadState, DownloadView, News, Window};
use crate::words::Words;
use crate::{commands, dropped, log, status_view, tray, windows};

/// Least time between two news of the status.
const STATUS_PACE: Duration = Duration::from_millis(100);

/// All commands, as Tauri takes them.
macro_rules! answers {
    ($($file:ident: $($name:ident),+;)+) => {
        tauri::generate_handler![$($(commands::$file::$name),+),+]
    };
}

/// Runs the app until it is quit.
///
/// # Errors
/// When the system names no folder for data, or has no screen for windows.
pub fn run() -> anyhow::Result<()> {
    let data_folder = instance::data_folder()?;
    log::begin(&data_folder);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
    let context = tauri::generate_context!();
    #[cfg(target_os = "linux")]
    if crate::hand_over::told_the_app_that_runs(&context.config().identifier)? {
        return Ok(());
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let app = tauri::Builder::default()
        // First, so that a second start ends before it does anything.
        .plugin(tauri_plugin_single_instance::init(|app, arguments, _| {
            grant(app, arguments::wish(arguments.get(1..).unwrap_or_default()));
        }))
        .plugin(tauri_plugin_deep_link::init())
        .plugin(tauri_plugin_dialog::init())
        .plugin(
            tauri_plugin_opener::Builder::new()
                .open_js_links_on_click(false)
                .build(),
        )
        .plugin(
            tauri_plugin_autostart::Builder::new()
                .arg(arguments::HIDDEN)
                .build(),
        )
        .plugin(
            tauri_plugin_global_shortcut::Builder::new()
                .with_handler(|app, _, event| on_hotkey(app, event.state))
                .build(),
        );
    #[cfg(target_os = "macos")]
    let app = app.plugin(tauri_nspanel::init());
    let app = app
        .invoke_handler(commands!(answers))
        .on_window_event(on_window_event)
        .setup(move |app| {
            let app = app.handle();
            app.manage(Shell::new(app.clone(), data_folder));
            set_up(app, arguments::wish(&arguments));
            Ok(())
        })
        .build(context)?;
    app.run(on_run_event);
    Ok(())
}

fn set_up(app: &AppHandle, wish: Wish) {
    // Else the Dock shows an icon until the settings are read.
    #[cfg(target_os = "macos")]
    let _ = app.set_activation_policy(tauri::ActivationPolicy::Accessory);
    let shell = app.state::<Shell>();
    let words = Words::new(None, &shell.languages);
    let now = tray::menu::Now {
        status: &status_view::nothing(),
        settings: &Settings::default(),
        names: &Names::new(),
        downloads: &[],
    };
    let view = tray::menu::view(&now, &words);
    let has_tray = match tray::put_up(app, &view) {
        Ok(()) => true,
        Err(reason) => {
            tracing::warn!(reason, "there is no icon");
            false
        }
    };
    // Elsewhere a link is an argument of a second start.
    #[cfg(target_os = "macos")]
    app.deep_link().on_open_url({
        let app = app.clone();
        move |event| {
            for url in event.urls() {
                if let Some(wish) = arguments::link(url.as_str()) {
                    grant(&app, wish);
                }
            }
        }
    });
    grant(app, with_a_way_in(wish, has_tray));
    tauri::async_runtime::spawn(open(app.clone()));
    #[cfg(unix)]
    tauri::async_runtime::spawn(end_on_signals(app.clone()));
}

/// Without an icon nobody could find an app that shows no window.
fn with_a_way_in(wish: Wish, has_tray: bool) -> Wish {
    match (wish, has_tray) {
        (Wish::Icon, false) => Wish::Show {
            window: Window::Chat,
            pane: None,
        },
        (wish, _) => wish,
    }
}

/// Does what a start or a link asks for.
fn grant(app: &AppHandle, wish: Wish) {
    match wish {
        Wish::Icon => {}
        Wish::Show { window, pane } => {
            let shown = News::Shown {
                window,
                conversation: None,
                pane,
            };
            windows::show(app, window, shown);
        }
        Wish::Compose(text) => {
            windows::show(app, Window::Chat, windows::shown(Window::Chat));
            let shell = app.state::<Shell>();
            shell.pages.tell(app, Window::Chat, News::Compose { text });
        }
    }
}

/// Opens the rooms, and tells of the status until the app ends.
async fn open(app: AppHandle) {
    let shell = app.state::<Shell>();
    let tell = {
        let app = app.clone();
        move |happening| on_happening(&app, happening)
    };
    let on_list = {
        let app = app.clone();
        move || app.state::<Shell>().tell(&News::Catalogue)
    };
    let on_models = {
        let app = app.clone();
        move || of_models::changed(&app)
    };
    let (rooms, notices) = Rooms::open(&shell.data_folder, tell, on_list, on_models).await;
    let rooms = Arc::new(rooms);
    shell.opened(rooms.clone());
    tauri::async_runtime::spawn(tell_downloads(app.clone(), rooms.clone()));
    for notice in notices {
        shell.notice(notice);
    }
    of_app::apply(&app, None, &rooms.settings());
    tracing::info!("open");
    tell_status(&app, &rooms).await;
}

/// News of the status as it changes, at most one each [`STATUS_PACE`]; while nothing changes, this
/// waits. A supervisor that goes away is replaced, also this app's own, which ends before the app only
/// by a fault.
async fn tell_status(app: &AppHandle, rooms: &Rooms) {
    let shell = app.state::<Shell>();
    loop {
        let mut changes = rooms.handle().status();
        loop {
            let view = status_view::of(&changes.borrow_and_update().clone(), rooms.is_guest());
            if shell.set_status(view.clone()) {
                shell.tell(&News::Status {
                    status: Box::new(view),
                });
                draw_tray(app);
            }
            tokio::time::sleep(STATUS_PACE).await;
            if changes.changed().await.is_err() {
                break;
            }
        }
        let was_guest = rooms.is_guest();
        tracing::info!(was_guest, "the supervisor went away");
        let Some(notices) = rooms.reconnect().await else {
            return;
        };
        if !was_guest {
            let detail = "The part of Transom that runs models failed and was started again.";
            shell.notice(News::notice("other", detail));
        }
        for notice in notices {
            shell.notice(notice);
        }
    }
}

/// Goes on with the downloads, and tells of them as they change.
async fn tell_downloads(app: AppHandle, rooms: Arc<Rooms>) {
    // Before the queue is opened: what it has from the last time is a change as well.
    let mut changes = rooms.shelf.downloads();
    if let Err(error) = rooms.shelf.begin().await {
        // Whoever wants a model is told; nobody else need know.
        tracing::warn!(%error, "downloads cannot go on");
    }
    let shell = app.state::<Shell>();
    let mut n_done = 0;
    while changes.changed().await.is_ok() {
        changes.borrow_and_update();
        let Ok(downloads) = of_catalogue::download_views(&rooms).await else {
            continue;
        };
        let is_done = |one: &&DownloadView| matches!(one.state, DownloadState::Done { .. });
        let done = downloads.iter().filter(is_done).count();
        shell.set_downloads(downloads.clone());
        shell.tell(&News::Downloads { downloads });
        if std::mem::replace(&mut n_done, done) < done {
            shell.tell(&News::Models);
        }
        draw_tray(&app);
    }
}

fn on_happening(app: &AppHandle, happening: Happening) {
    match happening {
        Happening::Conversation { .. } => conversations_changed(app),
        Happening::Unsaved { reason, .. } => {
            tracing::error!(reason, "an answer cannot be saved");
            app.state::<Shell>().notice(News::notice("unsaved", reason));
        }
        Happening::Saved { .. } => tracing::info!("the answer could be saved after all"),
    }
}

/// Draws the icon and its menu as they should be now, if they are not.
pub(crate) fn draw_tray(app: &AppHandle) {
    let shell = app.state::<Shell>();
    let (settings, names) = match shell.rooms_now() {
        Some(rooms) => (rooms.settings(), rooms.names()),
        None => Default::default(),
    };
    let words = Words::new(settings.general.language.as_deref(), &shell.languages);
    let now = tray::menu::Now {
        status: &shell.status(),
        settings: &settings,
        names: &names,
        downloads: &shell.downloads(),
    };
    let view = tray::menu::view(&now, &words);
    let on_main = app.clone();
    let _ = app.run_on_main_thread(move || tray::update(&on_main, &view));
}

fn on_hotkey(app: &AppHandle, state: ShortcutState) {
    let shell = app.state::<Shell>();
    let now = Instant::now();
    match state {
        ShortcutState::Pressed if shell.presses(|presses| presses.is_new(now)) => {
            windows::toggle(app, Window::Prompt);
        }
        ShortcutState::Pressed => {}
        ShortcutState::Released => shell.presses(|presses| presses.released(now)),
    }
}

fn on_window_event(window: &tauri::Window, event: &WindowEvent) {
    let Some(which) = Window::of_label(window.label()) else {
        return;
    };
    if let WindowEvent::DragDrop(event) = event {
        dropped::on_event(window.app_handle(), which, event);
    }
    windows::on_event(window.app_handle(), which, event);
}

fn on_run_event(app: &AppHandle, event: RunEvent) {
    match event {
        // The last window was closed, which is no reason to end.
        RunEvent::ExitRequested {
            code: None, api, ..
        } => api.prevent_exit(),
        // Where the system ends the app, as at a logout.
        RunEvent::Exit => tauri::async_runtime::block_on(shell::close(app)),
        #[cfg(target_os = "macos")]
        RunEvent::Reopen { .. } => {
            windows::show(app, Window::Chat, windows::shown(Window::Chat));
        }
        _ => {}
    }
}

#[cfg(unix)]
async fn end_on_signals(app: AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut end), Ok(mut interrupt), Ok(mut hangup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        return;
    };
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    app.state::<Shell>().quit();
}

/// The system's shortcuts.
pub(crate) struct SystemRegistry(pub(crate) AppHandle);

impl Registry for SystemRegistry {
    fn register(&self, shortcut: Shortcut) -> Result<(), String> {
        let registered = self.0.global_shortcut().register(shortcut);
        registered.map_err(|error| error.to_string())
    }

    fn unregister(&self, shortcut: Shortcut) -> Result<(), String> {
        let done = self.0.global_shortcut().unregister(shortcut);
        done.map_err(|error| error.to_string())
    }
}
