use transom_engine::MemoryNeed;
use transom_engine_host::WorkerEnd;
use transom_store::{MessageRole, StoreErrorKind};
use transom_supervisor::{ClientId, LimitReason};

use super::*;

fn engine_failure_of(source: EngineError) -> Failure {
    failure(&RequestError::Engine { source })
}

#[test]
fn unusable_model_files_are_reported_as_model_unusable() {
    let path = || "models/model.gguf";
    let file = || "model.gguf".to_owned();
    let name = || "new".to_owned();
    let unsupported = |feature| EngineError::unsupported(path(), feature, "no such kind");
    let errors = [
        (
            EngineError::not_found(path(), "the file", "download it again"),
            ModelProblem::Missing { file: file() },
        ),
        (
            EngineError::bad_file(path(), "too short"),
            ModelProblem::Damaged { file: file() },
        ),
        (
            EngineError::Template {
                reason: "no system prompt".to_owned(),
            },
            ModelProblem::Template,
        ),
        (
            unsupported(UnsupportedFeature::Architecture { name: name() }),
            ModelProblem::Architecture { name: name() },
        ),
        (
            unsupported(UnsupportedFeature::Quantization { name: name() }),
            ModelProblem::Quantization { name: name() },
        ),
        (
            unsupported(UnsupportedFeature::Other),
            ModelProblem::Feature,
        ),
    ];
    for (error, problem) in errors {
        let reason = error.to_string();
        let problem = Some(problem);
        let expected = Failure::ModelUnusable { problem, reason };
        assert_eq!(engine_failure_of(error), expected);
    }
    let none_runs = RequestError::NoVariantRuns {
        name: "model".to_owned(),
        variants: Vec::new(),
    };
    assert!(matches!(
        failure(&none_runs),
        Failure::ModelUnusable {
            problem: Some(ModelProblem::Variants),
            ..
        }
    ));
}

#[test]
fn failures_keep_their_numbers() {
    let too_large = RequestError::TooLarge {
        name: "model".to_owned(),
        need: MemoryNeed {
            weight_bytes: 5,
            kv_cache_bytes: 2,
            ..MemoryNeed::default()
        },
        budget_bytes: 6,
        in_use_bytes: 0,
        context_that_fits: Some(2048),
    };
    assert_eq!(
        failure(&too_large),
        Failure::TooLarge {
            model: Some("model".to_owned()),
            need_bytes: 7,
            budget_bytes: 6,
            context_that_fits: Some(2048),
        }
    );
    assert_eq!(
        engine_failure_of(EngineError::OutOfMemory {
            path: "model".into(),
            needed_bytes: 7,
            available_bytes: 6,
        }),
        Failure::TooLarge {
            model: None,
            need_bytes: 7,
            budget_bytes: 6,
            context_that_fits: None,
        }
    );
    assert_eq!(
        engine_failure_of(EngineError::PromptTooLong {
            prompt_tokens: 5000,
            context_length: 4096,
        }),
        Failure::PromptTooLong {
            prompt_tokens: 5000,
            context_length: 4096,
        }
    );
    let held = RequestError::Blocked {
        reason: LimitReason::Thrashing,
        retry_after: Duration::from_millis(1500),
    };
    assert_eq!(
        failure(&held),
        Failure::Held {
            retry_after_seconds: 2
        }
    );
}

#[test]
fn lost_processes_are_reported_as_retryable() {
    let worker = RequestError::WorkerGone {
        end: WorkerEnd::Unresponsive { seconds: 30 },
        during: "generating".to_owned(),
    };
    let instance = RequestError::InstanceGone {
        reason: "it quit".to_owned(),
    };
    assert_eq!(failure(&worker), Failure::EngineCrashed);
    assert_eq!(failure(&instance), Failure::EngineCrashed);
    assert_eq!(failure(&RequestError::Unloaded), Failure::Unloaded);
    let retry_after = Duration::from_secs(20);
    let full = RequestError::Busy {
        waiting: 16,
        retry_after,
    };
    let full_for_client = RequestError::ClientBusy {
        client: ClientId::app(),
        waiting: 8,
        retry_after,
    };
    assert_eq!(failure(&full), Failure::Busy);
    assert_eq!(failure(&full_for_client), Failure::Busy);
    assert_eq!(failed(&RequestError::Quitting), EndingView::Interrupted);
    let canceled = RequestError::Engine {
        source: EngineError::Canceled,
    };
    assert_eq!(failed(&canceled), EndingView::Canceled);
}

#[test]
fn other_engine_errors_keep_their_message() {
    let backend = EngineError::Backend {
        during: "prefill".to_owned(),
        message: "out of blocks".to_owned(),
    };
    let reason = "prefill: out of blocks".to_owned();
    assert_eq!(engine_failure_of(backend), Failure::Backend { reason });
    let parameter = EngineError::InvalidParameter {
        name: "top-p".into(),
        value: "2".to_owned(),
        expected: "at most 1".into(),
    };
    assert_eq!(
        engine_failure_of(parameter),
        Failure::InvalidParameter {
            name: "top-p".to_owned(),
            value: "2".to_owned(),
            reason: "top-p is 2, but must be at most 1".to_owned(),
        }
    );
    let stuck = RequestError::Stuck {
        name: "model".to_owned(),
        process_id: 7,
        held_bytes: 5,
    };
    assert_eq!(
        failure(&stuck),
        Failure::Stuck {
            process_id: 7,
            held_bytes: 5,
        }
    );
    let shed = RequestError::Shed {
        name: "model".to_owned(),
    };
    assert_eq!(failure(&shed), Failure::Shed);
}

#[test]
fn every_ending_survives_the_store() {
    let failures = [
        Failure::EngineCrashed,
        Failure::TooLarge {
            model: Some("model".to_owned()),
            need_bytes: u64::MAX,
            budget_bytes: 6,
            context_that_fits: None,
        },
        Failure::Storage {
            kind: Some(StoreErrorKind::Full),
            reason: "\"quoted\"\n".to_owned(),
        },
        Failure::ModelUnusable {
            problem: Some(ModelProblem::Architecture {
                name: "new".to_owned(),
            }),
            reason: "model_type".to_owned(),
        },
    ];
    let failed = failures.map(|failure| EndingView::Failed { failure });
    let finished = [
        FinishReason::Stop,
        FinishReason::Length,
        FinishReason::Canceled,
        FinishReason::Shed,
    ]
    .map(finished);
    let others = [EndingView::Writing, EndingView::Interrupted];
    for ending in failed.into_iter().chain(finished).chain(others) {
        assert_eq!(from_store(&to_store(&ending)), ending);
    }
}

#[test]
fn a_failure_of_another_version_is_shown_as_text() {
    let ending = Ending::Failed {
        failure: r#"{"code":"of_tomorrow"}"#.to_owned(),
    };
    let EndingView::Failed { failure } = from_store(&ending) else {
        panic!("a failure stays one");
    };
    assert!(matches!(failure, Failure::Other { .. }), "{failure:?}");
    let ending = Ending::Failed {
        failure: r#"{"code":"model_unusable","reason":"too short"}"#.to_owned(),
    };
    let failure = Failure::ModelUnusable {
        problem: None,
        reason: "too short".to_owned(),
    };
    assert_eq!(from_store(&ending), EndingView::Failed { failure });
}

#[test]
fn statistics_survive_the_store() {
    let engine = Stats {
        prompt_tokens: 12,
        cached_tokens: 4,
        generated_tokens: 21,
        decode_time: Duration::from_secs(2),
        time_to_first_token: Duration::from_millis(10),
        ..Stats::default()
    };
    let first_text = Some(Duration::from_millis(250));
    let answer_stats = stats(&engine, first_text, 3, Some(4096)).unwrap();
    assert_eq!(
        answer_stats,
        AnswerStats {
            prompt_tokens: 12,
            cached_tokens: 4,
            generated_tokens: 21,
            time_to_first_token_seconds: 0.25,
            tokens_per_second: Some(10.0),
            dropped_messages: 3,
            context_length: Some(4096),
            route: Route::Chat,
            is_partial: false,
            engine: Some(engine),
        }
    );
    let message = |stats| Message {
        stats,
        ..crate::tests::message(MessageRole::Assistant, "")
    };
    let kept = Some(json(&answer_stats));
    let engine = None;
    let answer_stats = AnswerStats {
        engine,
        ..answer_stats
    };
    assert_eq!(stats_of(&message(kept)), Some(answer_stats));
    assert_eq!(stats_of(&message(Some("[]".to_owned()))), None);
    assert_eq!(
        stats(&Stats::default(), None, 0, None),
        None,
        "it never began"
    );
}

#[test]
fn all_of_a_conversation_is_too_long_if_nothing_may_be_dropped() {
    let too_long = RequestError::Engine {
        source: EngineError::PromptTooLong {
            prompt_tokens: 5000,
            context_length: 4096,
        },
    };
    let failure = Failure::ConversationTooLong {
        prompt_tokens: 5000,
        context_length: 4096,
    };
    assert_eq!(
        failed_unshortened(&too_long),
        EndingView::Failed { failure }
    );
    let quits = RequestError::Quitting;
    assert_eq!(failed_unshortened(&quits), EndingView::Interrupted);
}
