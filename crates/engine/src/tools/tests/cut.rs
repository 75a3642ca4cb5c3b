//! Calls that a limit cuts before their name is complete.

use super::*;

#[test]
fn the_markup_of_a_call_that_a_limit_cuts_is_no_text() {
    for (name, response, text, calls) in CASES {
        let family = family(name);
        for (at, _) in response.char_indices().filter(|_| !calls.is_empty()) {
            let (cut, _) = read_until(family, &[&response[..at]], true);
            // Less than half of a marker may be text.
            let start = text.strip_prefix(cut.as_str()).map(|_| "");
            let rest = start.or_else(|| Some(cut.strip_prefix(text)?.trim_start()));
            let rest = rest.unwrap_or(&cut);
            let mut markers = family.markers();
            let is_short = |marker: &str| {
                marker.starts_with(rest) && 2 * rest.chars().count() + 1 < marker.chars().count()
            };
            assert!(
                rest.is_empty() || markers.any(is_short),
                "{name}: {cut:?} of {:?}",
                &response[..at]
            );
        }
    }
}

#[test]
fn text_that_is_no_call_is_kept_where_a_limit_cuts_it() {
    for (name, text) in [
        ("hermes", "2 <"),
        ("hermes", "a <to"),
        ("hermes", "The tag <tool_call> begins"),
        ("hermes", "<tool_call>{\"name\": \"oth"),
        ("hermes", "<tool_call>{\"name\": \"now2"),
        ("qwen3-coder", "<tool_call>\n<function=oth"),
        ("qwen3-coder", "<tool_call>\n<fun("),
        ("glm", "<tool_call> is"),
        ("llama 3", "{\"city\": \"Zür"),
        ("llama 3", "{\"names\": [\"now"),
        ("llama 3", "{\"name\": \"Zür"),
        ("mistral, name and arguments", "[TOOL_CALLS] is a"),
        ("gemma 4", "<|tool_call>call:oth"),
        ("gpt-oss", "to=functions.other\n"),
        (
            "deepseek v3 and r1",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>oth",
        ),
    ] {
        let (kept, calls) = read_until(family(name), &[text], true);
        assert_eq!(kept, text, "{name}");
        assert_eq!(calls, [], "{name}");
    }
    // A required call has no other text, so even its first letter is known.
    let mut stream = ToolStream::new(family("hermes"), true);
    let mut parts = Parts::default();
    stream.push("<", &declared(), &mut parts);
    stream.finish(true, &mut parts);
    assert_eq!(parts.0, []);
    // A response that the model ended is kept whole.
    let (kept, _) = read(family("hermes"), &["So: <tool_call>{\"name\": \"no"]);
    assert_eq!(kept, "So: <tool_call>{\"name\": \"no");
}
