//! The three windows: made when they are first needed, shown, hidden, and let go.
//!
//! Rule: windows are touched on the main thread only, and the lock here is never held while one is,
//! because a window tells of its changes from within the call that changes it.

mod build;
mod pages;
mod sizes;

use std::time::{Duration, Instant};

use tauri::{
    AppHandle, DragDropEvent, LogicalSize, Manager, PhysicalPosition, PhysicalRect, PhysicalSize,
    WebviewWindow,
};

use crate::desktop::{Desktop, Monitor, Unit};
use crate::place::{self, Rect, Size};
use crate::shell::Shell;
use crate::showing::{AfterBlur, BLUR_GRACE, CHAT_KEPT, Showing};
use crate::wire::{News, Window};
pub(crate) use pages::Pages;
pub(crate) use sizes::Sizes;

/// A page that says nothing of itself is shown after this long, so that a person sees that
/// something is wrong.
const SHOWN_ANYWAY: Duration = Duration::from_millis(2500);

impl Window {
    /// The windows that there can be.
    pub(crate) const ALL: [Self; 3] = [Self::Chat, Self::Prompt, Self::Settings];

    /// Its name in Tauri, which capabilities go by.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Prompt => "prompt",
            Self::Settings => "settings",
        }
    }

    /// The window of a name.
    pub(crate) fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.label() == label)
    }

    /// Points, when nobody has chosen.
    fn default_size(self) -> Size {
        let (width, height) = match self {
            Self::Chat => (440.0, 660.0),
            Self::Prompt => (680.0, 420.0),
            Self::Settings => (780.0, 600.0),
        };
        Size { width, height }
    }
}

/// Shows a window and tells its page so; it is made if it is not there.
pub(crate) fn show(app: &AppHandle, window: Window, shown: News) {
    on_main_thread(app, move |app| {
        if let Err(error) = show_now(app, window, shown) {
            tracing::error!(%error, window = window.label(), "a window could not be shown");
        }
    });
}

/// As a press of the icon or of the hotkey does: shows the window, or hides it.
pub(crate) fn toggle(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| {
        let pages = &app.state::<Shell>().pages;
        match pages.showing(window).toggle_shows(Instant::now()) {
            true => show(app, window, shown(window)),
            false => hide(app, window),
        }
    });
}

/// What a window is told that is only to come to the front.
pub(crate) fn shown(window: Window) -> News {
    News::Shown {
        window,
        conversation: None,
        pane: None,
    }
}

/// Hides a window because somebody said so, and gives the focus back to where it was.
pub(crate) fn hide(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| hide_now(app, window, false));
}

/// Makes the quick prompt as high as what it shows, in points. Its upper edge stays, as far as the
/// screen allows.
pub(crate) fn fit_prompt(app: &AppHandle, height: f64) {
    on_main_thread(app, move |app| {
        let shell = app.state::<Shell>();
        shell.sizes.fit_prompt(height);
        let found = app.get_webview_window(Window::Prompt.label());
        if let (Some(found), true) = (found, shell.pages.showing(Window::Prompt).is_visible) {
            put_in_place(app, Window::Prompt, &found);
        }
    });
}

/// The page of a window is drawn and takes keys.
pub(crate) fn ready(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| {
        let shell = app.state::<Shell>();
        let is_wanted = shell.pages.ready(app, window);
        if is_wanted && let Some(found) = app.get_webview_window(window.label()) {
            bring_up(app, window, &found);
        }
    });
}

/// Tells of what the system says about a window.
pub(crate) fn on_event(app: &AppHandle, window: Window, event: &tauri::WindowEvent) {
    let shell = app.state::<Shell>();
    let now = Instant::now();
    match event {
        tauri::WindowEvent::Focused(is_focused) => {
            shell
                .pages
                .change(window, |showing| showing.focused(*is_focused, now));
            if !is_focused && window != Window::Settings {
                hide_unless_it_comes_back(app.clone(), window);
            }
        }
        tauri::WindowEvent::DragDrop(event) => {
            let is_over = matches!(
                event,
                DragDropEvent::Enter { .. } | DragDropEvent::Over { .. }
            );
            shell
                .pages
                .change(window, |showing| showing.is_dragged_over = is_over);
        }
        tauri::WindowEvent::CloseRequested { api, .. } if window != Window::Settings => {
            api.prevent_close();
            hide(app, window);
        }
        tauri::WindowEvent::Resized(size) if shell.pages.showing(window).is_visible => {
            let scale = app
                .get_webview_window(window.label())
                .and_then(|found| found.scale_factor().ok());
            let size: LogicalSize<f64> = size.to_logical(scale.unwrap_or(1.0));
            let (width, height) = (size.width, size.height);
            shell.sizes.remember(window, Size { width, height });
        }
        tauri::WindowEvent::Destroyed => {
            shell.pages.gone(window);
            shell.followers.leave(window);
            shell.sizes.save();
        }
        _ => {}
    }
}

/// Brings a window that is on the screen to the front and gives it the keys.
pub(crate) fn raise(app: &AppHandle, window: Window) {
    on_main_thread(app, move |app| {
        let is_visible = app.state::<Shell>().pages.showing(window).is_visible;
        let found = app.get_webview_window(window.label());
        if let (Some(found), true) = (found, is_visible)
            && let Err(error) = build::present(window, &found)
        {
            tracing::warn!(%error, window = window.label(), "a window stays behind");
        }
    });
}

/// A dialog of the system is open on behalf of `window` while the result lives: the window does not
/// hide when the dialog takes the focus.
pub(crate) fn hold(app: &AppHandle, window: Window) -> Held {
    app.state::<Shell>()
        .pages
        .change(window, |showing| showing.n_dialogs += 1);
    Held(app.clone(), window)
}

/// See [`hold`].
pub(crate) struct Held(AppHandle, Window);

impl Drop for Held {
    fn drop(&mut self) {
        let shell = self.0.state::<Shell>();
        let ended = |showing: &mut Showing| showing.n_dialogs = showing.n_dialogs.saturating_sub(1);
        shell.pages.change(self.1, ended);
    }
}

/// Whether a person sees any window now.
pub(crate) fn any_visible(app: &AppHandle) -> bool {
    let pages = &app.state::<Shell>().pages;
    Window::ALL
        .into_iter()
        .any(|window| pages.showing(window).is_visible)
}

fn on_main_thread(app: &AppHandle, work: impl FnOnce(&AppHandle) + Send + 'static) {
    let on = app.clone();
    if let Err(error) = app.run_on_main_thread(move || work(&on)) {
        // Only when the app is ending.
        tracing::debug!(%error, "the main thread takes no more work");
    }
}

fn show_now(app: &AppHandle, window: Window, shown: News) -> tauri::Result<()> {
    let shell = app.state::<Shell>();
    let has_focus = |window| shell.pages.showing(window).has_focus();
    if !Window::ALL.into_iter().any(has_focus) {
        shell.focus.remember(window);
    }
    if window == Window::Chat && shell.pages.showing(Window::Prompt).is_visible {
        shell.focus.pass_on(Window::Prompt, Window::Chat);
        hide_now(app, Window::Prompt, true);
    }
    shell.pages.tell(app, window, shown);
    if let Some(found) = app.get_webview_window(window.label()) {
        if shell.pages.can_be_shown(window) {
            bring_up(app, window, &found);
        }
        return Ok(());
    }
    build::build(app, window, shell.sizes.of(window), &shell.data_folder)?;
    shell.pages.made(window);
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        tokio::time::sleep(SHOWN_ANYWAY).await;
        on_main_thread(&app, move |app| {
            let pages = &app.state::<Shell>().pages;
            let found = app.get_webview_window(window.label());
            if let (Some(found), true) = (found, pages.give_up(window)) {
                tracing::warn!(window = window.label(), "the page says nothing");
                bring_up(app, window, &found);
            }
        });
    });
    Ok(())
}

/// Puts a window that is there in its place, on the screen, and under the keys.
fn bring_up(app: &AppHandle, window: Window, found: &WebviewWindow) {
    let shell = app.state::<Shell>();
    let is_visible = shell.pages.showing(window).is_visible;
    if !is_visible {
        put_in_place(app, window, found);
    }
    shell.pages.change(window, Showing::shown);
    if let Err(error) = build::present(window, found) {
        tracing::error!(%error, "a window stays hidden");
    }
    if !is_visible {
        // Some window systems place a window anew when it appears.
        if let (Some(at), false) = (place_of(app, window), window == Window::Settings) {
            let _ = found.set_position(Unit::HERE.position(at));
        }
    }
    shell.tell_status(window);
}

/// Gives a window the size and the place that it is to have.
fn put_in_place(app: &AppHandle, window: Window, found: &WebviewWindow) {
    let Some(at) = place_of(app, window) else {
        return;
    };
    let placed = build::resize(window, found, Unit::HERE.size(at))
        .and_then(|()| found.set_position(Unit::HERE.position(at)));
    if let Err(error) = placed {
        tracing::warn!(%error, "a window keeps its place");
    }
}

fn place_of(app: &AppHandle, window: Window) -> Option<Rect> {
    let shell = app.state::<Shell>();
    let size = shell.sizes.of(window);
    let desktop = desktop(app);
    let screen = desktop.screen_with_pointer()?;
    match window {
        Window::Chat => {
            let icon = desktop.icon;
            let under = icon.and_then(|icon| place::under_icon(icon, size, &desktop.screens));
            under.or_else(|| Some(place::corner(size, &screen)))
        }
        Window::Prompt => Some(place::upper_third(size, &screen)),
        Window::Settings => Some(place::middle(size, &screen)),
    }
}

fn desktop(app: &AppHandle) -> Desktop {
    let primary = app.primary_monitor().ok().flatten();
    let primary = primary.map(|monitor| *monitor.position());
    let monitors = app.available_monitors().unwrap_or_default();
    let monitors: Vec<Monitor> = monitors
        .iter()
        .map(|monitor| Monitor {
            whole: rect(*monitor.position(), *monitor.size()),
            area: {
                let PhysicalRect { position, size } = *monitor.work_area();
                rect(position, size)
            },
            scale: monitor.scale_factor(),
            is_primary: primary == Some(*monitor.position()),
        })
        .collect();
    let pointer = app.cursor_position().ok();
    let pointer = pointer.map(|at| (at.x as i32, at.y as i32));
    Desktop::of(Unit::HERE, &monitors, pointer, icon_rect(app))
}

fn rect(position: PhysicalPosition<i32>, size: PhysicalSize<u32>) -> Rect {
    Rect {
        x: position.x,
        y: position.y,
        width: i32::try_from(size.width).unwrap_or(i32::MAX),
        height: i32::try_from(size.height).unwrap_or(i32::MAX),
    }
}

/// Where the icon is, on systems that say so.
fn icon_rect(app: &AppHandle) -> Option<Rect> {
    let tray = app.tray_by_id(crate::tray::ID)?;
    let found = tray.rect().ok()??;
    let found = rect(found.position.to_physical(1.0), found.size.to_physical(1.0));
    (found.width > 0).then_some(found)
}

fn hide_now(app: &AppHandle, window: Window, by_itself: bool) {
    let shell = app.state::<Shell>();
    let Some(found) = app.get_webview_window(window.label()) else {
        return;
    };
    shell.sizes.save();
    shell
        .pages
        .change(window, |showing| showing.hidden(by_itself, Instant::now()));
    let done = match window {
        Window::Settings => found.destroy(),
        Window::Chat | Window::Prompt => build::put_away(window, &found),
    };
    if let Err(error) = done {
        tracing::warn!(%error, window = window.label(), "a window could not be hidden");
    }
    if !by_itself {
        shell.focus.restore(app, window, !any_visible(app));
    }
    if window == Window::Chat {
        let_go_later(app.clone());
    }
}

fn hide_unless_it_comes_back(app: AppHandle, window: Window) {
    tauri::async_runtime::spawn(async move {
        tokio::time::sleep(BLUR_GRACE).await;
        on_main_thread(&app, move |app| {
            let shell = app.state::<Shell>();
            let Some(found) = app.get_webview_window(window.label()) else {
                return;
            };
            let is_pinned = window == Window::Chat && shell.is_chat_pinned();
            let is_button_down = build::is_button_down(&found);
            let showing = shell.pages.showing(window);
            match showing.after_blur(is_pinned, is_button_down, Instant::now()) {
                AfterBlur::Hide => hide_now(app, window, true),
                AfterBlur::LookAgain => hide_unless_it_comes_back(app.clone(), window),
                AfterBlur::Stay => {}
            }
        });
    });
}

/// Lets the chat go when it was hidden for long: its process is a third of the idle app's memory.
fn let_go_later(app: AppHandle) {
    tauri::async_runtime::spawn(async move {
        tokio::time::sleep(CHAT_KEPT).await;
        on_main_thread(&app, |app| {
            let shell = app.state::<Shell>();
            let is_due = shell
                .pages
                .showing(Window::Chat)
                .is_due(CHAT_KEPT, Instant::now());
            if let (true, Some(chat)) = (is_due, app.get_webview_window(Window::Chat.label())) {
                tracing::info!("the chat window was hidden for long, and is let go");
                let _ = chat.destroy();
            }
        });
    });
}
