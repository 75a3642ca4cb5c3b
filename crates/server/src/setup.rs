//! How other programs are set up for the server: lines to copy.
//!
//! Rule: a line never contains a key, which the server does not know. It names a variable instead.

use std::fmt;

use serde_json::json;

/// The variable that the lines expect the key in.
pub const KEY_VARIABLE: &str = "TRANSOM_API_KEY";

/// A program, or the library of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProgram {
    /// curl.
    Curl,
    /// Libraries for OpenAI's API.
    Openai,
    /// Libraries for Anthropic's API.
    Anthropic,
    /// The editor Zed.
    Zed,
    /// Visual Studio Code.
    Vscode,
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Open WebUI.
    OpenWebui,
}

/// The lines that set up a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Where they belong, in English; `None` for a terminal.
    pub place: Option<&'static str>,
    /// The lines, without a line break at the end.
    pub lines: String,
}

/// As a terminal shows it: the place first.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            writeln!(f, "{place}:")?;
        }
        writeln!(f, "{}", self.lines)
    }
}

impl ClientProgram {
    /// All programs.
    pub const ALL: [Self; 8] = [
        Self::Curl,
        Self::Openai,
        Self::Anthropic,
        Self::Zed,
        Self::Vscode,
        Self::ClaudeCode,
        Self::Codex,
        Self::OpenWebui,
    ];

    /// Returns its name for the command line, and its name for people.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Curl => ("curl", "curl"),
            Self::Openai => ("openai", "Libraries for OpenAI's API"),
            Self::Anthropic => ("anthropic", "Libraries for Anthropic's API"),
            Self::Zed => ("zed", "Zed"),
            Self::Vscode => ("vscode", "Visual Studio Code"),
            Self::ClaudeCode => ("claude-code", "Claude Code"),
            Self::Codex => ("codex", "Codex"),
            Self::OpenWebui => ("open-webui", "Open WebUI"),
        }
    }

    /// Returns its name for the command line.
    pub fn id(self) -> &'static str {
        self.names().0
    }

    /// Returns the program with this name of the command line.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.id() == id)
    }

    /// Returns its name for people.
    pub fn title(self) -> &'static str {
        self.names().1
    }

    /// Returns the lines with which it uses `model` at this port.
    pub fn setup(self, port: u16, model: &str) -> Setup {
        let root = format!("http://localhost:{port}");
        let key = format!("${KEY_VARIABLE}");
        let in_terminal = |lines: String| Setup { place: None, lines };
        match self {
            Self::Zed => {
                let models = json!([{ "name": model, "display_name": model, "max_tokens": 8192 }]);
                let provider =
                    json!({ "api_url": format!("{root}/v1"), "available_models": models });
                let settings =
                    json!({ "language_models": { "openai_compatible": { "Transom": provider } } });
                Setup {
                    place: Some(
                        "In settings.json; enter the key in the settings of the provider Transom",
                    ),
                    lines: format!("{settings:#}"),
                }
            }
            Self::Vscode => {
                let entry = json!({
                    "name": model,
                    "url": format!("{root}/v1/chat/completions"),
                    "toolCalling": true,
                    "vision": false,
                    "maxInputTokens": 6144,
                    "maxOutputTokens": 2048,
                });
                let settings = json!({ "github.copilot.chat.customOAIModels": { (model): entry } });
                Setup {
                    place: Some("In settings.json; the editor asks for the key"),
                    lines: format!("{settings:#}"),
                }
            }
            Self::ClaudeCode => in_terminal(format!(
                "export ANTHROPIC_BASE_URL={root}\nexport ANTHROPIC_AUTH_TOKEN={key}\n\
                 export ANTHROPIC_MODEL='{model}'\nexport ANTHROPIC_SMALL_FAST_MODEL='{model}'"
            )),
            Self::Codex => Setup {
                place: Some("In ~/.codex/config.toml; the key is in TRANSOM_API_KEY"),
                lines: format!(
                    "model = \"{model}\"\nmodel_provider = \"transom\"\n\n\
                     [model_providers.transom]\nname = \"Transom\"\nbase_url = \"{root}/v1\"\n\
                     env_key = \"{KEY_VARIABLE}\"\nwire_api = \"responses\""
                ),
            },
            Self::OpenWebui => in_terminal(format!(
                "export OPENAI_API_BASE_URL={root}/v1\nexport OPENAI_API_KEY={key}"
            )),
            Self::Curl => {
                let body = json!({
                    "model": model,
                    "messages": [{ "role": "user", "content": "What is a haiku?" }],
                });
                in_terminal(format!(
                    "curl {root}/v1/chat/completions \\\n  -H \"Authorization: Bearer {key}\" \\\n  \
                     -H 'Content-Type: application/json' \\\n  -d '{body}'"
                ))
            }
            Self::Openai => in_terminal(format!(
                "export OPENAI_BASE_URL={root}/v1\nexport OPENAI_API_KEY={key}"
            )),
            Self::Anthropic => in_terminal(format!(
                "export ANTHROPIC_BASE_URL={root}\nexport ANTHROPIC_API_KEY={key}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_gets_the_port_and_the_settings_are_json() {
        for program in ClientProgram::ALL {
            assert_eq!(ClientProgram::of_id(program.id()), Some(program));
            let setup = program.setup(4242, "qwen3-4b");
            let Setup { place, lines } = &setup;
            assert!(lines.contains("localhost:4242"), "{lines}");
            if place.is_some_and(|place| place.contains("settings.json")) {
                let settings = serde_json::from_str::<serde_json::Value>(lines);
                assert!(settings.unwrap().to_string().contains("qwen3-4b"));
            }
            assert_eq!(setup.to_string().contains("In "), place.is_some());
        }
        assert_eq!(ClientProgram::of_id("emacs"), None);
    }
}
