//! A response that must be valid under a JSON Schema, for our own shells: the grammar holds it where
//! that is possible, it is checked in any case, and asked for again where it is not valid.
//!
//! A shell sends [`CheckedResponse::request`], passes the answer to [`CheckedResponse::check`], and
//! starts over while that says so. The HTTP API does not use this: it refuses a schema that cannot be
//! held, because its callers decide for themselves what to do then.
//!
//! Rule: notes for people name the place and what is wrong there, and contain no value of the answer.

use jsonschema::Validator;
use serde_json::Value;

use crate::chat::{Message, Role};
use crate::constraint::{Constraint, Grammar};
use crate::error::EngineError;
use crate::event::FinishReason;
use crate::request::{GenerationParams, Prompt};

/// How many times a response is asked for again.
pub const MAX_RETRIES: usize = 2;

/// The highest temperature of a retry. At a low temperature a model follows instructions better.
pub const RETRY_TEMPERATURE: f32 = 0.3;

/// The longest description of a problem, in characters. A list of allowed values may be long.
const MAX_PROBLEM: usize = 200;

/// A schema, and what became of the responses so far.
#[derive(Debug)]
pub struct CheckedResponse {
    schema: Value,
    /// `None` if only the grammar knows the schema's keywords.
    validator: Option<Validator>,
    constraint: Constraint,
    /// The constraint is that of the schema.
    is_held: bool,
    n_retries: usize,
    last: Option<Failed>,
}

/// A response that is not valid.
#[derive(Debug)]
struct Failed {
    /// `None` if it was cut off.
    answer: Option<String>,
    problem: String,
}

/// What to do after a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseCheck {
    /// The answer is valid.
    Valid,
    /// Send [`CheckedResponse::request`] again. The answer is not valid for this reason.
    Retry(String),
    /// The answer is not valid for this reason, and asking again is of no use.
    Invalid(String),
}

impl CheckedResponse {
    /// Prepares the requests for a response that is valid under `schema`.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`] if the schema can neither be held nor checked.
    pub fn new(schema: Value) -> Result<Self, EngineError> {
        let constraint = Constraint::on_answer(Grammar::JsonSchema(schema.clone()));
        let refusal = constraint.check().err();
        let validator = match schema {
            Value::Object(_) | Value::Bool(true) => validator(&schema),
            _ => None,
        };
        let mut response = Self {
            schema,
            validator,
            constraint,
            is_held: true,
            n_retries: 0,
            last: None,
        };
        match refusal {
            Some(refusal) if !response.falls_back(&refusal) => Err(refusal),
            _ => Ok(response),
        }
    }

    /// Returns true if the grammar holds the schema, so that only the end of an answer may be missing.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Reacts to the error of a request. Returns true if the schema cannot be held after all but can be
    /// checked; then [`Self::request`] is sent again.
    pub fn falls_back(&mut self, error: &EngineError) -> bool {
        let is_refused = matches!(error, EngineError::InvalidConstraint { .. });
        if !is_refused || !self.is_held || self.validator.is_none() {
            return false;
        }
        let is_object = self.schema.get("type").is_some_and(|name| name == "object");
        self.constraint = Constraint::on_answer(match is_object {
            true => Grammar::JsonObject,
            false => Grammar::Json,
        });
        self.is_held = false;
        true
    }

    /// Returns the next request for what `prompt` and `params` ask for: with the constraint, with the
    /// schema if only the prompt can tell it to the model, and with the problem of the last answer.
    pub fn request(
        &self,
        prompt: &Prompt,
        params: &GenerationParams,
    ) -> (Prompt, GenerationParams) {
        let mut params = params.clone();
        params.constraint = Some(self.constraint.clone());
        if self.last.is_some() {
            let temperature = &mut params.sampling.temperature;
            *temperature = temperature.min(RETRY_TEMPERATURE);
        }
        let mut prompt = prompt.clone();
        if !self.is_held {
            let schema = &self.schema;
            let text =
                format!("Respond only with JSON that is valid under this JSON Schema:\n{schema}");
            add_text(&mut prompt, &text);
        }
        let Some(Failed { answer, problem }) = &self.last else {
            return (prompt, params);
        };
        let again = match answer {
            Some(_) => {
                format!("Your answer is not valid: {problem}. Answer again, and correct it.")
            }
            None => "Answer as briefly as you can, so that the JSON is complete.".to_owned(),
        };
        match (&mut prompt, answer) {
            (Prompt::Chat(chat), Some(answer)) => {
                chat.messages.push(Message::new(Role::Assistant, answer));
                chat.messages.push(Message::new(Role::User, again));
            }
            (prompt, _) => add_text(prompt, &again),
        }
        (prompt, params)
    }

    /// Checks an answer, without its reasoning, that ended for `reason`.
    pub fn check(&mut self, answer: &str, reason: FinishReason) -> ResponseCheck {
        let problem = match reason {
            FinishReason::Stop => match self.problem(answer) {
                None => return ResponseCheck::Valid,
                Some(problem) => problem,
            },
            FinishReason::Length => "it was cut off before its end".to_owned(),
            FinishReason::Canceled | FinishReason::Shed => {
                return ResponseCheck::Invalid("it ended before it was complete".to_owned());
            }
        };
        if self.n_retries == MAX_RETRIES {
            return ResponseCheck::Invalid(problem);
        }
        self.n_retries += 1;
        self.last = Some(Failed {
            answer: (reason == FinishReason::Stop).then(|| answer.to_owned()),
            problem: problem.clone(),
        });
        ResponseCheck::Retry(problem)
    }

    fn problem(&self, answer: &str) -> Option<String> {
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => return Some(format!("it is not JSON ({error})")),
        };
        let errors = self.validator.as_ref()?.validate(&value);
        let error = errors.err()?;
        let path = match error.instance_path.as_str() {
            "" => "the whole".to_owned(),
            path => path.to_owned(),
        };
        let problem = format!("at {path}: {}", error.masked());
        Some(match problem.char_indices().nth(MAX_PROBLEM) {
            Some((end, _)) => format!("{}…", &problem[..end]),
            None => problem,
        })
    }
}

/// Returns the schema's validator, if it knows what the schema refers to and every pattern.
fn validator(schema: &Value) -> Option<Validator> {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(schema).ok()
}

/// Adds a paragraph to the text that the model answers.
fn add_text(prompt: &mut Prompt, text: &str) {
    let add = |to: &mut String| {
        to.push_str("\n\n");
        to.push_str(text);
    };
    match prompt {
        Prompt::Chat(chat) => match chat.messages.last_mut() {
            Some(last) if last.role == Role::User => add(&mut last.content),
            _ => chat.messages.push(Message::new(Role::User, text)),
        },
        Prompt::Text(prompt) => {
            add(prompt);
            prompt.push('\n');
        }
        Prompt::Tokens(_) | Prompt::FillIn(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::ChatPrompt;
    use serde_json::json;

    fn held() -> CheckedResponse {
        let schema = json!({
            "type": "object", "properties": { "age": { "type": "integer" } }, "required": ["age"],
        });
        CheckedResponse::new(schema).expect("the grammar holds it")
    }

    /// The grammar does not know `not`.
    fn free() -> CheckedResponse {
        let age = json!({ "type": "integer", "not": { "const": 3 } });
        let schema = json!({ "type": "object", "properties": { "age": age } });
        CheckedResponse::new(schema).expect("it can be checked")
    }

    fn chat(text: &str) -> Prompt {
        Prompt::Chat(ChatPrompt {
            messages: vec![Message::new(Role::User, text)],
            ..ChatPrompt::default()
        })
    }

    fn texts(prompt: &Prompt) -> Vec<(Role, &str)> {
        let Prompt::Chat(chat) = prompt else {
            panic!("{prompt:?}");
        };
        let messages = chat.messages.iter();
        messages.map(|m| (m.role, m.content.as_str())).collect()
    }

    #[test]
    fn a_schema_that_is_held_changes_only_the_constraint() {
        let response = held();
        assert!(response.is_held());
        let params = GenerationParams::default();
        let (prompt, next) = response.request(&chat("How old?"), &params);
        assert_eq!(prompt, chat("How old?"));
        let constraint = next.constraint.clone().expect("there is one");
        assert!(matches!(constraint.grammar, Grammar::JsonSchema(_)));
        let constraint = params.constraint.clone();
        assert_eq!(GenerationParams { constraint, ..next }, params);
    }

    #[test]
    fn a_schema_that_cannot_be_held_is_told_to_the_model_and_checked() {
        let mut response = free();
        assert!(!response.is_held());
        let (prompt, params) = response.request(&chat("How old?"), &GenerationParams::default());
        let expected = Constraint::on_answer(Grammar::JsonObject);
        assert_eq!(params.constraint, Some(expected));
        let [(Role::User, text)] = texts(&prompt)[..] else {
            panic!("{prompt:?}");
        };
        assert!(text.starts_with("How old?\n\nRespond only with JSON"));
        assert!(text.contains(r#""const":3"#), "{text}");
        assert_eq!(
            response.check(r#"{"age":4}"#, FinishReason::Stop),
            ResponseCheck::Valid
        );
    }

    #[test]
    fn an_invalid_answer_is_asked_for_twice_more_with_its_path_and_never_quoted_to_people() {
        let mut response = free();
        let params = GenerationParams::default();
        for _ in 0..MAX_RETRIES {
            let verdict = response.check(r#"{"age":"secret"}"#, FinishReason::Stop);
            let ResponseCheck::Retry(problem) = verdict else {
                panic!("{verdict:?}");
            };
            assert!(problem.starts_with("at /age: "), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
            let (prompt, params) = response.request(&chat("How old?"), &params);
            assert_eq!(params.sampling.temperature, RETRY_TEMPERATURE);
            let messages = texts(&prompt);
            let [_, (Role::Assistant, answer), (Role::User, again)] = messages[..] else {
                panic!("{messages:?}");
            };
            assert_eq!(answer, r#"{"age":"secret"}"#);
            assert!(again.contains(&problem), "{again}");
        }
        let last = response.check("[1", FinishReason::Stop);
        assert!(matches!(last, ResponseCheck::Invalid(problem) if problem.contains("not JSON")));
    }

    #[test]
    fn a_retry_is_never_hotter_than_the_request() {
        let mut response = held();
        response.check("", FinishReason::Length);
        let mut params = GenerationParams::default();
        params.sampling.temperature = 0.0;
        let (_, next) = response.request(&chat("How old?"), &params);
        assert_eq!(next.sampling.temperature, 0.0);
    }

    #[test]
    fn a_cut_answer_is_asked_for_again_without_repeating_it() {
        let mut response = held();
        let verdict = response.check(r#"{"age": 1"#, FinishReason::Length);
        assert!(matches!(verdict, ResponseCheck::Retry(problem) if problem.contains("cut off")));
        let (prompt, params) = response.request(&chat("How old?"), &GenerationParams::default());
        let [(Role::User, text)] = texts(&prompt)[..] else {
            panic!("{prompt:?}");
        };
        assert!(text.contains("briefly"), "{text}");
        let constraint = params.constraint.expect("there is one");
        assert!(matches!(constraint.grammar, Grammar::JsonSchema(_)));
        let text = Prompt::Text("Age:".to_owned());
        let (prompt, _) = response.request(&text, &GenerationParams::default());
        assert!(matches!(prompt, Prompt::Text(text) if text.starts_with("Age:\n\nAnswer")));
    }

    #[test]
    fn a_stopped_answer_is_not_asked_for_again() {
        for reason in [FinishReason::Canceled, FinishReason::Shed] {
            let verdict = held().check(r#"{"age":1}"#, reason);
            assert!(matches!(verdict, ResponseCheck::Invalid(_)), "{verdict:?}");
        }
    }

    #[test]
    fn a_grammar_that_is_refused_for_this_model_is_replaced_once() {
        let refusal = EngineError::InvalidConstraint {
            path: String::new(),
            keyword: String::new(),
            message: "too large".to_owned(),
        };
        let mut response = held();
        assert!(!response.falls_back(&EngineError::EmptyPrompt));
        assert!(response.falls_back(&refusal) && !response.is_held());
        assert!(!response.falls_back(&refusal));
    }

    #[test]
    fn a_schema_that_can_neither_be_held_nor_checked_is_refused() {
        for schema in [
            json!({ "type": "objekt" }),
            json!({ "$ref": "https://example.com/schema.json" }),
            json!(false),
            json!([]),
        ] {
            let result = CheckedResponse::new(schema.clone());
            let is_refused = matches!(result, Err(EngineError::InvalidConstraint { .. }));
            assert!(is_refused, "{schema}");
        }
    }
}
