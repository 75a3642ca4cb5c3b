//! What becomes of tokens: whole characters, sections, and stop strings.
//!
//! The tiny model has a token for each byte, so every character beyond ASCII is cut between tokens,
//! and so is every stop string.

use serde_json::json;
use transom_engine::{FinishReason, Section};

use crate::ask::{Ask, tiny_tokens};
use crate::files;
use crate::subject::Subject;
use crate::talk::{Talk, limits};

/// An ask to which the tiny model says exactly `text`.
fn saying(subject: &Subject, text: &str) -> Ask {
    Ask::text("0").saying(&tiny_tokens(subject, text))
}

pub(crate) async fn characters_come_whole(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    for text in ["🦀", "汉字", "e\u{301}", "한", "añb", "\u{200d}", "👩x"] {
        let answer = talk.ask(&saying(subject, text)).await;
        assert_eq!(answer.text(), text);
        let n_tokens = answer.stats().generated_tokens;
        assert_eq!(n_tokens, text.len(), "one token a byte");
        let tokens = tiny_tokens(subject, text);
        if text.chars().next_back().is_some_and(char::is_alphabetic) && text.is_ascii() {
            continue;
        }
        // Cut inside its last character, an answer ends before it, or says that it was cut.
        let cut = Ask::text("0").saying(&tokens[..tokens.len() - 1]);
        let cut = talk.text(&cut).await;
        let whole: String = text.chars().take(text.chars().count() - 1).collect();
        let cut = cut.trim_end_matches('\u{fffd}');
        assert_eq!(cut, whole, "{text}");
    }
    talk.leave().await;
}

pub(crate) async fn special_tokens_are_never_shown(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let ask = saying(subject, "a<|im_start|>b<|im_end|>c<|endoftext|>d");
    let ask = ask.params(|params| params.ignore_end_of_text = true);
    let answer = talk.ask(&ask).await;
    assert_eq!(answer.text(), "abcd");
    assert_eq!(answer.stats().generated_tokens, 7);
    talk.leave().await;
}

pub(crate) async fn reasoning_is_told_from_the_answer(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let cases = [
        ("<think>hm</think>yes", "hm", "yes"),
        ("<think>\nhm</think>yes", "hm", "yes"),
        (" \t<think>汉</think>🦀", "汉", "🦀"),
        ("<think>hm", "hm", ""),
        ("<think></think>yes", "", "yes"),
        // Later on it is a quotation.
        ("no<think>x", "", "no<think>x"),
    ];
    for (said, reasoning, text) in cases {
        let answer = talk.ask(&saying(subject, said)).await;
        assert_eq!(answer.section(Section::Reasoning), reasoning, "{said:?}");
        assert_eq!(answer.text(), text, "{said:?}");
    }
    talk.leave().await;
}

pub(crate) async fn a_template_that_opens_reasoning_starts_in_it(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let source = files::copy_of_tiny(folder.path(), "reasoning");
    files::change_json(&source.join("tokenizer_config.json"), |config| {
        let template = config["chat_template"].as_str().unwrap();
        let opening = template.replace("assistant\\n", "assistant\\n<think>\\n");
        assert_ne!(opening, template);
        config["chat_template"] = json!(opening);
    });
    let model = (subject.make)(&source, &folder.path().join("reasoning-model"));
    let mut talk = Talk::with(subject, &model, &limits(256)).await;
    let ask = Ask::user("0").saying(&tiny_tokens(subject, "hm</think>ok"));
    let answer = talk.ask(&ask).await;
    assert_eq!(answer.section(Section::Reasoning), "hm");
    assert_eq!(answer.text(), "ok");
    talk.leave().await;
}

pub(crate) async fn a_stop_string_is_met_wherever_it_is_cut(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let said = "abc汉字🦀xyz";
    let ends: Vec<usize> = said.char_indices().map(|(index, _)| index).collect();
    for (n, &start) in ends.iter().enumerate() {
        for &end in &ends[n + 1..] {
            let stop = &said[start..end];
            let answer = talk.ask(&saying(subject, said).stop(&[stop])).await;
            assert_eq!(answer.text(), said[..start], "stopped at {stop:?}");
            assert_eq!(answer.reason(), FinishReason::Stop);
            assert_eq!(answer.stats().generated_tokens, end);
        }
    }
    // What only looked like the beginning of a stop string comes in the end.
    let answer = talk.ask(&saying(subject, said).stop(&["yz!", "z?"])).await;
    assert_eq!(answer.text(), said);
    assert_eq!(answer.reason(), FinishReason::Length);
    talk.leave().await;

    // Of a model with tokens of several letters: stop strings that begin and end inside tokens.
    let mut talk = Talk::starter(subject).await;
    let ask = Ask::user("Count from one to twelve.").max_tokens(24);
    let whole = talk.text(&ask).await;
    let letters: Vec<char> = whole.chars().collect();
    assert!(letters.len() > 20, "{whole}");
    for start in (2..letters.len() - 5).step_by(7) {
        let stop: String = letters[start..start + 5].iter().collect();
        let expected = whole.split(&stop).next().unwrap();
        let answer = talk.ask(&ask.clone().stop(&[&stop])).await;
        assert_eq!(answer.text(), expected, "stopped at {stop:?}");
        assert_eq!(answer.reason(), FinishReason::Stop);
    }
    talk.leave().await;
}

pub(crate) async fn the_first_of_several_stop_strings_ends_the_answer(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let ask = saying(subject, "abcdefgh");
    for stop in [["de", "f"], ["f", "de"], ["g", "d"]] {
        let answer = talk.ask(&ask.clone().stop(&stop)).await;
        assert_eq!(answer.text(), "abc", "{stop:?}");
    }
    talk.leave().await;
}
