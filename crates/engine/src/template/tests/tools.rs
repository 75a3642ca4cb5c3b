//! Tool definitions, calls and results: the names that templates use for them, and no control token
//! from any of their texts.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

/// Asks, calls `function` and gets its result.
fn called(function: &str, arguments: Json, result: &str) -> Vec<Message> {
    let call = ToolCall::new("id1", function, arguments);
    let result = Message::tool_result(&call, result);
    let response = Message {
        tool_calls: vec![call],
        ..Message::assistant("")
    };
    vec![Message::user("Weather?"), response, result]
}

fn render_messages(source: &str, messages: Vec<Message>) -> Result<String, EngineError> {
    let prompt = ChatPrompt {
        messages,
        ..ChatPrompt::default()
    };
    let rendered = template(source).render(&prompt, SystemTime::UNIX_EPOCH)?;
    Ok(rendered.text().to_owned())
}

#[test]
fn calls_and_results_have_the_names_that_templates_use() {
    let source = "{% for m in messages %}{{ m|tojson }}\n{% endfor %}";
    let text = render_messages(source, called("f", json!({"b": [1, "é"], "a": null}), "21"));
    let expected = r#"{"role": "user", "content": "Weather?"}
{"role": "assistant", "content": "", "tool_calls": [{"id": "id1", "type": "function", "function": {"name": "f", "arguments": {"b": [1, "é"], "a": null}}}]}
{"role": "tool", "content": "21", "name": "f", "tool_call_id": "id1"}
"#;
    assert_eq!(text.unwrap(), expected);
}

#[test]
fn a_template_that_joins_the_arguments_with_text_gets_them_as_text() {
    let joins = "{% for m in messages %}{% for c in m.tool_calls or [] %}\
        {{ c.function.name + ':' + c.function.arguments + ';' }}{% endfor %}{% endfor %}";
    let text = render_messages(joins, called("f", json!({"a": 1, "b": "\"é"}), ""));
    assert_eq!(text.unwrap(), r#"f:{"a": 1, "b": "\"é"};"#);
    // Arguments that are no object stay as they are.
    let text = render_messages(joins, called("f", json!("{broken"), ""));
    assert_eq!(text.unwrap(), "f:{broken;");
    // The error is that of the documented form.
    let refuses = "{{ raise_exception('Is text: ' ~ \
        (messages[1].tool_calls[0].function.arguments is string)) }}";
    let error = render_messages(refuses, called("f", json!({}), "")).unwrap_err();
    assert_eq!(error.to_string(), "chat template: Is text: False");
}

#[test]
fn a_template_shows_whether_it_knows_tools() {
    let check = |source: &str, knows_tools, knows_calls| {
        let template = template(source);
        assert_eq!(template.knows_tools(), knows_tools, "{source}");
        assert_eq!(template.knows_tool_calls(), knows_calls, "{source}");
    };
    check("{{ messages[0].content }}", false, false);
    check("{% if tools %}{{ tools|tojson }}{% endif %}", true, false);
    check(
        "{% for m in messages %}{{ m.tool_calls|tojson if m.tool_calls else '' }}{% endfor %}",
        false,
        true,
    );
    check("{{ raise_exception('Never') }}", false, false);
}

/// Texts in which control tokens begin, end, are complete, or meet.
fn injected() -> impl Strategy<Value = String> {
    let parts = vec![
        "<|im_end|>",
        "<|im",
        "_end|>",
        "<",
        "|",
        "[INST]",
        "[",
        "INST]",
        "EOT",
        "a",
        "é",
        " ",
        "\"",
        "\\",
        "\n",
    ];
    let text = prop::collection::vec(prop::sample::select(parts), 0..5);
    text.prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_of_a_tool_becomes_a_control_token(
        texts in prop::collection::vec(injected(), 9),
        joins in any::<bool>(),
    ) {
        let tokens: ControlTokens = ["<|im_end|>", "[INST]", "EOT"].into_iter().collect();
        let source = match joins {
            // Everything in a row, so that ends and beginnings of different texts meet.
            true => "{% for m in messages %}{{ m.name }}{{ m.content }}{{ m.tool_call_id }}\
                {% for c in m.tool_calls or [] %}{{ c.id + c.function.name + c.function.arguments }}\
                {% endfor %}{% endfor %}{% for t in tools %}{% for k, v in t.items() %}{{ k }}{{ v }}\
                {% endfor %}{% endfor %}<|im_end|>",
            false => "{{ messages|tojson }}{{ tools|tojson }}<|im_end|>",
        };
        let template = ChatTemplate::new(source, [("", "")], tokens.clone()).unwrap();
        let text = |index: usize| texts[index].clone();
        let call = ToolCall::new(text(0), text(1), json!({text(2): text(3)}));
        let result = Message::tool_result(&call, text(4));
        let prompt = ChatPrompt {
            messages: vec![
                Message { name: Some(text(5)), ..Message::user(text(6)) },
                Message { tool_calls: vec![call], ..Message::assistant("") },
                result,
            ],
            tools: vec![json!({text(7): text(8)})],
            ..ChatPrompt::default()
        };
        let rendered = template.render(&prompt, SystemTime::UNIX_EPOCH).unwrap();
        let pieces = rendered.pieces(&tokens);
        let control = pieces.filter(|piece| matches!(piece, Piece::Control(_))).count();
        prop_assert_eq!(control, 1, "{}", rendered.text());
    }
}
