//! Reads the body of `/api/chat` and `/api/generate`.
//!
//! Rule: the context is cut only if the request itself says `truncate: true`. Ollama cuts unasked.

use std::time::Duration;

use serde_json::json;
use transom_engine::{ChatPrompt, FillIn, Message, Prompt, Role, ToolCall, Truncation};
use transom_supervisor::KeepAlive;

use crate::constraints;
use crate::error::ApiError;
use crate::generation::Params;
use crate::json::{Fields, Located};
use crate::routes::{keep_alive, logprobs, openai, tools};

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
const ROLES: [(&str, Role); 4] = [
    ("system", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
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
}

impl GenerateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// A field is missing, wrong, or not supported.
    pub(super) fn read(route: Route, mut body: Fields) -> Result<Self, ApiError> {
        let model = body.required("model")?.text()?;
        for name in ["template", "images", "context", "shift"] {
            body.refuse(name, &[])?;
        }
        let think = body.flag("think")?;
        let keep_alive = keep_alive::take(&mut body)?;
        let is_streamed = body.flag("stream")?.unwrap_or(true);
        let may_drop_messages = body.flag("truncate")?.unwrap_or(false);
        let (mut params, context_length) = options(&mut body)?;
        params.keep_alive = keep_alive;
        params.logprobs = logprobs::take(&mut body)?;
        let format = body.take("format").map(constraints::ollama).transpose()?;
        params.constraint = format.flatten();
        let prompt = match route {
            Route::Chat => {
                body.refuse("suffix", &[])?;
                let tools = tools::of_chat(&mut body)?;
                let mut chat = conversation(&mut body, think)?;
                if let Some(chat) = &mut chat {
                    tools.add_to(chat, params.constraint.as_ref())?;
                }
                chat.map(Prompt::Chat)
            }
            Route::Generate => {
                body.refuse("tools", &[])?;
                prompt(&mut body, think)?
            }
        };
        body.finish();
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
        })
    }

    /// Returns true if the model need not stay loaded after the request.
    pub(super) fn unloads(&self) -> bool {
        let time = Duration::ZERO;
        self.params.keep_alive == Some(KeepAlive::Idle { time })
    }
}

/// Takes the options: the parameters, and the context length.
fn options(body: &mut Fields) -> Result<(Params, Option<usize>), ApiError> {
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
    options.finish();
    Ok((params, context_length))
}

/// Takes the messages. `None` if there are none.
fn conversation(
    body: &mut Fields,
    enable_thinking: Option<bool>,
) -> Result<Option<ChatPrompt>, ApiError> {
    let mut messages = Vec::new();
    for located in body.list("messages")?.unwrap_or_default() {
        let message = message(located, &messages)?;
        messages.push(message);
    }
    // An empty last response has not begun.
    let has_nothing = |last: &Message| last.content.is_empty() && last.tool_calls.is_empty();
    let is_unbegun = |last: &Message| last.role == Role::Assistant && has_nothing(last);
    if messages.last().is_some_and(is_unbegun) {
        messages.pop();
    }
    // As Ollama does it with the templates of most models.
    let is_continued = |last: &Message| last.role == Role::Assistant && last.tool_calls.is_empty();
    let continue_final_message = messages.last().is_some_and(is_continued);
    Ok((!messages.is_empty()).then(|| ChatPrompt {
        messages,
        enable_thinking,
        continue_final_message,
        ..ChatPrompt::default()
    }))
}

/// Reads a message that comes after `earlier` ones.
fn message(located: Located, earlier: &[Message]) -> Result<Message, ApiError> {
    let mut fields = located.object()?;
    let role = fields.required("role")?.choice(&ROLES)?;
    fields.refuse("images", &[])?;
    let mut message = Message::new(role, "");
    match role {
        Role::Assistant => {
            let n_calls: usize = earlier.iter().map(|one| one.tool_calls.len()).sum();
            let calls = fields.list("tool_calls")?.unwrap_or_default().into_iter();
            let calls = (n_calls..).zip(calls);
            let calls = calls.map(|(number, call)| tool_call(call, number));
            message.tool_calls = calls.collect::<Result<_, _>>()?;
        }
        Role::Tool => {
            let call = call_of_result(&mut fields, earlier)?;
            message.name = Some(call.function.name);
            message.tool_call_id = Some(call.id);
        }
        Role::System | Role::User => {}
    }
    for name in ["tool_calls", "tool_name", "tool_call_id"] {
        fields.refuse(name, &[])?;
    }
    // Templates leave the reasoning of the past out.
    fields.tolerate(&["thinking"]);
    message.content = match message.tool_calls.is_empty() {
        true => fields.required("content")?.text()?,
        false => fields.text("content")?.unwrap_or_default(),
    };
    fields.finish();
    Ok(message)
}

/// Reads a call of an earlier response. Older clients know no ids.
fn tool_call(located: Located, number: usize) -> Result<ToolCall, ApiError> {
    let mut fields = located.object()?;
    let id = fields
        .text("id")?
        .unwrap_or_else(|| format!("call_{number}"));
    fields.tolerate(&["type"]);
    let mut function = fields.required("function")?.object()?;
    let name = function.required("name")?.text()?;
    let arguments = match function.take("arguments") {
        None => json!({}),
        Some(arguments) if arguments.value.is_object() => arguments.value,
        Some(arguments) => return Err(arguments.must_be("an object")),
    };
    function.tolerate(&["index"]);
    function.finish();
    fields.finish();
    Ok(ToolCall::new(id, name, arguments))
}

/// Returns the call that a result belongs to: that of its id, the oldest one of its function without a
/// result, or simply the oldest one without.
///
/// # Errors
/// There is no such call. Templates leave out a result without a call.
fn call_of_result(fields: &mut Fields, earlier: &[Message]) -> Result<ToolCall, ApiError> {
    let name_path = fields.path_of("tool_name");
    let (id, name) = (fields.text("tool_call_id")?, fields.text("tool_name")?);
    let has_result = |call: &ToolCall| {
        let mut ids = earlier.iter().filter_map(|one| one.tool_call_id.as_ref());
        ids.any(|id| *id == call.id)
    };
    let calls = earlier.iter().flat_map(|message| &message.tool_calls);
    let mut open = calls.filter(|call| !has_result(call));
    let found = open.find(|call| match (&id, &name) {
        (Some(id), _) => call.id == *id,
        (None, Some(name)) => call.function.name == *name,
        (None, None) => true,
    });
    found.cloned().ok_or_else(|| {
        let message =
            format!("`{name_path}` must be the function of an earlier call without a result");
        ApiError::field(name_path, message)
    })
}

/// Takes the prompt of `/api/generate`. `None` if it is empty.
///
/// A text after the gap needs no template: the model's markers are around both texts.
fn prompt(body: &mut Fields, enable_thinking: Option<bool>) -> Result<Option<Prompt>, ApiError> {
    let text = body.text("prompt")?.unwrap_or_default();
    let suffix = body.text("suffix")?.filter(|suffix| !suffix.is_empty());
    let system = body.text("system")?.filter(|system| !system.is_empty());
    let is_raw = body.flag("raw")?.unwrap_or(false);
    for (name, is_given) in [
        ("system", system.is_some()),
        ("think", enable_thinking.is_some()),
    ] {
        if is_given && (is_raw || suffix.is_some()) {
            let other = if is_raw { "raw" } else { "suffix" };
            let message =
                format!("`{name}` needs the model's template, which `{other}` leaves out");
            return Err(ApiError::field(name, message));
        }
    }
    if let Some(suffix) = suffix {
        let prefix = text;
        return Ok(Some(Prompt::FillIn(FillIn { prefix, suffix })));
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
