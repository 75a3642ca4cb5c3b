//! Answers that are told to end: when, how, and what the next one finds.
//!
//! They are the starter's, because the tiny model may be done before it is told to end.

use transom_engine::{FinishReason, TokenEvent};
use transom_engine_host::wire::{Command, Report};

use crate::ask::Ask;
use crate::subject::Subject;
use crate::talk::{Talk, limits};

const REASONS: [FinishReason; 2] = [FinishReason::Canceled, FinishReason::Shed];

/// Tokens of a prompt whose beginning is always the same.
fn prompt(n_tokens: u32) -> impl Iterator<Item = u32> {
    (0..n_tokens).map(|n| 300 + (n * 37) % 5000)
}

pub(crate) async fn a_stop_in_prefill_ends_it_and_the_next_answer_is_right(subject: &Subject) {
    let long = Ask::tokens(prompt(1900)).params(|params| params.prefill_chunk = Some(1));
    let next = Ask::tokens(prompt(200)).max_tokens(8);
    let mut fresh = Talk::starter(subject).await;
    let expected = fresh.text(&next).await;
    fresh.leave().await;
    for reason in REASONS {
        let mut talk = Talk::starter(subject).await;
        let job = talk.begin(&long);
        talk.until(|event| matches!(event, TokenEvent::Prefill { .. }))
            .await;
        talk.stop(Some(job), reason);
        let answer = talk.answer().await;
        assert_eq!(answer.reason(), reason);
        assert_eq!(answer.stats().generated_tokens, 0);
        assert_eq!(answer.everything(), "");
        let done = *answer.prefill.last().unwrap();
        assert!(done < 1900, "prefill went on to its end");
        let after = talk.ask(&next).await;
        let cached = after.started().cached_tokens;
        assert!(cached <= done.min(199), "{cached} cached of {done} done");
        assert_eq!(after.everything(), expected);
        talk.leave().await;
    }
}

/// Where a step can be stopped inside, nothing of it is taken for done.
pub(crate) async fn a_stop_inside_a_long_step_leaves_the_cache_sound(subject: &Subject) {
    let short = Ask::tokens(prompt(60)).max_tokens(8);
    let next = Ask::tokens(prompt(300)).max_tokens(8);
    let mut fresh = Talk::starter(subject).await;
    let expected = [fresh.text(&short).await, fresh.text(&next).await];
    fresh.leave().await;

    // With as many threads as the product takes.
    let mut talk = Talk::start_with("every");
    talk.load(&subject.starter, &limits(8192)).await.unwrap();
    assert_eq!(talk.text(&short).await, expected[0]);
    let job = talk.begin(&Ask::tokens(prompt(1500)));
    talk.until(|event| matches!(event, TokenEvent::Started { .. }))
        .await;
    talk.stop(Some(job), FinishReason::Canceled);
    let answer = talk.answer().await;
    assert_eq!(answer.reason(), FinishReason::Canceled);
    assert!(answer.prefill.last().is_none_or(|done| *done < 1500));
    let after = talk.ask(&next).await;
    assert_eq!(after.everything(), expected[1]);
    let cached = after.started().cached_tokens;
    assert!(
        cached + subject.reuse_slack >= 60,
        "{cached} of 60 that were sound"
    );
    talk.leave().await;
}

pub(crate) async fn a_stop_in_decode_ends_it_and_the_next_answer_is_right(subject: &Subject) {
    let endless = Ask::text("On and on").endless();
    let mut fresh = Talk::starter(subject).await;
    let expected = fresh.text(&Ask::text("On and on")).await;
    fresh.leave().await;
    let mut talk = Talk::starter(subject).await;
    for reason in REASONS {
        let job = talk.begin(&endless);
        talk.until(|event| matches!(event, TokenEvent::Text { .. }))
            .await;
        talk.stop(Some(job), reason);
        let answer = talk.answer().await;
        assert_eq!(answer.reason(), reason);
        let generated = answer.stats().generated_tokens;
        assert!((1..2000).contains(&generated), "{generated} tokens");
        assert!(!answer.everything().is_empty());
        assert_eq!(talk.text(&Ask::text("On and on")).await, expected);
        // A stop that comes too late ends nothing else.
        talk.stop(Some(job), reason);
        assert_eq!(talk.text(&Ask::text("On and on")).await, expected);
    }
    talk.leave().await;
}

/// The second job is stopped while the first one runs.
pub(crate) async fn a_stop_before_the_start_leaves_nothing_done(subject: &Subject) {
    let mut talk = Talk::starter(subject).await;
    let endless = Ask::text("On and on").endless();
    for reason in REASONS {
        let first = talk.begin(&endless);
        let second = talk.queue(&endless);
        talk.stop(Some(second), reason);
        talk.until(|event| matches!(event, TokenEvent::Text { .. }))
            .await;
        talk.stop(Some(first), FinishReason::Canceled);
        assert_eq!(talk.answer().await.reason(), FinishReason::Canceled);
        talk.turn_to(second, &endless);
        let answer = talk.answer().await;
        assert_eq!(answer.reason(), reason);
        assert!(answer.started.is_none(), "it began all the same");
    }
    talk.leave().await;
}

pub(crate) async fn an_unload_ends_a_running_answer(subject: &Subject) {
    let mut talk = Talk::starter(subject).await;
    talk.begin(&Ask::text("On and on").endless());
    talk.until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    talk.send(Command::Unload { state: None });
    let answer = talk.answer().await;
    assert_eq!(answer.reason(), FinishReason::Canceled);
    let report = talk.report().await;
    assert!(matches!(report, Report::Unloaded { .. }), "{report:?}");
    talk.leave().await;
}
