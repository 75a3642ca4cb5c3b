use serde_json::Value;

use super::*;

/// Reads a body that has these fields besides the required ones.
fn read(route: Route, fields: &Value) -> Result<GenerateRequest, ApiError> {
    GenerateRequest::read(route, body(route, fields)?)
}

fn body(route: Route, fields: &Value) -> Result<Fields, ApiError> {
    let mut body = json!({ "model": "tiny" });
    match route {
        Route::Chat => body["messages"] = json!([{ "role": "user", "content": "Hi" }]),
        Route::Generate => body["prompt"] = json!("Hi"),
    }
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    Fields::parse(body.to_string().as_bytes())
}

fn chat(fields: &Value) -> ChatPrompt {
    match read(Route::Chat, fields).unwrap().prompt {
        Some(Prompt::Chat(chat)) => chat,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_field_is_done_or_refused_by_name() {
    for (name, value) in [
        ("model", json!(null)),
        ("stream", json!("yes")),
        ("think", json!("high")),
        ("truncate", json!(1)),
        ("shift", json!(true)),
        ("keep_alive", json!("soon")),
        ("keep_alive", json!(true)),
        ("format", json!("xml")),
        ("format", json!([])),
        ("tools", json!(7)),
        ("template", json!("{{ .Prompt }}")),
        ("images", json!(["aGk="])),
        ("context", json!([1, 2])),
        ("logprobs", json!(7)),
        ("top_logprobs", json!(1)),
        ("options", json!([])),
    ] {
        for route in [Route::Chat, Route::Generate] {
            let error = read(route, &json!({ name: value })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(name), "{value}");
            assert!(error.message.contains(name), "{}", error.message);
        }
    }
    for (name, value) in [
        ("temperature", json!(-1)),
        ("top_k", json!("x")),
        ("top_p", json!(1.5)),
        ("min_p", json!(2)),
        ("repeat_penalty", json!(0)),
        ("repeat_last_n", json!(64)),
        ("presence_penalty", json!(3)),
        ("num_predict", json!(0)),
        ("num_predict", json!(-3)),
        ("num_ctx", json!(0)),
        ("mirostat", json!(1)),
        ("typical_p", json!(0.5)),
        ("stop", json!([""])),
    ] {
        let error = read(Route::Chat, &json!({ "options": { name: value } })).unwrap_err();
        assert_eq!(error.param, Some(format!("options.{name}")), "{value}");
    }
    for (message, path) in [
        (
            json!({ "role": "tool", "content": "12" }),
            "messages[0].tool_name",
        ),
        (json!({ "role": "user" }), "messages[0].content"),
        (
            json!({ "role": "user", "content": "Hi", "images": ["aGk="] }),
            "messages[0].images",
        ),
        (
            json!({ "role": "assistant", "content": "", "tool_calls": [{}] }),
            "messages[0].tool_calls[0].function",
        ),
    ] {
        let error = read(Route::Chat, &json!({ "messages": [message] })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(path));
    }
    for (name, value) in [("system", json!("Be brief.")), ("think", json!(true))] {
        let error = read(Route::Generate, &json!({ "raw": true, name: value })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(name));
    }
}

#[test]
fn options_arrive_and_those_without_effect_are_named() {
    let body = body(
        Route::Chat,
        &json!({
            "options": {
                "temperature": 0.5, "top_k": 20, "seed": 7, "repeat_penalty": 1.1,
                "num_predict": 9, "num_ctx": 4096, "stop": ["END"], "num_gpu": 99, "mood": 1,
            },
            "mood": 2,
        }),
    )
    .unwrap();
    let ignored = body.ignored.clone();
    let request = GenerateRequest::read(Route::Chat, body).unwrap();
    let expected = Params {
        temperature: Some(0.5),
        top_k: Some(20),
        seed: Some(7),
        repetition_penalty: Some(1.1),
        max_tokens: Some(9),
        stop: vec!["END".to_owned()],
        ..Params::default()
    };
    assert_eq!(request.params, expected);
    assert_eq!(request.context_length, Some(4096));
    assert_eq!(ignored.header().as_deref(), Some("options.mood, mood"));
    let unlimited = json!({ "options": { "num_predict": -2, "seed": -1 } });
    let request = read(Route::Generate, &unlimited).unwrap();
    assert_eq!(request.params, Params::default());
    assert!(request.is_streamed);
}

#[test]
fn messages_are_dropped_only_on_request() {
    let of = |fields: Value| read(Route::Chat, &fields).unwrap().truncation;
    assert_eq!(of(json!({})), Truncation::Disabled);
    assert_eq!(of(json!({ "truncate": false })), Truncation::Disabled);
    let expected = Truncation::DropOldest {
        response_tokens: 9,
        context_limit: None,
    };
    let fields = json!({ "truncate": true, "options": { "num_predict": 9 } });
    assert_eq!(of(fields), expected);
}

#[test]
fn a_request_without_a_prompt_loads_or_unloads() {
    for (route, fields) in [
        (Route::Chat, json!({ "messages": [] })),
        (Route::Chat, json!({ "messages": null })),
        (Route::Generate, json!({ "prompt": "" })),
    ] {
        let request = read(route, &fields).unwrap();
        assert!(request.prompt.is_none() && !request.unloads());
    }
    for zero in [json!(0), json!("0"), json!("0s")] {
        let request = read(Route::Chat, &json!({ "keep_alive": zero })).unwrap();
        assert!(request.unloads());
    }
    for other in [json!(null), json!(-1), json!("5m")] {
        let request = read(Route::Chat, &json!({ "keep_alive": other })).unwrap();
        assert!(!request.unloads());
    }
}

#[test]
fn prompts_are_messages_or_raw_text() {
    let request = read(Route::Generate, &json!({ "raw": true })).unwrap();
    assert_eq!(request.prompt, Some(Prompt::Text("Hi".to_owned())));
    let fields = json!({ "system": "Be brief.", "think": false });
    let expected = ChatPrompt {
        messages: vec![Message::system("Be brief."), Message::user("Hi")],
        enable_thinking: Some(false),
        ..ChatPrompt::default()
    };
    let request = read(Route::Generate, &fields).unwrap();
    assert_eq!(request.prompt, Some(Prompt::Chat(expected)));
    let messages = |last: &str| {
        chat(&json!({ "messages": [
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": last, "thinking": "hm" },
        ] }))
    };
    assert!(messages("Hel").continue_final_message);
    assert_eq!(messages("").messages, [Message::user("Hi")]);
    assert!(!messages("").continue_final_message);
}
