//! KV caches that are saved by one process and restored in the next.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use transom_engine::{FinishReason, Role, TokenEvent, Trim};
use transom_engine_host::{StateFile, StateKey};

use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::Subject;

const SYSTEM: (Role, &str) = (Role::System, "You are brief and kind.");
const FIRST: (Role, &str) = (Role::User, "What is the tallest mountain on Earth?");
const SECOND: (Role, &str) = (Role::User, "And the deepest lake?");

/// Returns a file in `folder`, with a new key.
pub(crate) fn state_file(folder: &Path) -> StateFile {
    StateFile {
        path: folder.join("state"),
        key: StateKey::random().unwrap(),
        max_bytes: 1 << 30,
    }
}

fn first() -> TestRequest {
    TestRequest::chat(&[SYSTEM, FIRST])
}

fn second(reply: &str) -> TestRequest {
    TestRequest::chat(&[SYSTEM, FIRST, (Role::Assistant, reply), SECOND])
}

/// Generates the response to the first turn with the model at `path`, saves the KV cache to
/// `state`, and ends the process.
async fn save_first_turn(subject: &Subject, path: &Path, state: &StateFile) -> String {
    let mut process = TestProcess::with(subject, path, &limits(1024)).await;
    let reply = process.generate(&first()).await.text();
    process.unload_to(Some(state)).await;
    process.shut_down().await;
    assert_eq!(state.path.exists(), subject.saves_state.is_supported());
    reply
}

pub(crate) async fn a_saved_kv_cache_is_restored_in_a_new_process(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let file = state_file(folder.path());
    let state = &file.path;
    for model in [&subject.tiny, &subject.starter] {
        let mut unbroken = TestProcess::with(subject, model, &limits(1024)).await;
        let reply = unbroken.generate(&first()).await.text();
        let expected = unbroken.generate(&second(&reply)).await;
        unbroken.shut_down().await;

        assert_eq!(save_first_turn(subject, model, &file).await, reply);
        if subject.saves_state.is_supported() {
            let mode = fs::metadata(state).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "others can read it");
        }
        let mut process = TestProcess::start(subject);
        let loaded = process
            .load_with(model, &limits(1024), &file)
            .await
            .unwrap();
        assert!(!state.exists(), "the file was not removed");
        let response = process.generate(&second(&reply)).await;
        assert_eq!(response.full_text(), expected.full_text());
        let cached = response.started().cached_tokens;
        if subject.saves_state.is_supported() {
            assert_eq!(cached, expected.started().cached_tokens);
            assert!(loaded.memory.kv_cache_bytes > 0);
        } else {
            assert_eq!(cached, 0);
        }
        process.shut_down().await;
    }
}

/// The model loads and generates as without the file. The file is removed, so it is read only once.
pub(crate) async fn an_invalid_saved_kv_cache_is_ignored_and_removed(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let file = state_file(folder.path());
    let state = &file.path;
    let reply = save_first_turn(subject, &subject.tiny, &file).await;
    let mut fresh = TestProcess::tiny(subject).await;
    let expected = fresh.text(&second(&reply)).await;
    fresh.shut_down().await;
    let saved = fs::read(state).unwrap_or_default();
    save_first_turn(subject, &subject.starter, &file).await;
    let of_another_model = fs::read(state).unwrap_or_default();
    let mut flipped = saved.clone();
    if let Some(byte) = flipped.last_mut() {
        *byte ^= 0x55;
    }
    let models = [
        ("an empty file", Some(Vec::new())),
        (
            "noise",
            Some((0..5000_u32).map(|n| ((n * n) >> 3) as u8).collect()),
        ),
        ("half a file", Some(saved[..saved.len() / 2].to_vec())),
        (
            "more than the file",
            Some([saved.as_slice(), b"more"].concat()),
        ),
        ("one changed byte", Some(flipped)),
        ("the state of another model", Some(of_another_model)),
        ("no file", None),
    ];
    for (name, bytes) in models {
        match bytes {
            Some(bytes) => fs::write(state, bytes).unwrap(),
            None => assert!(!state.exists()),
        }
        let mut process = TestProcess::start(subject);
        let loaded = process.load_with(&subject.tiny, &limits(1024), &file).await;
        assert!(loaded.is_ok(), "{name}: {:?}", loaded.err());
        assert!(!state.exists(), "{name} is still there");
        let response = process.generate(&second(&reply)).await;
        assert_eq!(response.started().cached_tokens, 0, "{name} was restored");
        assert_eq!(response.full_text(), expected, "{name}");
        process.shut_down().await;
    }
    // A valid file with more tokens than the context length.
    fs::write(state, saved).unwrap();
    let mut process = TestProcess::start(subject);
    process
        .load_with(&subject.tiny, &limits(48), &file)
        .await
        .unwrap();
    let response = process
        .generate(&TestRequest::text("hello").max_tokens(4))
        .await;
    assert_eq!(response.started().cached_tokens, 0);
    process.shut_down().await;
}

pub(crate) async fn an_empty_kv_cache_is_not_saved(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let file = state_file(folder.path());
    let state = &file.path;
    let mut process = TestProcess::tiny(subject).await;
    process.unload_to(Some(&file)).await;
    process.shut_down().await;
    assert!(!state.exists(), "an empty KV cache was saved");

    let mut process = TestProcess::tiny(subject).await;
    process.generate(&first()).await.summary();
    process.trim(Trim::Everything).await;
    process.unload_to(Some(&file)).await;
    process.shut_down().await;
    assert!(!state.exists(), "a freed KV cache was saved");

    // A path that cannot be written does not stop the unload.
    let mut process = TestProcess::tiny(subject).await;
    process.generate(&first()).await.summary();
    process
        .unload_to(Some(&state_file(&folder.path().join("no/such/folder"))))
        .await;
    process.shut_down().await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// After a stop in prefill or decode, the tokens that were computed by then are valid and saved.
pub(crate) async fn the_kv_cache_of_a_stopped_response_is_saved(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let file = state_file(folder.path());
    let tokens = |n_tokens| (0..n_tokens).map(|n: u32| (n * 7 + n / 11) % 200);
    let next = TestRequest::tokens(tokens(3000)).max_tokens(8);
    let mut fresh = TestProcess::tiny(subject).await;
    let expected = fresh.text(&next).await;
    fresh.shut_down().await;
    let in_prefill =
        TestRequest::tokens(tokens(4000)).params(|params| params.prefill_chunk = Some(1));
    let in_decode = TestRequest::tokens(tokens(100)).endless();
    for (request, is_reached) in [
        (
            in_prefill,
            (|event| matches!(event, TokenEvent::Prefill { .. })) as fn(&TokenEvent) -> bool,
        ),
        (in_decode, |event| matches!(event, TokenEvent::Text { .. })),
    ] {
        let mut process = TestProcess::tiny(subject).await;
        let job = process.start_job(&request);
        process.until(is_reached).await;
        process.stop(Some(job), FinishReason::Shed);
        let stopped = process.response().await;
        let done = stopped.prefill.last().copied().unwrap_or_default();
        process.unload_to(Some(&file)).await;
        process.shut_down().await;
        let mut process = TestProcess::start(subject);
        process
            .load_with(&subject.tiny, &limits(8192), &file)
            .await
            .unwrap();
        let response = process.generate(&next).await;
        assert_eq!(response.full_text(), expected);
        let cached = response.started().cached_tokens;
        match subject.saves_state.is_supported() {
            true => assert!(cached > 0 && cached <= done, "{cached} of {done}"),
            false => assert_eq!(cached, 0),
        }
        process.shut_down().await;
    }
}
