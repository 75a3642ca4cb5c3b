//! Records how the user leaves windows.

use std::time::Duration;

use tauri::{AppHandle, LogicalSize, Manager, WebviewWindow};

use super::{later, visible};
use crate::desktop::Unit;
use crate::frames::Frame;
use crate::placement::Size;
use crate::shell::Shell;
use crate::wire::Window;

/// A window that was not moved or resized for this time rests. Systems animate for about 250 ms.
const REST_DELAY: Duration = Duration::from_millis(500);

/// Records how the user left a window, once it rests. A window that is being maximized has sizes in
/// between, and may report its new size before its new state.
pub(super) fn record_later(app: &AppHandle, window: Window) {
    let n_moves = app.state::<Shell>().pages.moved(window);
    later(app, REST_DELAY, move |app| {
        if app.state::<Shell>().pages.n_moves(window) == n_moves {
            record(app, window);
        }
    });
}

/// Records how the user left a window, if it is visible.
pub(super) fn record(app: &AppHandle, window: Window) {
    let Some(found) = visible(app, window) else {
        return;
    };
    let shell = app.state::<Shell>();
    match frame_of(&found) {
        Ok(frame) => {
            let is_panel = shell.pages.is_panel(window);
            shell.frames.record(window, is_panel, frame);
        }
        Err(error) => tracing::warn!(%error, "the frame of a window could not be read"),
    }
}

fn frame_of(found: &WebviewWindow) -> tauri::Result<Frame> {
    let scale = found.scale_factor()?;
    let LogicalSize { width, height } = found.inner_size()?.to_logical(scale);
    Ok(Frame {
        size: Size { width, height },
        at: Unit::NATIVE.point(found.outer_position()?, scale),
        // A window that was left in full screen returns maximized.
        is_maximized: found.is_maximized()? || found.is_fullscreen()?,
    })
}
