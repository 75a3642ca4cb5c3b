//! The grammars of all families, with one token per byte and the family's markers as special tokens.

use serde_json::{Value as Json, json};

use super::*;
use crate::constraint::{Constraints, ResponseConstraint};
use crate::test_support::{byte_table, start_constraint};

/// Texts of calls as the grammar of the family writes them.
const RESPONSES: [(&str, &str); 9] = [
    (
        "hermes",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Z\"}}\n</tool_call>",
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=weather>\n<parameter=city>\nZ\n</parameter>\n<parameter=days>\n2\n\
         </parameter>\n</function>\n</tool_call>",
    ),
    (
        "glm",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Z</arg_value>\n</tool_call>",
    ),
    (
        "llama 3",
        "{\"name\": \"weather\", \"parameters\": {\"city\": \"Z\"}}",
    ),
    (
        "mistral, list",
        "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Z\"}}]",
    ),
    (
        "mistral, name and arguments",
        "[TOOL_CALLS]weather[ARGS]{\"city\": \"Z\"}",
    ),
    (
        "gemma 4",
        "<|tool_call>call:weather{city:<|\"|>Z<|\"|>}<tool_call|>",
    ),
    (
        "phi-4-mini",
        "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Z\"}}]<|/tool_call|>",
    ),
    (
        "deepseek v3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Z\"}\
         <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
];

fn family_named(name: &str) -> &'static Family {
    let mut families = families::FAMILIES.iter();
    families.find(|family| family.name == name).unwrap()
}

/// The special tokens of a family: those of its markers that models have as special tokens.
fn special(family: &Family, is_special: bool) -> BTreeMap<&'static str, u32> {
    let mut markers: std::collections::BTreeSet<&str> = family.markers().collect();
    if family.name == "gpt-oss" {
        markers.extend(HEADER_TOKENS);
    }
    let is_marker = |marker: &&str| is_special && marker.len() > 3;
    (256..)
        .zip(markers.into_iter().filter(is_marker))
        .map(|(id, marker)| (marker, id))
        .collect()
}

fn start(
    family: &'static Family,
    choice: &ToolChoice,
    special: &BTreeMap<&'static str, u32>,
) -> ResponseConstraint {
    let city = json!({"type": "string"});
    let properties = json!({
        "city": city,
        "days": {"type": "integer"},
        "wind": {"type": ["number", "null"]},
        "unit": {"anyOf": [{"const": "C"}, {"type": "null"}]},
        "level": {"enum": [1, 2, "high"]},
    });
    let schema = json!({"type": "object", "properties": properties, "required": ["city"]});
    let tool = |name: &str, schema| Tool {
        name: name.to_owned(),
        schema,
        is_held: true,
    };
    let mut flexible = schema.clone();
    flexible["x-guidance"] = json!({"whitespace_flexible": true});
    let declared = Declared {
        tools: vec![
            tool("weather", schema),
            tool("flexible", flexible),
            tool("now", json!({"type": "object"})),
            Tool {
                is_held: false,
                ..tool("loose", json!({"type": "object", "not": {}}))
            },
        ],
    };
    let rules = Rules {
        family,
        declared: &declared,
        choice,
        is_single: false,
        special,
    };
    let constraint = rules.constraint().expect("the response is constrained");
    let mut names: Vec<_> = special.iter().collect();
    names.sort_by_key(|(_, id)| **id);
    let names: Vec<&str> = names.into_iter().map(|(name, _)| *name).collect();
    let mut constraints = Constraints::default();
    let table = byte_table(&names);
    start_constraint(&mut constraints, &constraint, None, &table)
        .unwrap_or_else(|error| panic!("{}: {error}\n{constraint:?}", family.name))
}

fn tokens_of(text: &str, special: &BTreeMap<&'static str, u32>) -> Vec<u32> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let found = special
            .iter()
            .filter(|(marker, _)| rest.starts_with(**marker));
        match found.max_by_key(|(marker, _)| marker.len()) {
            Some((marker, id)) => {
                tokens.push(*id);
                rest = &rest[marker.len()..];
            }
            None => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                tokens.extend(rest[..length].bytes().map(u32::from));
                rest = &rest[length..];
            }
        }
    }
    tokens
}

/// Returns true if the grammar allows the whole text, and then its end.
fn allows(response: &mut ResponseConstraint, tokens: &[u32], end: u32) -> bool {
    for token in tokens {
        if response.is_complete() {
            return false;
        }
        let mask = response.mask().expect("there is a next token");
        if !mask.is_none_or(|mask| mask.allows(*token)) {
            return false;
        }
        response.accept(*token).expect("the mask allows it");
    }
    response.is_complete()
        || response
            .mask()
            .expect("it may end")
            .is_none_or(|mask| mask.allows(end))
}

#[test]
fn every_family_may_call_and_answer_and_must_call_where_that_is_required() {
    for (name, text) in RESPONSES {
        let family = family_named(name);
        for is_special in [true, false] {
            let special = special(family, is_special);
            let end = 256 + special.len() as u32;
            let named = ToolChoice::Named("weather".to_owned());
            let answer = tokens_of("It rains.", &special);
            for choice in [ToolChoice::Auto, ToolChoice::Required, named] {
                let call = tokens_of(text, &special);
                let mut response = start(family, &choice, &special);
                assert!(
                    allows(&mut response, &call, end),
                    "{name} {choice:?} {is_special}"
                );
                let wrong = tokens_of(&text.replace("weather", "whether"), &special);
                let mut response = start(family, &choice, &special);
                assert!(
                    !allows(&mut response, &wrong, end),
                    "{name} {choice:?} {is_special}"
                );
                let mut response = start(family, &choice, &special);
                let may_answer = allows(&mut response, &answer, end);
                assert_eq!(
                    may_answer,
                    choice == ToolChoice::Auto,
                    "{name} {is_special}"
                );
            }
        }
    }
}

/// As the templates write earlier calls. Tags and Gemma's notation have a layout of their own.
#[test]
fn arguments_in_json_are_one_line_unless_the_schema_asks_for_white_space() {
    for (name, text) in RESPONSES {
        let family = family_named(name);
        if !matches!(family.grammar, families::CallGrammar::Json { .. }) {
            continue;
        }
        let special = special(family, true);
        let end = 256 + special.len() as u32;
        for (arguments, is_default) in [
            ("{\"city\": \"Z\", \"days\": 2}", true),
            ("{\"city\":\"Z\",\"days\":2}", false),
            ("{\n  \"city\": \"Z\",\n  \"days\": 2\n}", false),
        ] {
            let text = text.replace("{\"city\": \"Z\"}", arguments);
            let tokens = tokens_of(&text, &special);
            let mut response = start(family, &ToolChoice::Required, &special);
            assert_eq!(allows(&mut response, &tokens, end), is_default, "{text}");
            let tokens = tokens_of(&text.replace("weather", "flexible"), &special);
            let mut response = start(family, &ToolChoice::Required, &special);
            assert!(allows(&mut response, &tokens, end), "{text}");
        }
    }
}

/// Also where a special token follows, which no text can spell.
#[test]
fn forced_tokens_are_those_of_the_call_in_every_family() {
    for (name, text) in RESPONSES {
        let family = family_named(name);
        for is_special in [true, false] {
            let special = special(family, is_special);
            let named = ToolChoice::Named("weather".to_owned());
            let mut response = start(family, &named, &special);
            let call = tokens_of(text, &special);
            let mut n_forced = 0;
            for (index, &token) in call.iter().enumerate() {
                let forced = response.forced(100);
                let context = format!("{name} {is_special}, token {index}: {forced:?}");
                assert!(call[index..].starts_with(&forced), "{context}");
                n_forced += forced.len();
                response.accept(token).expect(&context);
            }
            assert!(n_forced > 0, "{name} {is_special}");
        }
    }
}

#[test]
fn arguments_follow_the_schema_in_every_form_and_are_any_object_without_one() {
    for (name, text) in RESPONSES {
        let family = family_named(name);
        for is_special in [true, false] {
            let special = special(family, is_special);
            let end = 256 + special.len() as u32;
            let town = text.replace("city", "town");
            for (text, is_allowed) in [
                (town.clone(), false),
                (town.replace("weather", "loose"), true),
            ] {
                for choice in [ToolChoice::Auto, ToolChoice::Required] {
                    let mut response = start(family, &choice, &special);
                    let tokens = tokens_of(&text, &special);
                    let context = format!("{name} {choice:?} {is_special}: {text}");
                    assert_eq!(allows(&mut response, &tokens, end), is_allowed, "{context}");
                }
            }
        }
    }
}

#[test]
fn a_value_in_gemmas_notation_has_the_type_of_its_property() {
    let family = family_named("gemma 4");
    let special = special(family, true);
    let end = 256 + special.len() as u32;
    for (arguments, is_allowed) in [
        ("city:<|\"|>Z<|\"|>,days:2", true),
        ("city:<|\"|>Z<|\"|>,days:true", false),
        ("city:2", false),
        ("days:2", false),
        ("city:<|\"|>Z<|\"|>,", false),
        (
            "city:<|\"|>Z<|\"|>,wind:2.5,unit:<|\"|>C<|\"|>,level:2",
            true,
        ),
        (
            "city:<|\"|>Z<|\"|>,wind:null,unit:null,level:<|\"|>high<|\"|>",
            true,
        ),
        ("city:<|\"|>Z<|\"|>,wind:true", false),
        ("city:<|\"|>Z<|\"|>,unit:<|\"|>F<|\"|>", false),
        ("city:<|\"|>Z<|\"|>,level:3", false),
    ] {
        let text = format!("<|tool_call>call:weather{{{arguments}}}<tool_call|>");
        let mut response = start(family, &ToolChoice::Auto, &special);
        let tokens = tokens_of(&text, &special);
        assert_eq!(allows(&mut response, &tokens, end), is_allowed, "{text}");
    }
}

#[test]
fn a_response_with_headers_calls_or_answers_after_its_reasoning() {
    let family = family_named("gpt-oss");
    let special = special(family, true);
    let end = 256 + special.len() as u32;
    let call = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>\
                {\"city\": \"Z\"}";
    let reasoning = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
    let answer = "<|channel|>final<|message|>It rains.";
    for (text, may_be, must_be) in [
        (call.to_owned(), true, true),
        (format!("{reasoning}{call}"), true, true),
        (call.replace("weather", "whether"), false, false),
        (call.replace("\"Z\"", "7"), false, false),
        (format!("{reasoning}{answer}"), true, false),
        (answer.to_owned(), true, false),
    ] {
        for (choice, is_allowed) in [(ToolChoice::Auto, may_be), (ToolChoice::Required, must_be)] {
            let mut response = start(family, &choice, &special);
            let tokens = tokens_of(&text, &special);
            let allowed = allows(&mut response, &tokens, end);
            assert_eq!(allowed, is_allowed, "{choice:?} {text}");
        }
    }
}

/// Which schemas the forms without JSON can hold.
#[test]
fn schemas_that_a_form_cannot_hold_are_known() {
    let object = |property: Json| json!({"type": "object", "properties": {"a": property}});
    for (schema, in_tags, in_gemma) in [
        (
            object(json!({"type": "string", "description": "A."})),
            true,
            true,
        ),
        (
            object(json!({"type": "string", "pattern": "a+"})),
            false,
            false,
        ),
        (
            object(json!({"type": "integer", "minimum": 1})),
            true,
            false,
        ),
        (object(json!({"$ref": "#/properties/a"})), false, false),
        (
            object(json!({"type": "array", "items": {"type": "number"}})),
            true,
            true,
        ),
        (object(json!({"type": ["string", "null"]})), true, true),
        (
            object(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
            true,
            true,
        ),
        (object(json!({"enum": [1, "a", null]})), true, true),
        (object(json!({"type": "integer", "const": 1})), true, true),
        (object(json!({"const": [1]})), true, false),
        (json!({"type": "object"}), true, true),
        (
            json!({"type": "object", "required": ["b"], "properties": {}}),
            false,
            false,
        ),
        (
            json!({"type": "object", "anyOf": [{"required": ["b"]}]}),
            false,
            false,
        ),
    ] {
        for (name, expected) in [("hermes", true), ("glm", in_tags), ("gemma 4", in_gemma)] {
            let holds = grammar::holds(family_named(name), &schema);
            assert_eq!(holds, expected, "{name} {schema}");
        }
    }
    let listed = json!({"$ref": "#/$defs/unit"});
    let mut schema = object(listed);
    schema["$defs"] = json!({"unit": {"type": "string", "enum": ["C", "F"]}});
    assert!(
        grammar::holds(family_named("glm"), &schema)
            && grammar::holds(family_named("gemma 4"), &schema)
    );
}

#[test]
fn several_calls_may_follow_each_other() {
    let hermes = RESPONSES.iter().find(|(name, _)| *name == "hermes");
    let (name, call) = hermes.expect("it is in the table");
    let family = family_named(name);
    let special = special(family, true);
    let end = 256 + special.len() as u32;
    let calls = tokens_of(&format!("{call}\n{call}"), &special);
    let mut response = start(family, &ToolChoice::Required, &special);
    assert!(allows(&mut response, &calls, end));
}
