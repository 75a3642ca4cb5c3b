//! The menu-bar icon and its menu: draws the view of [`menu`] when it changed.
//!
//! Rule: the menu is replaced as a whole, which happens rarely. Nothing wakes up between two
//! changes.

pub(crate) mod menu;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use tauri::image::Image;
use tauri::menu::{CheckMenuItem, IsMenuItem, Menu, MenuItem, PredefinedMenuItem, Submenu};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Manager, Wry};

use crate::lock;
use crate::shell::Shell;
use crate::strings::Strings;
use crate::wire::Activity;
use menu::{Action, Row, TrayView};

/// The icon's id in Tauri.
pub(crate) const ID: &str = "transom";

/// The icon and its menu as they are drawn now. Not managed without an icon.
struct Drawn(Mutex<TrayView>);

/// Creates the icon. Returns the error in a session without a tray.
pub(crate) fn create(app: &AppHandle) -> Result<(), String> {
    let view = view(&app.state::<Shell>());
    let build = || -> tauri::Result<()> {
        TrayIconBuilder::with_id(ID)
            .icon(icon(view.activity)?)
            .icon_as_template(cfg!(target_os = "macos"))
            .tooltip(&view.tooltip)
            .menu(&menu_of(app, &view.rows)?)
            // On macOS a click shows the chat. Other systems report no clicks.
            .show_menu_on_left_click(!cfg!(target_os = "macos"))
            .build(app)?;
        Ok(())
    };
    // The tray library panics if it is not installed.
    let built = catch_unwind(AssertUnwindSafe(build));
    match built {
        Ok(Ok(())) => {
            app.manage(Drawn(Mutex::new(view)));
            Ok(())
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the library for tray icons is not installed".to_owned()),
    }
}

/// Returns true if there is an icon.
pub(crate) fn exists(app: &AppHandle) -> bool {
    app.try_state::<Drawn>().is_some()
}

/// Updates the menu-bar icon and its menu, if they changed.
pub(crate) fn draw(app: &AppHandle) {
    let view = view(&app.state::<Shell>());
    let on_main = app.clone();
    let _ = app.run_on_main_thread(move || update(&on_main, &view));
}

/// Draws what changed. Call this on the main thread.
fn update(app: &AppHandle, view: &TrayView) {
    let (Some(drawn), Some(tray)) = (app.try_state::<Drawn>(), app.tray_by_id(ID)) else {
        return;
    };
    let before = lock(&drawn.0).clone();
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
        Ok(()) => *lock(&drawn.0) = view.clone(),
        Err(error) => tracing::warn!(%error, "the icon could not be drawn"),
    }
}

fn view(shell: &Shell) -> TrayView {
    let (settings, names) = match shell.backend_if_open() {
        Some(backend) => (backend.settings(), backend.names()),
        None => Default::default(),
    };
    let strings = Strings::new(settings.general.language.as_deref(), &shell.languages);
    let downloads = lock(&shell.downloads).clone();
    let user = lock(&shell.user).clone();
    let user = user.as_ref();
    menu::view(
        &shell.status(),
        user,
        &settings,
        &names,
        &downloads,
        &strings,
    )
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

/// Converts an action to the id of a menu item.
pub(crate) fn id_of(action: &Action) -> String {
    serde_json::to_string(action).unwrap_or_default()
}

/// Converts the id of a menu item to its action.
pub(crate) fn action_of(id: &str) -> Option<Action> {
    serde_json::from_str(id).ok()
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
            Action::LocalApi,
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
