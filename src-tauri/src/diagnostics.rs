//! The diagnostics report: one text file without private data.
//!
//! Rule: nothing that the user wrote is copied. Prompts are counted, conversations are not read,
//! and the home folder is written as `~`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use transom_store::Settings;

use crate::log;
use crate::wire::{AboutView, StatusView};

/// Maximum size of the included log.
const MAX_LOG_BYTES: usize = 64 << 10;

/// Returns the end of the log.
pub(crate) fn log_tail(data_folder: &Path) -> String {
    let text = std::fs::read(log::file(data_folder)).unwrap_or_default();
    let from = text.len().saturating_sub(MAX_LOG_BYTES);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

/// Returns the models that the user added by path, one per line, or the error.
pub(crate) fn added(data_folder: &Path) -> String {
    match transom_library::read_added(data_folder) {
        Ok(paths) => paths
            .iter()
            .map(|path| format!("{}\n", path.display()))
            .collect(),
        Err(error) => error.to_string(),
    }
}

/// Returns the text of the report, with `home` replaced by `~`.
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
    section("Settings", &json(&without_user_text(settings)));
    section("Added models", added);
    section("Log", log);
    match home {
        Some(home) if home.as_os_str().len() > 1 => text.replace(&*home.to_string_lossy(), "~"),
        _ => text,
    }
}

/// Removes everything that the user wrote from the settings.
fn without_user_text(settings: &Settings) -> Settings {
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
    for assistant in &mut settings.assistants {
        assistant.name = "(name)".to_owned();
        if let Some(instructions) = &mut assistant.settings.instructions {
            *instructions = format!("({} characters)", instructions.chars().count());
        }
    }
    settings
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_view::empty;
    use crate::wire::HotkeyView;
    use transom_store::{Assistant, ConversationSettings, ModelSettings, SavedPrompt};

    const SECRET: &str = "SECRET";

    fn about() -> AboutView {
        AboutView {
            version: "0.1.0".to_owned(),
            dependencies: Vec::new(),
            data_folder: format!("/people/{SECRET}/data"),
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
    fn text_of_the_user_is_left_out() {
        let model = ModelSettings {
            system_prompt: Some(format!("be {SECRET}")),
            temperature: Some(0.25),
            ..ModelSettings::default()
        };
        let home = format!("/people/{SECRET}");
        let id = format!("{home}/models/Qwen3");
        let settings = Settings {
            model: Some(id.clone()),
            models: [(id.clone(), model)].into(),
            recent_models: vec![id],
            prompts: Some(vec![SavedPrompt {
                name: format!("{SECRET}-name"),
                text: format!("{SECRET} text"),
            }]),
            assistants: vec![Assistant {
                name: format!("{SECRET}-name"),
                settings: ConversationSettings {
                    instructions: Some(format!("be {SECRET}")),
                    ..ConversationSettings::default()
                },
            }],
            ..Settings::default()
        };
        let folder = tempfile::tempdir().unwrap();
        transom_library::add_paths(folder.path(), &[format!("{home}/Mine.gguf").into()]).unwrap();
        let log = format!("INFO transom: opened {home}/data\n");
        let text = text(
            &about(),
            &empty(),
            &settings,
            &added(folder.path()),
            &log,
            Some(PathBuf::from(home)),
        );
        assert!(!text.contains(SECRET), "{text}");
        // Useful information is included.
        for useful in [
            "~/models/Qwen3",
            "~/Mine.gguf",
            "0.25",
            "Debian 12",
            "opened ~/data",
            "9 characters",
        ] {
            assert!(text.contains(useful), "no {useful} in {text}");
        }
    }

    #[test]
    fn only_the_end_of_a_long_log_is_included() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(log_tail(folder.path()), "");
        let path = log::file(folder.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "é".repeat(MAX_LOG_BYTES) + "end").unwrap();
        let last = log_tail(folder.path());
        assert!(last.ends_with("end") && last.len() < MAX_LOG_BYTES + 8);
    }
}
