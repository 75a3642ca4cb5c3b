//! Where the keys went before a window of ours took them, so that they can go back there.
//!
//! A Mac's panels leave the other program active, so there only the app as a whole has to step back.
//! On X11 the window manager is asked, as a pager asks it. Wayland has no such thing.

use std::sync::Mutex;

use tauri::AppHandle;

use crate::wire::Window;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Focus {
    /// The window of ours, and whose the keys were.
    before: Mutex<Option<(Window, Option<u32>)>>,
}

impl Focus {
    /// `window` is about to take the keys from another program: remembers which.
    pub(crate) fn remember(&self, window: Window) {
        let active = platform::active();
        if let Ok(mut before) = self.before.lock() {
            *before = Some((window, active));
        }
    }

    /// `to` comes in the place of `from`, and gives back what `from` took.
    pub(crate) fn pass_on(&self, from: Window, to: Window) {
        if let Ok(mut before) = self.before.lock()
            && let Some((by, _)) = before.as_mut().filter(|(by, _)| *by == from)
        {
            *by = to;
        }
    }

    /// `window` was hidden: gives the keys back, once, if it had taken them or is the last of ours.
    pub(crate) fn restore(&self, app: &AppHandle, window: Window, is_last: bool) {
        let Ok(mut before) = self.before.lock() else {
            return;
        };
        let took = before.take_if(|(by, _)| is_last || *by == window);
        drop(before);
        if took.is_some() || is_last {
            platform::restore(app, took.and_then(|(_, active)| active), is_last);
        }
    }
}

/// Gives the keys to a window that is on the screen. To be called on the main thread.
#[cfg(not(target_os = "macos"))]
pub(crate) fn claim(window: &tauri::WebviewWindow) {
    platform::claim(window);
}

/// Gives the keys to a window each time it comes on the screen. To be called on the main thread.
#[cfg(not(target_os = "macos"))]
pub(crate) fn claim_when_shown(window: &tauri::WebviewWindow) -> tauri::Result<()> {
    platform::claim_when_shown(window)
}

#[cfg(target_os = "macos")]
mod platform {
    use tauri::AppHandle;

    pub(super) fn active() -> Option<u32> {
        None
    }

    pub(super) fn restore(app: &AppHandle, _: Option<u32>, is_last: bool) {
        // What was active before becomes active again; a window that stays would be hidden with it.
        if is_last && let Err(error) = app.hide() {
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

    type Tried<T> = Result<T, Box<dyn std::error::Error>>;

    /// A window manager keeps the keys from windows that come up by themselves. It cannot know that
    /// a person pressed the hotkey or the icon, so it is told so, as a pager would.
    pub(super) fn claim(window: &WebviewWindow) {
        let handle = window.window_handle().map(|handle| handle.as_raw());
        let claimed = match handle {
            Ok(RawWindowHandle::Xlib(handle)) => u32::try_from(handle.window).map(restore_to).ok(),
            _ => window.set_focus().ok(),
        };
        if claimed.is_none() {
            tracing::debug!(window = window.label(), "the keys could not be claimed");
        }
    }

    /// What is asked for before the window manager has put the window on the screen is not heard,
    /// and a window that was never shown has not even a name by which it could be asked for.
    pub(super) fn claim_when_shown(window: &WebviewWindow) -> tauri::Result<()> {
        let shown = window.clone();
        window.gtk_window()?.connect_map_event(move |_, _| {
            claim(&shown);
            Propagation::Proceed
        });
        Ok(())
    }

    pub(super) fn active() -> Option<u32> {
        let found = find();
        found
            .inspect_err(|error| tracing::debug!(%error, "the active window is not known"))
            .ok()
            .flatten()
    }

    pub(super) fn restore(_: &AppHandle, before: Option<u32>, _: bool) {
        if let Some(window) = before {
            restore_to(window);
        }
    }

    fn restore_to(window: u32) {
        if let Err(error) = activate(window) {
            tracing::debug!(%error, "the focus could not be moved");
        }
    }

    fn find() -> Tried<Option<u32>> {
        let (connection, screen) = x11rb::connect(None)?;
        let root = connection.setup().roots[screen].root;
        let atom = atom(&connection)?;
        let reply = connection
            .get_property(false, root, atom, AtomEnum::WINDOW, 0, 1)?
            .reply()?;
        let window = reply.value32().and_then(|mut windows| windows.next());
        Ok(window.filter(|window| *window != 0))
    }

    fn activate(window: u32) -> Tried<()> {
        let (connection, screen) = x11rb::connect(None)?;
        let root = connection.setup().roots[screen].root;
        let atom = atom(&connection)?;
        // 2: as a pager, on behalf of a person.
        let message = ClientMessageEvent::new(32, window, atom, [2, 0, 0, 0, 0]);
        let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
        let sent = connection.send_event(false, root, mask, message)?;
        // The answer is waited for: the screen drops what it has not yet read from a connection
        // that is closed.
        Ok(sent.check()?)
    }

    fn atom(connection: &impl Connection) -> Tried<u32> {
        let reply = connection
            .intern_atom(false, b"_NET_ACTIVE_WINDOW")?
            .reply()?;
        Ok(reply.atom)
    }
}
