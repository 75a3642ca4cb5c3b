//! The engine gives the same greedy tokens and the same tokenization as llama.cpp.
//!
//! `fixtures/make_goldens.py` makes the models, and generates the expected results with llama.cpp through
//! an independent binding. Every model is tested in every way that must not change the response: prefill
//! in chunks, one thread or two, cached prefixes, speculative decoding, a saved and restored state.

#[path = "fixtures/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;
use support::{Model, fixtures, greedy, load, model_path, speculative};
use transom_engine::test_support::{Recorder, SavedCopy};
use transom_engine::{
    ChatPrompt, EngineError, GenerationParams, JobControl, Limits, Message, Prompt, ScorePrompt,
    TokenEvent, Trim,
};
use transom_engine_llama::LlamaEngine;

/// llama.cpp's results for a model; `make_goldens.py` describes them.
#[derive(Debug, Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    turn2_prompt: Vec<u32>,
    turn2_tokens: Vec<u32>,
    loop_prompt: Vec<u32>,
    loop_tokens: Vec<u32>,
    small_prompt: Vec<u32>,
    small_tokens: Vec<u32>,
    texts: Vec<(String, Vec<u32>)>,
    chat: ChatGolden,
}

/// A conversation, and its tokens with the template in the file.
#[derive(Debug, Deserialize)]
struct ChatGolden {
    messages: Vec<Message>,
    prompt: Vec<u32>,
}

impl Golden {
    /// Reads the golden of the model `name`.
    fn of(name: &str) -> Self {
        let path = fixtures().join("goldens").join(format!("{name}.json"));
        let text = fs::read_to_string(&path).expect("the golden is there");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    }
}

/// Returns the names of the committed models.
fn model_names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures().join("models"))
        .expect("the models are there")
        .map(|entry| entry.expect("the models can be listed").path())
        .map(|path| path.file_stem().expect("files have names").to_owned())
        .map(|name| name.into_string().expect("names are ASCII"))
        .collect();
    names.sort();
    names
}

/// Uses one thread: tests run in parallel, and a step waits for its slowest thread.
fn engine() -> LlamaEngine {
    LlamaEngine::new().with_threads(1)
}

/// Runs `check` on every model.
fn for_every_model(limits: &Limits, check: impl Fn(&mut Model, &Golden, &str)) {
    for name in model_names() {
        let mut model = load(&engine(), &model_path(&name), limits)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&mut model, &Golden::of(&name), &name);
    }
}

fn chunks_of(prefill_chunk: usize) -> Limits {
    Limits {
        prefill_chunk,
        ..Limits::default()
    }
}

#[test]
fn greedy_tokens_equal_those_of_llama_cpp_for_any_prefill_chunk() {
    for chunk in [1, 7, 64] {
        for_every_model(&chunks_of(chunk), |model, golden, case| {
            let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
            assert_eq!(tokens, golden.tokens, "{case}, chunks of {chunk}");
            assert_eq!(stats.prompt_tokens, golden.prompt.len(), "{case}");
            assert_eq!(stats.cached_tokens, 0, "{case}");
        });
    }
}

#[test]
fn greedy_tokens_equal_those_of_llama_cpp_on_two_threads() {
    for name in model_names() {
        let engine = LlamaEngine::new().with_threads(2);
        let mut model = load(&engine, &model_path(&name), &Limits::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let golden = Golden::of(&name);
        let (tokens, _) = greedy(&mut model, &golden.prompt, 8);
        assert_eq!(tokens, golden.tokens[..8], "{name}");
    }
}

/// llama.cpp's greedy tokens are the most likely ones where a text is scored that contains them, and
/// every token of the text is processed as it is.
#[test]
fn a_scored_text_finds_the_tokens_of_llama_cpp_most_likely() {
    for_every_model(&Limits::default(), |model, golden, case| {
        let text = [&golden.prompt[..], &golden.tokens].concat();
        let params = GenerationParams {
            ignore_end_of_text: true,
            logprobs: Some(1),
            score: Some(ScorePrompt::default()),
            ..GenerationParams::default()
        };
        let prepared = model.prepare(&Prompt::Tokens(text.clone())).unwrap();
        let mut recorder = Recorder::default();
        let result = model.generate(&prepared, &params, &JobControl::new(), &mut recorder);
        result.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(recorder.tokens, text[1..], "{case}");
        let scored = recorder.events.iter().flat_map(|event| match event {
            TokenEvent::Text { logprobs, .. } => logprobs.clone(),
            _ => Vec::new(),
        });
        // Tokens without text are not reported.
        let mut places = 1..text.len();
        let mut n_checked = 0;
        for one in scored {
            let place = places.find(|at| text[*at] == one.chosen.token);
            if place.is_some_and(|at| at >= golden.prompt.len()) {
                assert_eq!(one.top[0], one.chosen, "{case}");
                n_checked += 1;
            }
        }
        assert!(n_checked > 0, "{case}");
    });
}

#[test]
fn a_second_turn_processes_only_new_tokens_and_gives_the_same_response() {
    for chunk in [7, 64] {
        for_every_model(&chunks_of(chunk), |model, golden, case| {
            greedy(model, &golden.prompt, golden.tokens.len());
            let n_tokens = golden.turn2_tokens.len();
            let (tokens, stats) = greedy(model, &golden.turn2_prompt, n_tokens);
            assert_eq!(tokens, golden.turn2_tokens, "{case}");
            // The response's last token is not in the cache, so it may have to be processed.
            let turn1 = golden.prompt.len() + golden.tokens.len();
            assert!(
                (turn1 - 1..=turn1).contains(&stats.cached_tokens),
                "{case}: {} of {turn1} tokens were cached",
                stats.cached_tokens
            );
        });
    }
}

#[test]
fn a_second_turn_without_a_first_gives_the_same_response() {
    for_every_model(&Limits::default(), |model, golden, case| {
        let n_tokens = golden.turn2_tokens.len();
        let (tokens, stats) = greedy(model, &golden.turn2_prompt, n_tokens);
        assert_eq!(tokens, golden.turn2_tokens, "{case}");
        assert_eq!(stats.cached_tokens, 0, "{case}");
    });
}

#[test]
fn returning_to_an_earlier_turn_removes_later_tokens() {
    for_every_model(&Limits::default(), |model, golden, case| {
        greedy(model, &golden.turn2_prompt, 8);
        let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
        assert_eq!(tokens, golden.tokens, "{case}");
        // The whole prompt is cached, but the last token is processed again for its logits.
        assert_eq!(stats.cached_tokens, golden.prompt.len() - 1, "{case}");
    });
}

#[test]
fn a_trimmed_model_starts_without_a_cache_and_gives_the_same_response() {
    for_every_model(&Limits::default(), |model, golden, case| {
        greedy(model, &golden.prompt, golden.tokens.len());
        model.trim(Trim::Everything);
        let (tokens, stats) = greedy(model, &golden.prompt, golden.tokens.len());
        assert_eq!(tokens, golden.tokens, "{case}");
        assert_eq!(stats.cached_tokens, 0, "{case}");
    });
}

#[test]
fn a_restored_conversation_continues_the_same_without_prefill() {
    for_every_model(&Limits::default(), |model, golden, case| {
        greedy(model, &golden.prompt, golden.tokens.len());
        let copy = SavedCopy::of(&mut **model, 0).expect("the state is copied");
        let mut again = load(&engine(), &model_path(case), &Limits::default())
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        let saved = copy.restore(&mut *again).expect("the state is restored");
        let n_tokens = golden.turn2_tokens.len();
        let (tokens, stats) = greedy(&mut again, &golden.turn2_prompt, n_tokens);
        assert_eq!(tokens, golden.turn2_tokens, "{case}");
        assert_eq!(stats.cached_tokens, saved, "{case}");
    });
}

#[test]
fn speculative_decoding_changes_no_token_and_accepts_drafts_in_a_repetitive_response() {
    for_every_model(&Limits::default(), |model, golden, case| {
        let n_tokens = golden.loop_tokens.len();
        let (tokens, stats) = greedy(model, &golden.loop_prompt, n_tokens);
        assert_eq!(tokens, golden.loop_tokens, "{case}");
        assert_eq!((stats.drafted_tokens, stats.accepted_tokens), (0, 0));
        model.trim(Trim::Everything);
        let (tokens, stats) = speculative(model, &golden.loop_prompt, n_tokens);
        assert_eq!(tokens, golden.loop_tokens, "{case}, speculative");
        assert!(stats.accepted_tokens > 0, "{case}: {stats:?}");
        assert!(stats.accepted_tokens <= stats.drafted_tokens, "{case}");
    });
}

#[test]
fn wrong_draft_tokens_do_not_change_the_next_turn() {
    for_every_model(&Limits::default(), |model, golden, case| {
        speculative(model, &golden.loop_prompt, golden.loop_tokens.len());
        let (tokens, _) = speculative(model, &golden.prompt, golden.tokens.len());
        assert_eq!(tokens, golden.tokens, "{case}");
        let n_tokens = golden.turn2_tokens.len();
        let (tokens, _) = speculative(model, &golden.turn2_prompt, n_tokens);
        assert_eq!(tokens, golden.turn2_tokens, "{case}");
    });
}

#[test]
fn tokens_of_a_small_kv_cache_equal_those_of_llama_cpp_with_keys_and_values_in_q8_0() {
    for prefill_chunk in [1, 7, 64] {
        let limits = Limits {
            kv_cache: transom_engine::KvCacheChoice::Small,
            prefill_chunk,
            ..Limits::default()
        };
        for_every_model(&limits, |model, golden, case| {
            let n_tokens = golden.small_tokens.len();
            let (tokens, _) = greedy(model, &golden.small_prompt, n_tokens);
            assert_eq!(
                tokens, golden.small_tokens,
                "{case}, chunks of {prefill_chunk}"
            );
        });
    }
}

#[test]
fn texts_get_the_same_tokens_as_in_llama_cpp() {
    for_every_model(&Limits::default(), |model, golden, case| {
        for (text, expected) in &golden.texts {
            let prepared = model.prepare(&Prompt::Text(text.clone()));
            if expected.is_empty() {
                assert!(
                    matches!(prepared, Err(EngineError::EmptyPrompt)),
                    "{case}: {text:?}"
                );
            } else {
                let tokens = prepared.expect("the text fits").tokens;
                assert_eq!(&tokens, expected, "{case}: {text:?}");
            }
        }
    });
}

#[test]
fn a_conversation_gets_the_tokens_of_its_template() {
    for_every_model(&Limits::default(), |model, golden, case| {
        let chat = ChatPrompt {
            messages: golden.chat.messages.clone(),
            ..ChatPrompt::default()
        };
        let prompt = model.prepare(&Prompt::Chat(chat)).expect("the prompt fits");
        assert_eq!(prompt.tokens, golden.chat.prompt, "{case}");
    });
}

#[test]
fn the_models_cover_the_architectures_and_quantizations() {
    let mut architectures = BTreeSet::new();
    let mut forms = BTreeSet::new();
    for name in model_names() {
        let (architecture, form) = name.split_once('-').expect("ARCHITECTURE-FORM.gguf");
        let model = load(&engine(), &model_path(&name), &Limits::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(model.info().architecture, architecture);
        // A mix is named after its most common type, and has Q6_K for the most important tensors.
        let kinds: &[&str] = match form {
            "q4_k_m" => &["Q4_K", "Q6_K"],
            "q8_0" => &["Q8_0"],
            _ => &["F16"],
        };
        let stored = &model.info().stored_as;
        for kind in kinds {
            assert!(stored.contains(kind), "{name} is stored as {stored}");
        }
        architectures.insert(architecture.to_owned());
        forms.insert(form.to_owned());
    }
    let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(architectures, names(&["gemma3", "llama", "qwen2", "qwen3"]));
    assert_eq!(forms, names(&["f16", "q4_k_m", "q8_0"]));
}
