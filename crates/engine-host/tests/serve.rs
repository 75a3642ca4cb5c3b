//! The loop of the child, frame by frame, with the engine thread paused at chosen points.
//!
//! Rule: no test waits for a time. A pong proves that the reader thread has handled everything that
//! was sent before the ping.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/child.rs"]
mod child;
#[path = "fixtures/engine.rs"]
mod engine;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use transom_engine::{
    ChatPrompt, EngineError, FinishReason, Message, Prompt, TokenEvent, TokenInput, Trim,
};
use transom_engine_host::wire::{Command, JobId, Report};
use transom_engine_host::{ThreadWorkers, WorkerEnd, WorkerReport, Workers};

use child::{TestChild, is_job_end, pausing_engine, stop, summary};
use engine::ModeEngine;

#[test]
fn tokens_are_counted_even_if_they_do_not_fit_the_context() {
    let mut child = TestChild::loaded(ModeEngine::new("answer"));
    let count = |job, text: &str| Command::Count {
        job: JobId(job),
        prompt: Box::new(Prompt::Text(text.to_owned())),
    };
    for (job, n_tokens) in [(1, 5), (2, 1_000_000)] {
        child.send(&count(job, &"x".repeat(n_tokens)));
        let reports = child.until(is_job_end);
        assert_eq!(reports.len(), 1, "{reports:?}");
        let summary = summary(&reports);
        assert_eq!(summary.reason, FinishReason::Stop);
        assert_eq!(summary.stats.prompt_tokens, n_tokens);
    }
    child.send(&count(3, ""));
    match child.next() {
        Report::JobEnded { result, .. } => assert_eq!(result, Err(EngineError::EmptyPrompt)),
        other => panic!("{other:?}"),
    }
    child.shut_down();
}

#[test]
fn a_long_text_becomes_tokens_in_several_events() {
    let mut child = TestChild::loaded(ModeEngine::new("answer"));
    let tokenize = |job, input| Command::Tokenize {
        job: JobId(job),
        input: Box::new(input),
    };
    let text = TokenInput::Text {
        text: "x".repeat(10_000),
        add_special: true,
        parse_special: true,
    };
    child.send(&tokenize(1, text));
    let reports = child.until(is_job_end);
    let pieces = reports.iter().flat_map(|report| match report {
        Report::Event {
            event: TokenEvent::Pieces { pieces },
            ..
        } => pieces.clone(),
        _ => Vec::new(),
    });
    let ids: Vec<u32> = pieces.map(|piece| piece.id).collect();
    assert_eq!(ids, [u32::from(b'x'); 10_000]);
    assert!(reports.len() > 3, "no event is large");
    assert_eq!(summary(&reports).stats.prompt_tokens, 10_000);
    child.send(&tokenize(2, TokenInput::Tokens(vec![1, 256])));
    match child.next() {
        Report::JobEnded { result, .. } => assert!(matches!(
            result,
            Err(EngineError::InvalidParameter { name, .. }) if name == "token"
        )),
        other => panic!("{other:?}"),
    }
    child.shut_down();
}

/// The response ends with the token that was being computed.
#[test]
fn a_cancel_takes_effect_within_one_token() {
    let (engine, is_reached, resume) = pausing_engine("endless", engine::is_text);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    child.send(&stop(1, FinishReason::Canceled));
    child.ping();
    drop(resume);
    let summary = summary(&child.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Canceled);
    assert_eq!(summary.stats.generated_tokens, 1);
    child.shut_down();
}

#[test]
fn a_shed_takes_effect_within_one_prefill_chunk() {
    let is_prefill = |event: &TokenEvent| matches!(event, TokenEvent::Prefill { .. });
    let (engine, is_reached, resume) = pausing_engine("endless", is_prefill);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, &"x".repeat(160)));
    is_reached.recv().unwrap();
    child.send(&stop(1, FinishReason::Shed));
    child.ping();
    drop(resume);
    let summary = summary(&child.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Shed);
    assert_eq!(summary.stats.generated_tokens, 0);
    assert!(
        is_reached.try_recv().is_err(),
        "a second chunk was computed"
    );
    child.shut_down();
}

#[test]
fn a_stop_of_an_ended_job_is_ignored() {
    let mut child = TestChild::loaded(ModeEngine::new("answer"));
    child.send(&engine::generate(1, "hello"));
    child.until(is_job_end);
    child.send(&stop(1, FinishReason::Canceled));
    child.send(&engine::generate(2, "hello"));
    let summary = summary(&child.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Stop);
    assert_eq!(summary.stats.generated_tokens, 2);
    child.shut_down();
}

#[test]
fn a_job_that_is_stopped_in_the_queue_ends_with_the_reason() {
    let (engine, is_reached, resume) = pausing_engine("answer", engine::is_text);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    child.send(&engine::generate(2, "hello"));
    child.send(&stop(2, FinishReason::Shed));
    child.ping();
    drop(resume);
    // It does not wait for the running one.
    let reports = child.until(is_job_end);
    assert!(
        matches!(reports.last(), Some(Report::JobEnded { job: JobId(2), .. })),
        "{reports:?}"
    );
    assert_eq!(summary(&reports).reason, FinishReason::Shed);
    assert_eq!(summary(&reports).stats, Default::default());
    assert_eq!(summary(&child.until(is_job_end)).reason, FinishReason::Stop);
    child.shut_down();
}

/// Returns the vectors in `reports`.
fn vectors(reports: &[Report]) -> Vec<(usize, Vec<f32>)> {
    let vectors = reports.iter().filter_map(|report| match report {
        Report::Embedded {
            job: JobId(1),
            n_tokens,
            vector,
        } => Some((*n_tokens, vector.clone())),
        _ => None,
    });
    vectors.collect()
}

#[test]
fn texts_are_embedded_in_order() {
    let mut child = TestChild::loaded(ModeEngine::new("embeds"));
    child.send(&engine::embed(1, &["1234", "1"]));
    let reports = child.until(is_job_end);
    let root = |n: f32| n.sqrt();
    let expected = [
        (4, vec![4.0 / root(17.0), 1.0 / root(17.0)]),
        (1, vec![1.0 / root(2.0), 1.0 / root(2.0)]),
    ];
    let found = vectors(&reports);
    assert_eq!(found.len(), expected.len());
    for ((n_found, found), (n_expected, expected)) in found.iter().zip(&expected) {
        assert_eq!(n_found, n_expected);
        let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        assert!(differences.fold(0.0, f32::max) < 1e-6, "{found:?}");
    }
    let summary = summary(&reports);
    assert_eq!(summary.reason, FinishReason::Stop);
    assert_eq!(summary.stats.prompt_tokens, 5);
    child.shut_down();
}

#[test]
fn a_cancel_takes_effect_between_two_texts() {
    let is_embedded = |event: &TokenEvent| matches!(event, TokenEvent::Prefill { .. });
    let (engine, is_reached, resume) = pausing_engine("embeds", is_embedded);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::embed(1, &["a", "b", "c"]));
    is_reached.recv().unwrap();
    child.send(&stop(1, FinishReason::Canceled));
    let mut reports = child.ping();
    drop(resume);
    reports.extend(child.until(is_job_end));
    assert_eq!(vectors(&reports).len(), 1);
    assert_eq!(summary(&reports).reason, FinishReason::Canceled);
    child.shut_down();
}

#[test]
fn a_model_that_generates_text_refuses_to_embed_and_stays_usable() {
    let mut child = TestChild::loaded(ModeEngine::new("answer"));
    child.send(&engine::embed(1, &["a"]));
    match child.next() {
        Report::JobEnded {
            result: Err(error), ..
        } => assert!(error.to_string().contains("an embedding model"), "{error}"),
        other => panic!("{other:?}"),
    }
    child.send(&engine::generate(2, "hello"));
    assert_eq!(summary(&child.until(is_job_end)).reason, FinishReason::Stop);
    child.shut_down();
}

/// Nothing is freed before the running job has ended.
#[test]
fn an_unload_during_a_response_ends_the_job_before_the_model_is_dropped() {
    let (log, entries) = channel();
    let (reached, is_reached) = channel();
    let (resume, resumed) = channel::<()>();
    let resumed = Mutex::new(resumed);
    let engine = ModeEngine::hooked("endless", move |event| {
        let entry = match event {
            Some(TokenEvent::Finished { .. }) => "finished",
            Some(_) => "event",
            None => "dropped",
        };
        log.send(entry).unwrap();
        if event.is_some_and(engine::is_text) {
            reached.send(()).unwrap();
            let _ = resumed.lock().unwrap().recv();
        }
    });
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    child.send(&engine::UNLOAD);
    child.ping();
    drop(resume);
    let reports = child.until(|report| matches!(report, Report::Unloaded { .. }));
    let job_end = reports.iter().position(is_job_end);
    assert_eq!(job_end, Some(reports.len() - 2));
    let entries: Vec<&str> = entries.try_iter().collect();
    assert!(entries.ends_with(&["finished", "dropped"]), "{entries:?}");
    child.shut_down();
}

#[test]
fn commands_take_effect_in_order() {
    let (engine, is_reached, resume) = pausing_engine("answer", engine::is_text);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    child.send(&Command::Trim {
        trim: Trim::Everything,
    });
    child.send(&engine::generate(2, "hello"));
    child.send(&Command::Trim {
        trim: Trim::KeepConversation,
    });
    child.ping();
    drop(resume);
    let mut responses = Vec::new();
    while responses.len() < 4 {
        match child.next() {
            Report::JobEnded { job, .. } => responses.push(format!("{job:?}")),
            Report::Trimmed { bytes, .. } => responses.push(format!("trimmed {bytes}")),
            _ => {}
        }
    }
    assert_eq!(
        responses,
        ["JobId(1)", "trimmed 7", "JobId(2)", "trimmed 0"]
    );
    child.shut_down();
}

#[test]
fn a_process_loads_one_model_even_after_an_unload() {
    let mut child = TestChild::loaded(ModeEngine::new("answer"));
    child.send(&engine::UNLOAD);
    child.until(|report| matches!(report, Report::Unloaded { .. }));
    child.send(&engine::load());
    assert!(matches!(child.next(), Report::LoadFailed { .. }));
    child.send(&engine::generate(1, "hello"));
    assert!(matches!(
        child.next(),
        Report::JobEnded { result: Err(_), .. }
    ));
    child.shut_down();
}

#[test]
fn a_process_whose_load_failed_can_load_another_variant() {
    let mut child = TestChild::start(ModeEngine::new("answer"));
    child.send(&engine::load_of(engine::UNSUPPORTED_MODEL, None));
    child.until(|report| matches!(report, Report::LoadFailed { .. }));
    child.send(&engine::load());
    child.until(|report| matches!(report, Report::Loaded { .. }));
    child.shut_down();
}

#[test]
fn a_running_load_is_stopped_by_a_stop_or_an_unload() {
    for stop in [
        Command::Stop {
            job: None,
            reason: FinishReason::Canceled,
        },
        engine::UNLOAD,
    ] {
        let mut child = TestChild::start(ModeEngine::new("slow-load"));
        child.send(&engine::load());
        child.until(|report| matches!(report, Report::LoadProgress { .. }));
        child.send(&stop);
        let reports = child.until(|report| matches!(report, Report::LoadFailed { .. }));
        let canceled = Report::LoadFailed {
            error: EngineError::Canceled,
        };
        assert_eq!(reports.last(), Some(&canceled));
        child.shut_down();
    }
}

#[test]
fn the_end_of_the_parent_stops_the_job_and_drops_the_model() {
    let dropped = Arc::new(Mutex::new(false));
    let is_dropped = dropped.clone();
    let engine = ModeEngine::hooked("endless", move |event| {
        if event.is_none() {
            *is_dropped.lock().unwrap() = true;
        }
    });
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    child.shut_down();
    assert!(*dropped.lock().unwrap());
}

/// The engine ends its job while nobody reads its reports.
#[test]
fn the_engine_never_waits_for_a_reader() {
    let (finished, is_finished) = channel();
    let engine = ModeEngine::hooked("flat:300000", move |event| {
        if matches!(event, Some(TokenEvent::Finished { .. })) {
            finished.send(()).unwrap();
        }
    });
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    is_finished.recv().unwrap();
    let reports = child.until(is_job_end);
    let text: String = reports.iter().filter_map(text).collect();
    let expected: String = (0..300_000).map(|n| format!("{n} ")).collect();
    assert!(text == expected);
    assert!(reports.len() < 50_000, "{} reports", reports.len());
    child.shut_down();
}

fn text(report: &Report) -> Option<&str> {
    match report {
        Report::Event {
            event: TokenEvent::Text { text, .. },
            ..
        } => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn a_worker_on_a_thread_generates_exits_and_can_be_killed() {
    let workers = ThreadWorkers::new(|| vec![Box::new(ModeEngine::new("answer"))]);
    let mut worker = workers.start();
    worker.commands.send(engine::load()).unwrap();
    worker.commands.send(engine::generate(1, "hello")).unwrap();
    loop {
        match worker.reports.recv().await {
            Some(WorkerReport::Message(report)) if is_job_end(&report) => break,
            Some(WorkerReport::Message(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(worker.commands);
    let end = WorkerReport::Exited(WorkerEnd::Requested);
    assert_eq!(worker.reports.recv().await, Some(end.clone()));

    let mut worker = workers.start();
    worker.kill.kill();
    assert_eq!(worker.reports.recv().await, Some(end));
    assert_eq!(worker.reports.recv().await, None);
}

/// The model reads ahead without a command, which no report tells; the engine's events do.
#[test]
fn a_task_stops_what_is_read_ahead_and_it_goes_on_later() {
    let is_start = |event: &TokenEvent| matches!(event, TokenEvent::Started { .. });
    let (engine, is_reached, resume) = pausing_engine("answer", is_start);
    let mut child = TestChild::loaded(engine);
    let mut request = engine::request("");
    request.prompt = Prompt::Chat(ChatPrompt {
        messages: vec![Message::user("hello")],
        ..ChatPrompt::default()
    });
    request.params.read_ahead = true;
    child.send(&Command::Generate {
        job: JobId(1),
        request: Box::new(request),
    });
    is_reached.recv().unwrap();
    resume.send(()).unwrap();
    assert_eq!(summary(&child.until(is_job_end)).reason, FinishReason::Stop);

    // Reading ahead has begun when a task comes.
    is_reached.recv().unwrap();
    child.send(&Command::Count {
        job: JobId(2),
        prompt: Box::new(Prompt::Text("12345".to_owned())),
    });
    child.ping();
    resume.send(()).unwrap();
    assert_eq!(summary(&child.until(is_job_end)).stats.prompt_tokens, 5);

    is_reached.recv().unwrap();
    child.send(&Command::Trim {
        trim: Trim::Everything,
    });
    child.ping();
    resume.send(()).unwrap();
    child.until(|report| matches!(report, Report::Trimmed { .. }));
    drop(resume);
    child.shut_down();
}
