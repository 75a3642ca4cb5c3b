//! The menu-bar icon and its menu: draws the view of [`menu`] when it changed.
//!
//! Rule: the menu is replaced as a whole, which happens rarely. Nothing wakes up between two
//! changes.

pub(crate) mod menu;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::json;
use tauri::image::Image;
use tauri::menu::{
    CheckMenuItem, IsMenuItem, Menu, MenuEvent, MenuItem, PredefinedMenuItem, Submenu,
};
use tauri::tray::{MouseButton, MouseButtonState, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Manager, Wry};

use crate::commands::app::{self as app_commands, run_in_background};
use crate::commands::models;
use crate::shell::Shell;
use crate::visibility::hidden_by_quit;
use crate::wire::{Activity, AppEvent, Window};
use crate::{lock, windows};
use menu::{Action, Row, TrayView};

/// The icon's id in Tauri.
pub(crate) const ID: &str = "transom";

/// Creates the icon. Returns the error in a session without a tray.
pub(crate) fn create(app: &AppHandle, view: &TrayView) -> Result<(), String> {
    let build = || -> tauri::Result<()> {
        TrayIconBuilder::with_id(ID)
            .icon(icon(view.activity)?)
            .icon_as_template(cfg!(target_os = "macos"))
            .tooltip(&view.tooltip)
            .menu(&menu_of(app, &view.rows)?)
            // Only macOS reports clicks on the icon.
            .show_menu_on_left_click(!cfg!(target_os = "macos"))
            .on_tray_icon_event(|tray, event| {
                if let TrayIconEvent::Click {
                    button: MouseButton::Left,
                    button_state: MouseButtonState::Up,
                    ..
                } = event
                {
                    windows::toggle(tray.app_handle(), Window::Chat);
                }
            })
            .build(app)?;
        Ok(())
    };
    // The tray library panics if it is not installed.
    let built = catch_unwind(AssertUnwindSafe(build));
    match built {
        Ok(Ok(())) => {
            *lock(&app.state::<Shell>().tray) = Some(view.clone());
            Ok(())
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the library for tray icons is not installed".to_owned()),
    }
}

/// Draws what changed. Call this on the main thread.
pub(crate) fn update(app: &AppHandle, view: &TrayView) {
    let shell = app.state::<Shell>();
    let before = lock(&shell.tray).clone();
    let (Some(before), Some(tray)) = (before, app.tray_by_id(ID)) else {
        return;
    };
    let draw = || -> tauri::Result<()> {
        if before.activity != view.activity {
            let icon = Some(icon(view.activity)?);
            tray.set_icon_with_as_template(icon, cfg!(target_os = "macos"))?;
        }
        if before.tooltip != view.tooltip {
            tray.set_tooltip(Some(&view.tooltip))?;
        }
        if before.rows != view.rows {
            tray.set_menu(Some(menu_of(app, &view.rows)?))?;
        }
        Ok(())
    };
    match draw() {
        Ok(()) => *lock(&shell.tray) = Some(view.clone()),
        Err(error) => tracing::warn!(%error, "the icon could not be drawn"),
    }
}

/// Returns the icon: a template image on a Mac, and a gray that is visible on dark and light
/// elsewhere.
fn icon(activity: Activity) -> tauri::Result<Image<'static>> {
    macro_rules! png {
        ($name:literal) => {
            if cfg!(target_os = "macos") {
                include_bytes!(concat!("../../icons/tray-", $name, ".png")).as_slice()
            } else {
                include_bytes!(concat!("../../icons/tray-", $name, "-gray.png")).as_slice()
            }
        };
    }
    Image::from_bytes(match activity {
        Activity::Idle => png!("idle"),
        Activity::Loading => png!("loading"),
        Activity::Answering => png!("answering"),
        Activity::Held => png!("held"),
    })
}

fn menu_of(app: &AppHandle, rows: &[Row]) -> tauri::Result<Menu<Wry>> {
    let menu = Menu::new(app)?;
    for row in rows {
        let item: Box<dyn IsMenuItem<Wry>> = match row {
            Row::Separator => Box::new(PredefinedMenuItem::separator(app)?),
            Row::Item { text, action } => {
                let id = action.as_ref().map(id_of).unwrap_or_default();
                let is_enabled = action.is_some();
                Box::new(MenuItem::with_id(app, id, text, is_enabled, None::<&str>)?)
            }
            Row::Menu { text, rows } => {
                let submenu = Submenu::new(app, text, true)?;
                for (text, action, is_chosen) in rows {
                    let id = id_of(action);
                    let key = None::<&str>;
                    let item = CheckMenuItem::with_id(app, id, text, true, *is_chosen, key)?;
                    submenu.append(&item)?;
                }
                Box::new(submenu)
            }
        };
        menu.append(&*item)?;
    }
    Ok(menu)
}

/// Handles a chosen item of the icon's menu or of the menu bar.
pub(crate) fn on_menu_event(app: &AppHandle, event: MenuEvent) {
    match action_of(event.id().as_ref()) {
        Some(action) => perform(app, action),
        None => tracing::warn!(id = event.id().as_ref(), "an unknown menu item"),
    }
}

/// Converts an action to the id of a menu item.
pub(crate) fn id_of(action: &Action) -> String {
    serde_json::to_string(action).unwrap_or_default()
}

fn action_of(id: &str) -> Option<Action> {
    serde_json::from_str(id).ok()
}

fn perform(app: &AppHandle, action: Action) {
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
        Action::About => show(Window::Settings, Some("about".to_owned())),
        Action::Zoom(step) => run_in_background(app, move |app| app_commands::zoom(app, step)),
        Action::Press(keys) => {
            if let Some((window, _)) = shell.pages.focused() {
                press(app, window, keys);
            }
        }
        Action::Quit => shell.quit(),
        Action::QuitOrHide => match hidden_by_quit(shell.pages.focused()) {
            Some(panel) => windows::hide(app, panel),
            None => shell.quit(),
        },
        Action::Eject => run_in_background(app, models::eject),
        Action::Choose(id) => run_in_background(app, |app| models::choose_model(app, id)),
        Action::Pause(is_paused) => {
            run_in_background(app, move |app| models::pause(app, is_paused))
        }
    }
}

fn press(app: &AppHandle, window: Window, keys: String) {
    let pages = &app.state::<Shell>().pages;
    pages.send(app, window, AppEvent::Shortcut { keys });
}

/// Opens the chat in the other form. A visible one moves when the settings change.
fn open_chat(app: &AppHandle, is_in_window: bool) {
    run_in_background(app, move |app| async move {
        let patch = json!({ "general": { "chat_in_window": is_in_window } });
        app_commands::update_settings(app.clone(), patch).await?;
        let pages = &app.state::<Shell>().pages;
        if !pages.visibility(Window::Chat).is_visible {
            windows::show(&app, Window::Chat, AppEvent::shown(Window::Chat, None));
        }
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ZoomStep;

    #[test]
    fn the_id_of_a_menu_item_identifies_its_action() {
        for action in [
            Action::OpenChat,
            Action::ChatInWindow(true),
            Action::NewChat,
            Action::QuickPrompt,
            Action::Eject,
            Action::Choose("/models/a:b".to_owned()),
            Action::Choose("quit".to_owned()),
            Action::Pause(true),
            Action::Pause(false),
            Action::Settings,
            Action::Models,
            Action::About,
            Action::Zoom(ZoomStep::Reset),
            Action::Press("Mod+F".to_owned()),
            Action::Quit,
            Action::QuitOrHide,
        ] {
            assert_eq!(action_of(&id_of(&action)), Some(action));
        }
        assert_eq!(action_of(""), None);
    }

    #[test]
    fn every_state_has_its_own_icon() {
        let states = [
            Activity::Idle,
            Activity::Loading,
            Activity::Answering,
            Activity::Held,
        ];
        let icons: Vec<_> = states.iter().map(|state| icon(*state).unwrap()).collect();
        for (at, one) in icons.iter().enumerate() {
            assert_eq!((one.width(), one.height()), (44, 44));
            assert!(
                icons[at + 1..]
                    .iter()
                    .all(|other| other.rgba() != one.rgba())
            );
        }
    }
}
