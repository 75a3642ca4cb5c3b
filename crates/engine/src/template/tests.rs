//! Failures and file order; what is rendered is checked in `tests/templates.rs`.

use std::time::Duration;

use super::*;
use crate::chat::{Message, Role};

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, [("bos_token", "<s>")]).unwrap()
}

fn render(source: &str) -> Result<String, EngineError> {
    let prompt = ChatPrompt {
        messages: vec![Message::new(Role::User, "Hi")],
        ..ChatPrompt::default()
    };
    template(source).render(&prompt, SystemTime::UNIX_EPOCH)
}

fn failure(source: &str) -> String {
    render(source).unwrap_err().to_string()
}

#[test]
fn a_refusal_is_in_the_templates_own_words() {
    let refusal = "{{ raise_exception('Only users may speak') }}";
    assert_eq!(failure(refusal), "chat template: Only users may speak");
    let in_macro =
        "{% macro check() %}{{ raise_exception('No ' ~ 1) }}{% endmacro %}\n{{ check() }}";
    assert_eq!(failure(in_macro), "chat template: No 1");
}

#[test]
fn a_syntax_error_names_its_line() {
    let error = ChatTemplate::new("a\r\n{% if %}", [("", "")]).unwrap_err();
    assert!(error.to_string().starts_with("chat template: "), "{error}");
    assert!(error.to_string().ends_with("(line 2)"), "{error}");
}

#[test]
fn a_failure_names_its_line() {
    assert!(failure("\n\n{{ nothing.at_all }}").ends_with("(line 3)"));
    assert!(failure("{{ messages[0].content.no_such() }}").ends_with("(line 1)"));
    assert!(failure("{{ nothing|tojson }}").contains("tojson"));
}

#[test]
fn missing_variables_are_empty_and_undefined() {
    let source = "[{{ enable_thinking }}{{ eos_token }}]{{ enable_thinking is defined }}{{ tools }}{{ bos_token }}";
    assert_eq!(render(source).unwrap(), "[]FalseNone<s>");
}

#[test]
fn time_is_what_the_caller_says() {
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200);
    let template = template("{{ strftime_now('%d %b %Y, %-d') }}");
    let text = template.render(&ChatPrompt::default(), noon).unwrap();
    assert_eq!(text, "01 Jan 1970, 1");
    assert!(failure("{{ strftime_now('%!') }}").contains("strftime_now"));
}

#[test]
fn user_text_is_never_a_template() {
    let prompt = ChatPrompt {
        messages: vec![Message::new(Role::User, "{{ 1 + 1 }}<b>&'")],
        ..ChatPrompt::default()
    };
    let text = template("{{ messages[0].content }}").render(&prompt, SystemTime::UNIX_EPOCH);
    assert_eq!(text.unwrap(), "{{ 1 + 1 }}<b>&'");
}

#[test]
fn a_template_that_asks_for_too_much_is_refused() {
    let render = |source| template(source).render(&ChatPrompt::default(), SystemTime::UNIX_EPOCH);
    for source in [
        "{{ '7'.zfill(100000) }}",
        "{{ [1] | tojson(indent=9000000000000000000) }}",
    ] {
        assert!(
            matches!(render(source), Err(EngineError::Template { .. })),
            "{source}"
        );
    }
    let text = render("{{ '7'.zfill(3) }} {{ '-7'.zfill(3) }} {{ '1234'.zfill(3) }}");
    assert_eq!(text.unwrap(), "007 -07 1234", "as Python does");
}

#[test]
fn the_template_file_wins_over_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let found = || {
        let config = TokenizerConfig::from_folder(folder.path()).unwrap();
        ChatTemplate::from_folder(folder.path(), &config)
            .unwrap()
            .map(|t| {
                t.render(&ChatPrompt::default(), SystemTime::UNIX_EPOCH)
                    .unwrap()
            })
    };
    assert_eq!(found(), None);
    write(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "list"}]}"#,
    );
    assert_eq!(found().as_deref(), Some("list"));
    write(
        "tokenizer_config.json",
        r#"{"chat_template": "config {{ bos_token }}", "bos_token": "<s>"}"#,
    );
    assert_eq!(found().as_deref(), Some("config <s>"));
    write("chat_template.json", r#"{"chat_template": "json"}"#);
    assert_eq!(found().as_deref(), Some("json"));
    write("chat_template.jinja", "jinja");
    assert_eq!(found().as_deref(), Some("jinja"));
}

#[test]
fn a_broken_template_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("chat_template.json"),
        "{\"chat_template\": 1}",
    )
    .unwrap();
    let error = ChatTemplate::from_folder(folder.path(), &TokenizerConfig::default()).unwrap_err();
    assert!(
        matches!(&error, EngineError::BadFile { path, .. } if path.ends_with("chat_template.json"))
    );
    std::fs::write(folder.path().join("chat_template.jinja"), b"\xFF\xFE").unwrap();
    let error = ChatTemplate::from_folder(folder.path(), &TokenizerConfig::default()).unwrap_err();
    assert!(
        matches!(&error, EngineError::BadFile { path, .. } if path.ends_with("chat_template.jinja"))
    );
}
