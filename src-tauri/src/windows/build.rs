//! Creates and shows each window, on each system.
//!
//! Rule: a page shows only content of the app. It can't navigate elsewhere and opens no windows.

use std::path::Path;

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder};
use transom_files::visible;

use crate::placement::Size;
use crate::wire::Window;
pub(super) use platform::{is_button_down, present, put_away, set_in_dock};

/// The folder in the data folder for the web view's storage, such as drafts of messages. macOS has
/// its own location for it.
const WEB_FOLDER: &str = "webview";

/// Creates a hidden window.
pub(super) fn build(
    app: &AppHandle,
    window: Window,
    is_panel: bool,
    size: Size,
    data_folder: &Path,
) -> tauri::Result<WebviewWindow> {
    let page = WebviewUrl::App(format!("{}.html", window.label()).into());
    let builder = WebviewWindowBuilder::new(app, window.label(), page)
        .title("Transom")
        .visible(false)
        // Otherwise the first show on X11 has no keyboard focus.
        .focused(true)
        .inner_size(size.width, size.height)
        .data_directory(data_folder.join(WEB_FOLDER))
        .on_document_title_changed(|window, title| {
            let _ = window.set_title(&visible(&title));
        })
        .on_navigation(is_ours)
        .on_new_window(|_, _| NewWindowResponse::Deny);
    let builder = match window {
        Window::Chat if is_panel => builder
            .decorations(false)
            .min_inner_size(320.0, 360.0)
            .skip_taskbar(true)
            .visible_on_all_workspaces(true)
            .always_on_top(cfg!(target_os = "macos"))
            .accept_first_mouse(true),
        Window::Prompt => builder
            .decorations(false)
            .resizable(false)
            .skip_taskbar(true)
            .visible_on_all_workspaces(true)
            .always_on_top(true)
            .accept_first_mouse(true),
        Window::Chat => builder.min_inner_size(420.0, 400.0),
        Window::Settings => builder.min_inner_size(560.0, 420.0),
    };
    let built = platform::style(builder, window, is_panel).build()?;
    platform::configure(window, &built, is_panel)?;
    Ok(built)
}

/// Sets the inner size of a window.
pub(super) fn resize(
    window: Window,
    built: &WebviewWindow,
    size: tauri::Size,
) -> tauri::Result<()> {
    built.set_size(size)?;
    platform::after_resize(window, built, size)
}

/// Returns true for pages of the app. Some systems write the app's URL scheme as a host.
fn is_ours(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => true,
        "http" | "https" => url.host_str() == Some("tauri.localhost"),
        _ => false,
    }
}

#[cfg(target_os = "macos")]
#[path = "mac.rs"]
mod platform;

#[cfg(not(target_os = "macos"))]
mod platform {
    use super::*;
    use gtk::gdk::ModifierType;
    use gtk::prelude::{SeatExt, WidgetExt};
    use tauri::Wry;

    type Builder<'a> = WebviewWindowBuilder<'a, Wry, AppHandle>;

    /// Only a Mac has a Dock that an app can leave.
    pub(in crate::windows) fn set_in_dock(_: &AppHandle, _: bool) -> tauri::Result<()> {
        Ok(())
    }

    pub(super) fn style(builder: Builder<'_>, _: Window, _: bool) -> Builder<'_> {
        builder
    }

    pub(super) fn configure(_: Window, built: &WebviewWindow, _: bool) -> tauri::Result<()> {
        crate::focus::take_focus_when_shown(built)
    }

    /// GTK uses only the minimum size of a window that is not resizable.
    pub(super) fn after_resize(
        window: Window,
        built: &WebviewWindow,
        size: tauri::Size,
    ) -> tauri::Result<()> {
        if window == Window::Prompt {
            let size = size.to_logical::<i32>(built.scale_factor()?);
            built
                .gtk_window()?
                .set_size_request(size.width, size.height);
        }
        Ok(())
    }

    /// Shows and focuses a window.
    pub(in crate::windows) fn present(built: &WebviewWindow, _: bool) -> tauri::Result<()> {
        let is_shown_already = built.is_visible()?;
        built.show()?;
        if is_shown_already {
            // The request for the focus has its own connection. The window manager must see the
            // toolkit's earlier requests first, such as the end of a dialog.
            built.gtk_window()?.display().sync();
            crate::focus::take_focus(built);
        }
        Ok(())
    }

    /// Hides a window without destroying it.
    pub(in crate::windows) fn put_away(built: &WebviewWindow, _: bool) -> tauri::Result<()> {
        built.hide()
    }

    /// Returns true while the main mouse button is held down, anywhere on the desktop. Wayland
    /// reports buttons only while the pointer is over our windows.
    pub(in crate::windows) fn is_button_down(built: &WebviewWindow) -> bool {
        let state = || {
            let window = built.gtk_window().ok()?.window()?;
            let pointer = window.display().default_seat()?.pointer()?;
            Some(window.device_position(&pointer).3)
        };
        state().is_some_and(|state| state.contains(ModifierType::BUTTON1_MASK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_cannot_navigate_elsewhere() {
        let is_ours = |text: &str| is_ours(&text.parse().unwrap());
        assert!(is_ours("tauri://localhost/chat.html"));
        assert!(is_ours("http://tauri.localhost/chat.html"));
        for url in [
            "https://example.com/",
            "http://tauri.localhost.example.com/",
            "file:///etc/passwd",
            "data:text/html,x",
            "about:blank",
        ] {
            assert!(!is_ours(url), "{url}");
        }
    }
}
