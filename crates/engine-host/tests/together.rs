//! Several jobs in the loop of the child: responses take turns, and everything else waits for them.
//!
//! Rule: no test waits for a time. A pong proves that the reader thread has handled everything that
//! was sent before the ping.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/child.rs"]
mod child;
#[path = "fixtures/engine.rs"]
mod engine;

use transom_engine::{EngineError, FinishReason, Prompt, TokenEvent};
use transom_engine_host::wire::{Command, JobId, Report};

use child::{TestChild, is_job_end, pausing_engine, stop, summary};
use engine::ModeEngine;

/// Returns the texts of the first `n` text events, each with its job.
fn first_texts(child: &mut TestChild, n: usize) -> Vec<(u64, String)> {
    let mut texts = Vec::new();
    while texts.len() < n {
        if let Report::Event {
            job,
            event: TokenEvent::Text { text, .. },
        } = child.next()
        {
            texts.push((job.0, text));
        }
    }
    texts
}

/// A short response does not wait for the end of a long one, and each is as it is alone.
#[test]
fn responses_are_generated_in_turns() {
    let mut child = TestChild::loaded(ModeEngine::new("endless"));
    child.send(&engine::generate(1, "hello"));
    first_texts(&mut child, 3);
    let mut short = engine::request(&"x".repeat(160));
    short.params.max_tokens = Some(5);
    child.send(&Command::Generate {
        job: JobId(2),
        request: Box::new(short),
    });
    let reports = child.until(is_job_end);
    assert!(matches!(
        reports.last(),
        Some(Report::JobEnded { job: JobId(2), .. })
    ));
    let of = |wanted: u64| {
        let texts = reports.iter().filter_map(move |report| match report {
            Report::Event {
                job: JobId(job),
                event: TokenEvent::Text { text, .. },
            } if *job == wanted => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<String>()
    };
    assert_eq!(of(2), "xxxxx");
    assert!(!of(1).is_empty(), "the long response stood still");
    assert_eq!(summary(&reports).reason, FinishReason::Length);
    assert_eq!(summary(&reports).stats.generated_tokens, 5);
    child.send(&stop(1, FinishReason::Canceled));
    let summary = summary(&child.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Canceled);
    child.shut_down();
}

/// The engine fails if the second one has a turn before it is stopped.
#[test]
fn a_response_whose_constraint_is_compiled_does_not_stop_another_one() {
    let mut child = TestChild::loaded(ModeEngine::new("endless:waiting"));
    child.send(&engine::generate(1, "hello"));
    first_texts(&mut child, 1);
    child.send(&engine::generate(2, "hello"));
    child.ping();
    let texts = first_texts(&mut child, 200);
    assert!(texts.iter().all(|(job, _)| *job == 1));
    child.send(&stop(2, FinishReason::Canceled));
    let reports = child.until(is_job_end);
    assert!(matches!(
        reports.last(),
        Some(Report::JobEnded { job: JobId(2), .. })
    ));
    assert_eq!(summary(&reports).reason, FinishReason::Canceled);
    assert_eq!(first_texts(&mut child, 1)[0].0, 1);
    child.send(&stop(1, FinishReason::Canceled));
    child.until(is_job_end);
    child.shut_down();
}

/// Both are running when the first one is stopped.
#[test]
fn a_stop_ends_one_of_two_running_responses_within_one_step() {
    let (engine, is_reached, resume) = pausing_engine("endless", engine::is_text);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    child.send(&engine::generate(2, "hello"));
    is_reached.recv().unwrap();
    child.send(&stop(1, FinishReason::Shed));
    child.ping();
    drop(resume);
    let reports = child.until(is_job_end);
    assert!(matches!(
        reports.last(),
        Some(Report::JobEnded { job: JobId(1), .. })
    ));
    let ended = summary(&reports);
    assert_eq!(ended.reason, FinishReason::Shed);
    assert!(ended.stats.generated_tokens <= 1, "{ended:?}");
    // The other one goes on.
    assert_eq!(first_texts(&mut child, 1)[0].0, 2);
    child.send(&engine::UNLOAD);
    let reports = child.until(|report| matches!(report, Report::Unloaded { .. }));
    let job_end = reports.iter().position(is_job_end);
    assert_eq!(job_end, Some(reports.len() - 2));
    child.shut_down();
}

#[test]
fn tokens_are_counted_while_a_response_runs() {
    let mut child = TestChild::loaded(ModeEngine::new("endless"));
    child.send(&engine::generate(1, "hello"));
    first_texts(&mut child, 1);
    child.send(&Command::Count {
        job: JobId(2),
        prompt: Box::new(Prompt::Text("four".to_owned())),
    });
    let reports = child.until(is_job_end);
    assert_eq!(summary(&reports).stats.prompt_tokens, 4);
    child.shut_down();
}

/// All of them are queued before the first one starts. The response has a step after each.
#[test]
fn a_response_goes_on_while_many_jobs_are_queued() {
    let (engine, is_reached, resume) = pausing_engine("flat:3", engine::is_text);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    for job in 2..=12 {
        child.send(&Command::Count {
            job: JobId(job),
            prompt: Box::new(Prompt::Text("four".to_owned())),
        });
    }
    let mut reports = child.ping();
    drop(resume);
    let is_last = |report: &Report| matches!(report, Report::JobEnded { job: JobId(12), .. });
    reports.extend(child.until(is_last));
    let is_own = |report: &Report| matches!(report, Report::JobEnded { job: JobId(1), .. });
    assert!(reports.iter().any(is_own), "it stood still");
    child.shut_down();
}

#[test]
fn a_response_that_gets_no_memory_ends_alone() {
    let mut child = TestChild::loaded(ModeEngine::new("endless:full"));
    child.send(&engine::generate(1, "hello"));
    first_texts(&mut child, 1);
    child.send(&engine::generate(2, "hello"));
    let reports = child.until(is_job_end);
    let is_broken = |report: &Report| matches!(report, Report::Broken { .. });
    assert!(!reports.iter().any(is_broken), "the model is not broken");
    let Some(Report::JobEnded { job, result }) = reports.last() else {
        panic!("{reports:?}");
    };
    assert_eq!(*job, JobId(2));
    assert!(matches!(result, Err(EngineError::Backend { .. })));
    assert_eq!(first_texts(&mut child, 1)[0].0, 1);
    child.send(&stop(1, FinishReason::Canceled));
    let ended = summary(&child.until(is_job_end));
    assert_eq!(ended.reason, FinishReason::Canceled);
    child.shut_down();
}

#[test]
fn a_model_that_breaks_ends_all_responses_with_the_error() {
    let (engine, is_reached, resume) = pausing_engine("backend-error", engine::is_text);
    let mut child = TestChild::loaded(engine);
    child.send(&engine::generate(1, "hello"));
    child.send(&engine::generate(2, "hello"));
    is_reached.recv().unwrap();
    child.ping();
    drop(resume);
    let mut ended = Vec::new();
    let mut n_broken = 0;
    while ended.len() < 2 {
        match child.next() {
            Report::Broken { .. } => n_broken += 1,
            Report::JobEnded { job, result } => {
                assert!(matches!(result, Err(EngineError::Backend { .. })));
                ended.push(job.0);
            }
            _ => {}
        }
    }
    ended.sort_unstable();
    assert_eq!((ended, n_broken), (vec![1, 2], 1));
    child.shut_down();
}

#[test]
fn a_model_that_generates_one_response_at_a_time_generates_them_in_order() {
    let mut child = TestChild::loaded(ModeEngine::new("alone"));
    child.send(&engine::generate(1, "hello"));
    child.send(&engine::generate(2, "hello"));
    for job in [1, 2] {
        let reports = child.until(is_job_end);
        let is_own = |report: &Report| matches!(report, Report::Event { job: JobId(it), .. } | Report::JobEnded { job: JobId(it), .. } if *it == job);
        assert!(reports.iter().all(is_own), "{reports:?}");
        assert_eq!(summary(&reports).stats.generated_tokens, 2);
    }
    child.shut_down();
}
