//! Stopping jobs: when and how they end, and what the next one finds in the cache.
//!
//! These cases use the starter model, because the tiny model may finish before the stop.

use transom_engine::{FinishReason, TokenEvent, Trim};
use transom_engine_host::wire::{Command, Report};

use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::Subject;

const REASONS: [FinishReason; 2] = [FinishReason::Canceled, FinishReason::Shed];

/// Returns the tokens of a prompt; shorter prompts are prefixes of longer ones.
fn prompt(n_tokens: u32) -> impl Iterator<Item = u32> {
    (0..n_tokens).map(|n| 300 + (n * 37) % 5000)
}

pub(crate) async fn a_stop_in_prefill_ends_it_and_the_next_response_is_correct(subject: &Subject) {
    let long = TestRequest::tokens(prompt(1900)).params(|params| params.prefill_chunk = Some(1));
    let next = TestRequest::tokens(prompt(200)).max_tokens(8);
    let mut fresh = TestProcess::starter(subject).await;
    let expected = fresh.text(&next).await;
    fresh.shut_down().await;
    for reason in REASONS {
        let mut process = TestProcess::starter(subject).await;
        let job = process.start_job(&long);
        process
            .until(|event| matches!(event, TokenEvent::Prefill { .. }))
            .await;
        process.stop(Some(job), reason);
        let response = process.response().await;
        assert_eq!(response.reason(), reason);
        assert_eq!(response.stats().generated_tokens, 0);
        assert_eq!(response.full_text(), "");
        let done = *response.prefill.last().unwrap();
        assert!(done < 1900, "prefill was not stopped");
        let after = process.generate(&next).await;
        let cached = after.started().cached_tokens;
        assert!(cached <= done.min(199), "{cached} cached of {done} done");
        assert_eq!(after.full_text(), expected);
        process.shut_down().await;
    }
}

/// If a step can be stopped within, none of its tokens count as computed.
pub(crate) async fn a_stop_within_a_long_step_keeps_the_cache_valid(subject: &Subject) {
    let short = TestRequest::tokens(prompt(60)).max_tokens(8);
    let next = TestRequest::tokens(prompt(300)).max_tokens(8);
    let mut fresh = TestProcess::starter(subject).await;
    let expected = [fresh.text(&short).await, fresh.text(&next).await];
    fresh.shut_down().await;

    // With as many threads as the product uses.
    let mut process = TestProcess::start_with("every");
    process.load(&subject.starter, &limits(8192)).await.unwrap();
    assert_eq!(process.text(&short).await, expected[0]);
    let job = process.start_job(&TestRequest::tokens(prompt(1500)));
    process
        .until(|event| matches!(event, TokenEvent::Started { .. }))
        .await;
    process.stop(Some(job), FinishReason::Canceled);
    let response = process.response().await;
    assert_eq!(response.reason(), FinishReason::Canceled);
    assert!(response.prefill.last().is_none_or(|done| *done < 1500));
    let after = process.generate(&next).await;
    assert_eq!(after.full_text(), expected[1]);
    let cached = after.started().cached_tokens;
    assert!(
        cached + subject.reuse_slack >= 60,
        "{cached} of 60 valid tokens"
    );
    process.shut_down().await;
}

pub(crate) async fn a_stop_in_decode_ends_it_and_the_next_response_is_correct(subject: &Subject) {
    let endless = TestRequest::text("On and on").endless();
    let mut fresh = TestProcess::starter(subject).await;
    let expected = fresh.text(&TestRequest::text("On and on")).await;
    fresh.shut_down().await;
    let mut process = TestProcess::starter(subject).await;
    for reason in REASONS {
        let job = process.start_job(&endless);
        process
            .until(|event| matches!(event, TokenEvent::Text { .. }))
            .await;
        process.stop(Some(job), reason);
        let response = process.response().await;
        assert_eq!(response.reason(), reason);
        let generated = response.stats().generated_tokens;
        assert!((1..2000).contains(&generated), "{generated} tokens");
        assert!(!response.full_text().is_empty());
        assert_eq!(
            process.text(&TestRequest::text("On and on")).await,
            expected
        );
        // A late stop does not stop another job.
        process.stop(Some(job), reason);
        assert_eq!(
            process.text(&TestRequest::text("On and on")).await,
            expected
        );
    }
    process.shut_down().await;
}

/// The second job is stopped while the first one runs.
pub(crate) async fn a_job_stopped_in_the_queue_does_no_work(subject: &Subject) {
    let mut process = TestProcess::starter(subject).await;
    let endless = TestRequest::text("On and on").endless();
    for reason in REASONS {
        let first = process.start_job(&endless);
        // The second job waits behind the trim, and the trim for the first job.
        let trim = Trim::KeepConversation;
        process.send(Command::Trim { trim });
        let second = process.queue_job(&endless);
        process.stop(Some(second), reason);
        process
            .until(|event| matches!(event, TokenEvent::Text { .. }))
            .await;
        process.stop(Some(first), FinishReason::Canceled);
        assert_eq!(process.response().await.reason(), FinishReason::Canceled);
        process.trim_result().await;
        process.expect_job(second, &endless);
        let response = process.response().await;
        assert_eq!(response.reason(), reason);
        assert!(response.started.is_none(), "it was started");
    }
    process.shut_down().await;
}

pub(crate) async fn an_unload_ends_a_running_response(subject: &Subject) {
    let mut process = TestProcess::starter(subject).await;
    process.start_job(&TestRequest::text("On and on").endless());
    process
        .until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    process.send(Command::Unload { save: None });
    let response = process.response().await;
    assert_eq!(response.reason(), FinishReason::Canceled);
    let report = process.report().await;
    assert!(matches!(report, Report::Unloaded { .. }), "{report:?}");
    process.shut_down().await;
}
