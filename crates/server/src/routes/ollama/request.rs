//! Reads the body of `/api/chat` and `/api/generate`.
//!
//! Rule: the context is cut only if the request itself says `truncate: true`. Ollama cuts unasked.

use std::time::Duration;

use serde_json::json;
use transom_engine::{ChatPrompt, Message, Prompt, Role, Truncation};
use transom_supervisor::KeepAlive;

use crate::error::ApiError;
use crate::generation::Params;
use crate::json::{Fields, Ignored, Located};
use crate::routes::{constraints, keep_alive, logprobs, openai};

/// Options of Ollama's runner, which say how it computes and not what, and options that have an
/// effect only beside one that is refused.
pub(super) const TOLERATED_OPTIONS: [&str; 14] = [
    "f16_kv",
    "low_vram",
    "main_gpu",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_gpu",
    "num_keep",
    "num_thread",
    "numa",
    "use_mlock",
    "use_mmap",
    "use_mlx",
    "vocab_only",
];

/// The roles of messages.
const ROLES: [(&str, Role); 3] = [
    ("system", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
];

/// The route of a request, which decides the form of the prompt and of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// `/api/chat`
    Chat,
    /// `/api/generate`
    Generate,
}

/// A request for a response, checked.
#[derive(Debug)]
pub(super) struct GenerateRequest {
    pub(super) route: Route,
    pub(super) model: String,
    /// `None` if the request only loads or unloads the model.
    pub(super) prompt: Option<Prompt>,
    pub(super) params: Params,
    /// The context length to load the model with.
    pub(super) context_length: Option<usize>,
    pub(super) truncation: Truncation,
    pub(super) think: Option<bool>,
    pub(super) is_streamed: bool,
    pub(super) ignored: Ignored,
}

impl GenerateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// A field is missing, wrong, or not supported.
    pub(super) fn read(route: Route, mut body: Fields) -> Result<Self, ApiError> {
        let mut ignored = Ignored::default();
        let model = body.required("model")?.text()?;
        for name in ["tools", "template", "suffix", "images", "context", "shift"] {
            body.refuse(name, &[])?;
        }
        let think = body.flag("think")?;
        let keep_alive = keep_alive::take(&mut body)?;
        let is_streamed = body.flag("stream")?.unwrap_or(true);
        let may_drop_messages = body.flag("truncate")?.unwrap_or(false);
        let (mut params, context_length) = options(&mut body, &mut ignored)?;
        params.keep_alive = keep_alive;
        params.logprobs = logprobs::take(&mut body)?;
        let format = body.take("format").map(constraints::ollama).transpose()?;
        params.constraint = format.flatten();
        let prompt = match route {
            Route::Chat => conversation(&mut body, think, &mut ignored)?,
            Route::Generate => prompt(&mut body, think)?,
        };
        body.finish(&mut ignored);
        Ok(Self {
            route,
            model,
            prompt,
            truncation: match may_drop_messages {
                true => Truncation::DropOldest {
                    response_tokens: params.max_tokens.unwrap_or(usize::MAX),
                    context_limit: None,
                },
                false => Truncation::Disabled,
            },
            params,
            context_length,
            think,
            is_streamed,
            ignored,
        })
    }

    /// Returns true if the model need not stay loaded after the request.
    pub(super) fn unloads(&self) -> bool {
        let time = Duration::ZERO;
        self.params.keep_alive == Some(KeepAlive::Idle { time })
    }
}

/// Takes the options: the parameters, and the context length.
fn options(body: &mut Fields, ignored: &mut Ignored) -> Result<(Params, Option<usize>), ApiError> {
    let Some(mut options) = body.object("options")? else {
        return Ok((Params::default(), None));
    };
    options.tolerate(&TOLERATED_OPTIONS);
    // Penalties count all tokens here, which is -1 there.
    options.refuse("repeat_last_n", &[json!(-1)])?;
    let context_length = options.count("num_ctx", 1)?;
    let limit = options.take("num_predict");
    let is_zero = limit
        .as_ref()
        .map(|limit| limit.must_be("at least 1, or -1 for no limit"));
    // -1 and -2 are two ways to say: until the context is full.
    let limit = limit
        .map(|limit| limit.integer(-2..=i64::MAX))
        .transpose()?;
    if let (Some(0), Some(error)) = (limit, is_zero) {
        return Err(error);
    }
    let mut params = openai::params(&mut options)?;
    params.max_tokens = limit.and_then(|limit| usize::try_from(limit).ok());
    // -1 asks for a random seed.
    params.seed = params.seed.filter(|seed| *seed != u64::MAX);
    options.finish(ignored);
    Ok((params, context_length))
}

/// Takes the messages. `None` if there are none.
fn conversation(
    body: &mut Fields,
    enable_thinking: Option<bool>,
    ignored: &mut Ignored,
) -> Result<Option<Prompt>, ApiError> {
    let messages = body.list("messages")?.unwrap_or_default().into_iter();
    let messages = messages.map(|located| message(located, ignored));
    let mut messages = messages.collect::<Result<Vec<_>, _>>()?;
    // An empty last response has not begun.
    let is_unbegun = |last: &Message| last.role == Role::Assistant && last.content.is_empty();
    if messages.last().is_some_and(is_unbegun) {
        messages.pop();
    }
    let last = messages.last().map(|last| last.role);
    Ok(last.map(|role| {
        Prompt::Chat(ChatPrompt {
            messages,
            enable_thinking,
            // As Ollama does it with the templates of most models.
            continue_final_message: role == Role::Assistant,
            ..ChatPrompt::default()
        })
    }))
}

fn message(located: Located, ignored: &mut Ignored) -> Result<Message, ApiError> {
    let mut fields = located.object()?;
    let role = fields.required("role")?;
    if role.value == "tool" {
        let message = format!("`{}`: results of tools are not supported here", role.path);
        return Err(ApiError::field(role.path, message));
    }
    let role = role.choice(&ROLES)?;
    for name in ["images", "tool_calls", "tool_name"] {
        fields.refuse(name, &[])?;
    }
    // Templates leave the reasoning of the past out.
    fields.tolerate(&["thinking"]);
    let content = fields.required("content")?.text()?;
    fields.finish(ignored);
    Ok(Message::new(role, content))
}

/// Takes the prompt of `/api/generate`. `None` if it is empty.
fn prompt(body: &mut Fields, enable_thinking: Option<bool>) -> Result<Option<Prompt>, ApiError> {
    let text = body.text("prompt")?.unwrap_or_default();
    let system = body.text("system")?.filter(|system| !system.is_empty());
    let is_raw = body.flag("raw")?.unwrap_or(false);
    for (name, is_given) in [
        ("system", system.is_some()),
        ("think", enable_thinking.is_some()),
    ] {
        if is_raw && is_given {
            let message = format!("`{name}` needs the model's template, which `raw` leaves out");
            return Err(ApiError::field(name, message));
        }
    }
    if text.is_empty() {
        return Ok(None);
    }
    if is_raw {
        return Ok(Some(Prompt::Text(text)));
    }
    let messages = system.map(Message::system).into_iter();
    Ok(Some(Prompt::Chat(ChatPrompt {
        messages: messages.chain([Message::user(text)]).collect(),
        enable_thinking,
        ..ChatPrompt::default()
    })))
}

#[cfg(test)]
mod tests;
