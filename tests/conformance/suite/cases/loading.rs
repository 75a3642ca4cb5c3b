//! Loading: progress and information, and models that are refused.

use transom_engine::{EngineError, FinishReason, Limits, Role};
use transom_engine_host::WorkerEnd;

use crate::models;
use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::Subject;

/// Parameters of the starter model, with its tied matrix counted once.
const STARTER_PARAMETERS: u64 = 62_000_000;

pub(crate) async fn a_load_reports_progress_and_model_information(subject: &Subject) {
    let mut process = TestProcess::start(subject);
    let loaded = process.load(&subject.shipped, &limits(8192)).await.unwrap();
    let progress = &loaded.progress;
    let last = progress.last().expect("progress was reported");
    assert_eq!(last.done_bytes, last.total_bytes, "{progress:?}");
    assert!(progress.is_sorted_by_key(|step| step.done_bytes));
    assert!(progress.iter().all(|step| step.total_bytes > 1_000_000));

    let info = loaded.info;
    assert_eq!(info.engine, subject.engine);
    assert_eq!(info.architecture, "qwen3");
    assert!(!info.name.is_empty());
    let share = info.n_parameters as f64 / STARTER_PARAMETERS as f64;
    assert!((0.9..1.1).contains(&share), "{}", info.n_parameters);
    assert!(!info.stored_as.is_empty() && !info.computed_as.is_empty());
    assert_eq!((info.context_length, info.vocab_size), (2048, 16_384));
    assert!(info.has_chat_template);
    let recommended = info.recommended_sampling.validate(info.vocab_size);
    assert_eq!(recommended, Ok(()));
    // The model card of the starter recommends greedy decoding.
    assert_eq!(info.recommended_sampling.temperature, 0.0);

    assert!(loaded.memory.weight_bytes > 1_000_000);
    assert!(loaded.memory.peak_bytes >= loaded.memory.weight_bytes);
    process.shut_down().await;
}

pub(crate) async fn the_context_length_is_the_lower_of_model_and_request(subject: &Subject) {
    for (requested, expected) in [(100, 100), (4096, 4096), (1 << 20, 4096)] {
        let mut process = TestProcess::start(subject);
        let measured = process
            .measure(&subject.tiny, &limits(requested))
            .await
            .unwrap();
        assert_eq!(measured.context_length, expected);
        let loaded = process
            .load(&subject.tiny, &limits(requested))
            .await
            .unwrap();
        assert_eq!(loaded.info.context_length, expected);
        process.shut_down().await;
    }
}

pub(crate) async fn files_of_the_other_engine_are_refused_with_a_reason(subject: &Subject) {
    let mut process = TestProcess::start(subject);
    let name = subject
        .unsupported_model
        .file_name()
        .unwrap()
        .to_string_lossy();
    let measured = process
        .measure(&subject.unsupported_model, &limits(256))
        .await;
    let loaded = process.load(&subject.unsupported_model, &limits(256)).await;
    for error in [measured.unwrap_err(), loaded.err().unwrap()] {
        assert!(
            matches!(error, EngineError::Unsupported { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(&*name), "{error}");
    }
    process.shut_down().await;
}

pub(crate) async fn a_process_with_several_engines_uses_the_one_that_supports_the_model(
    subject: &Subject,
) {
    let mut process = TestProcess::start_with("every");
    process.measure(&subject.tiny, &limits(256)).await.unwrap();
    let loaded = process.load(&subject.tiny, &limits(256)).await.unwrap();
    assert_eq!(loaded.info.engine, subject.engine);
    process.shut_down().await;
}

pub(crate) async fn the_error_names_a_missing_model(subject: &Subject) {
    let mut process = TestProcess::start(subject);
    let extension = subject.tiny.extension().unwrap_or_default();
    let path = process
        .folder()
        .join("no-such-model")
        .with_extension(extension);
    let measured = process.measure(&path, &limits(256)).await;
    let loaded = process.load(&path, &limits(256)).await;
    for error in [measured.unwrap_err(), loaded.err().unwrap()] {
        assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
        assert!(error.to_string().contains("no-such-model"), "{error}");
    }
    process.shut_down().await;
}

pub(crate) async fn a_path_can_have_any_characters(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let unusual = folder.path().join("модель 🦀 \"x\" 'y' $HOME %s\n;");
    std::fs::create_dir(&unusual).unwrap();
    let source = models::copy_of_tiny(&unusual, "e\u{301} name");
    let model = (subject.convert)(&source, &unusual.join("e\u{301} name"));
    let mut process = TestProcess::start(subject);
    let loaded = process.load(&model, &limits(256)).await.unwrap();
    assert_eq!(loaded.info.name, "e\u{301} name");
    process.shut_down().await;
}

pub(crate) async fn the_error_names_a_damaged_file_and_the_process_stays_usable(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    for damaged in (subject.damaged)(folder.path()) {
        let mut process = TestProcess::start(subject);
        let error = process.load(&damaged.path, &limits(256)).await.err();
        let error = error.unwrap_or_else(|| panic!("{} was loaded", damaged.defect));
        let is_clear = matches!(
            error,
            EngineError::BadFile { .. }
                | EngineError::NotFound { .. }
                | EngineError::Template { .. }
                | EngineError::Unsupported { .. }
        );
        assert!(is_clear, "{}: {error:?}", damaged.defect);
        let message = error.to_string();
        assert!(
            message.contains(damaged.expected),
            "{}: {message}",
            damaged.defect
        );
        let sound = process.measure(&subject.tiny, &limits(256)).await;
        assert!(sound.is_ok(), "after {}: {sound:?}", damaged.defect);
        process.shut_down().await;
    }
}

pub(crate) async fn a_model_without_a_template_continues_text_and_refuses_chats(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let source = models::copy_of_tiny(folder.path(), "untemplated");
    models::change_json(&source.join("tokenizer_config.json"), |config| {
        config.as_object_mut().unwrap().remove("chat_template");
    });
    let model = (subject.convert)(&source, &folder.path().join("untemplated-model"));
    let mut process = TestProcess::start(subject);
    let loaded = process.load(&model, &limits(256)).await.unwrap();
    assert!(!loaded.info.has_chat_template);
    let refused = process
        .generate(&TestRequest::chat(&[(Role::User, "hello")]))
        .await;
    assert!(matches!(refused.error(), EngineError::Template { .. }));
    let response = process
        .generate(&TestRequest::text("hello").max_tokens(3))
        .await;
    assert!(response.stats().generated_tokens > 0);
    process.shut_down().await;
}

/// The load fails as canceled, or it completes and the model works.
pub(crate) async fn a_stopped_load_fails_or_completes(subject: &Subject) {
    let mut process = TestProcess::start(subject);
    process.start_load(&subject.starter, &limits(256));
    process.stop(None, FinishReason::Canceled);
    let at_once = process.load_result(Vec::new()).await.err();
    assert_eq!(at_once, Some(EngineError::Canceled));
    let response = process.generate(&TestRequest::text("hello")).await;
    assert!(matches!(response.error(), EngineError::Backend { .. }));
    process.shut_down().await;

    let mut process = TestProcess::start(subject);
    process.start_load(&subject.starter, &limits(256));
    let first = process.load_progress().await;
    process.stop(None, FinishReason::Canceled);
    match process.load_result(vec![first]).await {
        Err(error) => assert_eq!(error, EngineError::Canceled),
        Ok(_) => assert!(!process.text(&TestRequest::text("hello")).await.is_empty()),
    }
    process.shut_down().await;
}

/// The model is refused, or it crashes its process after printing the reason, or it loads and
/// works.
pub(crate) async fn an_inconsistent_model_ends_only_its_own_process(subject: &Subject) {
    let mut bystander = TestProcess::tiny(subject).await;
    let expected = bystander.text(&TestRequest::text("hello")).await;
    let folder = tempfile::tempdir().unwrap();
    let mut n_aborts = 0;
    for damaged in (subject.contradictory)(folder.path()) {
        let mut process = TestProcess::start(subject);
        let name = damaged.path.file_name().unwrap().to_string_lossy();
        if let Err(error) = process.measure(&damaged.path, &limits(256)).await {
            let message = error.to_string();
            assert!(!message.contains("the engine failed"), "{name}: {message}");
        }
        let outcome = process.load_with_exit(&damaged.path, &limits(256)).await;
        match outcome {
            Ok(Some(EngineError::Backend { message, .. })) => {
                assert!(!message.contains("the engine failed"), "{name}: {message}");
            }
            Ok(Some(_)) => process.shut_down().await,
            Ok(None) => {
                process
                    .generate(&TestRequest::text("hello").max_tokens(3))
                    .await
                    .summary();
                process.shut_down().await;
            }
            Err(WorkerEnd::Died { how, stderr_tail }) => {
                assert!(!stderr_tail.is_empty(), "{name}: {how}, without output");
                n_aborts += 1;
            }
            Err(end) => panic!("{name}: {end:?}"),
        }
    }
    assert_eq!(
        n_aborts > 0,
        subject.may_abort.is_supported(),
        "{n_aborts} aborts"
    );
    assert_eq!(bystander.text(&TestRequest::text("hello")).await, expected);
    bystander.shut_down().await;
}

/// From context lengths of one token, which have no room for a response, to the largest numbers.
pub(crate) async fn extreme_limits_are_respected(subject: &Subject) {
    for (context_length, prefill_chunk) in [
        (0, 1),
        (1, 0),
        (2, usize::MAX),
        (3, 1),
        (17, 16),
        (257, 100),
        (usize::MAX, usize::MAX),
    ] {
        let limits = Limits {
            context_length,
            prefill_chunk,
            ..Limits::default()
        };
        let name = format!("{context_length} and {prefill_chunk}");
        let mut process = TestProcess::start(subject);
        let need = process.measure(&subject.tiny, &limits).await.unwrap();
        assert!(need.total_bytes() < 1 << 40, "{name}: {need:?}");
        let loaded = process.load(&subject.tiny, &limits).await.unwrap();
        let context_length = loaded.info.context_length;
        assert_eq!(
            context_length,
            limits.context_length.clamp(1, 4096),
            "{name}"
        );
        assert_eq!(need.context_length, context_length, "{name}");
        let prompt = context_length / 2;
        let request = TestRequest::tokens(vec![7; prompt])
            .endless()
            .max_tokens(300);
        let response = process.generate(&request).await;
        if prompt == 0 {
            assert_eq!(response.error(), &EngineError::EmptyPrompt);
        } else {
            let room = (context_length - prompt).min(300);
            assert_eq!(response.stats().generated_tokens, room, "{name}");
        }
        let response = process
            .generate(&TestRequest::tokens(vec![7; context_length]))
            .await;
        let refusal = response.error();
        assert!(
            matches!(refusal, EngineError::PromptTooLong { .. }),
            "{name}: {refusal}"
        );
        process.shut_down().await;
    }
}
