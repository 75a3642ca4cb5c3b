//! Processes that come and go, as told and otherwise.

use rustix::process::{Signal, kill_process};
use transom_engine::TokenEvent;
use transom_engine_host::WorkerEnd;

use crate::ask::Ask;
use crate::subject::Subject;
use crate::talk::{Talk, limits};

/// By which footprints of equal processes differ: what else the machine does, and page tables.
const NOISE_BYTES: u64 = 16 << 20;

/// A process holds one model, so each load is a process; all of them cost the same.
pub(crate) async fn twenty_loads_leave_no_growth(subject: &Subject) {
    let mut footprints = Vec::new();
    let mut texts = Vec::new();
    for _ in 0..20 {
        let mut talk = Talk::start(subject);
        let loaded = talk.load(&subject.tiny, &limits(256)).await.unwrap();
        texts.push(talk.text(&Ask::text("hello").max_tokens(8)).await);
        let unloaded = talk.unload().await;
        if let (Some(load), Some(unload)) = (loaded.footprint, unloaded) {
            footprints.push([load.loaded_bytes, unload.loaded_bytes, unload.after_bytes]);
        }
        talk.leave().await;
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    if cfg!(any(target_os = "linux", target_os = "macos")) {
        assert_eq!(footprints.len(), 20, "this system tells footprints");
    }
    for footprint in &footprints {
        for (bytes, first) in footprint.iter().zip(footprints[0]) {
            assert!(*bytes <= first + NOISE_BYTES, "{footprints:?}");
        }
    }
}

pub(crate) async fn an_unload_gives_the_footprint_back(subject: &Subject) {
    let mut talk = Talk::start(subject);
    let loaded = talk.load(&subject.starter, &limits(2048)).await.unwrap();
    talk.text(&Ask::user("Tell me about rivers.").max_tokens(8))
        .await;
    let unloaded = talk.unload().await;
    if let (Some(load), Some(unload)) = (loaded.footprint, unloaded) {
        let taken = unload.loaded_bytes.saturating_sub(load.before_bytes);
        let left = unload.after_bytes.saturating_sub(load.before_bytes);
        assert!(
            left <= (taken / 10).max(NOISE_BYTES),
            "{left} of {taken} left"
        );
    }
    // And the process's end gives back all; `leave` waits until it is reaped.
    talk.leave().await;
}

pub(crate) async fn one_model_after_another_answers_as_if_alone(subject: &Subject) {
    let ask = Ask::user("What is a haiku?").max_tokens(8);
    let mut texts = Vec::new();
    for model in [&subject.starter, &subject.tiny, &subject.starter] {
        let mut talk = Talk::with(subject, model, &limits(512)).await;
        texts.push(talk.text(&ask).await);
        talk.unload().await;
        talk.leave().await;
    }
    assert_eq!(texts[0], texts[2]);
    assert_ne!(texts[0], texts[1]);
}

/// A process in the middle of an answer that has no end.
async fn answering(subject: &Subject) -> Talk {
    let mut talk = Talk::tiny(subject).await;
    talk.begin(&Ask::text("On and on").endless());
    talk.until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    talk
}

/// The end is told once: `Talk::end` sees to that.
pub(crate) async fn a_process_killed_in_mid_answer_is_reported_once_and_replaced(
    subject: &Subject,
) {
    let mut fresh = Talk::tiny(subject).await;
    let expected = fresh.text(&Ask::text("hello")).await;
    fresh.leave().await;

    let mut talk = answering(subject).await;
    talk.kill();
    assert_eq!(talk.end().await.0, WorkerEnd::AsTold);

    let mut talk = answering(subject).await;
    kill_process(talk.process_id(), Signal::KILL).unwrap();
    let (end, _) = talk.end().await;
    let WorkerEnd::Died { how, .. } = end else {
        panic!("{end:?}")
    };
    assert_eq!(how, "killed by signal 9 (SIGKILL)");

    let mut next = Talk::tiny(subject).await;
    assert_eq!(next.text(&Ask::text("hello")).await, expected);
    next.leave().await;
}

/// A failed assertion of a native library is this signal.
pub(crate) async fn an_abort_of_the_library_ends_only_its_process(subject: &Subject) {
    let mut bystander = Talk::tiny(subject).await;
    let mut talk = answering(subject).await;
    kill_process(talk.process_id(), Signal::ABORT).unwrap();
    let (end, _) = talk.end().await;
    let WorkerEnd::Died { how, .. } = end else {
        panic!("{end:?}")
    };
    assert_eq!(how, "killed by signal 6 (SIGABRT)");
    assert!(!bystander.text(&Ask::text("hello")).await.is_empty());
    bystander.leave().await;
}
