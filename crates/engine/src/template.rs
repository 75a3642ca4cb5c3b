//! Chat templates: a conversation to the text that the model was trained to continue.
//!
//! Templates are written for Python's Jinja2 as `transformers` sets it up; here minijinja renders
//! them with the same extensions. The rule: for every template that we know the rendered text
//! equals that of `transformers`, byte for byte (see `tests/templates.rs`). Nothing here reads the
//! clock.

mod environment;
mod json;
mod methods;
mod syntax;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use minijinja::{Environment, Value};
use serde::Deserialize;

use crate::chat::ChatPrompt;
use crate::error::EngineError;
use crate::tokenizer::{ChatTemplateSource, TokenizerConfig, read_json};

const NAME: &str = "chat_template";

/// A compiled chat template with the model's special tokens.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// The template of a model folder: `chat_template.jinja`, else `chat_template.json`, else that
    /// of `tokenizer_config.json`; `None` where none of them has one.
    ///
    /// # Errors
    /// [`EngineError::BadFile`] for a file that cannot be read; [`EngineError::Template`] for a
    /// template that does not compile.
    pub fn from_folder(
        folder: &Path,
        config: &TokenizerConfig,
    ) -> Result<Option<Self>, EngineError> {
        #[derive(Deserialize)]
        struct TemplateFile {
            chat_template: ChatTemplateSource,
        }
        let source: Option<String> = match read_text(&folder.join("chat_template.jinja"))? {
            Some(source) => Some(source),
            None => {
                let file: Option<TemplateFile> = read_json(&folder.join("chat_template.json"))?;
                file.as_ref()
                    .map(|file| &file.chat_template)
                    .or(config.chat_template.as_ref())
                    .and_then(ChatTemplateSource::default_template)
                    .map(str::to_owned)
            }
        };
        source
            .map(|source| Self::new(&source, config.special_tokens()))
            .transpose()
    }

    /// Compiles a template. `special_tokens` are the variables that it knows the model's special
    /// tokens by, such as `bos_token`.
    ///
    /// # Errors
    /// [`EngineError::Template`] with the line for a syntax error.
    pub fn new<N: Into<String>, T: Into<String>>(
        source: &str,
        special_tokens: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, EngineError> {
        let mut environment = environment::new();
        environment
            .add_template_owned(NAME, syntax::for_minijinja(source))
            .map_err(|error| template_error(&error))?;
        Ok(Self {
            environment,
            special_tokens: special_tokens
                .into_iter()
                .map(|(name, token)| (name.into(), token.into()))
                .collect(),
        })
    }

    /// Renders a conversation up to the point where the model is to answer. Templates that write
    /// the date take it from `now`, in the machine's time zone.
    ///
    /// # Errors
    /// [`EngineError::Template`]: in the template's own words when it refuses the conversation, else
    /// with the line at which it failed.
    pub fn render(&self, prompt: &ChatPrompt, now: SystemTime) -> Result<String, EngineError> {
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(self.variables(prompt, now)))
            .map_err(|error| template_error(&error))
    }

    /// The variables that `transformers` gives to templates.
    fn variables(&self, prompt: &ChatPrompt, now: SystemTime) -> Value {
        let messages = prompt.messages.iter().map(|message| {
            Value::from_pairs([
                ("role", Value::from(message.role.as_str())),
                ("content", Value::from(message.content.as_str())),
            ])
        });
        let tools = match prompt.tools.as_slice() {
            [] => Value::from(()),
            tools => tools.iter().map(json::to_value).collect(),
        };
        let mut variables = vec![
            ("messages", messages.collect()),
            ("tools", tools),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(true)),
            ("strftime_now", environment::strftime(now)),
        ];
        if let Some(enable_thinking) = prompt.enable_thinking {
            variables.push(("enable_thinking", Value::from(enable_thinking)));
        }
        let tokens = self
            .special_tokens
            .iter()
            .map(|(name, token)| (name.as_str(), Value::from(token.as_str())));
        Value::from_pairs(variables.into_iter().chain(tokens))
    }
}

fn read_text(path: &Path) -> Result<Option<String>, EngineError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EngineError::BadFile {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

fn template_error(error: &minijinja::Error) -> EngineError {
    let reason = environment::refusal(error).unwrap_or_else(|| {
        let what = error
            .detail()
            .map_or_else(|| error.kind().to_string(), str::to_owned);
        match error.line() {
            Some(line) => format!("{what} (line {line})"),
            None => what,
        }
    });
    EngineError::Template { reason }
}

#[cfg(test)]
mod tests;
