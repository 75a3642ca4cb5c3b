//! The content of the tray as a value, computed from the status and the settings.
//!
//! Rule: actions are values too, so a click does what the menu showed when it was drawn.

use std::path::Path;

use serde::{Deserialize, Serialize};
use transom_store::Settings;

use crate::models::Names;
use crate::strings::Strings;
use crate::wire::{Activity, BackgroundView, DownloadState, DownloadView, StatusView, ZoomStep};

/// The keys of `tray.json` that are used here.
#[cfg(test)]
pub(crate) const KEYS: [&str; 23] = [
    "open_chat",
    "open_in_window",
    "open_as_popover",
    "quick_prompt",
    "eject",
    "no_model",
    "used_by",
    "downloading",
    "downloading_many",
    "download_paused",
    "download_failed",
    "recent_models",
    "pause",
    "resume",
    "settings",
    "quit",
    "tooltip_idle",
    "tooltip_ready",
    "tooltip_loading",
    "tooltip_answering",
    "tooltip_used_by",
    "tooltip_held",
    "tooltip_paused",
];

/// Maximum number of recent models in the menu.
const MAX_RECENT: usize = 5;

/// The content of the tray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrayView {
    pub(crate) activity: Activity,
    pub(crate) tooltip: String,
    /// The menu from top to bottom.
    pub(crate) rows: Vec<Row>,
}

/// A row of the menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Row {
    Separator,
    /// An item; disabled without an action.
    Item {
        text: String,
        action: Option<Action>,
    },
    /// A submenu, in which one row may be checked.
    Menu {
        text: String,
        /// The rows: text, action, and whether it is checked.
        rows: Vec<(String, Action, bool)>,
    },
}

/// The action of a click.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    OpenChat,
    /// Open the chat as an ordinary window, or under the icon.
    ChatInWindow(bool),
    NewChat,
    QuickPrompt,
    /// Unload every model.
    Eject,
    /// Select this model.
    Choose(String),
    /// Pause or resume.
    Pause(bool),
    Settings,
    /// Show the models and their downloads.
    Models,
    /// Show who uses the local API.
    LocalApi,
    About,
    Zoom(ZoomStep),
    /// Do what these keys do on the page with the focus.
    Press(String),
    Quit,
    /// Quit, but only hide a panel: see [`crate::visibility::hidden_by_quit`].
    QuitOrHide,
}

/// Returns the key of the text that opens the chat in its other form, and the action.
pub(crate) fn other_form(is_chat_in_window: bool) -> (&'static str, Action) {
    let key = match is_chat_in_window {
        true => "open_as_popover",
        false => "open_in_window",
    };
    (key, Action::ChatInWindow(!is_chat_in_window))
}

/// Returns the content of the tray. `user` is the program that uses a model. `names` are the display
/// names of models; the menu reads no files.
pub(crate) fn view(
    status: &StatusView,
    user: Option<&BackgroundView>,
    settings: &Settings,
    names: &Names,
    downloads: &[DownloadView],
    strings: &Strings,
) -> TrayView {
    let item = |key: &str, action: Action| Row::Item {
        text: strings.text(key, &[]),
        action: Some(action),
    };
    let (form_key, form) = other_form(settings.general.chat_in_window);
    let mut rows = vec![
        item("open_chat", Action::OpenChat),
        item(form_key, form),
        item("quick_prompt", Action::QuickPrompt),
        Row::Separator,
        model(status, strings),
    ];
    rows.extend(user.map(|user| Row::Item {
        text: strings.text(
            "used_by",
            &[("client", &user.client), ("model", &user.model)],
        ),
        action: Some(Action::LocalApi),
    }));
    rows.extend(download_row(downloads, strings));
    rows.extend(recent(settings, names, strings));
    rows.push(match status.is_paused {
        true => item("resume", Action::Pause(false)),
        false => item("pause", Action::Pause(true)),
    });
    rows.extend([
        Row::Separator,
        item("settings", Action::Settings),
        Row::Separator,
        item("quit", Action::Quit),
    ]);
    TrayView {
        activity: status.activity,
        tooltip: tooltip(status, strings),
        rows,
    }
}

/// The loaded model and its memory, with the action to eject it. Memory is rounded to tenths of a
/// gigabyte, so that the menu rarely changes.
fn model(status: &StatusView, strings: &Strings) -> Row {
    match &status.model {
        Some(model) if model.is_ready => {
            let memory = model.memory_bytes.unwrap_or(status.in_use_bytes);
            let values = [("model", &*model.name), ("memory", &strings.memory(memory))];
            Row::Item {
                text: strings.text("eject", &values),
                action: Some(Action::Eject),
            }
        }
        _ => Row::Item {
            text: strings.text("no_model", &[]),
            action: None,
        },
    }
}

/// The downloads, with progress in steps of five percent, because an open menu closes when it is
/// replaced.
fn download_row(downloads: &[DownloadView], strings: &Strings) -> Option<Row> {
    let in_state = |states: fn(&DownloadState) -> bool| -> Vec<&DownloadView> {
        downloads.iter().filter(|one| states(&one.state)).collect()
    };
    let running = in_state(|state| {
        matches!(
            state,
            DownloadState::Waiting
                | DownloadState::Downloading
                | DownloadState::Verifying { .. }
                | DownloadState::Retrying { .. }
        )
    });
    let failed = in_state(|state| matches!(state, DownloadState::Failed { .. }));
    let paused = in_state(|state| matches!(state, DownloadState::Paused));
    let text = match (&*running, &*failed, &*paused) {
        ([], [], []) => return None,
        ([], [], [one, ..]) => strings.text("download_paused", &[("name", &*one.name)]),
        ([], [one, ..], _) => strings.text("download_failed", &[("name", &*one.name)]),
        ([one], ..) => {
            let values = [("name", &*one.name), ("percent", &*percent(one))];
            strings.text("downloading", &values)
        }
        (many, ..) => {
            let is_receiving = |one: &&&DownloadView| one.state == DownloadState::Downloading;
            let receiving = many.iter().find(is_receiving);
            let percent = receiving.map(|one| percent(one)).unwrap_or_default();
            let values = [("n", &*many.len().to_string()), ("percent", &*percent)];
            strings.text("downloading_many", &values)
        }
    };
    Some(Row::Item {
        text,
        action: Some(Action::Models),
    })
}

fn percent(download: &DownloadView) -> String {
    let total = download.total_bytes.unwrap_or(0).max(1);
    let share = download.done_bytes as f64 / total as f64;
    format!("{:.0} %", (share.clamp(0.0, 1.0) * 20.0).floor() * 5.0)
}

fn recent(settings: &Settings, names: &Names, strings: &Strings) -> Option<Row> {
    let ids = settings.recent_models.iter().take(MAX_RECENT);
    let rows: Vec<_> = ids
        .map(|id| {
            let is_chosen = settings.model.as_ref() == Some(id);
            let name = names.get(id).cloned();
            let name = name.unwrap_or_else(|| file_name(id));
            (name, Action::Choose(id.clone()), is_chosen)
        })
        .collect();
    (!rows.is_empty()).then(|| Row::Menu {
        text: strings.text("recent_models", &[]),
        rows,
    })
}

/// Returns the file or folder name of a model that was not read yet.
fn file_name(id: &str) -> String {
    let name = transom_files::file_name(Path::new(id));
    name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
}

fn tooltip(status: &StatusView, strings: &Strings) -> String {
    let model = status.model.as_ref();
    let name = model.map(|model| &*model.name).unwrap_or_default();
    let client = status.background.as_ref().map(|user| &*user.client);
    let key = match status.activity {
        _ if status.is_paused => "tooltip_paused",
        Activity::Held => "tooltip_held",
        Activity::Loading => "tooltip_loading",
        Activity::Answering if client.is_some() => "tooltip_used_by",
        Activity::Answering => "tooltip_answering",
        Activity::Idle if model.is_some_and(|model| model.is_ready) => "tooltip_ready",
        Activity::Idle => "tooltip_idle",
    };
    let client = client.unwrap_or_default();
    strings.text(key, &[("model", name), ("client", client)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LoadedView;

    fn strings() -> Strings {
        Strings::new(Some("en"), &[])
    }

    fn tray_view(status: &StatusView, settings: &Settings, downloads: &[DownloadView]) -> TrayView {
        let qwen = ("/models/Qwen3-4B".to_owned(), "Qwen3 4B · 4-bit".to_owned());
        let names = Names::from([qwen]);
        view(status, None, settings, &names, downloads, &strings())
    }

    fn download(state: DownloadState, done_bytes: u64) -> DownloadView {
        DownloadView {
            id: 1,
            key: "a/mlx/4-bit".to_owned(),
            name: "Qwen3 8B · 4-bit".to_owned(),
            state,
            done_bytes,
            total_bytes: Some(1000),
            bytes_per_second: None,
            seconds_left: None,
        }
    }

    fn texts(view: &TrayView) -> Vec<String> {
        let rows = view.rows.iter();
        rows.map(|row| match row {
            Row::Separator => "-".to_owned(),
            Row::Item { text, .. } => text.clone(),
            Row::Menu { text, rows } => {
                let rows = rows.iter().map(|(text, _, is_chosen)| {
                    format!("{}{text}", if *is_chosen { "*" } else { "" })
                });
                format!("{text}: {}", rows.collect::<Vec<_>>().join(", "))
            }
        })
        .collect()
    }

    fn loaded(is_ready: bool) -> StatusView {
        StatusView {
            model: Some(LoadedView {
                name: "Qwen3 4B · 4-bit".to_owned(),
                load_fraction: None,
                is_ready,
                is_unloading: false,
                memory_bytes: Some(2_500_000_000),
                engine: None,
                context_length: None,
                unloads_in_seconds: None,
            }),
            ..StatusView::default()
        }
    }

    #[test]
    fn the_menu_of_a_new_app() {
        let view = tray_view(&StatusView::default(), &Settings::default(), &[]);
        let expected = [
            "Open Chat",
            "Open Chat in Window",
            "Quick Prompt",
            "-",
            "No Model Loaded",
            "Pause",
            "-",
            "Settings…",
            "-",
            "Quit Transom",
        ];
        assert_eq!(texts(&view), expected);
        assert_eq!(view.tooltip, "Transom");
        let model = &view.rows[4];
        assert!(matches!(model, Row::Item { action: None, .. }));
    }

    #[test]
    fn the_menu_offers_the_other_form_of_the_chat() {
        let mut settings = Settings::default();
        settings.general.chat_in_window = true;
        let view = tray_view(&StatusView::default(), &settings, &[]);
        let expected = Row::Item {
            text: "Open Chat as Popover".to_owned(),
            action: Some(Action::ChatInWindow(false)),
        };
        assert_eq!(view.rows[1], expected);
    }

    #[test]
    fn a_loaded_model_can_be_ejected_and_recent_ones_selected() {
        let settings = Settings {
            model: Some("/models/Qwen3-4B".to_owned()),
            recent_models: vec![
                "/models/Qwen3-4B".to_owned(),
                "/models/Llama-3.2.Q4_K_M.gguf".to_owned(),
            ],
            ..Settings::default()
        };
        let view = tray_view(&loaded(true), &settings, &[]);
        let texts = texts(&view);
        assert_eq!(texts[4], "Eject Qwen3 4B · 4-bit (2.3 GB)");
        // Only the path of the second one is known.
        assert_eq!(
            texts[5],
            "Recent Models: *Qwen3 4B · 4-bit, Llama-3.2.Q4_K_M"
        );
        assert_eq!(view.tooltip, "Transom: Qwen3 4B · 4-bit is ready");
    }

    #[test]
    fn a_loading_model_cannot_be_ejected_and_a_pause_can_be_ended() {
        let status = StatusView {
            activity: Activity::Held,
            is_paused: true,
            ..loaded(false)
        };
        let view = tray_view(&status, &Settings::default(), &[]);
        assert_eq!(texts(&view)[4..6], ["No Model Loaded", "Resume"]);
        assert_eq!(view.tooltip, "Transom: paused");
    }

    #[test]
    fn the_tooltip_names_the_program_that_uses_the_model() {
        let mut status = StatusView {
            activity: Activity::Answering,
            ..loaded(true)
        };
        let tooltip = |status: &StatusView| tray_view(status, &Settings::default(), &[]).tooltip;
        assert_eq!(tooltip(&status), "Transom: generating");
        status.background = Some(user("Zed"));
        assert_eq!(tooltip(&status), "Transom: generating for Zed");
    }

    #[test]
    fn the_menu_names_the_program_that_uses_a_model_and_opens_its_pane() {
        let (settings, user) = (Settings::default(), user("zed"));
        let (status, names) = (loaded(true), Names::new());
        let view = view(&status, Some(&user), &settings, &names, &[], &strings());
        let expected = Row::Item {
            text: "zed is using Qwen3 4B · 4-bit".to_owned(),
            action: Some(Action::LocalApi),
        };
        assert_eq!(view.rows[5], expected);
    }

    fn user(client: &str) -> BackgroundView {
        BackgroundView {
            client: client.to_owned(),
            model: "Qwen3 4B · 4-bit".to_owned(),
        }
    }

    #[test]
    fn downloads_are_shown_in_steps_and_open_the_models() {
        let of = |downloads: &[DownloadView]| {
            let view = tray_view(&StatusView::default(), &Settings::default(), downloads);
            texts(&view)[5].clone()
        };
        let download_row = download(DownloadState::Downloading, 449);
        assert_eq!(
            of(std::slice::from_ref(&download_row)),
            "Downloading Qwen3 8B · 4-bit: 40 %"
        );
        let waiting = download(DownloadState::Waiting, 0);
        assert_eq!(of(&[waiting, download_row]), "Downloading 2 Models: 40 %");
        let paused = download(DownloadState::Paused, 10);
        assert_eq!(of(&[paused]), "Paused: Qwen3 8B · 4-bit");
        let done = download(DownloadState::Done { model: None }, 1000);
        assert_eq!(of(&[done]), "Pause", "finished downloads are not shown");
    }
}
