//! Tool calls that a request forces are valid, whatever the weights of the model.

use serde_json::{Value, json};
use transom_engine::{FinishReason, GenerationParams, Prompt, ToolChoice};

use crate::process::TestProcess;
use crate::request::{TestRequest, chat};
use crate::response::Response;
use crate::subject::Subject;

/// Returns a seeded request with two functions, whose arguments have a bounded length.
fn request(choice: ToolChoice, is_single: bool, seed: u64) -> TestRequest {
    let function = |name: &str, properties: Value, required: Value| {
        let parameters = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
    };
    let weather = json!({
        "city": { "type": "string", "maxLength": 8 },
        "days": { "type": "integer", "minimum": 1, "maximum": 9 },
    });
    let mut chat = chat(&[(transom_engine::Role::User, "Rain?")]);
    chat.tools = vec![
        function("weather", weather, json!(["city"])),
        function("now", json!({}), json!([])),
    ];
    chat.tool_choice = choice;
    chat.single_tool_call = is_single;
    let mut request = TestRequest::user("").seeded(1.5, seed).max_tokens(3000);
    request.0.prompt = Prompt::Chat(chat);
    request
}

fn assert_valid(response: &Response) {
    assert_eq!(response.reason(), FinishReason::Stop);
    assert_eq!(response.text().trim(), "", "only calls");
    assert!(!response.calls.is_empty());
    for call in &response.calls {
        assert!(call.is_complete, "{call:?}");
        let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
        let arguments = arguments.as_object().expect("an object");
        if call.name == "weather" {
            let city = arguments["city"].as_str().expect("a city");
            assert!(city.chars().count() <= 8, "{call:?}");
            let days = arguments.get("days").map(Value::as_u64);
            assert!(days.is_none_or(|days| days.is_some_and(|days| (1..=9).contains(&days))));
            assert!(arguments.keys().all(|key| key == "city" || key == "days"));
        } else {
            assert_eq!(call.name, "now");
            assert!(arguments.is_empty(), "{call:?}");
        }
    }
}

pub(crate) async fn required_and_named_calls_are_always_valid(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let mut names = std::collections::BTreeSet::new();
    let mut n_calls = 0;
    for seed in 0..6 {
        let response = process
            .generate(&request(ToolChoice::Required, false, seed))
            .await;
        assert_valid(&response);
        n_calls += response.calls.len();
        names.extend(response.calls.into_iter().map(|call| call.name));
        let named = ToolChoice::Named("weather".to_owned());
        let response = process.generate(&request(named, true, seed)).await;
        assert_valid(&response);
        assert_eq!(response.calls.len(), 1, "one call only");
        assert_eq!(response.calls[0].name, "weather");
    }
    // Different calls, and several in one response.
    assert_eq!(names.len(), 2);
    assert!(n_calls > 6, "{n_calls}");
    process.shut_down().await;
}

pub(crate) async fn a_response_that_may_call_may_also_answer(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let request = request(ToolChoice::Auto, false, 1).max_tokens(40);
    let response = process.generate(&request).await;
    assert!(!response.text().is_empty());
    assert!(response.calls.is_empty());
    let constrained = request.params(|params: &mut GenerationParams| {
        let choice = transom_engine::Grammar::Choice(vec!["yes".to_owned()]);
        params.constraint = Some(transom_engine::Constraint::on_answer(choice));
    });
    let refused = process.generate(&constrained).await;
    assert!(refused.error().to_string().contains("constraint"));
    process.shut_down().await;
}
