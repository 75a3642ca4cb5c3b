//! Tool calls that a request forces are valid, whatever the weights of the model.

use serde_json::{Value, json};
use transom_engine::{ChatPrompt, Constraint, FinishReason, Grammar, Prompt, Role, ToolChoice};

use crate::models;
use crate::process::{TestProcess, limits};
use crate::request::{TestRequest, chat};
use crate::response::Response;
use crate::subject::Subject;

/// Markers in chat templates that show the form of calls.
const FORMS: [&str; 9] = [
    "<tool_call>",
    "<function= <parameter=",
    "<arg_key>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS] [ARGS]",
    "<|tool_call>",
    "<|tool_call|>",
    "<｜tool▁call▁begin｜>",
];

fn function(name: &str, properties: &Value, required: &Value) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
}

fn seeded(chat: ChatPrompt, seed: u64) -> TestRequest {
    let mut request = TestRequest::user("").seeded(1.5, seed).max_tokens(3000);
    request.0.prompt = Prompt::Chat(chat);
    request
}

/// Returns a request with two functions, whose arguments have a bounded length.
fn request(choice: ToolChoice, is_single: bool, seed: u64) -> TestRequest {
    let weather = json!({
        "city": { "type": "string", "maxLength": 8 },
        "days": { "type": "integer", "minimum": 1, "maximum": 9 },
    });
    let mut chat = chat(&[(Role::User, "Rain?")]);
    chat.tools = vec![
        function("weather", &weather, &json!(["city"])),
        function("now", &json!({}), &json!([])),
    ];
    chat.tool_choice = choice;
    chat.single_tool_call = is_single;
    seeded(chat, seed)
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
    for seed in 0..6 {
        let response = process
            .generate(&request(ToolChoice::Required, false, seed))
            .await;
        assert_valid(&response);
        names.extend(response.calls.into_iter().map(|call| call.name));
        let named = ToolChoice::Named("weather".to_owned());
        let response = process.generate(&request(named, true, seed)).await;
        assert_valid(&response);
        assert_eq!(response.calls.len(), 1, "one call only");
        assert_eq!(response.calls[0].name, "weather");
    }
    assert_eq!(names.len(), 2, "the model chooses");
    process.shut_down().await;
}

/// Whatever form the chat template shows, the call of the response is the same.
pub(crate) async fn a_required_call_is_valid_in_every_form(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let properties = json!({
        "city": { "type": "string", "enum": ["Zürich", "Bern"] },
        "hourly": { "type": "boolean" },
    });
    for (index, markers) in FORMS.iter().enumerate() {
        let source = models::copy_of_tiny(folder.path(), &format!("source-{index}"));
        models::change_json(&source.join("tokenizer_config.json"), |config| {
            let template = config["chat_template"].as_str().unwrap();
            let tools =
                format!("{{# {markers} #}}{{% if tools %}}{{{{ tools | tojson }}}}{{% endif %}}");
            config["chat_template"] = format!("{tools}{template}").into();
        });
        let model = (subject.convert)(&source, &folder.path().join(format!("model-{index}")));
        let mut process = TestProcess::with(subject, &model, &limits(4096)).await;
        let mut chat = chat(&[(Role::User, "Rain?")]);
        chat.tools = vec![function("weather", &properties, &json!(["city", "hourly"]))];
        chat.tool_choice = ToolChoice::Required;
        chat.single_tool_call = true;
        let request = seeded(chat, 7);
        let response = process.generate(&request).await;
        assert_eq!(response.reason(), FinishReason::Stop, "{markers}");
        assert_eq!(response.text().trim(), "", "{markers}");
        let [call] = &response.calls[..] else {
            panic!("{markers}: {:?}", response.calls);
        };
        assert!(
            call.is_complete && call.name == "weather",
            "{markers} {call:?}"
        );
        let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
        assert!(arguments["hourly"].is_boolean(), "{markers} {call:?}");
        assert!(
            arguments["city"] == "Zürich" || arguments["city"] == "Bern",
            "{call:?}"
        );
        for n_tokens in [1, 3, 8] {
            let cut = process
                .generate(&request.clone().max_tokens(n_tokens))
                .await;
            assert_eq!(cut.reason(), FinishReason::Length, "{markers}");
            assert_eq!(cut.text(), "", "{markers}: markup is no text");
            assert!(!cut.calls.iter().any(|call| call.is_complete), "{markers}");
        }
        process.shut_down().await;
    }
}

pub(crate) async fn a_response_that_may_call_may_also_answer(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let request = request(ToolChoice::Auto, false, 1).max_tokens(40);
    let response = process.generate(&request).await;
    assert!(!response.text().is_empty());
    assert!(response.calls.is_empty());
    let choice = Grammar::Choice(vec!["yes".to_owned()]);
    let constrained =
        request.params(|params| params.constraint = Some(Constraint::on_answer(choice)));
    let refused = process.generate(&constrained).await;
    assert!(refused.error().to_string().contains("constraint"));
    process.shut_down().await;
}
