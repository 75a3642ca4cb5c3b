//! The calls of every family, in every split of the stream, and what is no call.

mod cut;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

/// A response of a family: its text, the text outside of calls, and the calls with their arguments.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const CITY: &str = r#"{"city": "Zürich"}"#;

const CASES: [Case; 24] = [
    (
        "hermes",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>",
        "",
        &[("weather", CITY)],
    ),
    (
        "hermes",
        "Let me see.\n\n<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\": \"Zürich\"}}</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        "Let me see.",
        &[("weather", CITY), ("now", "{}")],
    ),
    // Without arguments, with the arguments first, and as text.
    (
        "hermes",
        "<tool_call>{\"name\": \"now\"}</tool_call>",
        "",
        &[("now", "{}")],
    ),
    (
        "hermes",
        "<tool_call>{\"arguments\": {\"city\": \"Zürich\"}, \"name\": \"weather\"}</tool_call>",
        "",
        &[("weather", CITY)],
    ),
    (
        "hermes",
        "<tool_call>{\"name\": \"weather\", \"arguments\": \"{\\\"city\\\": \\\"Zürich\\\"}\"}</tool_call>",
        "",
        &[("weather", CITY)],
    ),
    // Markup in a string is data.
    (
        "hermes",
        "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"</tool_call>\\\"}<tool_call>\"}}</tool_call>",
        "",
        &[("weather", "{\"city\": \"</tool_call>\\\"}<tool_call>\"}")],
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n<parameter=days>\n2\n</parameter>\n<parameter=hourly>\nTrue\n</parameter>\n</function>\n</tool_call>",
        "",
        &[(
            "weather",
            r#"{"city": "Zürich", "days": 2, "hourly": true}"#,
        )],
    ),
    (
        "qwen3-coder",
        "Sure.\n<function=weather>\n<parameter=city>\n a\n\"b\"\n</parameter>\n</function>",
        "Sure.",
        &[("weather", r#"{"city": " a\n\"b\""}"#)],
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=now>\n</function>\n</tool_call>",
        "",
        &[("now", "{}")],
    ),
    (
        "glm",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
        "",
        &[("weather", r#"{"city": "Zürich", "days": 2}"#)],
    ),
    ("glm", "<tool_call>now</tool_call>", "", &[("now", "{}")]),
    (
        "llama 3",
        "{\"name\": \"weather\", \"parameters\": {\"city\": \"Zürich\"}}",
        "",
        &[("weather", CITY)],
    ),
    (
        "llama 3",
        "<|python_tag|>{\"name\": \"weather\", \"parameters\": {\"city\": \"Zürich\"}}; {\"name\": \"now\", \"parameters\": {}}",
        "",
        &[("weather", CITY), ("now", "{}")],
    ),
    (
        "mistral, list",
        "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}, {\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefghi\"}]",
        "",
        &[("weather", CITY), ("now", "{}")],
    ),
    (
        "mistral, name and arguments",
        "[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{\"city\": \"Zürich\"}[TOOL_CALLS]now[ARGS]{}",
        "",
        &[("weather", CITY), ("now", "{}")],
    ),
    (
        "gemma 4",
        "<|tool_call>call:weather{city:<|\"|>Zürich<|\"|>,days:2,hourly:true}<tool_call|><|tool_call>call:now{}<tool_call|>",
        "",
        &[
            (
                "weather",
                r#"{"city": "Zürich", "days": 2, "hourly": true}"#,
            ),
            ("now", "{}"),
        ],
    ),
    (
        "gemma 4",
        "<|tool_call>call:weather{city:<|\"|>a{b},\"c:<|\"|>,more:{list:[1,<|\"|>x<|\"|>,null],<|\"|>k<|\"|>:-1.5}}<tool_call|>",
        "",
        &[(
            "weather",
            r#"{"city": "a{b},\"c:", "more": {"list": [1, "x", null], "k": -1.5}}"#,
        )],
    ),
    (
        "gpt-oss",
        "to=functions.weather\n{\"city\": \"Zürich\"}",
        "",
        &[("weather", CITY)],
    ),
    (
        "phi-4-mini",
        "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}]<|/tool_call|>",
        "",
        &[("weather", CITY)],
    ),
    (
        "deepseek v3.1",
        "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Zürich\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "Hm.",
        &[("weather", CITY), ("now", "{}")],
    ),
    (
        "deepseek v3 and r1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Zürich\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        &[("weather", CITY), ("now", "{}")],
    ),
    // No calls: a tool that was not declared, a broken call, a quotation, an answer in JSON.
    (
        "hermes",
        "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
        &[],
    ),
    (
        "hermes",
        "The tag <tool_call> begins a <tool_call>[1] call. ",
        "The tag <tool_call> begins a <tool_call>[1] call. ",
        &[],
    ),
    (
        "llama 3",
        "{\"city\": {\"name\": \"weather\"}} {\"name\": \"now\"}",
        "{\"city\": {\"name\": \"weather\"}} {\"name\": \"now\"}",
        &[],
    ),
];

fn declared() -> Declared {
    let properties = json!({
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "hourly": {"type": "boolean"},
    });
    let schema = json!({"type": "object", "properties": properties, "required": ["city"]});
    let tool = |name: &str, schema| Tool {
        name: name.to_owned(),
        schema,
        is_held: true,
    };
    Declared {
        tools: vec![
            tool("weather", schema),
            tool("now", json!({"type": "object", "properties": {}})),
        ],
    }
}

fn family(name: &str) -> &'static Family {
    let mut all = families::FAMILIES.iter();
    all.find(|family| family.name == name).expect("it exists")
}

type Read = (String, Vec<(String, String, bool)>);

/// Returns the text outside of calls, and each call with its arguments and whether it is complete.
fn read(family: &'static Family, pieces: &[&str]) -> Read {
    read_until(family, pieces, false)
}

/// Like [`read`]. `is_cut` is true if a limit ended the response.
fn read_until(family: &'static Family, pieces: &[&str], is_cut: bool) -> Read {
    let mut stream = ToolStream::new(family, false);
    let mut parts = Parts::default();
    let declared = declared();
    for piece in pieces {
        stream.push(piece, &declared, &mut parts);
    }
    stream.finish(is_cut, &mut parts);
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in parts.0 {
        match part {
            Part::Text(more) => text.push_str(&more),
            Part::Begin(name) => calls.push((name, String::new(), false)),
            Part::Arguments(json) => calls.last_mut().unwrap().1.push_str(&json),
            Part::End => calls.last_mut().unwrap().2 = true,
        }
    }
    (text, calls)
}

/// Returns `text` in pieces that end at these characters.
fn split<'t>(text: &'t str, ends: &[prop::sample::Index]) -> Vec<&'t str> {
    let positions: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let mut ends: Vec<usize> = ends.iter().map(|end| *end.get(&positions)).collect();
    ends.sort_unstable();
    ends.push(text.len());
    let mut begin = 0;
    ends.into_iter()
        .map(|end| &text[std::mem::replace(&mut begin, end)..end])
        .collect()
}

#[test]
fn calls_of_every_family_are_recognized() {
    for (name, response, text, calls) in CASES {
        let (read_text, read_calls) = read(family(name), &[response]);
        assert_eq!(read_text, text, "{name}: {response}");
        let expected: Vec<_> = calls
            .iter()
            .map(|(name, json)| (name.to_string(), json.to_string(), true))
            .collect();
        assert_eq!(read_calls, expected, "{name}: {response}");
        for (_, json, _) in read_calls {
            assert!(serde_json::from_str::<Json>(&json).unwrap().is_object());
        }
    }
}

#[test]
fn one_character_at_a_time_gives_the_same_calls() {
    for (name, response, ..) in CASES {
        let pieces: Vec<&str> = response.split_inclusive(|_| true).collect();
        assert_eq!(
            read(family(name), &pieces),
            read(family(name), &[response]),
            "{name}: {response}"
        );
    }
}

#[test]
fn a_call_that_is_cut_off_has_no_end() {
    for (name, response, _, calls) in CASES {
        if calls.is_empty() {
            continue;
        }
        for (at, _) in response.char_indices() {
            let (_, read) = read(family(name), &[&response[..at]]);
            for (index, (name, json, is_complete)) in read.iter().enumerate() {
                assert_eq!(name, calls[index].0);
                match is_complete {
                    true => assert_eq!(json, calls[index].1),
                    false => assert!(calls[index].1.starts_with(json.as_str()), "{json}"),
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn every_split_of_the_stream_gives_the_same_calls(
        case in prop::sample::select(CASES.to_vec()),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        is_cut in any::<bool>(),
    ) {
        let (name, response, ..) = case;
        let pieces = split(response, &ends);
        prop_assert_eq!(read(family(name), &pieces), read(family(name), &[response]));
        // The same where the response ends in the middle.
        let (_, pieces) = pieces.split_last().unwrap();
        let cut = read_until(family(name), &[&pieces.concat()], is_cut);
        prop_assert_eq!(read_until(family(name), pieces, is_cut), cut);
    }

    #[test]
    fn damaged_responses_lose_no_text_outside_of_calls_and_do_not_panic(
        case in prop::sample::select(CASES.to_vec()),
        other in prop::sample::select(CASES.to_vec()),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 2),
    ) {
        let pieces = split(case.1, &ends);
        let damaged = [pieces[0], other.1, pieces[pieces.len() - 1]];
        for family in &families::FAMILIES {
            let whole = damaged.concat();
            let characters: Vec<&str> = whole.split_inclusive(|_| true).collect();
            let (_, calls) = read(family, &damaged);
            prop_assert_eq!(&read(family, &characters).1, &calls);
            for (name, json, is_complete) in calls {
                prop_assert!(declared().contains(&name));
                prop_assert!(!is_complete || serde_json::from_str::<Json>(&json).is_ok(), "{}", json);
            }
        }
    }
}

#[test]
fn text_without_markers_is_not_held_back() {
    let mut stream = ToolStream::new(family("hermes"), false);
    let mut parts = Parts::default();
    stream.push("2 < 3, so", &declared(), &mut parts);
    assert_eq!(parts.0, [Part::Text("2 < 3, so".to_owned())]);
    stream.push(" a <tool", &declared(), &mut parts);
    assert_eq!(parts.0, [Part::Text("2 < 3, so a".to_owned())]);
    stream.push("_box>", &declared(), &mut parts);
    assert_eq!(parts.0, [Part::Text("2 < 3, so a <tool_box>".to_owned())]);
}

#[test]
fn templates_show_their_family() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/templates");
    for (name, expected) in [
        ("qwen2.5", "hermes"),
        ("qwen3", "hermes"),
        ("llama3.1", "llama 3"),
        ("llama3.2", "llama 3"),
        ("mistral-7b-v0.3", "mistral, list"),
        ("mistral-nemo", "mistral, list"),
        ("mistral-small-3.2", "mistral, name and arguments"),
        ("gpt-oss", "gpt-oss"),
        ("deepseek-v3.1", "deepseek v3.1"),
        ("deepseek-v3", "deepseek v3 and r1"),
        ("deepseek-r1-distill", "deepseek v3 and r1"),
    ] {
        let source = std::fs::read_to_string(format!("{folder}/{name}.jinja")).unwrap();
        let family = Family::of_template(&source).map(|family| family.name);
        assert_eq!(family, Some(expected), "{name}");
    }
    // Without calls of their own, the standard prompt describes them.
    for name in ["gemma3", "smollm3"] {
        let source = std::fs::read_to_string(format!("{folder}/{name}.jinja")).unwrap();
        assert_eq!(Family::of_template(&source), None, "{name}");
    }
}

fn chat() -> ChatPrompt {
    let tools = declared().tools.into_iter().map(|tool| {
        json!({"type": "function", "function":
            {"name": tool.name, "description": "Tells it.", "parameters": tool.schema}})
    });
    ChatPrompt {
        messages: vec![crate::Message::user("Weather?")],
        tools: tools.collect(),
        ..ChatPrompt::default()
    }
}

fn template(source: &str) -> ChatTemplate {
    let control = ["<|im_end|>"].into_iter().collect();
    ChatTemplate::new(source, [("", "")], control).unwrap()
}

#[test]
fn a_template_without_tools_gets_the_standard_prompt() {
    let source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    let call = crate::ToolCall::new("id1", "weather", json!({"city": "Zürich"}));
    let mut chat = chat();
    chat.messages.push(crate::Message {
        tool_calls: vec![call.clone()],
        ..crate::Message::assistant("I look.")
    });
    chat.messages.push(crate::Message::tool_result(&call, "21"));
    let rendered = render(&template(source), &chat, SystemTime::UNIX_EPOCH).unwrap();
    let text = rendered.text();
    assert!(text.starts_with("system: You can call functions"), "{text}");
    assert!(text.contains("\"name\":\"weather\""), "{text}");
    let end = "assistant: I look.\n<tool_call>\n{\"name\":\"weather\",\"arguments\":{\"city\":\
        \"Zürich\"}}\n</tool_call>\nuser: <tool_response>\n21\n</tool_response>\n";
    assert!(
        text.replace(
            "{\"arguments\":{\"city\":\"Zürich\"},\"name\":\"weather\"}",
            "{\"name\":\"weather\",\"arguments\":{\"city\":\"Zürich\"}}"
        )
        .ends_with(end),
        "{text}"
    );
    // No message of the system is allowed.
    let refuses = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No') }}\
        {% endif %}{{ m.content }}{% endfor %}";
    let rendered = render(&template(refuses), &chat, SystemTime::UNIX_EPOCH).unwrap();
    assert!(rendered.text().contains("Weather?"));
    // Without a choice, the prompt does not name the tools.
    chat.tool_choice = ToolChoice::None;
    let rendered = render(&template(source), &chat, SystemTime::UNIX_EPOCH).unwrap();
    assert!(!rendered.text().contains("functions"));
}

#[test]
fn wrong_tools_are_errors_that_name_them() {
    let template = template("{{ messages[0].content }}");
    let error = |change: &dyn Fn(&mut ChatPrompt)| {
        let mut chat = chat();
        change(&mut chat);
        let result = PreparedTools::new(&template, &chat, |_| None);
        result.expect_err("it is wrong").to_string()
    };
    let named = |name: &str| ToolChoice::Named(name.to_owned());
    assert!(error(&|chat| chat.tool_choice = named("other")).contains("other"));
    assert!(error(&|chat| chat.tools[1] = chat.tools[0].clone()).contains("weather"));
    assert!(error(&|chat| chat.tools.push(json!({"type": "function"}))).contains("name"));
    let refused = json!({"type": "object", "not": {"required": ["a"]}});
    let strict = json!({"name": "strict", "parameters": refused, "strict": true});
    assert!(error(&|chat| chat.tools.push(strict.clone())).contains("not"));
}

#[test]
fn a_schema_that_cannot_be_held_becomes_any_object() {
    let template = template("{{ messages[0].content }}");
    let mut chat = chat();
    let refused = json!({"type": "object", "not": {"required": ["a"]}});
    chat.tools
        .push(json!({"name": "loose", "parameters": refused}));
    let tools = PreparedTools::new(&template, &chat, |_| None)
        .unwrap()
        .unwrap();
    assert_eq!(tools.unconstrained(), ["loose"]);
    chat.tool_choice = ToolChoice::None;
    assert_eq!(PreparedTools::new(&template, &chat, |_| None), Ok(None));
}

#[test]
fn each_of_many_tools_is_held_by_its_own_schema() {
    let template = template("{{ messages[0].content }}");
    let mut chat = chat();
    let tool = |index: usize| {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        if index % 3 == 1 {
            schema["not"] = json!({"required": ["a"]});
        }
        json!({"name": format!("tool_{index}"), "parameters": schema})
    };
    chat.tools = (0..40).map(tool).collect();
    let tools = PreparedTools::new(&template, &chat, |_| None);
    let tools = tools.unwrap().unwrap();
    let loose: Vec<String> = (0..40)
        .filter(|index| index % 3 == 1)
        .map(|index| format!("tool_{index}"))
        .collect();
    assert_eq!(tools.unconstrained(), loose);
    // The error names the first strict tool that cannot be held.
    chat.tools[10]["strict"] = true.into();
    chat.tools[31]["strict"] = true.into();
    let error = PreparedTools::new(&template, &chat, |_| None).unwrap_err();
    assert!(error.to_string().contains("tool_10"), "{error}");
}

#[test]
fn ids_are_unique_and_have_the_form_of_the_family() {
    let template = template("[TOOL_CALLS] {{ messages[0].content }} {{ tools }}");
    let tools = PreparedTools::new(&template, &chat(), |_| None)
        .unwrap()
        .unwrap();
    let ids: std::collections::BTreeSet<String> = (0..100).map(|_| tools.new_id()).collect();
    assert_eq!(ids.len(), 100);
    let is_short = |id: &String| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    assert!(ids.iter().all(is_short), "{ids:?}");
}
