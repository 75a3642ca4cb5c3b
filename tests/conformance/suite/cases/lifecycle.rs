//! Processes that exit: on request, by a kill, or by a crash.

use rustix::process::{Signal, kill_process};
use transom_engine::TokenEvent;
use transom_engine_host::WorkerEnd;

use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::Subject;

/// Difference between the footprints of equal processes, due to page tables and other load.
const NOISE_BYTES: u64 = 16 << 20;

/// Each load is a new process, because a process holds one model. All must have the same footprint.
pub(crate) async fn twenty_loads_do_not_grow_the_footprint(subject: &Subject) {
    let mut footprints = Vec::new();
    let mut texts = Vec::new();
    for _ in 0..20 {
        let mut process = TestProcess::start(subject);
        let loaded = process.load(&subject.tiny, &limits(256)).await.unwrap();
        texts.push(
            process
                .text(&TestRequest::text("hello").max_tokens(8))
                .await,
        );
        let unloaded = process.unload().await;
        if let (Some(load), Some(unload)) = (loaded.footprint, unloaded) {
            footprints.push([load.loaded_bytes, unload.loaded_bytes, unload.after_bytes]);
        }
        process.shut_down().await;
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    if cfg!(any(target_os = "linux", target_os = "macos")) {
        assert_eq!(footprints.len(), 20, "this system reports footprints");
    }
    for footprint in &footprints {
        for (bytes, first) in footprint.iter().zip(footprints[0]) {
            assert!(*bytes <= first + NOISE_BYTES, "{footprints:?}");
        }
    }
}

pub(crate) async fn an_unload_frees_the_memory(subject: &Subject) {
    let mut process = TestProcess::start(subject);
    let loaded = process.load(&subject.starter, &limits(2048)).await.unwrap();
    process
        .text(&TestRequest::user("Tell me about rivers.").max_tokens(8))
        .await;
    let unloaded = process.unload().await;
    if let (Some(load), Some(unload)) = (loaded.footprint, unloaded) {
        let taken = unload.loaded_bytes.saturating_sub(load.before_bytes);
        let left = unload.after_bytes.saturating_sub(load.before_bytes);
        assert!(
            left <= (taken / 10).max(NOISE_BYTES),
            "{left} of {taken} left"
        );
    }
    // The exit of the process frees the rest; `shut_down` waits until it is reaped.
    process.shut_down().await;
}

pub(crate) async fn models_in_turn_generate_the_same_as_alone(subject: &Subject) {
    let request = TestRequest::user("What is a haiku?").max_tokens(8);
    let mut texts = Vec::new();
    for model in [&subject.starter, &subject.tiny, &subject.starter] {
        let mut process = TestProcess::with(subject, model, &limits(512)).await;
        texts.push(process.text(&request).await);
        process.unload().await;
        process.shut_down().await;
    }
    assert_eq!(texts[0], texts[2]);
    assert_ne!(texts[0], texts[1]);
}

/// Starts a process with a running endless response.
async fn generating(subject: &Subject) -> TestProcess {
    let mut process = TestProcess::tiny(subject).await;
    process.start_job(&TestRequest::text("On and on").endless());
    process
        .until(|event| matches!(event, TokenEvent::Text { .. }))
        .await;
    process
}

/// `TestProcess::end` checks that the end is reported once.
pub(crate) async fn a_killed_process_is_reported_once_and_can_be_replaced(subject: &Subject) {
    let mut fresh = TestProcess::tiny(subject).await;
    let expected = fresh.text(&TestRequest::text("hello")).await;
    fresh.shut_down().await;

    let mut process = generating(subject).await;
    process.kill();
    assert_eq!(process.end().await.0, WorkerEnd::Requested);

    let mut process = generating(subject).await;
    kill_process(process.process_id(), Signal::KILL).unwrap();
    let (end, _) = process.end().await;
    let WorkerEnd::Died { how, .. } = end else {
        panic!("{end:?}")
    };
    assert_eq!(how, "killed by signal 9 (SIGKILL)");

    let mut next = TestProcess::tiny(subject).await;
    assert_eq!(next.text(&TestRequest::text("hello")).await, expected);
    next.shut_down().await;
}

/// A failed assertion of a native library raises this signal.
pub(crate) async fn an_abort_of_a_native_library_ends_only_its_process(subject: &Subject) {
    let mut bystander = TestProcess::tiny(subject).await;
    let mut process = generating(subject).await;
    kill_process(process.process_id(), Signal::ABORT).unwrap();
    let (end, _) = process.end().await;
    let WorkerEnd::Died { how, .. } = end else {
        panic!("{end:?}")
    };
    assert_eq!(how, "killed by signal 6 (SIGABRT)");
    assert!(!bystander.text(&TestRequest::text("hello")).await.is_empty());
    bystander.shut_down().await;
}
