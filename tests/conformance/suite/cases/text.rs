//! From tokens to text: complete characters, sections, and stop strings.
//!
//! The tiny model has one token per byte, so every character beyond ASCII and every stop string is
//! split between tokens.

use serde_json::json;
use transom_engine::{FinishReason, Prompt, Section};

use crate::models;
use crate::process::{TestProcess, limits};
use crate::request::{TestRequest, tiny_tokens};
use crate::subject::Subject;

/// Returns a request to which the tiny model generates exactly `text`.
fn forced(subject: &Subject, text: &str) -> TestRequest {
    TestRequest::text("0").forcing(&tiny_tokens(subject, text))
}

pub(crate) async fn characters_are_never_split(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    for text in ["🦀", "汉字", "e\u{301}", "한", "añb", "\u{200d}", "👩x"] {
        let response = process.generate(&forced(subject, text)).await;
        assert_eq!(response.text(), text);
        let n_tokens = response.stats().generated_tokens;
        assert_eq!(n_tokens, text.len(), "one token per byte");
        let tokens = tiny_tokens(subject, text);
        if text.chars().next_back().is_some_and(char::is_alphabetic) && text.is_ascii() {
            continue;
        }
        // If the last character is cut, the text ends before it or with a replacement character.
        let cut = TestRequest::text("0").forcing(&tokens[..tokens.len() - 1]);
        let cut = process.text(&cut).await;
        let whole: String = text.chars().take(text.chars().count() - 1).collect();
        let cut = cut.trim_end_matches('\u{fffd}');
        assert_eq!(cut, whole, "{text}");
    }
    process.shut_down().await;
}

pub(crate) async fn log_probabilities_come_with_their_text(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let scored = |text| forced(subject, text).params(|params| params.logprobs = Some(20));
    let response = process.generate(&scored("añbcd").stop(&["x", "cd"])).await;
    assert_eq!(response.text(), "añb");
    assert_eq!(response.stats().matched_stop, Some(1));
    let chosen = response.logprobs.iter().map(|one| &one.chosen);
    let bytes: Vec<u8> = chosen.flat_map(|chosen| chosen.bytes.clone()).collect();
    assert_eq!(bytes, "añb".as_bytes());
    for one in &response.logprobs {
        assert_eq!(one.top.len(), 20);
        assert!(one.top.is_sorted_by(|a, b| a.logprob >= b.logprob));
        assert!(one.chosen.logprob <= one.top[0].logprob);
        let sum: f64 = one.top.iter().map(|top| f64::from(top.logprob).exp()).sum();
        assert!(sum <= 1.0 + 1e-6, "{sum}");
    }
    // Whatever is forced, the log probabilities are those of the model.
    let mut first = Vec::new();
    for text in ["x", "y"] {
        let response = process.generate(&scored(text)).await;
        assert!(
            response.logprobs[0].chosen.logprob < -0.1,
            "{text} was certain"
        );
        first.push(response.logprobs[0].top.clone());
    }
    for one in &first[0][..10] {
        let other = first[1].iter().find(|other| other.token == one.token);
        let difference = one.logprob - other.expect("it is likely in both").logprob;
        assert!(difference.abs() < 0.05, "{one:?}");
    }
    process.shut_down().await;
}

pub(crate) async fn tokens_of_a_prompt_are_counted(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &limits(64)).await;
    for n_tokens in [1, 63, 64, 500] {
        let prompt = Prompt::Tokens(vec![20; n_tokens]);
        assert_eq!(process.count(prompt).await, n_tokens);
    }
    let request = TestRequest::user("hello");
    let n_tokens = process.count(request.0.prompt.clone()).await;
    let response = process.generate(&request).await;
    assert_eq!(response.stats().prompt_tokens, n_tokens);
    process.shut_down().await;
}

pub(crate) async fn special_tokens_are_never_shown(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let request = forced(subject, "a<|im_start|>b<|im_end|>c<|endoftext|>d");
    let request = request.params(|params| params.ignore_end_of_text = true);
    let response = process.generate(&request).await;
    assert_eq!(response.text(), "abcd");
    assert_eq!(response.stats().generated_tokens, 7);
    process.shut_down().await;
}

pub(crate) async fn reasoning_is_separated_from_the_answer(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let cases = [
        ("<think>hm</think>yes", "hm", "yes"),
        ("<think>\nhm</think>yes", "hm", "yes"),
        (" \t<think>汉</think>🦀", "汉", "🦀"),
        ("<think>hm", "hm", ""),
        ("<think></think>yes", "", "yes"),
        // After other text, the marker is plain text.
        ("no<think>x", "", "no<think>x"),
    ];
    for (reply, reasoning, text) in cases {
        let response = process.generate(&forced(subject, reply)).await;
        assert_eq!(response.section(Section::Reasoning), reasoning, "{reply:?}");
        assert_eq!(response.text(), text, "{reply:?}");
    }
    process.shut_down().await;
}

pub(crate) async fn a_template_can_start_in_reasoning(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let source = models::copy_of_tiny(folder.path(), "reasoning");
    models::change_json(&source.join("tokenizer_config.json"), |config| {
        let template = config["chat_template"].as_str().unwrap();
        let opening = template.replace("assistant\\n", "assistant\\n<think>\\n");
        assert_ne!(opening, template);
        config["chat_template"] = json!(opening);
    });
    let model = (subject.convert)(&source, &folder.path().join("reasoning-model"));
    let mut process = TestProcess::with(subject, &model, &limits(256)).await;
    let request = TestRequest::user("0").forcing(&tiny_tokens(subject, "hm</think>ok"));
    let response = process.generate(&request).await;
    assert_eq!(response.section(Section::Reasoning), "hm");
    assert_eq!(response.text(), "ok");
    process.shut_down().await;
}

pub(crate) async fn a_stop_string_is_found_across_tokens(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let reply = "abc汉字🦀xyz";
    let ends: Vec<usize> = reply.char_indices().map(|(index, _)| index).collect();
    for (n, &start) in ends.iter().enumerate() {
        for &end in &ends[n + 1..] {
            let stop = &reply[start..end];
            let response = process
                .generate(&forced(subject, reply).stop(&[stop]))
                .await;
            assert_eq!(response.text(), reply[..start], "stopped at {stop:?}");
            assert_eq!(response.reason(), FinishReason::Stop);
            assert_eq!(response.stats().generated_tokens, end);
        }
    }
    // Text that only looked like the start of a stop string is emitted at the end.
    let response = process
        .generate(&forced(subject, reply).stop(&["yz!", "z?"]))
        .await;
    assert_eq!(response.text(), reply);
    assert_eq!(response.reason(), FinishReason::Length);
    process.shut_down().await;

    // A model with tokens of several letters: stop strings that begin and end within tokens.
    let mut process = TestProcess::starter(subject).await;
    let request = TestRequest::user("Count from one to twelve.").max_tokens(24);
    let whole = process.text(&request).await;
    let letters: Vec<char> = whole.chars().collect();
    assert!(letters.len() > 20, "{whole}");
    for start in (2..letters.len() - 5).step_by(7) {
        let stop: String = letters[start..start + 5].iter().collect();
        let expected = whole.split(&stop).next().unwrap();
        let response = process.generate(&request.clone().stop(&[&stop])).await;
        assert_eq!(response.text(), expected, "stopped at {stop:?}");
        assert_eq!(response.reason(), FinishReason::Stop);
    }
    process.shut_down().await;
}

pub(crate) async fn the_first_of_several_stop_strings_ends_the_response(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let request = forced(subject, "abcdefgh");
    for stop in [["de", "f"], ["f", "de"], ["g", "d"]] {
        let response = process.generate(&request.clone().stop(&stop)).await;
        assert_eq!(response.text(), "abc", "{stop:?}");
    }
    process.shut_down().await;
}
