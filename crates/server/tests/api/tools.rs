//! Tool calls in every protocol: whole, streamed, with their results, and refused.

use serde_json::{Value, json};
use transom_supervisor::test_support::WorkerScript;

use crate::server::{Answer, MODEL, TestServer, fast};

const ARGUMENTS: &str = r#"{"city": "Zürich", "days": 2}"#;

/// Responses with a text and two calls, if the prompt has tools.
fn script() -> WorkerScript {
    let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
    WorkerScript {
        tokens: vec!["Let me see.".to_owned()],
        tool_calls: vec![call("weather", ARGUMENTS), call("now", "{}")],
        ..fast()
    }
}

/// The functions in OpenAI's form for chats.
fn functions() -> Value {
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    json!([function("weather"), function("now")])
}

/// Returns a request with these fields.
fn request(fields: Value) -> Value {
    let mut body = json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "Rain?" }],
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Returns the data of the events of a stream.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let events = answer.data().into_iter().map(serde_json::from_str);
    events.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn chat_completions_have_the_calls_and_take_their_results() {
    let server = TestServer::start(script()).await;
    let whole = server.chat(json!({ "tools": functions() })).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
    let message = &choice["message"];
    assert_eq!(message["content"], "Let me see.");
    let expected = json!([
        { "id": "call_0", "type": "function",
          "function": { "name": "weather", "arguments": ARGUMENTS } },
        { "id": "call_1", "type": "function", "function": { "name": "now", "arguments": "{}" } },
    ]);
    assert_eq!(message["tool_calls"], expected);

    let streamed = server
        .chat(json!({ "tools": functions(), "stream": true }))
        .await;
    let mut calls = vec![json!({}), json!({})];
    let mut reasons = Vec::new();
    for chunk in streamed.chunks() {
        let choice = &chunk["choices"][0];
        reasons.extend(choice["finish_reason"].as_str().map(str::to_owned));
        for part in choice["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let call = &mut calls[part["index"].as_u64().unwrap() as usize];
            if part.get("id").is_some() {
                *call = json!({ "id": part["id"], "type": part["type"], "function": {
                    "name": part["function"]["name"], "arguments": "" } });
            }
            let before = call["function"]["arguments"].as_str().unwrap();
            let more = part["function"]["arguments"].as_str().unwrap();
            call["function"]["arguments"] = format!("{before}{more}").into();
        }
    }
    assert_eq!(Value::from(calls), expected);
    assert_eq!(reasons, ["tool_calls"]);

    let messages = json!([
        { "role": "user", "content": "Rain?" },
        message,
        { "role": "tool", "tool_call_id": "call_0", "content": "No" },
        { "role": "tool", "tool_call_id": "call_1", "content": "Noon" },
    ]);
    let next = json!({ "messages": messages, "tools": functions(), "tool_choice": "none" });
    let next = server.chat(next).await;
    assert_eq!(next.status, 200, "{}", next.body);
    let choice = &next.json()["choices"][0];
    assert_eq!(choice["message"]["content"], "Let me see.");
    assert_eq!(choice["message"].get("tool_calls"), None);
    assert_eq!(choice["finish_reason"], "stop");
    server.end().await;
}

#[tokio::test]
async fn messages_have_the_calls_and_take_their_results() {
    let server = TestServer::start(script()).await;
    let tool = |name: &str| json!({ "name": name, "input_schema": { "type": "object" } });
    let tools = json!([tool("weather"), tool("now")]);
    let body = request(json!({ "max_tokens": 100, "tools": tools }));
    let whole = server.post("/v1/messages", &body).await.json();
    assert_eq!(whole["stop_reason"], "tool_use", "{whole}");
    let input = json!({ "city": "Zürich", "days": 2 });
    let expected = json!([
        { "type": "text", "text": "Let me see." },
        { "type": "tool_use", "id": "call_0", "name": "weather", "input": input },
        { "type": "tool_use", "id": "call_1", "name": "now", "input": {} },
    ]);
    assert_eq!(whole["content"], expected);

    let mut body = body;
    body["stream"] = true.into();
    let events = events(&server.post("/v1/messages", &body).await);
    let of_type = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let starts: Vec<&Value> = of_type("content_block_start")
        .map(|event| &event["content_block"])
        .collect();
    assert_eq!(starts[1]["name"], "weather");
    assert_eq!(starts[2]["id"], "call_1");
    let input: String = of_type("content_block_delta")
        .filter(|event| event["index"] == 1)
        .map(|event| event["delta"]["partial_json"].as_str().unwrap())
        .collect();
    assert_eq!(input, ARGUMENTS);
    assert_eq!(of_type("content_block_stop").count(), 3);
    let end = of_type("message_delta").next().unwrap();
    assert_eq!(end["delta"]["stop_reason"], "tool_use");

    let results = json!([
        { "type": "tool_result", "tool_use_id": "call_0", "content": "No" },
        { "type": "tool_result", "tool_use_id": "call_1", "content": "Noon" },
    ]);
    let messages = json!([
        { "role": "user", "content": "Rain?" },
        { "role": "assistant", "content": expected },
        { "role": "user", "content": results },
    ]);
    let next = request(json!({ "max_tokens": 100, "messages": messages }));
    let next = server.post("/v1/messages", &next).await;
    assert_eq!(next.status, 200, "{}", next.body);
    assert_eq!(next.json()["stop_reason"], "end_turn");
    server.end().await;
}

#[tokio::test]
async fn responses_have_the_calls_and_take_their_results() {
    let server = TestServer::start(script()).await;
    let tool = |name: &str| json!({ "type": "function", "name": name });
    let mut body = json!({
        "model": MODEL,
        "input": [{ "role": "user", "content": "Rain?" }],
        "tools": [tool("weather"), tool("now")],
    });
    let whole = server.post("/v1/responses", &body).await.json();
    let output = whole["output"].as_array().unwrap();
    assert_eq!(output[0]["type"], "message", "{whole}");
    for (item, id, name, arguments) in [
        (&output[1], "call_0", "weather", ARGUMENTS),
        (&output[2], "call_1", "now", "{}"),
    ] {
        assert_eq!(item["type"], "function_call");
        assert_eq!(item["status"], "completed");
        assert_eq!(
            (&item["call_id"], &item["name"]),
            (&json!(id), &json!(name))
        );
        assert_eq!(item["arguments"], arguments);
    }

    body["stream"] = true.into();
    let events = events(&server.post("/v1/responses", &body).await);
    let of_type = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let deltas = of_type("response.function_call_arguments.delta");
    let arguments: String = deltas
        .filter(|event| event["output_index"] == 1)
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(arguments, ARGUMENTS);
    let done: Vec<&Value> = of_type("response.function_call_arguments.done")
        .map(|event| &event["arguments"])
        .collect();
    assert_eq!(done, [&json!(ARGUMENTS), &json!("{}")]);
    let last = &of_type("response.completed").next().unwrap()["response"];
    assert_eq!(last["output"][1]["arguments"], ARGUMENTS);

    let mut input = vec![json!({ "role": "user", "content": "Rain?" })];
    input.extend(output.iter().cloned());
    for id in ["call_0", "call_1"] {
        input.push(json!({ "type": "function_call_output", "call_id": id, "output": "No" }));
    }
    let next = json!({ "model": MODEL, "input": input });
    let next = server.post("/v1/responses", &next).await;
    assert_eq!(next.status, 200, "{}", next.body);
    server.end().await;
}

#[tokio::test]
async fn replies_of_ollama_have_the_calls_and_take_their_results() {
    let server = TestServer::start(script()).await;
    let arguments = json!({ "city": "Zürich", "days": 2 });
    let expected = json!([
        { "id": "call_0", "function": { "index": 0, "name": "weather", "arguments": arguments } },
        { "id": "call_1", "function": { "index": 1, "name": "now", "arguments": {} } },
    ]);
    let body = request(json!({ "tools": functions(), "stream": false }));
    let whole = server.post("/api/chat", &body).await.json();
    assert_eq!(whole["message"]["content"], "Let me see.");
    assert_eq!(whole["message"]["tool_calls"], expected);
    assert_eq!(whole["done_reason"], "stop");

    let body = request(json!({ "tools": functions() }));
    let streamed = server.post("/api/chat", &body).await;
    let lines = streamed.body.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
    let calls = lines
        .iter()
        .filter_map(|line| line["message"]["tool_calls"].as_array());
    let calls: Vec<Value> = calls.flatten().cloned().collect();
    assert_eq!(Value::from(calls), expected);
    assert_eq!(lines.last().unwrap()["done"], true);

    // With ids, with names, and with neither.
    let result = |fields: Value| {
        let mut result = json!({ "role": "tool", "content": "No" });
        for (name, value) in fields.as_object().unwrap() {
            result[name] = value.clone();
        }
        result
    };
    for (first, second, status) in [
        (
            json!({ "tool_call_id": "call_1" }),
            json!({ "tool_call_id": "call_0" }),
            200,
        ),
        (
            json!({ "tool_name": "now" }),
            json!({ "tool_name": "weather" }),
            200,
        ),
        (json!({}), json!({}), 200),
        (
            json!({ "tool_name": "now" }),
            json!({ "tool_name": "now" }),
            400,
        ),
    ] {
        let messages = json!([
            { "role": "user", "content": "Rain?" },
            { "role": "assistant", "content": "", "tool_calls": expected },
            result(first),
            result(second),
        ]);
        let next = request(json!({ "messages": messages, "stream": false }));
        let next = server.post("/api/chat", &next).await;
        assert_eq!(next.status, status, "{}", next.body);
        if status == 400 {
            let text = next.json()["error"].as_str().unwrap().to_owned();
            assert!(text.contains("messages[3].tool_name"), "{text}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn many_tools_are_accepted_and_schemas_that_are_not_held_are_named() {
    let server = TestServer::start(script()).await;
    let tools = (0..33).map(|number| {
        let mut schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        if number == 7 {
            schema["not"] = json!({ "required": ["n"] });
        }
        let name = format!("tool-{number}");
        json!({ "type": "function", "function": { "name": name, "parameters": schema } })
    });
    let tools: Vec<Value> = tools.collect();
    for stream in [false, true] {
        let answer = server
            .chat(json!({ "tools": tools, "stream": stream }))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.headers["x-transom-ignored"], "tools.tool-7");
    }
    server.end().await;
}

#[tokio::test]
async fn a_format_beside_tools_is_refused_unless_no_tool_may_be_called() {
    let server = TestServer::start(script()).await;
    let format = json!({ "type": "json_object" });
    let refused = json!({ "tools": functions(), "response_format": format });
    let answer = server.chat(refused.clone()).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert_eq!(answer.json()["error"]["param"], "response_format");
    let mut allowed = refused;
    allowed["tool_choice"] = "none".into();
    assert_eq!(server.chat(allowed).await.status, 200);
    let body = request(json!({ "tools": functions(), "format": "json" }));
    let answer = server.post("/api/chat", &body).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(
        answer.json()["error"]
            .as_str()
            .unwrap()
            .contains("`format`")
    );
    server.end().await;
}
