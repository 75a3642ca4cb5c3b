mod forced;
mod layout;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::job_control::JobControl;
use crate::sampling::{Sampler, SamplingParams};
use crate::speculation::verify;
use crate::test_support::{byte_table, start_constraint};
use crate::text::OpenReasoning;

fn start_with(
    constraint: &Constraint,
    open: Option<OpenReasoning>,
    table: TokenTable,
) -> Result<ResponseConstraint, EngineError> {
    start_constraint(&mut Constraints::default(), constraint, open, &table)
}

fn start(grammar: Grammar) -> ResponseConstraint {
    start_with(&Constraint::on_answer(grammar), None, byte_table(&[])).expect("it can be held")
}

fn allows(response: &mut ResponseConstraint, token: u32) -> bool {
    let mask = response.mask().expect("there is a next token");
    mask.expect("it is constrained").allows(token)
}

/// Adds the bytes of `text` as far as they are allowed. Returns how many were.
fn write(response: &mut ResponseConstraint, text: &str) -> usize {
    let mut n_written = 0;
    for byte in text.bytes() {
        if response.is_complete() || !allows(response, byte.into()) {
            break;
        }
        response.accept(byte.into()).expect("the mask allows it");
        n_written += 1;
    }
    n_written
}

/// Returns true if the whole text may be written and may then end.
fn matches(grammar: &Grammar, text: &str) -> bool {
    let mut response = start(grammar.clone());
    let is_written = write(&mut response, text) == text.len();
    is_written && (response.is_complete() || allows(&mut response, 256))
}

#[test]
fn a_schema_allows_its_instances_and_nothing_else() {
    let schema = Grammar::JsonSchema(json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer", "minimum": 0 } },
        "required": ["name", "age"],
        "additionalProperties": false,
    }));
    for text in [
        r#"{"name": "Ann", "age": 3}"#,
        r#"{"name": "Aä\n", "age": 0}"#,
    ] {
        assert!(matches(&schema, text), "{text}");
    }
    for text in [
        "",
        " {",
        r#"{"name": "Ann"}"#,
        r#"{"age": 3, "name": "Ann"}"#,
        r#"{"name": "Ann", "age": -3}"#,
        r#"{"name": "Ann", "age": 3} "#,
    ] {
        assert!(!matches(&schema, text), "{text}");
    }
}

#[test]
fn keywords_beside_a_reference_count_by_the_declared_draft() {
    let schema = |draft: Option<&str>| {
        let mut schema = json!({
            "type": "object",
            "properties": {
                // A property may be named like a keyword, and values may look like schemas.
                "const": { "$ref": "#/definitions/text", "maxLength": 2 },
                "b": { "enum": [{ "$ref": "x", "type": "y" }] },
            },
            "additionalProperties": false,
            "definitions": { "text": { "type": "string" } },
        });
        if let Some(draft) = draft {
            schema["$schema"] = draft.into();
        }
        schema
    };
    let (short, long) = (r#"{"const": "ab"}"#, r#"{"const": "abc"}"#);
    let listed = r#"{"b": {"$ref": "x", "type": "y"}}"#;
    for (draft, ignores) in [
        (None, false),
        (Some("https://json-schema.org/draft/2020-12/schema"), false),
        (Some("https://json-schema.org/draft/2019-09/schema#"), false),
        (Some("http://json-schema.org/draft-07/schema#"), true),
        (Some("http://json-schema.org/draft-06/schema"), true),
        (Some("http://json-schema.org/draft-04/schema#"), true),
    ] {
        let schema = schema(draft);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let grammar = Grammar::JsonSchema(schema);
        for (text, is_valid) in [(short, true), (long, ignores), (listed, true)] {
            assert_eq!(matches(&grammar, text), is_valid, "{draft:?}: {text}");
            let value = serde_json::from_str(text).unwrap();
            assert_eq!(validator.is_valid(&value), is_valid, "{draft:?}: {text}");
        }
    }
    // The definitions beside a reference stay.
    let root = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "maxLength": 1,
        "definitions": { "a": { "type": "string", "maxLength": 3 } },
    });
    assert!(matches(&Grammar::JsonSchema(root.clone()), r#""abc""#));
    assert!(!matches(&Grammar::JsonSchema(root), r#""abcd""#));
}

#[test]
fn any_json_an_expression_and_choices() {
    assert!(matches(&Grammar::Json, "[1, null]"));
    assert!(!matches(&Grammar::JsonObject, "[1, null]"));
    let expression = Grammar::Regex(r"^[0-9]{3}/x$".to_owned());
    assert!(matches(&expression, "123/x"));
    assert!(!matches(&expression, "12/x"));
    let choice = Grammar::Choice(vec!["yes".to_owned(), "ye\"s\n".to_owned()]);
    assert!(matches(&choice, "yes") && matches(&choice, "ye\"s\n"));
    assert!(!matches(&choice, "ye"));
}

#[test]
fn a_response_is_complete_where_nothing_may_follow() {
    let mut response = start(Grammar::Choice(vec!["yes".to_owned()]));
    assert_eq!(write(&mut response, "yes"), 3);
    assert!(response.is_complete());
}

#[test]
fn a_schema_that_cannot_be_held_is_refused_with_path_and_keyword() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "string" }, "b": { "items": { "not": { "type": "null" } } } },
    });
    let constraint = Constraint::on_answer(Grammar::JsonSchema(schema));
    let started = start_with(&constraint, None, byte_table(&[]));
    for error in [constraint.check().unwrap_err(), started.unwrap_err()] {
        let EngineError::InvalidConstraint { path, keyword, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((&*path, &*keyword), ("/properties/b/items", "not"));
    }
}

#[test]
fn schemas_that_are_too_large_are_refused_and_large_ones_are_held() {
    let check = |schema| Constraint::on_answer(Grammar::JsonSchema(schema)).check();
    let mut deep = json!({ "type": "null" });
    for _ in 0..120 {
        deep = json!({ "items": deep });
    }
    assert!(check(deep).is_err());
    assert!(check(json!({ "description": "x".repeat(2 << 20) })).is_err());
    let bomb = Constraint::on_answer(Grammar::Regex(
        "((((a{1,99}){1,99}){1,99}){1,99}b)+".to_owned(),
    ));
    // Its states are computed only as far as a response needs them.
    let started = start_with(&bomb, None, byte_table(&[]));
    if let Err(error) = started {
        assert!(
            matches!(error, EngineError::InvalidConstraint { .. }),
            "{error:?}"
        );
    }
    assert_eq!(
        check(json!({ "type": "string", "maxLength": 200_000 })),
        Ok(())
    );
    let many: Vec<String> = (0..10_000).map(|n| format!("value {n}")).collect();
    assert!(matches(
        &Grammar::JsonSchema(json!({ "enum": many })),
        "\"value 9999\""
    ));
    assert!(
        Constraint::on_answer(Grammar::Choice(Vec::new()))
            .check()
            .is_err()
    );
    assert!(check(json!(false)).is_err());
}

#[test]
fn the_constraint_begins_after_the_reasoning_that_the_prompt_opened() {
    let constraint = Constraint::on_answer(Grammar::Choice(vec!["yes".to_owned()]));
    let open = Some(OpenReasoning::THINK);
    let mut response = start_with(&constraint, open, byte_table(&[])).unwrap();
    // Anything but the end.
    assert!(!allows(&mut response, 256));
    let thought = "no {1 </think>";
    assert_eq!(write(&mut response, thought), thought.len());
    assert!(!allows(&mut response, 256) && !allows(&mut response, b'n'.into()));
    assert_eq!(write(&mut response, "\nyes"), 4);
    assert!(response.is_complete());
    // With the first token.
    let constraint = Constraint::on_response(Grammar::Choice(vec!["yes".to_owned()]));
    let mut response = start_with(&constraint, open, byte_table(&[])).unwrap();
    assert_eq!(write(&mut response, "hm"), 0);
}

#[test]
fn a_token_may_end_the_reasoning_and_begin_the_answer() {
    let mut table = byte_table(&[]);
    table.tokens.push(TokenText::Text(b"nk>\n\nye".to_vec()));
    table.tokens.push(TokenText::Text(b"nk>no".to_vec()));
    let constraint = Constraint::on_answer(Grammar::Choice(vec!["yes".to_owned()]));
    let open = Some(OpenReasoning::THINK);
    for (token, is_right) in [(257, true), (258, false)] {
        let mut response = start_with(&constraint, open, table.clone()).unwrap();
        write(&mut response, "hm</thi");
        assert_eq!(response.accept(token).is_ok(), is_right);
        if is_right {
            assert_eq!(write(&mut response, "s"), 1);
            assert!(response.is_complete());
        }
    }
}

#[test]
fn the_model_may_open_its_reasoning_as_its_first_token_only() {
    let table = || byte_table(&["<think>", "</think>"]);
    let (think, close, end) = (256, 257, 258);
    let grammar = || Grammar::Choice(vec!["yes".to_owned()]);
    let mut response = start_with(&Constraint::on_answer(grammar()), None, table()).unwrap();
    assert!(allows(&mut response, think) && allows(&mut response, b'y'.into()));
    response.accept(think).unwrap();
    assert_eq!(write(&mut response, "hm"), 2);
    assert!(!allows(&mut response, end));
    response.accept(close).unwrap();
    assert!(!allows(&mut response, think));
    assert_eq!(write(&mut response, "yes"), 3);
    assert!(response.is_complete());
    let mut response = start_with(&Constraint::on_response(grammar()), None, table()).unwrap();
    assert!(!allows(&mut response, think));
}

#[test]
fn the_channels_of_gpt_oss_lead_to_the_answer() {
    let names = ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"];
    let [channel, message, end_of_message, start_of_message] = [256, 257, 258, 259];
    let constraint = Constraint::on_answer(Grammar::Choice(vec!["yes".to_owned()]));
    let mut response = start_with(&constraint, None, byte_table(&names)).unwrap();
    response.accept(channel).unwrap();
    write(&mut response, "analysis");
    response.accept(message).unwrap();
    write(&mut response, "hm");
    response.accept(end_of_message).unwrap();
    assert!(!allows(&mut response, b'y'.into()));
    assert!(allows(&mut response, start_of_message));
    response.accept(start_of_message).unwrap();
    write(&mut response, "assistant");
    response.accept(channel).unwrap();
    write(&mut response, "final");
    response.accept(message).unwrap();
    assert!(!allows(&mut response, b'n'.into()));
    assert_eq!(write(&mut response, "yes"), 3);
    assert!(response.is_complete());
}

#[test]
fn a_space_that_the_detokenizer_removes_is_not_part_of_the_text() {
    let mut table = byte_table(&[]);
    table.tokens.push(TokenText::Text(b" yes".to_vec()));
    table.tokens.push(TokenText::Text(b" no".to_vec()));
    table.strips_first_space = true;
    let constraint = Constraint::on_answer(Grammar::Choice(vec!["yes".to_owned()]));
    let mut response = start_with(&constraint, None, table).unwrap();
    assert!(allows(&mut response, 257) && !allows(&mut response, 258));
    response.accept(257).unwrap();
    assert!(response.is_complete());
}

#[test]
fn a_grammar_may_begin_at_a_marker_within_free_text() {
    let lark = r#"
start: TEXT | TEXT <call> call
TEXT: /[^<]*/
call: "f(" /[0-9]+/ ")"
"#;
    let constraint = Constraint::on_answer(Grammar::Lark(lark.to_owned()));
    let mut response = start_with(&constraint, None, byte_table(&["<call>"])).unwrap();
    assert_eq!(write(&mut response, "I call"), 6);
    assert!(allows(&mut response, 257));
    response.accept(256).unwrap();
    assert_eq!(write(&mut response, "g"), 0);
    assert_eq!(write(&mut response, "f(12)"), 5);
    assert!(response.is_complete());
}

#[test]
fn an_equal_grammar_is_compiled_once_and_each_response_starts_anew() {
    let mut constraints = Constraints::default();
    let constraint = Constraint::on_answer(Grammar::Choice(vec!["yes".to_owned()]));
    let refused = Constraint::on_answer(Grammar::JsonSchema(json!({ "not": {} })));
    for round in 0..3 {
        let table = || match round {
            0 => Ok(byte_table(&[])),
            _ => panic!("the vocabulary is known"),
        };
        if round == 0 {
            // A grammar that is refused does not lose the vocabulary.
            let result = constraints.compile(Some(&refused), None, true, table);
            let resolved = result.and_then(|mut r| r.resolve(&JobControl::new()));
            assert!(resolved.is_err());
            continue;
        }
        let mut response = constraints
            .compile(Some(&constraint), None, true, table)
            .unwrap();
        assert!(response.resolve(&JobControl::new()).unwrap());
        assert_eq!(write(&mut response, "yes"), 3);
    }
}

/// The loop of both engines. The model would write what the constraint forbids, and the draft is from
/// an answer without a constraint.
#[test]
fn reasoning_that_ends_within_an_accepted_draft_starts_the_constraint() {
    let names = ["<think>", "</think>"];
    let close = 257;
    let wanted: Vec<u32> = [b'h', b'm']
        .map(u32::from)
        .into_iter()
        .chain([close])
        .collect();
    let wanted: Vec<u32> = wanted.into_iter().chain(b"no, no".map(u32::from)).collect();
    let constraint = Constraint::on_answer(Grammar::Choice(vec!["{1}".to_owned()]));
    let open = Some(OpenReasoning::THINK);
    for n_drafted in 0..=wanted.len() {
        let mut response = start_with(&constraint, open, byte_table(&names)).unwrap();
        let params = SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        };
        let mut sampler = Sampler::new(params, &[]).unwrap();
        let mut written = Vec::new();
        let mut draft = wanted[..n_drafted].to_vec();
        let mut n_accepted = 0;
        while !response.is_complete() {
            n_accepted += verify(&draft, |_| {
                if response.is_complete() {
                    return Ok(None);
                }
                let mut logits = vec![0.0; 259];
                b"{1}".iter().for_each(|byte| logits[*byte as usize] = 1.0);
                if let Some(token) = wanted.get(written.len()) {
                    logits[*token as usize] = 9.0;
                }
                let token = sampler.draw_from(&logits, response.mask()?);
                let token = token.expect("a token is allowed");
                response.accept(token)?;
                written.push(token);
                Ok::<_, EngineError>(Some(token))
            })
            .unwrap();
            draft.clear();
        }
        assert_eq!(n_accepted, n_drafted.min(3));
        let answer: Vec<u32> = b"{1}".map(u32::from).to_vec();
        assert_eq!(written, [&wanted[..3], &answer[..]].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The definition: a token may come next if a choice continues the text with it.
    #[test]
    fn masks_agree_with_the_definition(
        choices in prop::collection::vec("[ab\"\\\\]{1,6}", 1..6),
        words in prop::collection::btree_set("[ab\"\\\\]{2,3}", 0..12),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let mut table = byte_table(&[]);
        let end = table.end_tokens[0];
        table.tokens.extend(words.iter().map(|word| TokenText::Text(word.clone().into_bytes())));
        let tokens = table.tokens.clone();
        let constraint = Constraint::on_answer(Grammar::Choice(choices.clone()));
        let mut response = start_with(&constraint, None, table).unwrap();
        let mut text = Vec::new();
        for pick in picks {
            let mut allowed = Vec::new();
            for (token, word) in (0..).zip(&tokens) {
                let expected = match word {
                    TokenText::Text(word) => {
                        let next = [&text[..], word].concat();
                        choices.iter().any(|choice| choice.as_bytes().starts_with(&next))
                    }
                    TokenText::Special(_) => {
                        token == end && choices.iter().any(|choice| choice.as_bytes() == text)
                    }
                };
                prop_assert_eq!(allows(&mut response, token), expected, "{} after {:?}", token, &text);
                if let (true, TokenText::Text(word)) = (expected, word) {
                    allowed.push((token, word));
                }
            }
            if allowed.is_empty() {
                break;
            }
            let (token, word) = allowed[pick.index(allowed.len())];
            response.accept(token).unwrap();
            text.extend_from_slice(word);
            if response.is_complete() {
                let longer = |choice: &&String| choice.as_bytes().starts_with(&text);
                prop_assert!(choices.iter().filter(longer).all(|c| c.as_bytes() == text));
                break;
            }
        }
    }
}
