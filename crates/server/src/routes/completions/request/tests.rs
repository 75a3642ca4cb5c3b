use serde_json::{Value, json};

use super::*;

fn read(body: Value) -> Result<(CompletionRequest, Option<String>), ApiError> {
    let mut body = body;
    for (name, value) in [("model", json!("tiny")), ("prompt", json!("Hi"))] {
        if body.get(name).is_none() {
            body[name] = value;
        }
    }
    let fields = Fields::parse(body.to_string().as_bytes())?;
    let ignored = fields.ignored.clone();
    let request = CompletionRequest::read(fields)?;
    Ok((request, ignored.header()))
}

#[test]
fn every_field_is_done_or_refused_by_name() {
    for (name, value) in [
        ("model", json!(7)),
        ("prompt", json!(null)),
        ("prompt", json!(7)),
        ("prompt", json!([])),
        ("prompt", json!(vec!["a"; 17])),
        ("prompt", json!(vec![1; (1 << 18) + 1])),
        ("temperature", json!(2.1)),
        ("max_tokens", json!(0)),
        ("max_tokens", json!("many")),
        ("n", json!(0)),
        ("n", json!(9)),
        ("best_of", json!(2)),
        ("echo", json!("yes")),
        ("suffix", json!(1)),
        ("logprobs", json!(-1)),
        ("logprobs", json!(21)),
        ("logprobs", json!(true)),
        ("prompt_logprobs", json!(1)),
        ("stop", json!("")),
        ("stream_options", json!({ "include_usage": true })),
        ("response_format", json!("json_object")),
        ("guided_json", json!([])),
        ("grammar", json!("root ::= \"a\"")),
    ] {
        let error = read(json!({ name: value })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(name), "{value}");
        assert!(error.message.contains(name), "{}", error.message);
        assert_eq!(error.status.as_u16(), 400);
    }
    for (prompt, param) in [
        (json!([[]]), "prompt[0]"),
        (json!(["a", 1]), "prompt[1]"),
        (json!([1, "a"]), "prompt[1]"),
        (json!([[1, -1]]), "prompt[0][1]"),
        (json!([4_294_967_296_u64]), "prompt[0]"),
    ] {
        let error = read(json!({ "prompt": prompt })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param));
    }
    let error = read(json!({ "prompt": [1, 2], "echo": true })).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("echo"));
    let error = read(json!({ "suffix": "end", "echo": true })).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("echo"));
    let error = read(json!({ "suffix": "end", "prompt": [1] })).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("suffix"));
    let error = read(json!({ "logprobs": 1, "echo": true })).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("logprobs"));
}

#[test]
fn values_that_ask_for_nothing_are_tolerated() {
    let (request, ignored) = read(json!({
        "suffix": "", "best_of": 1, "logprobs": null, "echo": false, "n": 1, "user": "me",
        "response_format": { "type": "text" }, "stop": null, "logit_bias": {},
    }))
    .unwrap();
    assert_eq!(ignored, None);
    let expected = Params {
        max_tokens: Some(DEFAULT_MAX_TOKENS),
        ..Params::default()
    };
    assert_eq!(request.params, expected);
    assert!(request.echoes.is_empty());
    let (request, ignored) = read(json!({ "max_tokens": -1, "temprature": 0 })).unwrap();
    assert_eq!(request.params.max_tokens, None);
    assert_eq!(ignored.as_deref(), Some("temprature"));
}

#[test]
fn prompts_are_texts_or_token_ids() {
    let text = |text: &str| Prompt::Text(text.to_owned());
    for (prompt, expected) in [
        (json!("a"), vec![text("a")]),
        (json!(["a"]), vec![text("a")]),
        (json!(["a", "b"]), vec![text("a"), text("b")]),
        (json!([1, 2]), vec![Prompt::Tokens(vec![1, 2])]),
        (
            json!([[1], [2, 3]]),
            vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])],
        ),
    ] {
        let (request, _) = read(json!({ "prompt": prompt })).unwrap();
        assert_eq!(request.prompts, expected);
    }
    let gap = |prefix: &str| {
        Prompt::FillIn(FillIn {
            prefix: prefix.to_owned(),
            suffix: "end".to_owned(),
        })
    };
    let (request, _) = read(json!({ "prompt": ["a", ""], "suffix": "end" })).unwrap();
    assert_eq!(request.prompts, [gap("a"), gap("")]);
    let (request, _) = read(json!({ "prompt": ["a", "b"], "echo": true })).unwrap();
    assert_eq!(request.echoes, ["a", "b"]);
}
