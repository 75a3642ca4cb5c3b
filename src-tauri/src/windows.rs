//! The three windows: created when needed, shown, hidden and destroyed.
//!
//! Rule: windows are used on the main thread only. The lock is never held during a call to a
//! window, because the call reports its changes before it returns.

mod build;
mod dock;
mod prompt;
mod record;

use std::time::{Duration, Instant};

use tauri::{AppHandle, DragDropEvent, Manager, PhysicalPosition, PhysicalSize, WebviewWindow};
use tokio::sync::oneshot::Receiver;

use crate::deletion;
use crate::desktop::{Desktop, Monitor, Unit};
use crate::idle_memory;
use crate::insertion;
use crate::placement::{self, Rect, Size};
use crate::shell::Shell;
use crate::visibility::{
    AfterBlur, BLUR_GRACE, CHAT_DESTROY_DELAY, Visibility, is_panel, is_pinned,
};
use crate::wire::{AppEvent, Window};
use crate::zoom::scale;
pub(crate) use dock::update_dock;
pub(crate) use prompt::prepare_prompt;
use record::{record, record_later};

/// A page that does not report that it is ready is shown after this time, so that the user sees
/// that something is wrong.
const READY_TIMEOUT: Duration = Duration::from_millis(2500);

/// Time for the system to destroy a window, or to hide the windows of an app that leaves the Dock.
const SYSTEM_DELAY: Duration = Duration::from_millis(50);

/// Shows a window, created if necessary, and sends `shown` to its page.
pub(crate) fn show(app: &AppHandle, window: Window, shown: AppEvent) {
    on_main_thread(app, move |app| {
        if let Err(error) = show_now(app, window, shown) {
            tracing::error!(%error, window = window.label(), "a window could not be shown");
        }
    });
}

/// Shows or hides a window, for a press of the icon or the shortcut.
pub(crate) fn toggle(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| {
        let pages = &app.state::<Shell>().pages;
        match pages.visibility(window).shows_on_toggle(Instant::now()) {
            true => show(app, window, AppEvent::shown(window, None)),
            false => hide(app, window),
        }
    });
}

/// Hides a window at the user's request and restores the focus.
pub(crate) fn hide(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| hide_now(app, window, false));
}

/// Sets the height of the quick prompt in points of its page, before the zoom. Its top edge stays
/// if the screen allows.
pub(crate) fn fit_prompt(app: &AppHandle, height: f64) {
    on_main_thread(app, move |app| {
        app.state::<Shell>().frames.fit_prompt(height);
        if let Some(found) = visible(app, Window::Prompt) {
            set_bounds(app, Window::Prompt, &found);
        }
    });
}

/// Applies the zoom of the settings to all windows.
pub(crate) fn zoom(app: &AppHandle) {
    on_main_thread(app, |app| {
        for window in Window::ALL {
            if let Some(found) = app.get_webview_window(window.label()) {
                set_zoom(app, &found);
            }
        }
        if let Some(found) = visible(app, Window::Prompt) {
            set_bounds(app, Window::Prompt, &found);
        }
    });
}

fn set_zoom(app: &AppHandle, found: &WebviewWindow) {
    if let Err(error) = found.set_zoom(scale(app.state::<Shell>().general().zoom)) {
        tracing::warn!(%error, "the zoom could not be set");
    }
}

/// Moves the chat to the form of the settings, if it is visible.
pub(crate) fn change_chat_form(app: &AppHandle) {
    let pages = &app.state::<Shell>().pages;
    if pages.visibility(Window::Chat).is_visible {
        move_chat(app);
    }
}

/// Asks the chat's page to show itself in the form of the settings, because only the page knows its
/// conversation. Returns false if it was asked before or is not ready.
fn move_chat(app: &AppHandle) -> bool {
    let shell = app.state::<Shell>();
    let to_panel = is_panel(Window::Chat, shell.frames.is_chat_in_window());
    let begins = shell.pages.begins_move(to_panel);
    if begins {
        shell
            .pages
            .send(app, Window::Chat, AppEvent::ChatFormChanged);
    }
    begins
}

/// Handles a page that is drawn and accepts keys.
pub(crate) fn ready(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| {
        let shell = app.state::<Shell>();
        let should_show = shell.pages.ready(app, window);
        if should_show && let Some(found) = app.get_webview_window(window.label()) {
            bring_to_screen(app, window, &found);
        }
    });
}

/// Handles an event of a window.
pub(crate) fn on_event(app: &AppHandle, window: Window, event: &tauri::WindowEvent) {
    let shell = app.state::<Shell>();
    let now = Instant::now();
    match event {
        tauri::WindowEvent::Focused(is_focused) => {
            shell
                .pages
                .change(window, |visibility| visibility.focused(*is_focused, now));
            if !is_focused && shell.pages.is_panel(window) {
                hide_if_still_blurred(app, window);
            }
        }
        tauri::WindowEvent::DragDrop(event) => {
            use DragDropEvent::{Enter, Over};
            let is_over = matches!(event, Enter { .. } | Over { .. });
            let pages = &shell.pages;
            pages.change(window, |visibility| visibility.is_dragged_over = is_over);
        }
        tauri::WindowEvent::CloseRequested { api, .. } => {
            api.prevent_close();
            hide(app, window);
        }
        tauri::WindowEvent::Resized(_) | tauri::WindowEvent::Moved(_)
            if shell.pages.visibility(window).is_visible =>
        {
            record_later(app, window);
        }
        tauri::WindowEvent::Destroyed => {
            shell.pages.removed(window);
            shell.followers.stop_all_of(window);
            shell.frames.save();
            update_dock(app);
        }
        _ => {}
    }
}

/// Raises and focuses a visible window.
pub(crate) fn raise(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| {
        if let Some(found) = visible(app, window)
            && let Err(error) = build::present(&found, app.state::<Shell>().pages.is_panel(window))
        {
            tracing::warn!(%error, window = window.label(), "a window could not be raised");
        }
    });
}

/// Keeps `window` visible while a system dialog has the focus, until the returned guard is dropped.
pub(crate) fn keep_open(app: &AppHandle, window: Window) -> KeepOpen {
    let pages = &app.state::<Shell>().pages;
    pages.change(window, |visibility| visibility.n_dialogs += 1);
    KeepOpen(app.clone(), window)
}

/// See [`keep_open`].
pub(crate) struct KeepOpen(AppHandle, Window);

impl Drop for KeepOpen {
    fn drop(&mut self) {
        let pages = &self.0.state::<Shell>().pages;
        pages.change(self.1, |visibility| {
            visibility.n_dialogs = visibility.n_dialogs.saturating_sub(1);
        });
    }
}

/// Returns a window if it is visible.
fn visible(app: &AppHandle, window: Window) -> Option<WebviewWindow> {
    let pages = &app.state::<Shell>().pages;
    let found = app.get_webview_window(window.label());
    found.filter(|_| pages.visibility(window).is_visible)
}

fn on_main_thread(app: &AppHandle, work: impl FnOnce(&AppHandle) + Send + 'static) {
    let on = app.clone();
    if let Err(error) = app.run_on_main_thread(move || work(&on)) {
        // Only while the app is quitting.
        tracing::debug!(%error, "the main thread has ended");
    }
}

/// Runs `work` on the main thread after a delay.
fn later(app: &AppHandle, delay: Duration, work: impl FnOnce(&AppHandle) + Send + 'static) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        tokio::time::sleep(delay).await;
        on_main_thread(&app, work);
    });
}

fn show_now(app: &AppHandle, window: Window, shown: AppEvent) -> tauri::Result<()> {
    let shell = app.state::<Shell>();
    let is_panel = is_panel(window, shell.frames.is_chat_in_window());
    if let Some(found) = app.get_webview_window(window.label())
        && shell.pages.is_panel(window) != is_panel
    {
        // The user chose the other form of the chat.
        let is_for_any = matches!(
            &shown,
            AppEvent::Shown {
                conversation: None,
                ..
            }
        );
        if is_for_any && move_chat(app) {
            return Ok(());
        }
        record(app, window);
        shell.pages.ended(window);
        found.destroy()?;
        // Until it is destroyed, its label is taken.
        later(app, SYSTEM_DELAY, move |app| show(app, window, shown));
        return Ok(());
    }
    if window == Window::Prompt {
        insertion::remember(app);
    }
    if shell.pages.focused().is_none() {
        shell.focus.remember(window);
    }
    if window == Window::Chat && shell.pages.visibility(Window::Prompt).is_visible {
        shell.focus.transfer(Window::Prompt, Window::Chat);
        if !is_pinned(Window::Prompt, &shell.general()) {
            hide_now(app, Window::Prompt, true);
        }
    }
    shell.pages.send(app, window, shown);
    let Some(found) = app.get_webview_window(window.label()) else {
        create(app, window, is_panel)?;
        shell.pages.show_when_ready(window);
        return Ok(());
    };
    match shell.pages.can_be_shown(window) {
        true => bring_to_screen(app, window, &found),
        false => shell.pages.show_when_ready(window),
    }
    Ok(())
}

/// Creates a hidden window, and stops waiting for its page after a while.
fn create(app: &AppHandle, window: Window, is_panel: bool) -> tauri::Result<()> {
    let shell = app.state::<Shell>();
    let size = shell.frames.size(window, is_panel);
    let built = build::build(app, window, is_panel, size, &shell.data_folder)?;
    set_zoom(app, &built);
    let waiting = shell.pages.created(window, is_panel);
    time_out_later(app.clone(), window, waiting);
    Ok(())
}

/// Shows a window whose page does not become ready in time.
fn time_out_later(app: AppHandle, window: Window, waiting: Receiver<()>) {
    tauri::async_runtime::spawn(async move {
        if tokio::time::timeout(READY_TIMEOUT, waiting).await.is_ok() {
            return;
        }
        on_main_thread(&app, move |app| {
            let is_late = app.state::<Shell>().pages.time_out(window);
            if let (Some(found), true) = (app.get_webview_window(window.label()), is_late) {
                tracing::warn!(
                    window = window.label(),
                    "the page did not report that it is ready"
                );
                bring_to_screen(app, window, &found);
            }
        });
    });
}

/// Positions, shows and focuses an existing window.
fn bring_to_screen(app: &AppHandle, window: Window, found: &WebviewWindow) {
    let shell = app.state::<Shell>();
    let is_visible = shell.pages.visibility(window).is_visible;
    let is_panel = shell.pages.is_panel(window);
    if !is_visible {
        set_bounds(app, window, found);
        if !is_panel
            && shell.frames.is_maximized(window)
            && let Err(error) = found.maximize()
        {
            tracing::warn!(%error, "a window could not be maximized");
        }
    }
    shell.pages.change(window, Visibility::shown);
    update_dock(app);
    if let Err(error) = build::present(found, is_panel) {
        tracing::error!(%error, "a window could not be shown");
    }
    if !is_visible {
        // Some window systems move a window when it appears.
        if let (Some(at), true) = (bounds_of(app, window), is_panel) {
            let _ = found.set_position(Unit::NATIVE.position(at));
        }
    }
    shell.send_status(window);
}

/// Sets the size and position of a window.
fn set_bounds(app: &AppHandle, window: Window, found: &WebviewWindow) {
    let Some(at) = bounds_of(app, window) else {
        return;
    };
    let placed = build::resize(window, found, Unit::NATIVE.size(at))
        .and_then(|()| found.set_position(Unit::NATIVE.position(at)));
    if let Err(error) = placed {
        tracing::warn!(%error, "a window could not be placed");
    }
}

fn bounds_of(app: &AppHandle, window: Window) -> Option<Rect> {
    let shell = app.state::<Shell>();
    let is_panel = shell.pages.is_panel(window);
    let mut size = shell.frames.size(window, is_panel);
    if window == Window::Prompt {
        // Its page sets its height, in units of the page.
        let scale = scale(shell.general().zoom);
        size = Size {
            width: size.width * scale,
            height: size.height * scale,
        };
    }
    let desktop = desktop(app);
    let screen = desktop.screen_with_pointer()?;
    Some(match window {
        _ if !is_panel => shell
            .frames
            .position(window, is_panel)
            .and_then(|at| placement::remembered(at, size, &desktop.screens))
            .unwrap_or_else(|| placement::middle(size, &screen)),
        Window::Chat => desktop
            .icon
            .and_then(|icon| placement::under_icon(icon, size, &desktop.screens))
            .unwrap_or_else(|| placement::corner(size, &screen)),
        Window::Prompt | Window::Settings => placement::upper_third(size, &screen),
    })
}

fn desktop(app: &AppHandle) -> Desktop {
    let primary = app.primary_monitor().ok().flatten();
    let primary = primary.map(|monitor| *monitor.position());
    let monitors = app.available_monitors().unwrap_or_default();
    let monitors = monitors.iter().map(|monitor| {
        let area = monitor.work_area();
        Monitor {
            whole: rect(*monitor.position(), *monitor.size()),
            area: rect(area.position, area.size),
            scale: monitor.scale_factor(),
            is_primary: primary == Some(*monitor.position()),
        }
    });
    let monitors: Vec<Monitor> = monitors.collect();
    let pointer = app.cursor_position().ok();
    let pointer = pointer.map(|at| (at.x as i32, at.y as i32));
    Desktop::from_system(Unit::NATIVE, &monitors, pointer, icon_rect(app))
}

fn rect(position: PhysicalPosition<i32>, size: PhysicalSize<u32>) -> Rect {
    Rect {
        x: position.x,
        y: position.y,
        width: i32::try_from(size.width).unwrap_or(i32::MAX),
        height: i32::try_from(size.height).unwrap_or(i32::MAX),
    }
}

/// Returns the icon's position, if the system reports it.
fn icon_rect(app: &AppHandle) -> Option<Rect> {
    let tray = app.tray_by_id(crate::tray::ID)?;
    let found = tray.rect().ok()??;
    let found = rect(found.position.to_physical(1.0), found.size.to_physical(1.0));
    (found.width > 0).then_some(found)
}

fn hide_now(app: &AppHandle, window: Window, is_automatic: bool) {
    let shell = app.state::<Shell>();
    let Some(found) = app.get_webview_window(window.label()) else {
        return;
    };
    record(app, window);
    shell.frames.save();
    let is_panel = shell.pages.is_panel(window);
    shell.pages.change(window, |visibility| {
        visibility.hidden(is_automatic, Instant::now())
    });
    let done = match window {
        Window::Settings => found.destroy(),
        Window::Chat | Window::Prompt => build::put_away(&found, is_panel),
    };
    if let Err(error) = done {
        tracing::warn!(%error, window = window.label(), "a window could not be hidden");
    }
    if !is_automatic {
        let is_visible = |window| shell.pages.visibility(window).is_visible;
        let is_last = !Window::ALL.into_iter().any(is_visible);
        shell.focus.restore(app, window, is_panel, is_last);
    }
    if window == Window::Chat {
        update_dock(app);
        let handle = app.clone();
        tauri::async_runtime::spawn(async move { deletion::finish(&handle).await });
        destroy_chat_later(app);
    }
}

fn hide_if_still_blurred(app: &AppHandle, window: Window) {
    later(app, BLUR_GRACE, move |app| {
        let shell = app.state::<Shell>();
        let Some(found) = app.get_webview_window(window.label()) else {
            return;
        };
        let is_pinned = is_pinned(window, &shell.general());
        let is_button_down = build::is_button_down(&found);
        let visibility = shell.pages.visibility(window);
        match visibility.after_blur(is_pinned, is_button_down, Instant::now()) {
            AfterBlur::Hide => hide_now(app, window, true),
            AfterBlur::CheckAgain => hide_if_still_blurred(app, window),
            AfterBlur::Stay => {}
        }
    });
}

/// Destroys the chat window after it was hidden for long: its process takes a third of the idle
/// app's memory.
fn destroy_chat_later(app: &AppHandle) {
    later(app, CHAT_DESTROY_DELAY, |app| {
        let visibility = app.state::<Shell>().pages.visibility(Window::Chat);
        if visibility.should_destroy(CHAT_DESTROY_DELAY, Instant::now())
            && let Some(chat) = app.get_webview_window(Window::Chat.label())
        {
            tracing::info!("the chat window was hidden for long and is destroyed");
            let _ = chat.destroy();
            idle_memory::release();
        }
    });
}
