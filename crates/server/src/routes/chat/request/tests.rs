use std::time::Duration;

use serde_json::Value;
use transom_supervisor::KeepAlive;

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
    let fields = Fields::parse(body.to_string().as_bytes())?;
    let ignored = fields.ignored.clone();
    let request = ChatRequest::read(fields)?;
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
        ("logprobs", json!(3)),
        ("top_logprobs", json!(3)),
        ("top_logprobs", json!(21)),
        ("ttl", json!(-1)),
        ("keep_alive", json!("soon")),
        ("tools", json!({})),
        ("tool_choice", json!("required")),
        ("response_format", json!("json_object")),
        ("reasoning_effort", json!("huge")),
        ("modalities", json!(["text", "audio"])),
        ("guided_json", json!([])),
        ("grammar", json!("root ::= \"a\"")),
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
fn tools_are_left_out_if_the_model_may_call_none() {
    let tools = json!([{ "type": "function", "function": { "name": "now" } }]);
    let (request, ignored) = read(json!({ "tools": tools, "tool_choice": "none" })).unwrap();
    assert!(request.prompt.tools.is_empty());
    assert_eq!(ignored, None);
}

#[test]
fn tools_and_the_choice_of_one_are_read() {
    let now = json!({ "type": "function", "function": { "name": "now" } });
    let (request, _) = read(json!({
        "tools": [now],
        "tool_choice": { "type": "function", "function": { "name": "now" } },
        "parallel_tool_calls": false,
    }))
    .unwrap();
    let prompt = request.prompt;
    assert_eq!(prompt.tools[0]["function"]["name"], "now");
    assert_eq!(
        prompt.tool_choice,
        transom_engine::ToolChoice::Named("now".to_owned())
    );
    assert!(prompt.single_tool_call);
    for (body, path) in [
        (json!({ "tools": [{ "type": "custom" }] }), "tools[0].type"),
        (
            json!({ "tools": [{ "type": "function" }] }),
            "tools[0].function",
        ),
        (
            json!({ "tools": [{ "type": "function", "function": { "name": "" } }] }),
            "tools[0].function.name",
        ),
        (
            json!({ "tools": [now], "tool_choice": { "type": "function", "function": { "name": "x" } } }),
            "tool_choice",
        ),
        (
            json!({ "tools": [now], "tool_choice": "any" }),
            "tool_choice",
        ),
    ] {
        let error = read(body).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(path));
    }
}

#[test]
fn unknown_fields_are_named() {
    let message = json!({ "role": "user", "content": "Hi", "name": "Ann", "mood": 1 });
    let body = json!({ "temprature": 0, "messages": [message], "store": true });
    let (request, ignored) = read(body).unwrap();
    let expected = "messages[0].mood, store, temprature";
    assert_eq!(ignored.as_deref(), Some(expected));
    // The chat template decides about these.
    assert_eq!(request.names, ["messages[0].name"]);
}

#[test]
fn parameters_arrive() {
    let (request, _) = read(json!({
        "temperature": 0.5, "top_p": 0, "top_k": -1, "min_p": 0.1, "seed": -1,
        "presence_penalty": 2, "frequency_penalty": -2, "repeat_penalty": 1.1,
        "logit_bias": { "7": -100 }, "max_tokens": 5, "max_completion_tokens": 9,
        "stop": ["a", "b"], "n": 3, "stream": true,
        "stream_options": { "include_usage": true },
        "logprobs": true, "top_logprobs": 4, "ttl": 60,
    }))
    .unwrap();
    let params = request.params;
    assert_eq!(params.logprobs, Some(4));
    let time = Duration::from_secs(60);
    assert_eq!(params.keep_alive, Some(KeepAlive::Idle { time }));
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
