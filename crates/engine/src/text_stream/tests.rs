//! The output does not depend on the splits of the input, and no stop string or marker leaks.

use proptest::prelude::*;

use super::TextStream;
use crate::event::Section;
use crate::text::OpenReasoning;
use crate::text::utf8::Utf8Buffer;

/// The output: reasoning, answer, and whether a stop string ended it.
#[derive(Debug, PartialEq, Eq, Default)]
struct Output {
    reasoning: String,
    answer: String,
    is_stopped: bool,
}

fn stream(stop: &[&str], starts_in_reasoning: bool, pieces: &[&[u8]]) -> Output {
    let open = starts_in_reasoning.then_some(OpenReasoning::THINK);
    stream_after(open, stop, pieces)
}

fn stream_after(open: Option<OpenReasoning>, stop: &[&str], pieces: &[&[u8]]) -> Output {
    let stop: Vec<String> = stop.iter().map(|&s| s.to_owned()).collect();
    let mut stream = TextStream::new(&stop, open);
    let mut output = Output::default();
    let mut emit = |section, text: &str| {
        assert!(!text.is_empty(), "an empty piece was emitted");
        match section {
            Section::Reasoning => output.reasoning.push_str(text),
            Section::Answer => output.answer.push_str(text),
        }
    };
    let mut is_stopped = false;
    for piece in pieces {
        is_stopped = stream.push(piece, &mut emit);
        if is_stopped {
            break;
        }
    }
    stream.finish(&mut emit);
    output.is_stopped = is_stopped;
    output
}

fn bytewise(stop: &[&str], starts_in_reasoning: bool, text: &str) -> Output {
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    stream(stop, starts_in_reasoning, &pieces)
}

/// Checks a text that arrives byte by byte, and as a whole.
fn check(stop: &[&str], starts_in_reasoning: bool, text: &str, reasoning: &str, answer: &str) {
    let whole = stream(stop, starts_in_reasoning, &[text.as_bytes()]);
    assert_eq!(
        (whole.reasoning.as_str(), whole.answer.as_str()),
        (reasoning, answer),
        "{text:?}"
    );
    assert_eq!(bytewise(stop, starts_in_reasoning, text), whole, "{text:?}");
}

/// Splits `bytes` at the positions `splits`.
fn split<'b>(bytes: &'b [u8], splits: &[usize]) -> Vec<&'b [u8]> {
    let mut positions: Vec<usize> = splits.iter().map(|c| c % (bytes.len() + 1)).collect();
    positions.extend([0, bytes.len()]);
    positions.sort_unstable();
    positions.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

fn splits() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<usize>(), 0..12)
}

#[test]
fn reasoning_is_separated_from_the_answer() {
    check(
        &[],
        false,
        "<think>\nHm.\n</think>\n\nYes.",
        "Hm.\n",
        "Yes.",
    );
    check(&[], false, "\n<think>Hm.</think> Yes.", "Hm.", "Yes.");
    check(
        &[],
        false,
        "<think>a < b </thin </think>b",
        "a < b </thin ",
        "b",
    );
    check(&[], false, "<think>\r\n\r\nHm", "Hm", "");
    check(
        &[],
        true,
        "\nHm.</think>\n\n  indented",
        "Hm.",
        "  indented",
    );
    check(&[], true, "<think>\nHm.</think>Yes", "Hm.", "Yes");
    check(&[], false, "<think>a</think>\n<think>b</think>c", "ab", "c");
}

#[test]
fn a_thought_channel_is_separated_from_the_answer() {
    let text = "<|channel>thought\nHm.\n<channel|>Yes.";
    check(&[], false, text, "Hm.\n", "Yes.");
    check(
        &[],
        false,
        "<|channel>thought\n<channel|>\nYes.",
        "",
        "Yes.",
    );
    check(&[], false, "<|channel>thought\nHm.", "Hm.", "");
    check(&[], false, "<|channel> a", "", "<|channel> a");
}

#[test]
fn messages_go_to_the_section_of_their_header() {
    let text = "<|channel|>analysis<|message|>Hm.<|end|>\
                <|start|>assistant<|channel|>final<|message|>Yes.";
    check(&[], false, text, "Hm.", "Yes.");
    check(&["s."], false, text, "Hm.", "Ye");
    let text = "<|channel|>analysis<|message|>A<|end|>\
                <|start|>assistant<|channel|>commentary<|message|>B<|end|>\
                <|start|>assistant<|channel|>final<|message|>a < b<|end|>";
    check(&[], false, text, "A", "B\n\na < b");
    check(
        &[],
        false,
        "<|channel|>final<|message|>Yes <|en",
        "",
        "Yes <|en",
    );
}

#[test]
fn an_incomplete_header_is_not_text() {
    check(&[], false, "<|channel|>analy", "", "");
    let text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assis";
    check(&[], false, text, "Hm.", "");
}

#[test]
fn message_markers_are_text_if_the_response_has_no_headers() {
    let text = "Yes. <|channel|> is a token, <|end|> another";
    check(&[], false, text, "", text);
    check(&[], false, "<|start|>x", "", "<|start|>x");
    check(
        &[],
        false,
        "<think>a<|end|>b</think>c<|end|>",
        "a<|end|>b",
        "c<|end|>",
    );
}

#[test]
fn an_empty_reasoning_section_emits_nothing() {
    check(&[], false, "<think>\n\n</think>\n\nYes.", "", "Yes.");
    check(&[], true, " \n </think>\nYes.", "", "Yes.");
    check(&[], false, "<think>\n \n  ", "", "");
}

#[test]
fn markers_inside_an_answer_are_text() {
    let text = "Models write <think> and </think>.\n<think>x</think>";
    check(&[], false, text, "", text);
    check(&[], false, "</think> is odd", "", "</think> is odd");
    check(&[], false, " x<think>", "", " x<think>");
}

#[test]
fn an_incomplete_marker_at_the_end_is_text() {
    check(&[], false, "<thi", "", "<thi");
    check(&[], false, "<think>Hm</thi", "Hm</thi", "");
    check(&[], true, "</", "</", "");
    check(&[], false, "  \n", "", "  \n");
    check(&[], false, "<thinking> of", "", "<thinking> of");
}

#[test]
fn stop_strings_end_the_answer_and_do_not_appear() {
    check(&["STOP"], false, "abSTOPcd", "", "ab");
    check(&["STOP"], false, "abSTO", "", "abSTO");
    check(&["STOP"], false, "abSTSTOPx", "", "abST");
    check(&["\n\n"], false, "a\nb\n\nc", "", "a\nb");
    check(&["é€"], false, "caféé€", "", "café");
    check(&["aab"], false, "aaab", "", "a");
    check(&["", "b"], false, "ab", "", "a");
}

#[test]
fn of_several_stop_strings_the_first_complete_one_ends_the_answer() {
    check(&["abcd", "c"], false, "xabcdy", "", "xab");
    check(&["cd", "bcd", "d"], false, "abcde", "", "a");
}

#[test]
fn the_stream_knows_which_stop_string_ended_the_answer() {
    let matched = |stop: &[&str], text: &str| {
        let stop: Vec<String> = stop.iter().map(|&s| s.to_owned()).collect();
        let mut stream = TextStream::new(&stop, None);
        for byte in text.bytes() {
            stream.push(&[byte], &mut |_, _| {});
        }
        stream.finish(&mut |_, _| {});
        stream.matched_stop()
    };
    assert_eq!(matched(&["", "x", "bc", "c"], "abcx"), Some(2));
    assert_eq!(matched(&["b", "b"], "ab"), Some(0));
    assert_eq!(
        matched(&["\n\n"], " \n\n"),
        Some(0),
        "white space at the start"
    );
    assert_eq!(matched(&["x"], "<think>x</think>a"), None);
    assert_eq!(matched(&[], "a"), None);
}

#[test]
fn stop_strings_are_ignored_in_the_reasoning() {
    check(
        &["\n\n"],
        false,
        "<think>a\n\nb</think>\n\nc\n\nd",
        "a\n\nb",
        "c",
    );
    check(&["<think>"], false, "<think>a</think>b<think>c", "a", "b");
    check(&["</think>"], false, "<think>a</think>b", "a", "b");
}

#[test]
fn stop_strings_of_white_space_work_before_the_first_word() {
    check(&["\n"], false, "\nHello", "", "");
    check(&["\n\n"], false, " \n\n<think>", "", " ");
    assert!(bytewise(&["\n"], false, "\n").is_stopped);
}

#[test]
fn nothing_is_emitted_after_a_stop_string() {
    let mut stream = TextStream::new(&["x".to_owned()], None);
    let mut output = String::new();
    let mut emit = |_, text: &str| output.push_str(text);
    assert!(stream.push(b"axb", &mut emit));
    assert!(stream.push(b"more", &mut emit));
    stream.finish(&mut emit);
    assert_eq!(output, "a");
}

#[test]
fn incomplete_characters_wait_and_broken_ones_become_replacements() {
    let mut buffer = Utf8Buffer::default();
    assert_eq!(buffer.push(b"a\xF0\x9F\x98"), "a");
    assert_eq!(buffer.push(b"\x80!"), "😀!");
    assert_eq!(buffer.push(b"\xE2\x82"), "");
    assert_eq!(buffer.push(b"x"), "\u{FFFD}x");
    assert_eq!(buffer.push(b"\xFF"), "\u{FFFD}");
    assert_eq!(buffer.push(b"\xC3"), "");
    assert_eq!(buffer.finish(), "\u{FFFD}");
    assert_eq!(buffer.finish(), "");
}

#[test]
fn a_prompt_that_ends_in_a_marker_starts_in_reasoning() {
    for (prompt, close) in [
        ("<|im_start|>assistant\n<think>\n", "</think>"),
        ("[/INST][THINK]", "[/THINK]"),
        ("<|turn>model\n<|channel>thought\n", "<channel|>"),
        (
            "<|start|>assistant<|channel|>analysis<|message|>",
            "<|end|>",
        ),
    ] {
        let open = OpenReasoning::at_end_of(prompt);
        assert!(open.is_some(), "{prompt:?}");
        let output = stream_after(open, &[], &["Hm</".as_bytes(), close.as_bytes()]);
        assert_eq!(
            (&*output.reasoning, &*output.answer),
            ("Hm</", ""),
            "{prompt:?}"
        );
    }
    for prompt in [
        "assistant\n<think>\n\n</think>\n\n",
        "user: what is <think>?\nassistant:",
        "<|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant",
        "",
    ] {
        assert_eq!(OpenReasoning::at_end_of(prompt), None, "{prompt:?}");
    }
}

#[test]
fn mistral_markers_open_and_close_reasoning() {
    check(&[], false, "[THINK]Hm.[/THINK]\n\nYes.", "Hm.", "Yes.");
    check(
        &[],
        false,
        "Say [THINK]x[/THINK]",
        "",
        "Say [THINK]x[/THINK]",
    );
}

#[test]
fn a_tool_call_is_part_of_the_answer_with_its_tool_name() {
    let called = "<|channel|>analysis<|message|>Look it up.<|end|>\
        <|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"in\": 1}";
    let shown = "to=functions.weather\n{\"in\": 1}";
    check(&[], false, called, "Look it up.", shown);
    let early =
        "<|start|>assistant to=functions.weather<|channel|>commentary<|message|>{\"in\": 1}";
    let said = format!("<|channel|>commentary<|message|>One moment.<|end|>{early}");
    check(&[], false, &said, "", &format!("One moment.\n\n{shown}"));
    let built_in = "<|channel|>analysis to=python code<|message|>1 + 1";
    check(&[], false, built_in, "", "to=python\n1 + 1");
}

/// The definition of stop strings: adds characters until one is complete.
fn stopped_answer(text: &str, stop: &[String]) -> Option<String> {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.map(|end| &text[..end]).find_map(|output| {
        let longest = stop
            .iter()
            .filter(|s| output.ends_with(s.as_str()))
            .max_by_key(|s| s.len())?;
        Some(output[..output.len() - longest.len()].to_owned())
    })
}

proptest! {
    #[test]
    fn any_split_of_any_text_is_emitted_completely(text in "\\PC*", splits in splits()) {
        // Starts with a letter, so that no `<think>` is a marker and no white space is held back.
        let text = format!("a{text}");
        let output = stream(&[], false, &split(text.as_bytes(), &splits));
        prop_assert_eq!(output.answer, text);
    }

    #[test]
    fn any_split_of_any_bytes_equals_the_lossy_conversion(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        splits in splits(),
    ) {
        let mut buffer = Utf8Buffer::default();
        let mut text: String = split(&bytes, &splits).iter().map(|piece| buffer.push(piece)).collect();
        text.push_str(buffer.finish());
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn stop_strings_never_leak_and_always_stop(
        text in "[abé\n]{0,24}",
        stop in prop::collection::vec("[abé\n]{1,4}", 1..4),
        splits in splits(),
    ) {
        let stop_refs: Vec<&str> = stop.iter().map(String::as_str).collect();
        let output = stream(&stop_refs, false, &split(text.as_bytes(), &splits));
        let stopped = stopped_answer(&text, &stop);
        prop_assert_eq!(output.is_stopped, stopped.is_some());
        prop_assert_eq!(output.answer, stopped.unwrap_or(text));
    }

    #[test]
    fn splits_do_not_change_the_output(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "<think>", "</think>", "<th", "ink>", "</", "\n", " ", "a", "é", ".",
                "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "final", "<|",
                "<|channel>thought", "<channel|>", "analysis", "to=f ", "[THINK]", "[/THINK]",
            ]),
            0..12,
        ),
        starts_in_reasoning in any::<bool>(),
        stop in prop::collection::vec("[a\n<. ]{1,2}", 0..2),
        splits in splits(),
    ) {
        let text = parts.concat();
        let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
        let whole = stream(&stop, starts_in_reasoning, &[text.as_bytes()]);
        let pieces = stream(&stop, starts_in_reasoning, &split(text.as_bytes(), &splits));
        prop_assert_eq!(pieces, whole);
    }
}
