//! Constrained responses match, whatever the weights of the model.

use serde_json::{Value, json};
use transom_engine::{
    CheckedResponse, Constraint, EngineError, FinishReason, Grammar, ResponseCheck, Section,
    TokenEvent, title,
};

use crate::process::TestProcess;
use crate::request::{TestRequest, tiny_tokens};
use crate::subject::Subject;

fn constrained(request: TestRequest, grammar: Grammar) -> TestRequest {
    request.params(|params| params.constraint = Some(Constraint::on_answer(grammar)))
}

/// A schema whose instances have a bounded length.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "kind": { "enum": ["first", "second"] },
            "count": { "type": "integer", "minimum": 0, "maximum": 999 },
            "tags": { "type": "array", "items": { "type": "string", "maxLength": 4 }, "maxItems": 2 },
        },
        "required": ["kind", "count", "tags"],
        "additionalProperties": false,
    })
}

fn assert_valid(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(
        value["kind"] == "first" || value["kind"] == "second",
        "{text}"
    );
    assert!(value["count"].as_u64().is_some_and(|n| n < 1000), "{text}");
    let tags = value["tags"].as_array().expect("a list");
    let is_short = |tag: &Value| tag.as_str().is_some_and(|tag| tag.chars().count() <= 4);
    assert!(tags.len() <= 2 && tags.iter().all(is_short), "{text}");
}

pub(crate) async fn every_constrained_response_is_valid(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    for seed in 0..6 {
        let request = TestRequest::user("hello")
            .seeded(1.5, seed)
            .max_tokens(2000);
        let request = constrained(request, Grammar::JsonSchema(schema()));
        let response = process.generate(&request).await;
        assert_eq!(response.reason(), FinishReason::Stop);
        assert_valid(&response.text());
        // A request without a constraint after it is as free as before.
        let free = process
            .text(&TestRequest::text("hello").seeded(1.5, seed))
            .await;
        assert!(serde_json::from_str::<Value>(&free).is_err());
    }
    process.shut_down().await;
}

pub(crate) async fn forced_and_drafted_tokens_change_no_constrained_response(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let prompt = r#"{"kind": "first", "count": 1, "tags": []}"#.repeat(3);
    let request = TestRequest::text(&prompt).max_tokens(2000);
    let greedy = constrained(request.clone(), Grammar::JsonSchema(schema()));
    let seeded = greedy.clone().seeded(1.0, 3);
    for request in [greedy, seeded] {
        let with = process.text(&request).await;
        let without = request.params(|params| params.speculate = false);
        assert_eq!(with, process.text(&without).await);
        assert_valid(&with);
    }
    process.shut_down().await;
}

/// Schemas whose instances have a bounded length, of the kinds that people use.
fn usual_schemas() -> [Value; 5] {
    let short = json!({ "type": "string", "maxLength": 12 });
    [
        json!({ "type": "array", "items": { "type": "integer", "minimum": -9, "maximum": 99 },
            "minItems": 2, "maxItems": 5 }),
        json!({ "type": "object", "properties": {
            "date": { "type": "string", "format": "date" },
            "code": { "type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$" },
        }, "required": ["date", "code"], "additionalProperties": false }),
        json!({ "anyOf": [{ "const": "none" }, { "type": "object", "properties": {
            "kind": { "enum": ["a \"b\"", "ü", null, 3] }, "note": short,
        }, "required": ["kind"], "additionalProperties": false }] }),
        json!({ "$defs": { "leaf": { "type": "object", "properties": { "name": short },
            "required": ["name"], "additionalProperties": false } },
            "type": "object", "properties": { "left": { "$ref": "#/$defs/leaf" },
            "right": { "$ref": "#/$defs/leaf" } }, "required": ["left", "right"],
            "additionalProperties": false }),
        json!({ "type": "array", "prefixItems": [{ "type": "boolean" },
            { "type": "number", "minimum": 0, "maximum": 1 }], "items": false, "minItems": 2 }),
    ]
}

/// Every finished answer of a trained model is valid in the eyes of another validator.
pub(crate) async fn every_finished_answer_of_the_starter_is_valid(subject: &Subject) {
    let mut process = TestProcess::starter(subject).await;
    let mut n_finished = 0;
    for (seed, schema) in (0..).zip(usual_schemas()) {
        let user = TestRequest::user("Describe a day").max_tokens(150);
        let user = match seed % 2 {
            0 => user,
            _ => user.seeded(1.0, seed),
        };
        let mut check = CheckedResponse::new(schema.clone()).unwrap();
        assert!(check.is_held(), "{schema}");
        let request = constrained(user, Grammar::JsonSchema(schema));
        let response = process.generate(&request).await;
        if response.reason() == FinishReason::Stop {
            n_finished += 1;
            let text = response.text();
            let verdict = check.check(&text, FinishReason::Stop);
            assert_eq!(verdict, ResponseCheck::Valid, "{text}");
        }
    }
    assert!(n_finished >= 2, "{n_finished}");
    process.shut_down().await;
}

pub(crate) async fn a_title_is_one_short_line_whatever_the_model_writes(subject: &Subject) {
    let question = "Why is the sky blue? Please answer in two lines,\nand rhyme.";
    let mut tiny = TestProcess::tiny(subject).await;
    let mut starter = TestProcess::starter(subject).await;
    let mut n_finished = 0;
    for seed in 0..5 {
        let mut request = TestRequest::user("").seeded(1.5, seed);
        request.0.prompt = title::prompt(question);
        let params = title::params(&request.0.params.sampling);
        let sampling = request.0.params.sampling.clone();
        assert!(params.sampling.temperature < sampling.temperature);
        request.0.params = params;
        // Also where the model writes anything.
        request.0.params.sampling = sampling;
        for process in [&mut tiny, &mut starter] {
            let response = process.generate(&request).await;
            if response.reason() != FinishReason::Stop {
                continue;
            }
            n_finished += 1;
            let title = response.text();
            let n_chars = title.chars().count();
            assert!((1..=title::MAX_CHARACTERS).contains(&n_chars), "{title:?}");
            assert!(title.starts_with(char::is_alphanumeric), "{title:?}");
            assert_eq!(title, title.trim());
            assert!(!title.contains(char::is_control), "{title:?}");
        }
    }
    assert!(n_finished >= 8, "{n_finished}");
    tiny.shut_down().await;
    starter.shut_down().await;
}

/// A model that reasons, forced text, a cached prefix and a stopped response at once.
pub(crate) async fn a_constraint_survives_reasoning_drafts_cached_text_and_a_stop(
    subject: &Subject,
) {
    let mut process = TestProcess::tiny(subject).await;
    let forced = tiny_tokens(subject, "<think>hm</think>");
    let grammar = || Grammar::Choice(vec!["yes, of course".to_owned(), "no, never".to_owned()]);
    let request = TestRequest::user("0").forcing(&forced).max_tokens(60);
    let request = constrained(request, grammar());
    let slow = request.clone().params(|params| params.speculate = false);
    let expected = process.text(&slow).await;
    let answer = expected.strip_prefix("[hm]").expect("it reasons");
    assert!(
        ["yes, of course", "no, never"].contains(&answer),
        "{answer}"
    );
    // A response that is stopped within its constrained part, after a prefix of the same prompt.
    let endless = Grammar::Regex("[a-z]{3000,}".to_owned());
    let endless = constrained(TestRequest::user("0").max_tokens(4000), endless);
    let job = process.start_job(&endless);
    process
        .until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    process.stop(Some(job), FinishReason::Canceled);
    let stopped = process.response().await;
    assert_eq!(stopped.reason(), FinishReason::Canceled);
    let is_letter = |letter: char| letter.is_ascii_lowercase();
    assert!(stopped.text().chars().all(is_letter), "{}", stopped.text());
    for _ in 0..2 {
        let response = process.generate(&request).await;
        assert!(response.started().cached_tokens > 0);
        assert_eq!(response.full_text(), expected);
    }
    process.shut_down().await;
}

/// Reasoning is free, and the constraint begins after it.
pub(crate) async fn the_constraint_begins_after_the_reasoning(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let choice = || Grammar::Choice(vec!["yes".to_owned(), "no".to_owned()]);
    let forced = tiny_tokens(subject, "<think>hm</think>");
    let request = TestRequest::user("0").forcing(&forced).max_tokens(50);
    let response = process.generate(&constrained(request, choice())).await;
    assert_eq!(response.section(Section::Reasoning), "hm");
    assert!(["yes", "no"].contains(&&*response.section(Section::Answer)));
    process.shut_down().await;
}

pub(crate) async fn a_constraint_that_cannot_be_held_is_refused_before_any_work(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let schema = json!({ "properties": { "a": { "not": { "type": "null" } } } });
    let request = constrained(TestRequest::user("0"), Grammar::JsonSchema(schema));
    let response = process.generate(&request).await;
    let EngineError::InvalidConstraint { path, keyword, .. } = response.error() else {
        panic!("{:?}", response.error());
    };
    assert_eq!((&**path, &**keyword), ("/properties/a", "not"));
    assert!(response.started.is_none());
    // From the first token on, because these weights would begin with reasoning.
    let choice = Constraint::on_response(Grammar::Choice(vec!["yes".to_owned()]));
    let request = TestRequest::user("0").params(|params| params.constraint = Some(choice));
    assert_eq!(process.text(&request).await, "yes");
    process.shut_down().await;
}
