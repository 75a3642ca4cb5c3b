//! What a person may send along with a report: one text file, with nothing private in it.
//!
//! Rule: nothing is copied that a person wrote. Prompts are counted, not quoted; conversations are
//! not read at all; folders of the person's are named as `~`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use transom_store::Settings;

use crate::log;
use crate::wire::{AboutView, StatusView};

/// Most of the log that goes along.
const MAX_LOG_BYTES: usize = 64 << 10;

/// The end of the log.
pub(crate) fn last_of_log(data_folder: &Path) -> String {
    let text = std::fs::read(log::file(data_folder)).unwrap_or_default();
    let from = text.len().saturating_sub(MAX_LOG_BYTES);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

/// What the user added by path, a line each, or why that is not known.
pub(crate) fn added(data_folder: &Path) -> String {
    match transom_library::read_added(data_folder) {
        Ok(paths) => {
            let lines = paths.iter().map(|path| format!("{}\n", path.display()));
            lines.collect()
        }
        Err(error) => error.to_string(),
    }
}

/// The file's text. `home` is written as `~` wherever it stands.
pub(crate) fn text(
    about: &AboutView,
    status: &StatusView,
    settings: &Settings,
    added: &str,
    log: &str,
    home: Option<PathBuf>,
) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: &str| {
        let _ = writeln!(text, "== {title} ==\n{}\n", body.trim_end());
    };
    section("About", &json(about));
    section("Status", &json(status));
    section("Settings", &json(&without_words(settings)));
    section("Added models", added);
    section("Log", log);
    match home {
        Some(home) if home.as_os_str().len() > 1 => text.replace(&*home.to_string_lossy(), "~"),
        _ => text,
    }
}

/// The settings without what a person wrote.
fn without_words(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    for model in settings.models.values_mut() {
        if let Some(prompt) = &mut model.system_prompt {
            *prompt = format!("({} characters)", prompt.chars().count());
        }
    }
    for prompt in settings.prompts.iter_mut().flatten() {
        let n_chars = prompt.text.chars().count();
        prompt.name = "(name)".to_owned();
        prompt.text = format!("({n_chars} characters)");
    }
    settings
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_view::tests::idle;
    use crate::wire::HotkeyView;
    use transom_store::{ModelSettings, SavedPrompt};

    const PLANTED: &str = "SECRET";

    fn about() -> AboutView {
        AboutView {
            version: "0.1.0".to_owned(),
            parts: Vec::new(),
            data_folder: format!("/people/{PLANTED}/data"),
            system: "Debian 12".to_owned(),
            chip: "chip".to_owned(),
            memory_bytes: 1,
            missing: Vec::new(),
            hotkey: HotkeyView::Registered {
                shortcut: "Alt+Space".to_owned(),
            },
            default_hotkey: "Alt+Space".to_owned(),
            platform: "linux".to_owned(),
            languages: Vec::new(),
        }
    }

    #[test]
    fn nothing_that_a_person_wrote_gets_in() {
        let model = ModelSettings {
            system_prompt: Some(format!("be {PLANTED}")),
            temperature: Some(0.25),
            ..ModelSettings::default()
        };
        let home = format!("/people/{PLANTED}");
        let id = format!("{home}/models/Qwen3");
        let settings = Settings {
            model: Some(id.clone()),
            models: [(id.clone(), model)].into(),
            recent_models: vec![id],
            prompts: Some(vec![SavedPrompt {
                name: format!("{PLANTED}-name"),
                text: format!("{PLANTED} text"),
            }]),
            ..Settings::default()
        };
        let folder = tempfile::tempdir().unwrap();
        transom_library::add_paths(folder.path(), &[format!("{home}/Mine.gguf").into()]).unwrap();
        let log = format!("INFO transom: opened {home}/data\n");
        let text = text(
            &about(),
            &idle(),
            &settings,
            &added(folder.path()),
            &log,
            Some(PathBuf::from(home)),
        );
        assert!(!text.contains(PLANTED), "{text}");
        // What helps is there.
        for helps in [
            "~/models/Qwen3",
            "~/Mine.gguf",
            "0.25",
            "Debian 12",
            "opened ~/data",
            "9 characters",
        ] {
            assert!(text.contains(helps), "no {helps} in {text}");
        }
    }

    #[test]
    fn only_the_end_of_a_long_log_goes_along() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_of_log(folder.path()), "");
        let path = log::file(folder.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "é".repeat(MAX_LOG_BYTES) + "end").unwrap();
        let last = last_of_log(folder.path());
        assert!(last.ends_with("end") && last.len() < MAX_LOG_BYTES + 8);
    }
}
