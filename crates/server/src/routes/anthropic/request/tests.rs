use super::*;
use serde_json::json;

/// Reads a body that has these fields besides the required ones.
fn read(fields: &Value) -> Result<(MessageRequest, Option<String>), ApiError> {
    let mut body = json!({
        "model": "tiny",
        "max_tokens": 9,
        "messages": [{ "role": "user", "content": "Hi" }],
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    let body = Fields::parse(body.to_string().as_bytes())?;
    let ignored = body.ignored.clone();
    Ok((MessageRequest::read(body)?, ignored.header()))
}

fn messages(fields: &Value) -> Vec<Message> {
    let (request, _) = read(fields).unwrap();
    request.conversation.chat.messages
}

#[test]
fn every_field_is_done_or_refused_by_name() {
    for (name, value) in [
        ("model", json!(null)),
        ("max_tokens", json!(null)),
        ("max_tokens", json!(0)),
        ("messages", json!([])),
        ("messages", json!("Hi")),
        ("temperature", json!(1.1)),
        ("temperature", json!(-0.1)),
        ("top_p", json!(2)),
        ("top_k", json!(-1)),
        ("stop_sequences", json!([""])),
        ("stop_sequences", json!([1])),
        ("stream", json!("yes")),
        ("tools", json!([{ "name": "now", "input_schema": 1 }])),
        (
            "tools",
            json!([{ "type": "web_search_20250305", "name": "web_search" }]),
        ),
        ("tool_choice", json!({ "type": "any" })),
        ("mcp_servers", json!([{}])),
        ("container", json!("c")),
        ("output_format", json!({ "type": "json_schema" })),
        ("thinking", json!("on")),
        ("system", json!(7)),
    ] {
        let error = read(&json!({ name: value })).expect_err(name);
        assert!(error.message.contains(name), "{name}: {}", error.message);
        assert_eq!(error.status.as_u16(), 400);
    }
    for (fields, path) in [
        (json!({ "thinking": { "type": "deep" } }), "thinking.type"),
        (
            json!({ "output_config": { "format": { "type": "x" } } }),
            "output_config.format.type",
        ),
    ] {
        let error = read(&fields).expect_err(path);
        assert_eq!(error.param.as_deref(), Some(path));
    }
}

#[test]
fn blocks_that_are_no_text_are_refused_with_their_path() {
    for (block, path) in [
        (
            json!({ "type": "image", "source": {} }),
            "messages[0].content[0]",
        ),
        (
            json!({ "type": "document", "source": {} }),
            "messages[0].content[0]",
        ),
        (
            json!({ "type": "tool_use", "id": "1" }),
            "messages[0].content[0]",
        ),
        (
            json!({ "type": "tool_result" }),
            "messages[0].content[0].tool_use_id",
        ),
        (
            json!({ "type": "tool_result", "tool_use_id": "1" }),
            "messages[0].content[0].tool_use_id",
        ),
        (json!({ "type": "thinking" }), "messages[0].content[0].type"),
        (json!({ "type": "text" }), "messages[0].content[0].text"),
        (json!({ "text": "Hi" }), "messages[0].content[0].type"),
        (json!("Hi"), "messages[0].content[0]"),
    ] {
        let fields = json!({ "messages": [{ "role": "user", "content": [block] }] });
        let error = read(&fields).expect_err(path);
        assert_eq!(error.param.as_deref(), Some(path));
    }
    for (message, path) in [
        (
            json!({ "role": "system", "content": "Hi" }),
            "messages[0].role",
        ),
        (json!({ "role": "user" }), "messages[0].content"),
        (
            json!({ "role": "user", "content": "" }),
            "messages[0].content",
        ),
        (
            json!({ "role": "user", "content": [] }),
            "messages[0].content",
        ),
        (
            json!({ "role": "user", "content": 7 }),
            "messages[0].content",
        ),
    ] {
        let error = read(&json!({ "messages": [message] })).expect_err(path);
        assert_eq!(error.param.as_deref(), Some(path));
    }
}

#[test]
fn consecutive_messages_of_one_author_become_one() {
    let text = |text: &str| json!([{ "type": "text", "text": text, "cache_control": {} }]);
    let reasoned = json!([{ "type": "thinking", "thinking": "hm", "signature": "s" }]);
    let answered = json!([
        { "type": "thinking", "thinking": "hm", "signature": "s" },
        { "type": "text", "text": "Hello" },
    ]);
    let messages = messages(&json!({
        "system": "Be brief.",
        "messages": [
            { "role": "user", "content": "one" },
            { "role": "user", "content": text("two") },
            { "role": "assistant", "content": answered },
            { "role": "user", "content": "three" },
            { "role": "assistant", "content": reasoned },
            { "role": "user", "content": "four" },
        ],
    }));
    let expected = [
        Message::system("Be brief."),
        Message::user("one\ntwo"),
        Message::assistant("Hello"),
        Message::user("three\nfour"),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_last_message_of_the_model_is_continued() {
    let of = |last: &str| {
        let messages = json!([
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": last },
        ]);
        read(&json!({ "messages": messages }))
            .unwrap()
            .0
            .conversation
            .chat
    };
    assert!(of("Hel").continue_final_message);
    let empty = of("");
    assert!(!empty.continue_final_message);
    assert_eq!(empty.messages, [Message::user("Hi")]);
}

#[test]
fn the_billing_line_is_not_part_of_the_prompt() {
    let line = "x-anthropic-billing-header: cc_version=2; cch=1f2e;";
    let with_rest = format!("{line}\n\nBe brief.");
    let block = |text: &str| json!({ "type": "text", "text": text });
    for system in [
        json!([block(line), block("Be brief.")]),
        json!([block(&with_rest)]),
        json!(with_rest),
        json!("Be brief."),
    ] {
        let messages = messages(&json!({ "system": system }));
        assert_eq!(messages[0], Message::system("Be brief."), "{system}");
    }
    assert_eq!(messages(&json!({ "system": line })), [Message::user("Hi")]);
    let mentioned = messages(&json!({ "system": format!("Never say {line}") }));
    assert!(mentioned[0].content.ends_with(line));
}

#[test]
fn thinking_is_off_unless_the_request_turns_it_on() {
    for (thinking, is_on, is_shown, ignored) in [
        (json!(null), false, true, None),
        (json!({ "type": "disabled" }), false, true, None),
        (json!({ "type": "adaptive" }), true, true, None),
        (
            json!({ "type": "adaptive", "display": "omitted" }),
            true,
            false,
            None,
        ),
        (
            json!({ "type": "enabled", "budget_tokens": 2048 }),
            true,
            true,
            Some("thinking.budget_tokens"),
        ),
    ] {
        let (request, named) = read(&json!({ "thinking": thinking })).unwrap();
        assert_eq!(request.conversation.chat.enable_thinking, Some(is_on));
        assert_eq!(request.shows_thinking, is_shown);
        assert_eq!(named.as_deref(), ignored);
    }
}

#[test]
fn parameters_arrive_and_fields_without_effect_are_named() {
    let (request, ignored) = read(&json!({
        "max_tokens": 32_000, "temperature": 0, "top_p": 0.5, "top_k": 40,
        "stop_sequences": ["END"], "stream": true, "metadata": { "user_id": "me" },
        "service_tier": "auto", "tools": [], "mood": 1,
        "context_management": { "edits": [] },
    }))
    .unwrap();
    let expected = Params {
        temperature: Some(0.0),
        top_p: Some(0.5),
        top_k: Some(40),
        max_tokens: Some(32_000),
        stop: vec!["END".to_owned()],
        ..Params::default()
    };
    assert_eq!(request.params, expected);
    assert!(request.is_streamed);
    assert_eq!(ignored.as_deref(), Some("mood, context_management"));
}

#[test]
fn tools_calls_and_results_are_read() {
    let body = json!({
        "tools": [{ "name": "now", "description": "The time.", "input_schema": { "type": "object" } }],
        "tool_choice": { "type": "tool", "name": "now", "disable_parallel_tool_use": true },
        "messages": [
            { "role": "user", "content": "Time?" },
            { "role": "assistant", "content": [
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "a", "name": "now", "input": { "zone": "UTC" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": [
                    { "type": "text", "text": "12" }, { "type": "text", "text": "00" },
                ] },
                { "type": "text", "text": "Well?" },
            ] },
        ],
    });
    let chat = read(&body).expect("it is valid").0.conversation.chat;
    assert_eq!(chat.tools[0]["function"]["name"], "now");
    assert_eq!(
        chat.tools[0]["function"]["parameters"],
        json!({ "type": "object" })
    );
    assert_eq!(
        chat.tool_choice,
        transom_engine::ToolChoice::Named("now".to_owned())
    );
    assert!(chat.single_tool_call);
    let call = transom_engine::ToolCall::new("a", "now", json!({ "zone": "UTC" }));
    let expected = [
        Message::user("Time?"),
        Message {
            tool_calls: vec![call.clone()],
            ..Message::assistant("I look.")
        },
        Message::tool_result(&call, "12\n00"),
        Message::user("Well?"),
    ];
    assert_eq!(chat.messages, expected);
}
