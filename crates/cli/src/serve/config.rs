//! How other programs are set up for the server: lines to copy.
//!
//! Rule: a line never contains a key, which the server does not know. It names a variable instead.

use clap::ValueEnum;
use serde_json::json;

/// The variable that the lines expect the key in.
const KEY_VARIABLE: &str = "TRANSOM_API_KEY";

/// A program, or the library of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ClientProgram {
    /// The editor Zed
    Zed,
    /// Visual Studio Code
    Vscode,
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Open WebUI
    OpenWebui,
    /// curl
    Curl,
    /// Libraries for OpenAI's API
    Openai,
    /// Libraries for Anthropic's API
    Anthropic,
}

/// Returns the lines for a program that uses `model`.
pub(super) fn text(program: ClientProgram, port: u16, model: &str) -> String {
    let root = format!("http://localhost:{port}");
    let key = format!("${KEY_VARIABLE}");
    let lines = match program {
        ClientProgram::Zed => {
            let models = json!([{ "name": model, "display_name": model, "max_tokens": 8192 }]);
            let provider = json!({ "api_url": format!("{root}/v1"), "available_models": models });
            let settings =
                json!({ "language_models": { "openai_compatible": { "Transom": provider } } });
            format!(
                "In settings.json; enter the key in the settings of the provider Transom:\n{}",
                pretty(&settings)
            )
        }
        ClientProgram::Vscode => {
            let entry = json!({
                "name": model,
                "url": format!("{root}/v1/chat/completions"),
                "toolCalling": true,
                "vision": false,
                "maxInputTokens": 6144,
                "maxOutputTokens": 2048,
            });
            let settings = json!({ "github.copilot.chat.customOAIModels": { (model): entry } });
            format!(
                "In settings.json; the editor asks for the key:\n{}",
                pretty(&settings)
            )
        }
        ClientProgram::ClaudeCode => format!(
            "export ANTHROPIC_BASE_URL={root}\nexport ANTHROPIC_AUTH_TOKEN={key}\n\
             export ANTHROPIC_MODEL='{model}'\nexport ANTHROPIC_SMALL_FAST_MODEL='{model}'"
        ),
        ClientProgram::Codex => format!(
            "In ~/.codex/config.toml; the key is in {KEY_VARIABLE}:\n\
             model = \"{model}\"\nmodel_provider = \"transom\"\n\n\
             [model_providers.transom]\nname = \"Transom\"\nbase_url = \"{root}/v1\"\n\
             env_key = \"{KEY_VARIABLE}\"\nwire_api = \"responses\""
        ),
        ClientProgram::OpenWebui => {
            format!("export OPENAI_API_BASE_URL={root}/v1\nexport OPENAI_API_KEY={key}")
        }
        ClientProgram::Curl => {
            let body = json!({
                "model": model,
                "messages": [{ "role": "user", "content": "What is a haiku?" }],
            });
            format!(
                "curl {root}/v1/chat/completions \\\n  -H \"Authorization: Bearer {key}\" \\\n  \
                 -H 'Content-Type: application/json' \\\n  -d '{body}'"
            )
        }
        ClientProgram::Openai => {
            format!("export OPENAI_BASE_URL={root}/v1\nexport OPENAI_API_KEY={key}")
        }
        ClientProgram::Anthropic => {
            format!("export ANTHROPIC_BASE_URL={root}\nexport ANTHROPIC_API_KEY={key}")
        }
    };
    lines + "\n"
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_gets_the_port_and_the_settings_are_json() {
        for program in ClientProgram::value_variants() {
            let text = text(*program, 4242, "qwen3-4b");
            assert!(text.contains("localhost:4242"), "{text}");
            if let Some(start) = text.find('{').filter(|_| text.contains("settings.json")) {
                let settings = serde_json::from_str::<serde_json::Value>(&text[start..]);
                assert!(settings.unwrap().to_string().contains("qwen3-4b"));
            }
        }
    }
}
