//! The scripted engine follows the same contract as real engines.
#![cfg(feature = "test-support")]

use std::path::PathBuf;
use std::sync::Arc;

use transom_engine::test_support::{Script, ScriptedEngine, Step};
use transom_engine::{
    Engine, EngineError, FinishReason, GenerationParams, JobControl, Limits, LoadedModel,
    ModelSource, Prompt, Section, TokenEvent, Trim,
};

fn load(script: Script, control: &JobControl) -> Result<Box<dyn LoadedModel>, EngineError> {
    let source = ModelSource {
        path: PathBuf::from("models/tiny"),
    };
    let limits = Limits {
        context_length: 16,
        prefill_chunk: 4,
        ..Limits::default()
    };
    ScriptedEngine { script }.load(&source, &limits, control, &mut |_| ())
}

/// Generates a response to a prompt of six tokens and returns its events.
fn run(
    script: Script,
    params: &GenerationParams,
    control: &JobControl,
) -> (Result<FinishReason, EngineError>, Vec<TokenEvent>) {
    let mut model = load(script, &JobControl::new()).expect("the script loads");
    let prompt = model
        .prepare(&Prompt::Text("prompt".to_owned()))
        .expect("the prompt fits");
    let mut events = Vec::new();
    let result = model.generate(&prompt, params, control, &mut |event| events.push(event));
    (result.map(|(reason, _)| reason), events)
}

fn answer(events: &[TokenEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        TokenEvent::Text {
            section: Section::Answer,
            text,
            ..
        } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn events_have_the_documented_order() {
    let script = Script::responding(["<think>", "Hm", "</think>", "Hi", "."]);
    let (reason, events) = run(script, &GenerationParams::default(), &JobControl::new());
    assert_eq!(reason, Ok(FinishReason::Stop));
    assert_eq!(
        events[..3],
        [
            TokenEvent::Started {
                prompt_tokens: 6,
                cached_tokens: 0,
                dropped_messages: 0,
                unconstrained_tools: Vec::new(),
            },
            TokenEvent::Prefill { done: 4, total: 6 },
            TokenEvent::Prefill { done: 6, total: 6 },
        ]
    );
    assert_eq!(
        events[3],
        TokenEvent::Text {
            section: Section::Reasoning,
            text: "Hm".to_owned(),
            generated_tokens: 2,
            logprobs: Vec::new(),
        }
    );
    assert_eq!(answer(&events), "Hi.");
    let Some(TokenEvent::Finished { reason, stats }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(*reason, FinishReason::Stop);
    assert_eq!(stats.generated_tokens, 5);
}

#[test]
fn stop_strings_max_tokens_and_the_context_end_the_response() {
    let letters = || Script::responding(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]);
    let params = |max_tokens, stop: &[&str]| GenerationParams {
        max_tokens,
        stop: stop.iter().map(|&s| s.to_owned()).collect(),
        ..GenerationParams::default()
    };
    let control = JobControl::new();
    let (reason, events) = run(letters(), &params(None, &["cd"]), &control);
    assert_eq!(
        (reason, answer(&events)),
        (Ok(FinishReason::Stop), "ab".to_owned())
    );
    let (reason, events) = run(letters(), &params(Some(3), &["cd"]), &control);
    assert_eq!(
        (reason, answer(&events)),
        (Ok(FinishReason::Length), "abc".to_owned())
    );
    let (reason, events) = run(letters(), &params(None, &[]), &control);
    assert_eq!(reason, Ok(FinishReason::Length));
    assert_eq!(
        answer(&events),
        "abcdefghij",
        "6 + 10 tokens fill the context of 16"
    );
}

#[test]
fn a_canceled_response_keeps_its_text_and_ends_after_the_running_step() {
    let control = JobControl::new();
    let cancel = control.clone();
    let mut script = Script::responding(["a", "b"]);
    script.responses[0].insert(1, Step::Call(Arc::new(move || cancel.cancel())));
    let (reason, events) = run(script, &GenerationParams::default(), &control);
    assert_eq!(reason, Ok(FinishReason::Canceled));
    assert_eq!(answer(&events), "a");
    let (reason, events) = run(
        Script::responding(["a"]),
        &GenerationParams::default(),
        &control,
    );
    assert_eq!(reason, Ok(FinishReason::Canceled));
    assert_eq!(events.len(), 2, "started and finished only: {events:?}");
}

#[test]
fn a_failed_step_ends_without_a_finished_event() {
    let error = EngineError::Backend {
        during: "decode".to_owned(),
        message: "out of luck".to_owned(),
    };
    let mut script = Script::responding(["a"]);
    script.responses[0].push(Step::Fail(error.clone()));
    let (result, events) = run(script, &GenerationParams::default(), &JobControl::new());
    assert_eq!(result, Err(error));
    assert!(matches!(events.last(), Some(TokenEvent::Text { .. })));
}

#[test]
fn log_probabilities_are_reported_on_request() {
    let script = Script::responding(["a", "b", "cd"]);
    let params = GenerationParams {
        logprobs: Some(2),
        stop: vec!["bc".to_owned()],
        ..GenerationParams::default()
    };
    let (reason, events) = run(script, &params, &JobControl::new());
    assert_eq!(reason, Ok(FinishReason::Stop));
    let Some(TokenEvent::Finished { stats, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(stats.matched_stop, Some(0));
    let reported = events.iter().filter_map(|event| match event {
        TokenEvent::Text { logprobs, .. } => Some(logprobs.clone()),
        _ => None,
    });
    let reported = reported.collect::<Vec<_>>().concat();
    assert_eq!(reported.len(), 1, "the stop string is not reported");
    assert_eq!(reported[0].chosen.bytes, b"a");
    assert_eq!(reported[0].top[0], reported[0].chosen);
    assert_eq!(reported[0].top[1].bytes, b"b");
}

#[test]
fn loads_fail_as_scripted_and_stop_when_canceled() {
    let script = Script {
        load_error: Some(EngineError::EmptyPrompt),
        ..Script::default()
    };
    let control = JobControl::new();
    assert_eq!(load(script, &control).err(), Some(EngineError::EmptyPrompt));
    control.cancel();
    let canceled = load(Script::default(), &control).err();
    assert_eq!(canceled, Some(EngineError::Canceled));
}

#[test]
fn empty_and_too_long_prompts_are_refused() {
    let model = load(Script::default(), &JobControl::new()).unwrap();
    let prepare = |text: &str| model.prepare(&Prompt::Text(text.to_owned()));
    assert_eq!(prepare(""), Err(EngineError::EmptyPrompt));
    assert_eq!(
        prepare("sixteen letters."),
        Err(EngineError::PromptTooLong {
            prompt_tokens: 16,
            context_length: 16
        })
    );
}

#[test]
fn trimming_releases_the_kv_cache() {
    let mut model = load(Script::responding(["a", "b"]), &JobControl::new()).unwrap();
    let prompt = model.prepare(&Prompt::Text("prompt".to_owned())).unwrap();
    let control = JobControl::new();
    model
        .generate(&prompt, &GenerationParams::default(), &control, &mut |_| ())
        .unwrap();
    assert_eq!(model.memory().kv_cache_bytes, 8);
    assert_eq!(model.trim(Trim::Everything), 8);
    assert_eq!(model.memory().kv_cache_bytes, 0);
}
