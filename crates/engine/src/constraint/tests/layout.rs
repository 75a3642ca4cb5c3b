//! The layout of JSON: one line, unless a schema asks for another one.

use serde_json::Value;

use super::*;
use crate::test_support::one_line;

/// An object with these options of llguidance.
fn object(options: &Value) -> Grammar {
    Grammar::JsonSchema(json!({ "type": "object", "x-guidance": options }))
}

#[test]
fn json_is_one_line_as_python_writes_it() {
    let any = Grammar::JsonSchema(json!({}));
    let (line, list) = (r#"{"a": [1, {"b": []}], "c": {}}"#, "[1, true, null]");
    for grammar in [Grammar::Json, any] {
        assert!(matches(&grammar, line) && matches(&grammar, list));
    }
    assert!(matches(&Grammar::JsonObject, line));
    for text in [
        r#"{"a":1}"#,
        r#"{"a": 1,"b": 2}"#,
        r#"{"a" : 1}"#,
        r#"{ "a": 1}"#,
        r#"{"a": 1 }"#,
        r#"{"a":  1}"#,
        "{\"a\": 1,\n\"b\": 2}",
        "{\n  \"a\": 1\n}",
        "{\"a\": [ ]}",
    ] {
        assert!(!matches(&Grammar::JsonObject, text), "{text}");
    }
}

#[test]
fn a_schema_may_ask_for_white_space_which_is_bounded() {
    let text = |n| format!("{{{}\"a\": 1}}", " ".repeat(n));
    for options in [
        json!({ "whitespace_flexible": true }),
        json!({ "whitespace_pattern": " *" }),
        json!({ "whitespace_flexible": true, "whitespace_pattern": " *" }),
    ] {
        let grammar = object(&options);
        for layout in [&*text(0), &text(32), "{\"a\":1}", "{\n\t\"a\" : 1\r\n}"] {
            assert!(matches(&grammar, layout), "{options}: {layout}");
        }
        assert!(!matches(&grammar, &text(33)), "{options}");
    }
}

#[test]
fn a_schema_may_name_its_own_separators_or_none() {
    for (options, text) in [
        (
            json!({ "whitespace_flexible": false }),
            r#"{"a":[1,2],"b":3}"#,
        ),
        (
            json!({ "whitespace_flexible": false, "whitespace_pattern": " *" }),
            r#"{"a":[1,2],"b":3}"#,
        ),
        (json!({ "item_separator": "," }), r#"{"a": [1,2],"b": 3}"#),
        (
            json!({ "item_separator": ",", "key_separator": ":" }),
            r#"{"a":[1,2],"b":3}"#,
        ),
        (
            json!({ "key_separator": " : " }),
            r#"{"a" : [1, 2], "b" : 3}"#,
        ),
    ] {
        let grammar = object(&options);
        assert!(matches(&grammar, text), "{options}");
        assert!(!matches(&grammar, r#"{"a": [1, 2], "b": 3}"#), "{options}");
    }
}

#[test]
fn wrong_options_are_refused_by_name() {
    for options in [
        json!(1),
        json!([]),
        // The last one is `lenient` by its position.
        json!([",", ":", true, null, false, true]),
        json!({ "whitespace_flexible": 1 }),
        json!({ "a": 1 }),
        json!({ "item_separator": ", *" }),
        json!({ "item_separator": ";" }),
        json!({ "key_separator": "[:]" }),
        json!({ "key_separator": format!(":{}", " ".repeat(33)) }),
        json!({ "key_separator": 1 }),
    ] {
        let error = Constraint::on_answer(object(&options)).check();
        let Err(EngineError::InvalidConstraint {
            keyword, message, ..
        }) = error
        else {
            panic!("{options}: {error:?}");
        };
        assert_eq!(keyword, "x-guidance", "{options}");
        let separators = ["item_separator", "key_separator"];
        let wrong = separators.iter().find(|name| options.get(**name).is_some());
        assert!(wrong.is_none_or(|name| message.contains(name)), "{message}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a \",:\\[\\]{}\\n]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a \":]{0,3}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The reference is a writer that knows nothing of grammars.
    #[test]
    fn any_value_is_written_in_its_layout_only(value in any_json()) {
        let flexible = Grammar::JsonSchema(json!({ "x-guidance": { "whitespace_flexible": true } }));
        let compact = Grammar::JsonSchema(json!({ "x-guidance": { "whitespace_flexible": false } }));
        let line = one_line(&value);
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        for text in [line.clone(), value.to_string(), pretty] {
            prop_assert_eq!(matches(&Grammar::Json, &text), text == line, "{}", &text);
            let as_written = value.to_string();
            prop_assert_eq!(matches(&compact, &text), text == as_written, "{}", &text);
            prop_assert!(matches(&flexible, &text), "{}", &text);
        }
    }
}
