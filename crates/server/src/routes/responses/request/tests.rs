use super::*;

fn read(body: Value) -> Result<(ResponsesRequest, Option<String>), ApiError> {
    let mut body = body;
    for (name, value) in [("model", json!("tiny")), ("input", json!("Hi"))] {
        if body.get(name).is_none() {
            body[name] = value;
        }
    }
    let fields = Fields::parse(body.to_string().as_bytes())?;
    let ignored = fields.ignored.clone();
    let request = ResponsesRequest::read(fields)?;
    Ok((request, ignored.header()))
}

#[test]
fn every_field_is_done_or_refused_by_name() {
    let schema = json!({ "type": "json_schema", "name": "a" });
    for (body, param) in [
        (json!({ "model": 7 }), "model"),
        (json!({ "input": null }), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "instructions": 7 }), "instructions"),
        (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
        (json!({ "temperature": 2.1 }), "temperature"),
        (json!({ "top_p": "high" }), "top_p"),
        (json!({ "truncation": "maybe" }), "truncation"),
        (
            json!({ "previous_response_id": "resp_1" }),
            "previous_response_id",
        ),
        (json!({ "conversation": "conv_1" }), "conversation"),
        (json!({ "background": true }), "background"),
        (json!({ "store": "yes" }), "store"),
        (json!({ "stream": 1 }), "stream"),
        (
            json!({ "reasoning": { "effort": "huge" } }),
            "reasoning.effort",
        ),
        (
            json!({ "reasoning": { "summary": "long" } }),
            "reasoning.summary",
        ),
        (json!({ "reasoning": "high" }), "reasoning"),
        (
            json!({ "text": { "format": schema } }),
            "text.format.schema",
        ),
        (json!({ "text": { "format": {} } }), "text.format.type"),
        (json!({ "text": { "verbosity": "low" } }), "text.verbosity"),
        (json!({ "text": { "mood": "low" } }), "text.mood"),
        (
            json!({ "response_format": { "type": "json_object" },
                    "text": { "format": { "type": "json_object" } } }),
            "text.format",
        ),
        (
            json!({ "tools": [{ "type": "function" }] }),
            "tools[0].name",
        ),
        (json!({ "tools": "all" }), "tools"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (
            json!({ "tool_choice": { "type": "function", "name": "now" } }),
            "tool_choice",
        ),
        (json!({ "max_tool_calls": 0 }), "max_tool_calls"),
        (json!({ "parallel_tool_calls": 1 }), "parallel_tool_calls"),
        (json!({ "include": [7] }), "include[0]"),
        (json!({ "top_logprobs": 2 }), "top_logprobs"),
        (
            json!({ "include": ["message.output_text.logprobs"], "top_logprobs": 21 }),
            "top_logprobs",
        ),
        (json!({ "logprobs": true }), "logprobs"),
        (json!({ "prompt": { "id": "pmpt_1" } }), "prompt"),
        (json!({ "metadata": 7 }), "metadata"),
        (json!({ "user": 7 }), "user"),
        (json!({ "n": 2 }), "n"),
    ] {
        let error = read(body.clone()).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{body}");
        assert!(error.message.contains(param), "{}", error.message);
        assert_eq!(error.status.as_u16(), 400);
    }
}

#[test]
fn values_that_ask_for_nothing_are_tolerated() {
    let (request, ignored) = read(json!({
        "tools": [], "tool_choice": "auto", "parallel_tool_calls": true, "store": false,
        "text": { "format": { "type": "text" }, "verbosity": "medium" }, "background": false,
        "previous_response_id": null, "truncation": "disabled", "top_logprobs": 0, "include": [],
        "metadata": { "a": "b" }, "user": "me", "prompt_cache_key": "k", "service_tier": "auto",
        "client_metadata": {}, "reasoning": { "summary": "auto" }, "stream": false,
    }))
    .unwrap();
    assert_eq!(ignored, None);
    assert_eq!(request.params, Params::default());
    assert_eq!(request.truncation, Truncation::Disabled);
    assert_eq!(request.repeated["metadata"], json!({ "a": "b" }));
    assert_eq!(request.repeated["user"], "me");
}

#[test]
fn fields_without_effect_are_named() {
    let (_, ignored) = read(json!({
        "store": true, "include": ["reasoning.encrypted_content"], "mood": 1,
        "reasoning": { "summary": "concise", "pace": "slow" },
    }))
    .unwrap();
    let expected = "store, include[0], reasoning.summary, reasoning.pace, mood";
    assert_eq!(ignored.as_deref(), Some(expected));
}

#[test]
fn instructions_and_system_messages_become_one() {
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let (request, _) = read(json!({
        "instructions": "Be brief.",
        "input": [message("developer", "Be kind."), message("user", "Hi"),
                  message("system", "Now rhyme.")],
    }))
    .unwrap();
    let expected = [
        Message::system("Be brief.\n\nBe kind."),
        Message::user("Hi"),
        Message::system("Now rhyme."),
    ];
    assert_eq!(request.prompt.messages, expected);
    assert_eq!(request.repeated["instructions"], "Be brief.");
}

#[test]
fn parameters_arrive() {
    let (request, _) = read(json!({
        "max_output_tokens": 9, "temperature": 0.5, "truncation": "auto", "stream": true,
        "reasoning": { "effort": "none" }, "tool_choice": "none",
        "tools": [{ "type": "function", "name": "now" }],
    }))
    .unwrap();
    assert_eq!(request.params.max_tokens, Some(9));
    assert_eq!(request.params.temperature, Some(0.5));
    let expected = Truncation::DropOldest {
        response_tokens: 9,
        context_limit: None,
    };
    assert_eq!(request.truncation, expected);
    assert_eq!(request.prompt.enable_thinking, Some(false));
    assert!(request.is_streamed && request.has_effort);
    assert!(request.prompt.tools.is_empty());
    let repeated = &request.repeated;
    assert_eq!(repeated["max_output_tokens"], 9);
    assert_eq!(repeated["truncation"], "auto");
    assert_eq!(repeated["reasoning"]["effort"], "none");
    assert_eq!(repeated["tool_choice"], "none");
}

#[test]
fn functions_are_read_and_other_tools_are_left_out() {
    let (request, ignored) = read(json!({
        "tools": [
            { "type": "web_search" },
            { "type": "function", "name": "now", "parameters": { "type": "object" }, "strict": true },
            { "type": "custom", "name": "apply_patch" },
        ],
        "tool_choice": { "type": "function", "name": "now" },
        "parallel_tool_calls": false,
    }))
    .unwrap();
    let prompt = request.prompt;
    assert_eq!(prompt.tools.len(), 1);
    assert_eq!(prompt.tools[0]["function"]["name"], "now");
    assert_eq!(prompt.tools[0]["function"]["strict"], true);
    assert_eq!(
        prompt.tool_choice,
        transom_engine::ToolChoice::Named("now".to_owned())
    );
    assert!(prompt.single_tool_call);
    assert_eq!(ignored.as_deref(), Some("tools[0], tools[2]"));
}
