//! The diagnostics report: one text file without private data.
//!
//! Rule: nothing that the user wrote is copied. Prompts are counted, conversations are not read,
//! and no path or token passes [`diagnostics::clean`].

use std::fmt::Write;
use std::path::Path;

use transom_library::{Library, diagnostics};
use transom_store::Settings;

use crate::wire::{AboutView, StatusView};

/// Returns the text of the report. `log` is from [`diagnostics::log_lines`].
pub(crate) fn text(
    about: &AboutView,
    status: &StatusView,
    settings: &Settings,
    library: &Library,
    log: &str,
    home: Option<&Path>,
) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: &str| {
        let _ = writeln!(text, "== {title} ==\n{}\n", body.trim_end());
    };
    // The built-in instructions are the same everywhere.
    let about_without_routes = AboutView {
        routes: Vec::new(),
        ..about.clone()
    };
    section("About", &json(&about_without_routes));
    section("Status", &json(status));
    section("Settings", &json(&without_user_text(settings)));
    section("Models", &diagnostics::models(library));
    section("Log", log);
    diagnostics::clean(&text, Path::new(&about.data_folder), home)
}

/// Removes everything that the user wrote from the settings.
fn without_user_text(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let hide = |text: &mut String| *text = format!("({} characters)", text.chars().count());
    for model in settings.models.values_mut() {
        model.system_prompt.iter_mut().for_each(hide);
    }
    for prompt in settings.prompts.iter_mut().flatten() {
        prompt.name = "(name)".to_owned();
        hide(&mut prompt.text);
    }
    for assistant in &mut settings.assistants {
        assistant.name = "(name)".to_owned();
        assistant.settings.instructions.iter_mut().for_each(hide);
    }
    for route in settings.routes.values_mut() {
        route.instructions.iter_mut().for_each(hide);
    }
    settings
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HotkeyView;
    use transom_library::test_support::{computer, library};
    use transom_store::{
        Assistant, ConversationSettings, ModelSettings, RouteChanges, SavedPrompt,
    };

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
            routes: Vec::new(),
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
            recent_models: vec![id, "/srv/Mine/a.gguf".to_owned()],
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
            routes: [(
                "translate".to_owned(),
                RouteChanges {
                    instructions: Some(format!("as {SECRET}")),
                    ..RouteChanges::default()
                },
            )]
            .into(),
            ..Settings::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let mine = format!("{home}/Mine.gguf");
        transom_library::add_paths(folder.path(), &[mine.into()]).unwrap();
        let log = format!("t INFO transom: opened {home}/data with hf_abcdefghijklmnopq\n");
        let text = text(
            &about(),
            &StatusView::default(),
            &settings,
            &library(folder.path(), computer()),
            &log,
            Some(Path::new(&home)),
        );
        for private in [SECRET, "models/Qwen3", "/srv/", "hf_abc"] {
            assert!(!text.contains(private), "{private} in {text}");
        }
        // Useful information is included.
        for useful in [
            "\"data_folder\": \"(data)\"",
            "Mine: 0 bytes",
            "0.25",
            "Debian 12",
            "INFO transom: opened (data) with (token)",
            "9 characters",
        ] {
            assert!(text.contains(useful), "no {useful} in {text}");
        }
    }
}
