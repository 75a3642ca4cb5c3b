use super::*;
use serde_json::{Value, json};

fn read(messages: Value) -> Result<CheckedMessages, ApiError> {
    let mut fields = Fields::parse(json!({ "messages": messages }).to_string().as_bytes())?;
    CheckedMessages::read(fields.required("messages")?)
}

fn call(arguments: Value) -> Value {
    let function = json!({ "name": "now", "arguments": arguments });
    json!({ "id": "a", "type": "function", "function": function })
}

#[test]
fn messages_keep_all_their_parts() {
    let conversation = read(json!([
        { "role": "developer", "content": "Be brief." },
        { "role": "user", "name": "Ann", "content": [
            { "type": "text", "text": "one" }, { "type": "text", "text": "two" } ] },
        { "role": "assistant", "content": "Th", "reasoning_content": "hm", "tool_calls": [] },
    ]))
    .unwrap();
    let expected = [
        Message::system("Be brief."),
        Message {
            name: Some("Ann".to_owned()),
            ..Message::user("one\ntwo")
        },
        Message::assistant("Th"),
    ];
    assert_eq!(conversation.messages, expected);
    assert_eq!(conversation.names, ["messages[1].name"]);
}

#[test]
fn calls_and_their_results_are_part_of_the_conversation() {
    let conversation = read(json!([
        { "role": "user", "content": "What time is it?" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "index": 0, "id": "b", "type": "function",
              "function": { "name": "here", "arguments": "" } },
            call(json!("{\"zone\": \"UTC\"}")) ] },
        { "role": "tool", "tool_call_id": "a", "content": "12:00" },
        { "role": "tool", "tool_call_id": "b", "name": "place", "content": [
            { "type": "text", "text": "home" } ] },
    ]))
    .unwrap();
    let here = ToolCall::new("b", "here", json!({}));
    let now = ToolCall::new("a", "now", json!({ "zone": "UTC" }));
    let expected = [
        Message::user("What time is it?"),
        Message {
            tool_calls: vec![here.clone(), now.clone()],
            ..Message::assistant("")
        },
        Message::tool_result(&now, "12:00"),
        Message {
            name: Some("place".to_owned()),
            ..Message::tool_result(&here, "home")
        },
    ];
    assert_eq!(conversation.messages, expected);
    assert!(conversation.names.is_empty());
}

#[test]
fn messages_that_lose_something_are_refused() {
    let image = json!({ "type": "image_url", "image_url": { "url": "data:," } });
    let calls = |call: Value| json!({ "role": "assistant", "tool_calls": [call] });
    for (message, param) in [
        (json!({ "content": "Hi" }), "messages[0].role"),
        (json!({ "role": "user" }), "messages[0].content"),
        (
            json!({ "role": "robot", "content": "Hi" }),
            "messages[0].role",
        ),
        (
            json!({ "role": "function", "name": "now", "content": "Hi" }),
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
            json!({ "role": "user", "content": "Hi", "tool_calls": [call(json!("{}"))] }),
            "messages[0].tool_calls",
        ),
        (json!({ "role": "assistant" }), "messages[0].content"),
        (calls(json!({})), "messages[0].tool_calls[0].id"),
        (
            calls(json!({ "id": "a", "type": "custom" })),
            "messages[0].tool_calls[0].type",
        ),
        (
            calls(call(json!({}))),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            calls(call(json!("[1]"))),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            json!({ "role": "tool", "content": "12:00" }),
            "messages[0].tool_call_id",
        ),
        (
            json!({ "role": "tool", "tool_call_id": "a", "content": "12:00" }),
            "messages[0].tool_call_id",
        ),
        (json!("Hi"), "messages[0]"),
    ] {
        let error = read(json!([message])).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param));
        assert!(error.message.contains(param), "{}", error.message);
    }
    assert_eq!(read(json!([])).unwrap_err().param.unwrap(), "messages");
}
