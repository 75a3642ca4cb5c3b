//! Conversations that outlive their process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use transom_engine::{FinishReason, Role, TokenEvent, Trim};

use crate::ask::Ask;
use crate::subject::Subject;
use crate::talk::{Talk, limits};

const SYSTEM: (Role, &str) = (Role::System, "You are brief and kind.");
const FIRST: (Role, &str) = (Role::User, "What is the tallest mountain on Earth?");
const SECOND: (Role, &str) = (Role::User, "And the deepest lake?");

fn first() -> Ask {
    Ask::chat(&[SYSTEM, FIRST])
}

fn second(said: &str) -> Ask {
    Ask::chat(&[SYSTEM, FIRST, (Role::Assistant, said), SECOND])
}

/// Answers the first turn with the model at `path`, keeps it in `state`, and ends the process.
async fn keep(subject: &Subject, path: &Path, state: &Path) -> String {
    let mut talk = Talk::with(subject, path, &limits(1024)).await;
    let said = talk.ask(&first()).await.text();
    talk.unload_to(Some(state)).await;
    talk.leave().await;
    assert_eq!(state.exists(), subject.keeps_state.does());
    said
}

/// D041
pub(crate) async fn a_kept_conversation_goes_on_in_a_new_process(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    for model in [&subject.tiny, &subject.starter] {
        let mut unbroken = Talk::with(subject, model, &limits(1024)).await;
        let said = unbroken.ask(&first()).await.text();
        let expected = unbroken.ask(&second(&said)).await;
        unbroken.leave().await;

        assert_eq!(keep(subject, model, &state).await, said);
        if subject.keeps_state.does() {
            let mode = fs::metadata(&state).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "others can read it");
        }
        let mut talk = Talk::start(subject);
        let loaded = talk.load_with(model, &limits(1024), &state).await.unwrap();
        assert!(!state.exists(), "it could be taken up twice");
        let answer = talk.ask(&second(&said)).await;
        assert_eq!(answer.everything(), expected.everything());
        let cached = answer.started().cached_tokens;
        if subject.keeps_state.does() {
            assert_eq!(cached, expected.started().cached_tokens);
            assert!(loaded.memory.kv_cache_bytes > 0);
        } else {
            assert_eq!(cached, 0);
        }
        talk.leave().await;
    }
}

/// The model is loaded and answers as if the file had not been there; and the file is gone, so that
/// it cannot do harm twice.
pub(crate) async fn a_file_that_is_no_kept_conversation_does_no_harm(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let said = keep(subject, &subject.tiny, &state).await;
    let mut fresh = Talk::tiny(subject).await;
    let expected = fresh.text(&second(&said)).await;
    fresh.leave().await;
    let kept = fs::read(&state).unwrap_or_default();
    keep(subject, &subject.starter, &state).await;
    let of_another_model = fs::read(&state).unwrap_or_default();
    let mut flipped = kept.clone();
    if let Some(byte) = flipped.last_mut() {
        *byte ^= 0x55;
    }
    let files = [
        ("an empty file", Some(Vec::new())),
        (
            "noise",
            Some((0..5000_u32).map(|n| ((n * n) >> 3) as u8).collect()),
        ),
        ("half a file", Some(kept[..kept.len() / 2].to_vec())),
        (
            "more than the file",
            Some([kept.as_slice(), b"more"].concat()),
        ),
        ("one changed byte", Some(flipped)),
        ("the state of another model", Some(of_another_model)),
        ("no file", None),
    ];
    for (what, bytes) in files {
        match bytes {
            Some(bytes) => fs::write(&state, bytes).unwrap(),
            None => assert!(!state.exists()),
        }
        let mut talk = Talk::start(subject);
        let loaded = talk.load_with(&subject.tiny, &limits(1024), &state).await;
        assert!(loaded.is_ok(), "{what}: {:?}", loaded.err());
        assert!(!state.exists(), "{what} is still there");
        let answer = talk.ask(&second(&said)).await;
        assert_eq!(answer.started().cached_tokens, 0, "{what} was believed");
        assert_eq!(answer.everything(), expected, "{what}");
        talk.leave().await;
    }
    // A sound one of more tokens than the context now holds.
    fs::write(&state, kept).unwrap();
    let mut talk = Talk::start(subject);
    talk.load_with(&subject.tiny, &limits(48), &state)
        .await
        .unwrap();
    let answer = talk.ask(&Ask::text("hello").max_tokens(4)).await;
    assert_eq!(answer.started().cached_tokens, 0);
    talk.leave().await;
}

pub(crate) async fn nothing_is_kept_of_nothing(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut talk = Talk::tiny(subject).await;
    talk.unload_to(Some(&state)).await;
    talk.leave().await;
    assert!(!state.exists(), "a conversation that never was");

    let mut talk = Talk::tiny(subject).await;
    talk.ask(&first()).await.summary();
    talk.trim(Trim::Everything).await;
    talk.unload_to(Some(&state)).await;
    talk.leave().await;
    assert!(!state.exists(), "a conversation that was forgotten");

    // A place that cannot be written to does not stop the unload.
    let mut talk = Talk::tiny(subject).await;
    talk.ask(&first()).await.summary();
    talk.unload_to(Some(&folder.path().join("no/such/folder/state")))
        .await;
    talk.leave().await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Stopped in prefill or in decode: what was computed by then is sound, and is all that is kept.
pub(crate) async fn an_answer_that_was_stopped_is_kept_as_far_as_it_came(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let tokens = |n_tokens| (0..n_tokens).map(|n: u32| (n * 7 + n / 11) % 200);
    let next = Ask::tokens(tokens(3000)).max_tokens(8);
    let mut fresh = Talk::tiny(subject).await;
    let expected = fresh.text(&next).await;
    fresh.leave().await;
    let in_prefill = Ask::tokens(tokens(4000)).params(|params| params.prefill_chunk = Some(1));
    let in_decode = Ask::tokens(tokens(100)).endless();
    for (ask, is_reached) in [
        (
            in_prefill,
            (|event| matches!(event, TokenEvent::Prefill { .. })) as fn(&TokenEvent) -> bool,
        ),
        (in_decode, |event| matches!(event, TokenEvent::Text { .. })),
    ] {
        let mut talk = Talk::tiny(subject).await;
        let job = talk.begin(&ask);
        talk.until(is_reached).await;
        talk.stop(Some(job), FinishReason::Shed);
        let stopped = talk.answer().await;
        let done = stopped.prefill.last().copied().unwrap_or_default();
        talk.unload_to(Some(&state)).await;
        talk.leave().await;
        let mut talk = Talk::start(subject);
        talk.load_with(&subject.tiny, &limits(8192), &state)
            .await
            .unwrap();
        let answer = talk.ask(&next).await;
        assert_eq!(answer.everything(), expected);
        let cached = answer.started().cached_tokens;
        match subject.keeps_state.does() {
            true => assert!(cached > 0 && cached <= done, "{cached} of {done}"),
            false => assert_eq!(cached, 0),
        }
        talk.leave().await;
    }
}
