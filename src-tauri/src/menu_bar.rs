//! The menu bar of a Mac, in the app's language. Its items do the same as the shortcuts of pages.
//!
//! A page gets keys before the menu bar does, so an item acts if it is clicked, or if the page with
//! the focus does not know its keys.

use tauri::menu::PredefinedMenuItem;
use tauri::{AppHandle, Wry};

use crate::tray::menu::{Action, other_form};
use crate::wire::ZoomStep;

/// Creates an item that the system performs, with its usual keys.
type SystemItem = fn(&AppHandle, Option<&str>) -> tauri::Result<PredefinedMenuItem<Wry>>;

/// A row of a menu.
#[cfg_attr(
    not(target_os = "macos"),
    allow(
        dead_code,
        reason = "only a Mac creates the items; tests read the rest"
    )
)]
enum Row {
    Separator,
    /// The key of its text, and the item.
    System(&'static str, SystemItem),
    /// The key of its text, its keys as in the pages' shortcuts (empty for none), and its action.
    App(&'static str, &'static str, Action),
}

/// A menu.
struct MenuView {
    /// The key of its title.
    title: &'static str,
    rows: Vec<Row>,
}

/// Returns the menus from left to right.
fn menus(is_chat_in_window: bool) -> [MenuView; 6] {
    use Row::{App, Separator, System};
    let press = |text, keys: &'static str| App(text, keys, Action::Press(keys.to_owned()));
    let (form_text, form) = other_form(is_chat_in_window);
    let menu = |title, rows| MenuView { title, rows };
    [
        menu(
            "tooltip_idle",
            vec![
                App("menu_about", "", Action::About),
                Separator,
                App("settings", "Mod+,", Action::Settings),
                Separator,
                System("menu_services", PredefinedMenuItem::services),
                Separator,
                System("menu_hide", PredefinedMenuItem::hide),
                System("menu_hide_others", PredefinedMenuItem::hide_others),
                System("menu_show_all", PredefinedMenuItem::show_all),
                Separator,
                App("quit", "Mod+Q", Action::QuitOrHide),
            ],
        ),
        menu(
            "menu_file",
            vec![
                App("menu_new_chat", "Mod+N", Action::NewChat),
                App("quick_prompt", "", Action::QuickPrompt),
                Separator,
                App(form_text, "Mod+Shift+O", form),
                Separator,
                press("menu_print", "Mod+P"),
                Separator,
                press("menu_close", "Mod+W"),
            ],
        ),
        menu(
            "menu_edit",
            vec![
                System("menu_undo", PredefinedMenuItem::undo),
                System("menu_redo", PredefinedMenuItem::redo),
                Separator,
                System("menu_cut", PredefinedMenuItem::cut),
                System("menu_copy", PredefinedMenuItem::copy),
                System("menu_paste", PredefinedMenuItem::paste),
                System("menu_select_all", PredefinedMenuItem::select_all),
                Separator,
                press("menu_find", "Mod+F"),
                press("menu_find_next", "Mod+G"),
                press("menu_find_previous", "Mod+Shift+G"),
                press("menu_search", "Mod+Shift+F"),
            ],
        ),
        menu(
            "menu_view",
            vec![
                press("menu_history", "Mod+Shift+S"),
                Separator,
                App("menu_actual_size", "Mod+0", Action::Zoom(ZoomStep::Reset)),
                App("menu_zoom_in", "Mod+=", Action::Zoom(ZoomStep::In)),
                App("menu_zoom_out", "Mod+-", Action::Zoom(ZoomStep::Out)),
                Separator,
                System("menu_full_screen", PredefinedMenuItem::fullscreen),
            ],
        ),
        menu(
            "menu_window",
            vec![
                System("menu_minimize", PredefinedMenuItem::minimize),
                System("menu_zoom", PredefinedMenuItem::maximize),
                Separator,
                System("menu_front", PredefinedMenuItem::bring_all_to_front),
            ],
        ),
        menu("menu_help", vec![press("menu_shortcuts", "Mod+/")]),
    ]
}

/// Sets the menu bar of a Mac. Its items depend on the language and the form of the chat.
#[cfg(target_os = "macos")]
pub(crate) fn draw(app: &AppHandle) {
    use tauri::Manager;
    let shell = app.state::<crate::shell::Shell>();
    let strings =
        crate::strings::Strings::new(shell.general().language.as_deref(), &shell.languages);
    let is_chat_in_window = shell.frames.is_chat_in_window();
    let on_main = app.clone();
    let _ = app.run_on_main_thread(move || {
        if let Err(error) = set(&on_main, is_chat_in_window, &strings) {
            tracing::warn!(%error, "the menu bar could not be set");
        }
    });
}

/// Sets the menu bar. Call this on the main thread.
#[cfg(target_os = "macos")]
fn set(
    app: &AppHandle,
    is_chat_in_window: bool,
    strings: &crate::strings::Strings,
) -> tauri::Result<()> {
    use tauri::menu::{Menu, MenuItem, Submenu};
    let bar = Menu::new(app)?;
    for view in menus(is_chat_in_window) {
        let menu = Submenu::new(app, strings.text(view.title, &[]), true)?;
        for row in view.rows {
            match row {
                Row::Separator => menu.append(&PredefinedMenuItem::separator(app)?)?,
                Row::System(text, item) => {
                    menu.append(&item(app, Some(&strings.text(text, &[])))?)?
                }
                Row::App(text, keys, action) => {
                    let (id, text) = (crate::tray::id_of(&action), strings.text(text, &[]));
                    let keys = (!keys.is_empty()).then(|| accelerator(keys));
                    menu.append(&MenuItem::with_id(app, id, text, true, keys)?)?;
                }
            }
        }
        bar.append(&menu)?;
        match view.title {
            "menu_window" => menu.set_as_windows_menu_for_nsapp()?,
            "menu_help" => menu.set_as_help_menu_for_nsapp()?,
            _ => {}
        }
    }
    app.set_menu(bar)?;
    Ok(())
}

/// Converts keys of a page's shortcut to those of a menu item.
fn accelerator(keys: &str) -> String {
    keys.replace("Mod", "Cmd")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::{CATALOGS, Strings};

    fn rows(is_chat_in_window: bool) -> impl Iterator<Item = Row> {
        let menus = menus(is_chat_in_window);
        menus.into_iter().flat_map(|menu| menu.rows)
    }

    #[test]
    fn every_item_has_a_text_in_every_language() {
        for (language, _) in CATALOGS {
            let strings = Strings::new(Some(language), &[]);
            let titles = menus(false).map(|menu| menu.title);
            let items = rows(false).chain(rows(true));
            let texts = items.filter_map(|row| match row {
                Row::Separator => None,
                Row::System(text, _) | Row::App(text, ..) => Some(text),
            });
            for key in titles.into_iter().chain(texts) {
                // A key without a text is returned itself.
                assert_ne!(strings.text(key, &[]), key, "{language}");
            }
        }
    }

    #[test]
    fn no_two_items_have_the_same_keys() {
        let mut used = std::collections::BTreeSet::new();
        for row in rows(false) {
            if let Row::App(text, keys, _) = row
                && !keys.is_empty()
            {
                assert!(used.insert(accelerator(keys)), "{text}");
            }
        }
        assert!(used.contains("Cmd+Shift+G"), "{used:?}");
    }

    #[test]
    fn the_keys_to_quit_can_hide_a_panel_instead() {
        let quit = rows(false).find_map(|row| match row {
            Row::App("quit", keys, action) => Some((keys, action)),
            _ => None,
        });
        assert_eq!(quit, Some(("Mod+Q", Action::QuitOrHide)));
    }
}
