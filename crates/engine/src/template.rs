//! Chat templates: convert a conversation to the text that the model was trained to continue.
//!
//! Templates are written for Python's Jinja2 as `transformers` configures it; minijinja renders
//! them with the same extensions. For every known template the text equals that of `transformers`,
//! byte for byte (see `tests/templates.rs`). No clock is read here.
//!
//! Rule: a template comes with the model and is not trusted. Its source, its steps and its output
//! have limits. Memory has none here: see [`set_memory_watch`].

mod control_tokens;
mod environment;
mod json;
mod memory_watch;
mod messages;
mod methods;
mod syntax;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use minijinja::{Environment, ErrorKind, Value};
use serde::Deserialize;
use serde_json::json;

pub use self::control_tokens::{ControlTokens, Piece, RenderedPrompt};
pub use self::memory_watch::{MemoryWatch, set_memory_watch};

use self::control_tokens::Marker;
use self::messages::Arguments;
use crate::chat::{ChatPrompt, Message, ToolCall};
use crate::error::EngineError;
use crate::tokenizer_config::{ChatTemplateSource, TokenizerConfig, read_json};

const NAME: &str = "chat_template";

/// A name that shows whether a template writes it.
const PROBE: &str = "returntext";

/// Templates have up to 20 KB.
const MAX_SOURCE_BYTES: usize = 256 << 10;
/// Maximum size of a file that contains only a template, as text or JSON.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum output of a template in addition to the conversation.
const SPARE_OUTPUT_BYTES: usize = 4 << 20;
/// Maximum output relative to the conversation: templates may repeat it, and JSON takes six bytes
/// for some characters.
const MAX_OUTPUT_GROWTH: usize = 8;

/// A compiled chat template with the model's special tokens.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: BTreeMap<String, String>,
    control_tokens: ControlTokens,
}

impl ChatTemplate {
    /// Compiles the template of a model folder: `chat_template.jinja`, else `chat_template.json`,
    /// else that of `tokenizer_config.json`; `None` if none exists. The other arguments are those
    /// of [`ChatTemplate::new`].
    ///
    /// # Errors
    /// [`EngineError::BadFile`] for a file that cannot be read; [`EngineError::Template`] for a
    /// template that does not compile.
    pub fn from_folder(
        folder: &Path,
        config: &TokenizerConfig,
        control_tokens: ControlTokens,
    ) -> Result<Option<Self>, EngineError> {
        #[derive(Deserialize)]
        struct TemplateFile {
            chat_template: ChatTemplateSource,
        }
        let source: Option<String> = match read_text(&folder.join("chat_template.jinja"))? {
            Some(source) => Some(source),
            None => {
                let path = folder.join("chat_template.json");
                let file: Option<TemplateFile> = read_json(&path, MAX_FILE_BYTES)?;
                file.as_ref()
                    .map(|file| &file.chat_template)
                    .or(config.chat_template.as_ref())
                    .and_then(ChatTemplateSource::default_template)
                    .map(str::to_owned)
            }
        };
        source
            .map(|source| Self::new(&source, config.special_tokens(), control_tokens))
            .transpose()
    }

    /// Compiles a template. `special_tokens` are variables with the model's special tokens, such as
    /// `bos_token`. `control_tokens` are those that only the template may write.
    ///
    /// # Errors
    /// [`EngineError::Template`], with the line of a syntax error or of an expression that is too
    /// long.
    pub fn new<N: Into<String>, T: Into<String>>(
        source: &str,
        special_tokens: impl IntoIterator<Item = (N, T)>,
        control_tokens: ControlTokens,
    ) -> Result<Self, EngineError> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(failed(format!(
                "it has {} bytes, but at most {MAX_SOURCE_BYTES} are read",
                source.len()
            )));
        }
        let source = syntax::for_minijinja(source);
        let mut environment = environment::new();
        syntax::check_depth(&source, environment.syntax()).map_err(failed)?;
        // Constant expressions are computed here.
        let _watch = memory_watch::start();
        environment
            .add_template_owned(NAME, source)
            .map_err(|error| template_error(&error))?;
        Ok(Self {
            environment,
            special_tokens: special_tokens
                .into_iter()
                .map(|(name, token)| (name.into(), token.into()))
                .collect(),
            control_tokens,
        })
    }

    /// Renders a conversation up to the start of the response. With
    /// [`ChatPrompt::continue_final_message`] it ends with the text of the last message. Templates
    /// that write the date use `now` in the machine's time zone.
    ///
    /// # Errors
    /// [`EngineError::Template`]: the template's own message if it refuses the conversation, else
    /// the line that failed or the limit that was exceeded. Also if the template changes the text
    /// of a message that the response continues.
    pub fn render(
        &self,
        prompt: &ChatPrompt,
        now: SystemTime,
    ) -> Result<RenderedPrompt, EngineError> {
        match self.render_with(prompt, Arguments::Objects, now) {
            Err(error) if prompt.has_tool_calls() => self
                .render_with(prompt, Arguments::Texts, now)
                .map_err(|_| error),
            result => result,
        }
    }

    fn render_with(
        &self,
        prompt: &ChatPrompt,
        arguments: Arguments,
        now: SystemTime,
    ) -> Result<RenderedPrompt, EngineError> {
        let template = self.environment.get_template(NAME);
        let template = template.map_err(|error| template_error(&error))?;
        let marker = Marker::new(&self.control_tokens, template.source(), prompt)?;
        let mut output = Output::new(prompt);
        let variables = self.variables(prompt, arguments, marker, now);
        let variables = variables.map_err(|error| template_error(&error))?;
        let _watch = memory_watch::start();
        let result = template
            .render_captured_to(variables, &mut output)
            .map(drop);
        if output.is_full {
            return Err(failed(format!("it wrote more than {} bytes", output.limit)));
        }
        result.map_err(|error| template_error(&error))?;
        let rendered = String::from_utf8(output.bytes);
        let rendered = rendered.map_err(|_| failed("it wrote half a character".to_owned()))?;
        let rendered = match prompt.unfinished_message() {
            None => rendered,
            Some(message) => marker.cut_after(&rendered, message).ok_or_else(|| {
                failed("it changes the unfinished response, which cannot be continued".to_owned())
            })?,
        };
        Ok(marker.finish(&rendered))
    }

    /// Returns whether the model reasons if a prompt does not say so. `None` if the template ignores
    /// [`ChatPrompt::enable_thinking`], or refuses a plain question.
    pub fn default_thinking(&self) -> Option<bool> {
        let rendered = |enable_thinking| {
            let prompt = ChatPrompt {
                messages: vec![Message::user("Hello")],
                enable_thinking,
                ..ChatPrompt::default()
            };
            self.render(&prompt, SystemTime::UNIX_EPOCH).ok()
        };
        let (on, off) = (rendered(Some(true))?, rendered(Some(false))?);
        (on != off).then(|| rendered(None).is_some_and(|default| default == on))
    }

    /// Returns true if the template writes the definitions of tools. If it ignores them, the model
    /// cannot know that there are any.
    pub fn knows_tools(&self) -> bool {
        let text = json!({"type": "string", "description": "The text."});
        let parameters =
            json!({"type": "object", "properties": {"text": text}, "required": ["text"]});
        let function = json!({
            "name": PROBE,
            "description": "Returns the text.",
            "parameters": parameters,
        });
        self.writes_probe(&ChatPrompt {
            messages: vec![Message::user("Hello")],
            tools: vec![json!({"type": "function", "function": function})],
            ..ChatPrompt::default()
        })
    }

    /// Returns true if the template writes the tool calls of earlier responses.
    pub fn knows_tool_calls(&self) -> bool {
        // Mistral's templates accept only ids of this form.
        let call = ToolCall::new("abcdefghi", PROBE, json!({"text": "Hello"}));
        let result = Message::tool_result(&call, "Hello");
        let called = Message {
            tool_calls: vec![call],
            ..Message::assistant("")
        };
        self.writes_probe(&ChatPrompt {
            messages: vec![Message::user("Hello"), called, result],
            ..ChatPrompt::default()
        })
    }

    /// Returns true if the template writes the names of the authors of messages.
    pub fn knows_names(&self) -> bool {
        let named = Message {
            name: Some(PROBE.to_owned()),
            ..Message::user("Hello")
        };
        self.writes_probe(&ChatPrompt {
            messages: vec![named],
            ..ChatPrompt::default()
        })
    }

    fn writes_probe(&self, prompt: &ChatPrompt) -> bool {
        let rendered = self.render(prompt, SystemTime::UNIX_EPOCH);
        rendered.is_ok_and(|rendered| rendered.text().contains(PROBE))
    }

    /// Returns the text of the template.
    pub(crate) fn source(&self) -> String {
        let template = self.environment.get_template(NAME);
        template.map_or_else(|_| String::new(), |template| template.source().to_owned())
    }

    /// Returns the control tokens that only the template may write.
    pub fn control_tokens(&self) -> &ControlTokens {
        &self.control_tokens
    }

    /// Returns the variables that `transformers` gives to templates.
    fn variables(
        &self,
        prompt: &ChatPrompt,
        arguments: Arguments,
        marker: Marker<'_>,
        now: SystemTime,
    ) -> Result<Value, minijinja::Error> {
        let unfinished = prompt.unfinished_message();
        let messages = prompt.messages.iter().map(|message| {
            let is_unfinished = unfinished.is_some_and(|last| std::ptr::eq(last, message));
            let content = match is_unfinished {
                true => Cow::Owned(marker.unfinished_content(message)),
                false => marker.content(message),
            };
            messages::to_value(message, &content, arguments, marker)
        });
        let messages: Vec<Value> = messages.collect::<Result<_, _>>()?;
        let tools = match prompt.tools.as_slice() {
            [] => Value::from(()),
            tools => {
                let tools = tools.iter();
                tools.map(|tool| json::to_value(tool, marker)).collect()
            }
        };
        let mut variables = vec![
            ("messages", Value::from(messages)),
            ("tools", tools),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(unfinished.is_none())),
            ("strftime_now", environment::strftime(now)),
        ];
        if let Some(enable_thinking) = prompt.enable_thinking {
            variables.push(("enable_thinking", Value::from(enable_thinking)));
        }
        let tokens = self
            .special_tokens
            .iter()
            .map(|(name, token)| (name.as_str(), Value::from(token.as_str())));
        Ok(Value::from_pairs(variables.into_iter().chain(tokens)))
    }
}

#[derive(Debug)]
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Output {
    fn new(prompt: &ChatPrompt) -> Self {
        let n_bytes: usize = prompt.texts().iter().map(|text| text.len()).sum();
        Self {
            bytes: Vec::new(),
            limit: SPARE_OUTPUT_BYTES + MAX_OUTPUT_GROWTH * n_bytes,
            is_full: false,
        }
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read_text(path: &Path) -> Result<Option<String>, EngineError> {
    match transom_files::read_to_string(path, MAX_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EngineError::bad_file(path, error)),
    }
}

fn failed(reason: String) -> EngineError {
    EngineError::Template { reason }
}

fn template_error(error: &minijinja::Error) -> EngineError {
    if error.kind() == ErrorKind::OutOfFuel {
        return failed(format!(
            "it did not end within {} steps; use another one",
            environment::MAX_STEPS
        ));
    }
    let reason = environment::refusal(error).unwrap_or_else(|| {
        let message = error
            .detail()
            .map_or_else(|| error.kind().to_string(), str::to_owned);
        match error.line() {
            Some(line) => format!("{message} (line {line})"),
            None => message,
        }
    });
    failed(reason)
}

#[cfg(test)]
mod tests;
