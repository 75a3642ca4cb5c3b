//! Loading: what is told of a load, and what is refused.

use transom_engine::{EngineError, FinishReason, Limits, Role};
use transom_engine_host::WorkerEnd;

use crate::ask::Ask;
use crate::files;
use crate::subject::Subject;
use crate::talk::{Talk, limits};

/// Parameters of the starter model, its tied matrix counted once.
const STARTER_PARAMETERS: u64 = 62_000_000;

pub(crate) async fn a_load_tells_its_progress_and_what_was_loaded(subject: &Subject) {
    let mut talk = Talk::start(subject);
    let loaded = talk.load(&subject.shipped, &limits(8192)).await.unwrap();
    let progress = &loaded.progress;
    let last = progress.last().expect("progress is told");
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
    // The starter's card recommends greedy decoding.
    assert_eq!(info.recommended_sampling.temperature, 0.0);

    assert!(loaded.memory.weight_bytes > 1_000_000);
    assert!(loaded.memory.peak_bytes >= loaded.memory.weight_bytes);
    talk.leave().await;
}

pub(crate) async fn the_context_is_the_least_of_the_models_and_the_callers(subject: &Subject) {
    for (wanted, expected) in [(100, 100), (4096, 4096), (1 << 20, 4096)] {
        let mut talk = Talk::start(subject);
        let measured = talk.measure(&subject.tiny, &limits(wanted)).await.unwrap();
        assert_eq!(measured.context_length, expected);
        let loaded = talk.load(&subject.tiny, &limits(wanted)).await.unwrap();
        assert_eq!(loaded.info.context_length, expected);
        talk.leave().await;
    }
}

pub(crate) async fn the_other_engines_files_are_refused_with_a_reason(subject: &Subject) {
    let mut talk = Talk::start(subject);
    let name = subject.foreign.file_name().unwrap().to_string_lossy();
    let measured = talk.measure(&subject.foreign, &limits(256)).await;
    let loaded = talk.load(&subject.foreign, &limits(256)).await;
    for error in [measured.unwrap_err(), loaded.err().unwrap()] {
        assert!(
            matches!(error, EngineError::Unsupported { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(&*name), "{error}");
    }
    talk.leave().await;
}

pub(crate) async fn a_program_of_several_engines_takes_the_one_that_can(subject: &Subject) {
    let mut talk = Talk::start_with("every");
    talk.measure(&subject.tiny, &limits(256)).await.unwrap();
    let loaded = talk.load(&subject.tiny, &limits(256)).await.unwrap();
    assert_eq!(loaded.info.engine, subject.engine);
    talk.leave().await;
}

pub(crate) async fn a_model_that_is_not_there_is_named(subject: &Subject) {
    let mut talk = Talk::start(subject);
    let extension = subject.tiny.extension().unwrap_or_default();
    let path = talk
        .folder()
        .join("no-such-model")
        .with_extension(extension);
    let measured = talk.measure(&path, &limits(256)).await;
    let loaded = talk.load(&path, &limits(256)).await;
    for error in [measured.unwrap_err(), loaded.err().unwrap()] {
        assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
        assert!(error.to_string().contains("no-such-model"), "{error}");
    }
    talk.leave().await;
}

pub(crate) async fn a_path_may_have_any_letters(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("модель 🦀 \"x\" 'y' $HOME %s\n;");
    std::fs::create_dir(&odd).unwrap();
    let source = files::copy_of_tiny(&odd, "e\u{301} name");
    let model = (subject.make)(&source, &odd.join("e\u{301} name"));
    let mut talk = Talk::start(subject);
    let loaded = talk.load(&model, &limits(256)).await.unwrap();
    assert_eq!(loaded.info.name, "e\u{301} name");
    talk.leave().await;
}

pub(crate) async fn damaged_files_are_named_and_leave_the_process_usable(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    for damaged in (subject.damaged)(folder.path()) {
        let mut talk = Talk::start(subject);
        let error = talk.load(&damaged.path, &limits(256)).await.err();
        let error = error.unwrap_or_else(|| panic!("{} was loaded", damaged.what));
        let is_clear = matches!(
            error,
            EngineError::BadFile { .. }
                | EngineError::NotFound { .. }
                | EngineError::Template { .. }
                | EngineError::Unsupported { .. }
        );
        assert!(is_clear, "{}: {error:?}", damaged.what);
        let message = error.to_string();
        assert!(
            message.contains(damaged.word),
            "{}: {message}",
            damaged.what
        );
        let sound = talk.measure(&subject.tiny, &limits(256)).await;
        assert!(sound.is_ok(), "after {}: {sound:?}", damaged.what);
        talk.leave().await;
    }
}

pub(crate) async fn a_model_without_a_template_continues_text_and_refuses_chats(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let source = files::copy_of_tiny(folder.path(), "untemplated");
    files::change_json(&source.join("tokenizer_config.json"), |config| {
        config.as_object_mut().unwrap().remove("chat_template");
    });
    let model = (subject.make)(&source, &folder.path().join("untemplated-model"));
    let mut talk = Talk::start(subject);
    let loaded = talk.load(&model, &limits(256)).await.unwrap();
    assert!(!loaded.info.has_chat_template);
    let refused = talk.ask(&Ask::chat(&[(Role::User, "hello")])).await;
    assert!(matches!(refused.error(), EngineError::Template { .. }));
    let answer = talk.ask(&Ask::text("hello").max_tokens(3)).await;
    assert!(answer.stats().generated_tokens > 0);
    talk.leave().await;
}

/// Wherever the stop arrives, the load says that it was cancelled, or is whole and answers.
pub(crate) async fn a_load_that_is_stopped_ends_and_leaves_nothing_behind(subject: &Subject) {
    let mut talk = Talk::start(subject);
    talk.begin_load(&subject.starter, &limits(256));
    talk.stop(None, FinishReason::Canceled);
    let at_once = talk.loaded(Vec::new()).await.err();
    assert_eq!(at_once, Some(EngineError::Canceled));
    let answer = talk.ask(&Ask::text("hello")).await;
    assert!(matches!(answer.error(), EngineError::Backend { .. }));
    talk.leave().await;

    let mut talk = Talk::start(subject);
    talk.begin_load(&subject.starter, &limits(256));
    let first = talk.load_progress().await;
    talk.stop(None, FinishReason::Canceled);
    match talk.loaded(vec![first]).await {
        Err(error) => assert_eq!(error, EngineError::Canceled),
        Ok(_) => assert!(!talk.text(&Ask::text("hello")).await.is_empty()),
    }
    talk.leave().await;
}

/// It is refused, or it ends the process that loads it, which then has said why; or it loads, and
/// then it answers.
pub(crate) async fn a_model_that_contradicts_itself_ends_only_its_process(subject: &Subject) {
    let mut bystander = Talk::tiny(subject).await;
    let expected = bystander.text(&Ask::text("hello")).await;
    let folder = tempfile::tempdir().unwrap();
    let mut n_deaths = 0;
    for damaged in (subject.contradictory)(folder.path()) {
        let mut talk = Talk::start(subject);
        let name = damaged.path.file_name().unwrap().to_string_lossy();
        if let Err(error) = talk.measure(&damaged.path, &limits(256)).await {
            let message = error.to_string();
            assert!(!message.contains("the engine failed"), "{name}: {message}");
        }
        let outcome = talk.load_or_die(&damaged.path, &limits(256)).await;
        match outcome {
            Ok(Some(EngineError::Backend { message, .. })) => {
                assert!(!message.contains("the engine failed"), "{name}: {message}");
            }
            Ok(Some(_)) => talk.leave().await,
            Ok(None) => {
                talk.ask(&Ask::text("hello").max_tokens(3)).await.summary();
                talk.leave().await;
            }
            Err(WorkerEnd::Died { how, last_words }) => {
                assert!(!last_words.is_empty(), "{name}: {how}, without a word");
                n_deaths += 1;
            }
            Err(end) => panic!("{name}: {end:?}"),
        }
    }
    assert_eq!(n_deaths > 0, subject.asserts.does(), "{n_deaths} died");
    assert_eq!(bystander.text(&Ask::text("hello")).await, expected);
    bystander.leave().await;
}

/// From contexts of a single token, in which no answer has room, to ones beyond all bounds.
pub(crate) async fn limits_at_their_edges_are_obeyed(subject: &Subject) {
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
        let what = format!("{context_length} and {prefill_chunk}");
        let mut talk = Talk::start(subject);
        let need = talk.measure(&subject.tiny, &limits).await.unwrap();
        assert!(need.total_bytes() < 1 << 40, "{what}: {need:?}");
        let loaded = talk.load(&subject.tiny, &limits).await.unwrap();
        let context_length = loaded.info.context_length;
        assert_eq!(
            context_length,
            limits.context_length.clamp(1, 4096),
            "{what}"
        );
        assert_eq!(need.context_length, context_length, "{what}");
        let prompt = context_length / 2;
        let ask = Ask::tokens(vec![7; prompt]).endless().max_tokens(300);
        let answer = talk.ask(&ask).await;
        if prompt == 0 {
            assert_eq!(answer.error(), &EngineError::EmptyPrompt);
        } else {
            let room = (context_length - prompt).min(300);
            assert_eq!(answer.stats().generated_tokens, room, "{what}");
        }
        let answer = talk.ask(&Ask::tokens(vec![7; context_length])).await;
        let refusal = answer.error();
        assert!(
            matches!(refusal, EngineError::PromptTooLong { .. }),
            "{what}: {refusal}"
        );
        talk.leave().await;
    }
}
