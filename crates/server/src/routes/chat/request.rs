//! The body of a chat request.

use serde_json::{Value, json};
use transom_engine::{ChatPrompt, Message, Role};

use crate::error::ApiError;
use crate::generation::Params;
use crate::json::{Fields, Ignored, Located};
use crate::routes::openai::{self, Streaming};

/// Most choices of a request.
const MAX_CHOICES: i64 = 8;

/// What the field `reasoning_effort` may be, and whether the model reasons then.
const EFFORTS: [(&str, bool); 7] = [
    ("none", false),
    ("minimal", true),
    ("low", true),
    ("medium", true),
    ("high", true),
    ("xhigh", true),
    ("max", true),
];

/// The roles of messages.
const ROLES: [(&str, Role); 4] = [
    ("system", Role::System),
    // The newer name of the same.
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
];

/// A chat request, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatRequest {
    pub(super) model: String,
    pub(super) prompt: ChatPrompt,
    pub(super) params: Params,
    pub(super) n: usize,
    pub(super) streaming: Streaming,
    /// The request has `reasoning_effort`.
    pub(super) has_effort: bool,
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// A field is wrong, or asks for something that this server can't do.
    pub(super) fn read(mut fields: Fields, ignored: &mut Ignored) -> Result<Self, ApiError> {
        let model = fields.required("model")?.text()?;
        refuse_unsupported(&mut fields)?;
        let mut params = openai::params(&mut fields)?;
        let names = ["max_completion_tokens", "max_tokens"];
        params.max_tokens = openai::max_tokens(&mut fields, &names)?;
        let n = fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1);
        let streaming = Streaming::take(&mut fields)?;
        let effort = fields.take("reasoning_effort");
        let effort = effort.map(|effort| effort.choice(&EFFORTS)).transpose()?;
        let switch = enable_thinking(&mut fields)?;
        let messages = messages(&mut fields, ignored)?;
        let continue_final_message = continue_final_message(&mut fields, &messages)?;
        if fields.flag("store")? == Some(true) {
            ignored.add("store");
        }
        fields.finish(ignored);
        Ok(Self {
            model,
            prompt: ChatPrompt {
                messages,
                enable_thinking: switch.or(effort),
                tools: Vec::new(),
                continue_final_message,
            },
            params,
            n: usize::try_from(n).unwrap_or(1),
            streaming,
            has_effort: effort.is_some(),
        })
    }
}

/// Refuses what no engine here can do, unless the value asks for nothing.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let choices = [json!("none"), json!("auto")];
    fields.refuse("tools", &[])?;
    fields.refuse("tool_choice", &choices)?;
    fields.refuse("functions", &[])?;
    fields.refuse("function_call", &choices)?;
    fields.refuse("response_format", &[json!({ "type": "text" })])?;
    fields.refuse("logprobs", &[])?;
    fields.refuse("top_logprobs", &[])?;
    fields.refuse("modalities", &[json!(["text"])])?;
    fields.refuse("verbosity", &[json!("medium")])?;
    for name in [
        "audio",
        "prediction",
        "web_search_options",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "grammar",
        "json_schema",
        "chat_template",
        "documents",
        "reasoning_format",
        "thinking_budget",
    ] {
        fields.refuse(name, &[])?;
    }
    // Without tools both values ask for the same.
    fields.flag("parallel_tool_calls").map(drop)
}

/// Takes `chat_template_kwargs`, of which templates have one switch here.
fn enable_thinking(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let Some(mut options) = fields.object("chat_template_kwargs")? else {
        return Ok(None);
    };
    let switch = options.flag("enable_thinking")?;
    options.finish_known()?;
    Ok(switch)
}

/// Takes the fields with which a client continues the last message of the assistant.
fn continue_final_message(fields: &mut Fields, messages: &[Message]) -> Result<bool, ApiError> {
    let continues = fields.flag("continue_final_message")?.unwrap_or(false);
    let adds_prompt = fields.flag("add_generation_prompt")?;
    let is_last = messages.last().map(|message| message.role) == Some(Role::Assistant);
    if continues && !is_last {
        let message = "`continue_final_message` needs a last message of the role `assistant`";
        return Err(ApiError::field("continue_final_message", message));
    }
    if adds_prompt == Some(continues) {
        let message = "`add_generation_prompt` must be the opposite of `continue_final_message`";
        return Err(ApiError::field("add_generation_prompt", message));
    }
    Ok(continues)
}

fn messages(fields: &mut Fields, ignored: &mut Ignored) -> Result<Vec<Message>, ApiError> {
    let located = fields.required("messages")?;
    let is_empty = located.must_be("an array of at least one message");
    let messages = located.list()?.into_iter();
    let messages: Result<Vec<_>, _> = messages.map(|located| message(located, ignored)).collect();
    let messages = messages?;
    match messages.is_empty() {
        true => Err(is_empty),
        false => Ok(messages),
    }
}

fn message(located: Located, ignored: &mut Ignored) -> Result<Message, ApiError> {
    let mut fields = located.object()?;
    let role = fields.required("role")?;
    if matches!(role.value.as_str(), Some("tool" | "function")) {
        let message = format!("`{}`: results of tools are not supported here", role.path);
        return Err(ApiError::field(role.path, message));
    }
    let role = role.choice(&ROLES)?;
    for name in ["tool_calls", "function_call", "audio"] {
        fields.refuse(name, &[])?;
    }
    // Chat templates have no place for the name of a person.
    if let Some(name) = fields.take("name") {
        ignored.add(&name.path);
        name.text()?;
    }
    // Of earlier responses. Templates leave the reasoning of the past out.
    fields.tolerate(&[
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "annotations",
        "cache_control",
    ]);
    let content = text_of(fields.required("content")?, ignored)?;
    fields.finish(ignored);
    Ok(Message::new(role, content))
}

/// Returns the text of a string, or of an array of parts.
fn text_of(content: Located, ignored: &mut Ignored) -> Result<String, ApiError> {
    match content.value {
        Value::String(text) => Ok(text),
        Value::Array(_) => {
            let parts = content.list()?.into_iter();
            let parts: Result<Vec<_>, _> = parts.map(|part| text_of_part(part, ignored)).collect();
            Ok(parts?.join("\n"))
        }
        _ => Err(content.must_be("a string or an array of parts")),
    }
}

fn text_of_part(part: Located, ignored: &mut Ignored) -> Result<String, ApiError> {
    let mut fields = part.object()?;
    let kind = fields.required("type")?;
    let name = match kind.value.as_str() {
        Some("text") => "text",
        Some("refusal") => "refusal",
        Some("image_url" | "input_audio" | "file" | "video_url") => {
            let message = format!("`{}`: this model reads only text", kind.path);
            return Err(ApiError::field(kind.path, message));
        }
        _ => return Err(kind.must_be("`text`")),
    };
    let text = fields.required(name)?.text()?;
    fields.tolerate(&["cache_control"]);
    fields.finish(ignored);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: Value) -> Result<(ChatRequest, Option<String>), ApiError> {
        let mut body = body;
        for (name, value) in [
            ("model", json!("tiny")),
            ("messages", json!([{ "role": "user", "content": "Hi" }])),
        ] {
            if body.get(name).is_none() {
                body[name] = value;
            }
        }
        let mut ignored = Ignored::default();
        let fields = Fields::parse(body.to_string().as_bytes())?;
        let request = ChatRequest::read(fields, &mut ignored)?;
        Ok((request, ignored.header()))
    }

    #[test]
    fn every_field_is_done_or_refused_by_name() {
        for (name, value) in [
            ("model", json!(7)),
            ("messages", json!([])),
            ("messages", json!("Hi")),
            ("temperature", json!(2.1)),
            ("temperature", json!("warm")),
            ("top_p", json!(1.1)),
            ("top_k", json!(-2)),
            ("min_p", json!(-0.1)),
            ("presence_penalty", json!(2.1)),
            ("frequency_penalty", json!(-2.1)),
            ("max_tokens", json!(0)),
            ("max_completion_tokens", json!(1.5)),
            ("n", json!(0)),
            ("n", json!(9)),
            ("seed", json!("x")),
            ("stop", json!("")),
            ("stop", json!(["a", ""])),
            ("stream", json!("yes")),
            ("stream_options", json!({ "include_usage": true })),
            ("logit_bias", json!({ "word": 1 })),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("tools", json!([{ "type": "function" }])),
            ("tool_choice", json!("required")),
            ("response_format", json!({ "type": "json_object" })),
            ("reasoning_effort", json!("huge")),
            ("modalities", json!(["text", "audio"])),
            ("guided_json", json!({ "type": "object" })),
            ("mirostat", json!(2)),
            ("typical_p", json!(0.9)),
            ("ignore_eos", json!(true)),
            ("continue_final_message", json!(true)),
            ("add_generation_prompt", json!(false)),
        ] {
            let error = read(json!({ name: value })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(name), "{value}");
            assert!(error.message.contains(name), "{}", error.message);
            assert_eq!(error.status.as_u16(), 400);
        }
        let error = read(json!({ "chat_template_kwargs": { "mood": 1 } })).unwrap_err();
        assert_eq!(error.param.unwrap(), "chat_template_kwargs.mood");
        let error = read(json!({ "logit_bias": { "7": 101 } })).unwrap_err();
        assert_eq!(error.param.unwrap(), "logit_bias.7");
    }

    #[test]
    fn values_that_ask_for_nothing_are_tolerated() {
        let (request, ignored) = read(json!({
            "n": 1, "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
            "response_format": { "type": "text" }, "logprobs": false, "top_logprobs": 0,
            "modalities": ["text"], "store": false, "user": "me", "metadata": { "a": "b" },
            "service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s",
            "logit_bias": {}, "stop": null, "stream_options": null, "typical_p": 1.0,
            "temperature": null, "mirostat": 0, "max_tokens": -1,
        }))
        .unwrap();
        assert_eq!(ignored, None);
        assert_eq!(request.params, Params::default());
        assert_eq!((request.n, request.streaming), (1, Streaming::default()));
    }

    #[test]
    fn unknown_fields_are_named() {
        let message = json!({ "role": "user", "content": "Hi", "name": "Ann", "mood": 1 });
        let body = json!({ "temprature": 0, "messages": [message], "store": true });
        let (_, ignored) = read(body).unwrap();
        let expected = "messages[0].name, messages[0].mood, store, temprature";
        assert_eq!(ignored.as_deref(), Some(expected));
    }

    #[test]
    fn parameters_arrive() {
        let (request, _) = read(json!({
            "temperature": 0.5, "top_p": 0, "top_k": -1, "min_p": 0.1, "seed": -1,
            "presence_penalty": 2, "frequency_penalty": -2, "repeat_penalty": 1.1,
            "logit_bias": { "7": -100 }, "max_tokens": 5, "max_completion_tokens": 9,
            "stop": ["a", "b"], "n": 3, "stream": true,
            "stream_options": { "include_usage": true },
        }))
        .unwrap();
        let params = request.params;
        assert_eq!(params.temperature, Some(0.5));
        assert!(params.top_p.unwrap() > 0.0 && params.top_p.unwrap() < 1e-30);
        assert_eq!((params.top_k, params.min_p), (Some(0), Some(0.1)));
        assert_eq!(params.seed, Some(u64::MAX));
        assert_eq!(params.presence_penalty, Some(2.0));
        assert_eq!(params.frequency_penalty, Some(-2.0));
        assert_eq!(params.repetition_penalty, Some(1.1));
        assert_eq!(params.logit_bias, [(7, -100.0)]);
        assert_eq!(params.max_tokens, Some(9));
        assert_eq!(params.stop, ["a", "b"]);
        assert_eq!(request.n, 3);
        assert!(request.streaming.is_on && request.streaming.include_usage);
    }

    #[test]
    fn messages_keep_all_their_parts() {
        let (request, _) = read(json!({ "messages": [
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [
                { "type": "text", "text": "one" }, { "type": "text", "text": "two" } ] },
            { "role": "assistant", "content": "Th", "reasoning_content": "hm" },
        ], "continue_final_message": true, "add_generation_prompt": false }))
        .unwrap();
        let expected = [
            Message::new(Role::System, "Be brief."),
            Message::new(Role::User, "one\ntwo"),
            Message::new(Role::Assistant, "Th"),
        ];
        assert_eq!(request.prompt.messages, expected);
        assert!(request.prompt.continue_final_message);
    }

    #[test]
    fn messages_that_lose_something_are_refused() {
        let image = json!({ "type": "image_url", "image_url": { "url": "data:," } });
        for (message, param) in [
            (json!({ "content": "Hi" }), "messages[0].role"),
            (json!({ "role": "user" }), "messages[0].content"),
            (
                json!({ "role": "robot", "content": "Hi" }),
                "messages[0].role",
            ),
            (
                json!({ "role": "tool", "content": "Hi" }),
                "messages[0].role",
            ),
            (
                json!({ "role": "user", "content": 7 }),
                "messages[0].content",
            ),
            (
                json!({ "role": "user", "content": [image] }),
                "messages[0].content[0].type",
            ),
            (
                json!({ "role": "user", "content": [{ "type": "text" }] }),
                "messages[0].content[0].text",
            ),
            (
                json!({ "role": "assistant", "content": "", "tool_calls": [{}] }),
                "messages[0].tool_calls",
            ),
            (json!("Hi"), "messages[0]"),
        ] {
            let error = read(json!({ "messages": [message] })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param));
        }
    }

    #[test]
    fn reasoning_is_switched_by_either_field() {
        for (body, expected) in [
            (json!({}), None),
            (json!({ "reasoning_effort": "none" }), Some(false)),
            (json!({ "reasoning_effort": "high" }), Some(true)),
            (
                json!({ "chat_template_kwargs": { "enable_thinking": false },
                        "reasoning_effort": "high" }),
                Some(false),
            ),
        ] {
            let (request, _) = read(body).unwrap();
            assert_eq!(request.prompt.enable_thinking, expected);
        }
    }
}
