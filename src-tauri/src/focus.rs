//! Remembers the focused window of another program, so that the focus can return there.
//!
//! On a Mac, panels leave the other program active, so only the whole app has to hide. On X11,
//! requests go to the window manager, as from a pager. Wayland offers no such function.

use std::sync::Mutex;

use tauri::AppHandle;

use crate::lock;
use crate::wire::Window;
#[cfg(not(target_os = "macos"))]
pub(crate) use platform::{
    X11Result, active, property, restore_to, take_focus, take_focus_when_shown,
};

#[derive(Debug, Default)]
pub(crate) struct Focus {
    /// Our window that took the focus, and the window that had it before.
    before: Mutex<Option<(Window, Option<u32>)>>,
}

impl Focus {
    /// Remembers the focused window before `window` takes the focus from another program.
    pub(crate) fn remember(&self, window: Window) {
        *lock(&self.before) = Some((window, platform::active()));
    }

    /// Transfers the remembered focus from window `from` to window `to`.
    pub(crate) fn transfer(&self, from: Window, to: Window) {
        if let Some((by, _)) = lock(&self.before).as_mut()
            && *by == from
        {
            *by = to;
        }
    }

    /// Restores the focus after `window` was hidden, once, if it took the focus or was our last
    /// window.
    pub(crate) fn restore(&self, app: &AppHandle, window: Window, is_panel: bool, is_last: bool) {
        let took = lock(&self.before).take_if(|(by, _)| is_last || *by == window);
        if took.is_some() || is_last {
            let active = took.and_then(|(_, active)| active);
            platform::restore(app, active, steps_back(is_last, is_panel));
        }
    }
}

/// Returns true if the previous app should become active because our last window was hidden. Panels
/// leave it active, and after a panel a hidden app could not show the next one.
fn steps_back(is_last: bool, is_panel: bool) -> bool {
    is_last && !is_panel
}

#[cfg(target_os = "macos")]
mod platform {
    use tauri::AppHandle;

    pub(super) fn active() -> Option<u32> {
        None
    }

    pub(super) fn restore(app: &AppHandle, _: Option<u32>, steps_back: bool) {
        // Makes the previous app active again. A window that stays would be hidden too.
        if steps_back && let Err(error) = app.hide() {
            tracing::debug!(%error, "the app could not step back");
        }
    }
}

#[cfg(not(target_os = "macos"))]
mod platform {
    use gtk::glib::Propagation;
    use gtk::prelude::WidgetExtManual;
    use raw_window_handle::{HasWindowHandle, RawWindowHandle};
    use tauri::{AppHandle, WebviewWindow};
    use x11rb::connection::Connection;
    use x11rb::protocol::xproto::{AtomEnum, ClientMessageEvent, ConnectionExt, EventMask};
    use x11rb::rust_connection::RustConnection;

    pub(crate) type X11Result<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

    /// Focuses a visible window. Call this on the main thread.
    ///
    /// Window managers prevent windows from taking the focus by themselves. They can't know that
    /// the user pressed the shortcut or the icon, so this sends the request that a pager would
    /// send.
    pub(crate) fn take_focus(window: &WebviewWindow) {
        let handle = window.window_handle().map(|handle| handle.as_raw());
        let taken = match handle {
            Ok(RawWindowHandle::Xlib(handle)) => u32::try_from(handle.window).map(restore_to).ok(),
            _ => window.set_focus().ok(),
        };
        if taken.is_none() {
            tracing::debug!(window = window.label(), "a window could not take the focus");
        }
    }

    /// Focuses a window each time it is shown. Call this on the main thread.
    ///
    /// Before the window manager has mapped a window, it ignores requests. A window that was never
    /// shown does not even have an id.
    pub(crate) fn take_focus_when_shown(window: &WebviewWindow) -> tauri::Result<()> {
        let shown = window.clone();
        window.gtk_window()?.connect_map_event(move |_, _| {
            take_focus(&shown);
            Propagation::Proceed
        });
        Ok(())
    }

    /// Returns the window that has the focus, if any.
    pub(crate) fn active() -> Option<u32> {
        active_window().unwrap_or_else(|error| {
            tracing::debug!(%error, "the active window is not known");
            None
        })
    }

    pub(super) fn restore(_: &AppHandle, before: Option<u32>, _: bool) {
        if let Some(window) = before {
            restore_to(window);
        }
    }

    /// Focuses a window of another program.
    pub(crate) fn restore_to(window: u32) {
        if let Err(error) = activate(window) {
            tracing::debug!(%error, "the focus could not be moved");
        }
    }

    fn active_window() -> X11Result<Option<u32>> {
        let (connection, root, atom) = connect()?;
        let window = property(&connection, root, atom, AtomEnum::WINDOW)?;
        Ok(window.filter(|window| *window != 0))
    }

    /// Returns the first number of a property of a window, if it has any.
    pub(crate) fn property(
        connection: &RustConnection,
        window: u32,
        property: u32,
        kind: AtomEnum,
    ) -> X11Result<Option<u32>> {
        let read = connection.get_property(false, window, property, kind, 0, 1)?;
        let read = read.reply()?;
        Ok(read.value32().and_then(|mut values| values.next()))
    }

    fn activate(window: u32) -> X11Result<()> {
        let (connection, root, atom) = connect()?;
        // 2: as a pager, on behalf of the user.
        let message = ClientMessageEvent::new(32, window, atom, [2, 0, 0, 0, 0]);
        let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
        let sent = connection.send_event(false, root, mask, message)?;
        // Waits for the reply, because the X server drops unread requests of a closed connection.
        Ok(sent.check()?)
    }

    /// Returns a connection with its root window and the atom of the active window.
    fn connect() -> X11Result<(RustConnection, u32, u32)> {
        let (connection, screen) = x11rb::connect(None)?;
        let root = connection.setup().roots[screen].root;
        let atom = connection.intern_atom(false, b"_NET_ACTIVE_WINDOW")?;
        let atom = atom.reply()?.atom;
        Ok((connection, root, atom))
    }
}

#[cfg(test)]
mod tests {
    use super::steps_back;

    #[test]
    fn the_app_is_hidden_only_after_its_last_ordinary_window() {
        assert!(steps_back(true, false));
        assert!(!steps_back(true, true), "panels leave another app active");
        assert!(!steps_back(false, false), "a window is still visible");
    }
}
