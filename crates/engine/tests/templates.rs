//! Every template in `fixtures/templates` renders exactly as in `transformers`.
//! `fixtures/make_template_fixtures.py` generates the expected texts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::json;
use transom_engine::{ChatPrompt, ChatTemplate, ControlTokens, EngineError, Message, ToolCall};

#[derive(Deserialize)]
struct Fixture {
    special_tokens: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    messages: Vec<Message>,
    tools: Vec<serde_json::Value>,
    enable_thinking: Option<bool>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// The rendered text.
    Text(String),
    /// The template refuses with this message.
    Refusal(String),
    /// The template fails; the message depends on the renderer.
    Fails(bool),
}

/// Noon of 4 July 2025, UTC: the same day in nearly every time zone.
fn frozen_now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_751_630_400)
}

fn templates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/templates");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the fixtures are in the repository")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jinja")
        })
        .collect();
    paths.sort();
    paths
}

/// Control tokens of the templates' models.
fn control_tokens() -> ControlTokens {
    let spellings = "<s> </s> <unk> <bos> <eos> <think> </think> [INST] [/INST] [TOOL_CALLS] <|end|> \
        <|im_start|> <|im_end|> <|endoftext|> <start_of_turn> <end_of_turn> <|user|> <|assistant|> \
        <|start|> <|channel|> <|message|> <|return|> <|start_header_id|> <|eot_id|> \
        <｜begin▁of▁sentence｜> <｜User｜> <｜Assistant｜> {{end}}";
    spellings.split_whitespace().collect()
}

/// Returns the difference, if there is one.
fn check(template: &ChatTemplate, case: &Case) -> Option<String> {
    let prompt = ChatPrompt {
        messages: case.messages.clone(),
        enable_thinking: case.enable_thinking,
        tools: case.tools.clone(),
        ..ChatPrompt::default()
    };
    let rendered = template.render(&prompt, frozen_now());
    match (&case.outcome, rendered) {
        (Outcome::Text(expected), Ok(text)) if expected == text.text() => None,
        (Outcome::Refusal(expected), Err(EngineError::Template { reason }))
            if *expected == reason =>
        {
            None
        }
        (Outcome::Fails(true), Err(EngineError::Template { .. })) => None,
        (Outcome::Text(expected), Ok(text)) => Some(differing_lines(expected, text.text())),
        (_, rendered) => Some(format!("{rendered:?}")),
    }
}

/// Returns the lines that differ.
fn differing_lines(expected: &str, text: &str) -> String {
    let lines = expected.lines().zip(text.lines());
    let mut differences: Vec<String> = lines
        .filter(|(expected, line)| expected != line)
        .map(|(expected, line)| format!("- {expected:?}\n+ {line:?}"))
        .collect();
    if expected.lines().count() != text.lines().count() {
        differences.push(format!("complete text: {text:?}"));
    }
    differences.join("\n")
}

#[test]
fn templates_render_as_in_transformers() {
    let mut differences = Vec::new();
    let mut n_cases = 0;
    for path in templates() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).unwrap();
        let json = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let fixture: Fixture = serde_json::from_str(&json).unwrap();
        // All templates get the control tokens of all models, so that ordinary text of one template
        // is marked because of another.
        let control = control_tokens();
        let template = match ChatTemplate::new(&source, fixture.special_tokens, control) {
            Ok(template) => template,
            Err(error) => {
                differences.push(format!("{name}: {error}"));
                continue;
            }
        };
        for case in &fixture.cases {
            n_cases += 1;
            if let Some(difference) = check(&template, case) {
                differences.push(format!("{name}, {}:\n{difference}", case.name));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(n_cases >= 200, "only {n_cases} cases were found");
}

#[test]
fn reasoning_can_be_switched_where_the_template_of_the_model_does_it() {
    let switchable = templates().into_iter().filter_map(|path| {
        let source = std::fs::read_to_string(&path).expect("it can be read");
        let template = ChatTemplate::new(&source, [("bos_token", "")], control_tokens());
        let default = template.expect("it compiles").default_thinking()?;
        Some((path.file_stem()?.to_str()?.to_owned(), default))
    });
    let expect = [
        ("deepseek-r1-distill", false),
        ("deepseek-v3.1", false),
        ("qwen3", true),
        ("smollm3", true),
    ];
    let expect = expect.map(|(name, default)| (name.to_owned(), default));
    assert_eq!(switchable.collect::<Vec<_>>(), expect);
}

#[test]
fn templates_of_models_that_call_tools_are_recognized() {
    let names = |knows: fn(&ChatTemplate) -> bool| -> Vec<String> {
        let known = templates().into_iter().filter_map(|path| {
            let source = std::fs::read_to_string(&path).expect("it can be read");
            let tokens = [("bos_token", ""), ("eos_token", "")];
            let template = ChatTemplate::new(&source, tokens, control_tokens());
            let name = path.file_stem()?.to_str()?.to_owned();
            knows(&template.expect("it compiles")).then_some(name)
        });
        known.collect()
    };
    let declared = [
        "gpt-oss",
        "llama3.1",
        "llama3.2",
        "mistral-7b-v0.3",
        "mistral-nemo",
        "mistral-small-3.2",
        "qwen2.5",
        "qwen3",
    ];
    assert_eq!(names(ChatTemplate::knows_tools), declared);
    let called = ["deepseek-r1-distill", "deepseek-v3.1", "deepseek-v3"];
    let called: Vec<&str> = called.into_iter().chain(declared).collect();
    assert_eq!(names(ChatTemplate::knows_tool_calls), called);
}

/// These texts were read off the templates. The fixtures are the reference, where they have a call.
#[test]
fn a_tool_call_and_its_result_are_written_as_the_template_says() {
    let call = ToolCall::new("abcdefghi", "weather", json!({"city": "Zürich", "days": 2}));
    let result = Message::tool_result(&call, "21");
    let called = Message {
        tool_calls: vec![call],
        ..Message::assistant("")
    };
    let prompt = ChatPrompt {
        messages: vec![Message::user("Weather?"), called, result],
        ..ChatPrompt::default()
    };
    for (name, expected) in [
        (
            "qwen3",
            "<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n\
             {\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\", \"days\": 2}}\n\
             </tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n21\n</tool_response>\
             <|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "mistral-nemo",
            "<s>[INST]Weather?[/INST][TOOL_CALLS][{\"name\": \"weather\", \"arguments\": \
             {\"city\": \"Zürich\", \"days\": 2}, \"id\": \"abcdefghi\"}]</s>\
             [TOOL_RESULTS]{\"content\": 21, \"call_id\": \"abcdefghi\"}[/TOOL_RESULTS]",
        ),
        // This template joins the arguments with text, so it gets them as text.
        (
            "deepseek-v3",
            "<s><｜User｜>Weather?<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function\
             <｜tool▁sep｜>weather\n```json\n{\"city\": \"Zürich\", \"days\": 2}\n```\
             <｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁outputs▁begin｜>\
             <｜tool▁output▁begin｜>21<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
        ),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/templates");
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")];
        let template = ChatTemplate::new(&source, tokens, control_tokens()).unwrap();
        let rendered = template.render(&prompt, frozen_now()).unwrap();
        assert_eq!(rendered.text(), expected, "{name}");
    }
}
