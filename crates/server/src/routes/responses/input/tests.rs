use super::*;
use serde_json::json;

fn read(input: Value) -> Result<(Vec<Message>, Option<String>), ApiError> {
    let body = json!({ "input": input }).to_string();
    let mut body = Fields::parse(body.as_bytes())?;
    let ignored = body.ignored.clone();
    let messages = messages(body.required("input")?)?;
    Ok((messages, ignored.header()))
}

#[test]
fn a_conversation_keeps_all_its_parts() {
    let (messages, ignored) = read(json!([
        { "role": "developer", "content": "Be brief." },
        { "type": "message", "role": "user", "content": [
            { "type": "input_text", "text": "one" }, { "type": "input_text", "text": "two" } ] },
        { "type": "reasoning", "id": "rs_1", "summary": [], "content": [] },
        { "type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
            { "type": "output_text", "text": "I look.", "annotations": [], "logprobs": [] } ] },
        { "type": "function_call", "id": "fc_1", "call_id": "a", "name": "now",
          "arguments": "{\"zone\": \"UTC\"}" },
        { "type": "reasoning", "summary": [] },
        { "type": "function_call", "call_id": "b", "name": "here", "arguments": "" },
        { "type": "function_call_output", "call_id": "b", "output": "Bonn" },
        { "type": "function_call_output", "call_id": "a", "output": [
            { "type": "input_text", "text": "12:00" } ] },
    ]))
    .unwrap();
    let now = ToolCall::new("a", "now", json!({ "zone": "UTC" }));
    let here = ToolCall::new("b", "here", json!({}));
    let expected = [
        Message::system("Be brief."),
        Message::user("one\ntwo"),
        Message {
            tool_calls: vec![now.clone(), here.clone()],
            ..Message::assistant("I look.")
        },
        Message::tool_result(&here, "Bonn"),
        Message::tool_result(&now, "12:00"),
    ];
    assert_eq!(messages, expected);
    assert_eq!(ignored, None);
}

#[test]
fn a_text_is_a_message_of_the_user() {
    assert_eq!(read(json!("Hi")).unwrap().0, [Message::user("Hi")]);
}

#[test]
fn items_that_lose_something_are_refused_by_name() {
    let message = |content: Value| json!({ "role": "user", "content": content });
    let call = json!({ "type": "function_call", "call_id": "a", "name": "now" });
    let mut bad_call = call.clone();
    bad_call["arguments"] = "[1]".into();
    for (item, param) in [
        (json!("Hi"), "input[0]"),
        (json!({ "content": "Hi" }), "input[0].role"),
        (json!({ "role": "user" }), "input[0].content"),
        (json!({ "role": "robot", "content": "Hi" }), "input[0].role"),
        (message(json!(7)), "input[0].content"),
        (
            message(json!([{ "type": "input_image", "image_url": "data:," }])),
            "input[0].content[0].type",
        ),
        (
            message(json!([{ "type": "input_text" }])),
            "input[0].content[0].text",
        ),
        (
            json!({ "type": "item_reference", "id": "x" }),
            "input[0].type",
        ),
        (json!({ "type": 7 }), "input[0].type"),
        (call, "input[0].arguments"),
        (bad_call, "input[0].arguments"),
        (
            json!({ "type": "function_call_output", "call_id": "a", "output": "x" }),
            "input[0].call_id",
        ),
    ] {
        let error = read(json!([item])).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{}", error.message);
        assert!(error.message.contains(param), "{}", error.message);
    }
    for input in [json!([]), json!(7), json!([{ "type": "reasoning" }])] {
        let error = read(input).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("input"));
    }
}

#[test]
fn unknown_fields_are_named() {
    let (_, ignored) = read(json!([{ "role": "user", "content": "Hi", "mood": 1 }])).unwrap();
    assert_eq!(ignored.as_deref(), Some("input[0].mood"));
}
