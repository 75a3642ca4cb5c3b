//! KV caches that are saved by one process and restored in the next.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use transom_engine::{FinishReason, Limits, Role, TokenEvent, Trim};
use transom_engine_host::SavedFolder;

use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::Subject;

const SYSTEM: (Role, &str) = (Role::System, "You are brief and kind.");
const FIRST: (Role, &str) = (Role::User, "What is the tallest mountain on Earth?");
const SECOND: (Role, &str) = (Role::User, "And the deepest lake?");

/// Returns `folder` as one in which nothing is saved.
pub(crate) fn saved_folder(folder: &Path) -> SavedFolder {
    SavedFolder {
        path: folder.to_owned(),
        prefix: "x".to_owned(),
        conversations: Vec::new(),
    }
}

/// Starts a process with the model at `path`, which saves KV caches in a folder.
pub(crate) async fn start_saving(
    subject: &Subject,
    path: &Path,
    limits: &Limits,
    saved: &SavedFolder,
) -> TestProcess {
    let mut process = TestProcess::start(subject);
    process.load_with(path, limits, saved).await.unwrap();
    process
}

fn first() -> TestRequest {
    TestRequest::chat(&[SYSTEM, FIRST])
}

fn second(reply: &str) -> TestRequest {
    TestRequest::chat(&[SYSTEM, FIRST, (Role::Assistant, reply), SECOND])
}

/// Generates the response to the first turn with the model at `path`, saves the KV cache, and ends the
/// process.
async fn save_first_turn(subject: &Subject, path: &Path, saved: &mut SavedFolder) -> String {
    saved.conversations.clear();
    let mut process = start_saving(subject, path, &limits(1024), saved).await;
    let reply = process.generate(&first()).await.text();
    process.unload_to(saved).await;
    process.shut_down().await;
    let is_saved = !saved.conversations.is_empty();
    assert_eq!(is_saved, subject.saves_state.is_supported());
    reply
}

/// Returns the content of every file in the folder, by its name.
fn contents(saved: &SavedFolder) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(&saved.path).unwrap();
    let files = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    files.collect()
}

pub(crate) async fn a_saved_kv_cache_is_restored_in_a_new_process(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = saved_folder(folder.path());
    for model in [&subject.tiny, &subject.starter] {
        let mut unbroken = TestProcess::with(subject, model, &limits(1024)).await;
        let reply = unbroken.generate(&first()).await.text();
        let expected = unbroken.generate(&second(&reply)).await;
        unbroken.shut_down().await;

        assert_eq!(save_first_turn(subject, model, &mut saved).await, reply);
        for name in contents(&saved).keys() {
            let mode = fs::metadata(saved.path.join(name)).unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o600, "others can read it");
        }
        let mut process = start_saving(subject, model, &limits(1024), &saved).await;
        let response = process.generate(&second(&reply)).await;
        assert_eq!(response.full_text(), expected.full_text());
        let cached = response.started().cached_tokens;
        match subject.saves_state.is_supported() {
            true => assert_eq!(cached, expected.started().cached_tokens),
            false => assert_eq!(cached, 0),
        }
        process.shut_down().await;
    }
}

/// The model loads and generates as without the files.
pub(crate) async fn an_invalid_saved_kv_cache_is_ignored(subject: &Subject) {
    if !subject.saves_state.is_supported() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut saved = saved_folder(folder.path());
    let reply = save_first_turn(subject, &subject.tiny, &mut saved).await;
    let valid = saved.conversations.clone();
    let mut fresh = TestProcess::tiny(subject).await;
    let expected = fresh.text(&second(&reply)).await;
    fresh.shut_down().await;
    let whole = contents(&saved);
    // The description, the head, and the last block if there is one.
    let names: Vec<&String> = valid[0].files.iter().collect();
    let damaged = [names[0], names[1], names[names.len() - 1]];
    type Change = fn(&[u8]) -> Option<Vec<u8>>;
    let changes: [(&str, Change); 5] = [
        ("no file", |_| None),
        ("an empty file", |_| Some(Vec::new())),
        ("half a file", |bytes| {
            Some(bytes[..bytes.len() / 2].to_vec())
        }),
        ("more than the file", |bytes| {
            Some([bytes, b"more"].concat())
        }),
        ("one changed byte", |bytes| {
            let mut bytes = bytes.to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 0x55;
            Some(bytes)
        }),
    ];
    let check = async |saved: &SavedFolder, what: &str| {
        let mut process = start_saving(subject, &subject.tiny, &limits(1024), saved).await;
        let response = process.generate(&second(&reply)).await;
        assert_eq!(response.started().cached_tokens, 0, "{what} was restored");
        assert_eq!(response.full_text(), expected, "{what}");
        process.shut_down().await;
    };
    for (what, change) in changes {
        for name in damaged {
            for (name, bytes) in &whole {
                fs::write(saved.path.join(name), bytes).unwrap();
            }
            let path = saved.path.join(name);
            match change(&whole[name]) {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            check(&saved, &format!("{name}: {what}")).await;
        }
    }
    save_first_turn(subject, &subject.starter, &mut saved).await;
    check(&saved, "the KV cache of another model").await;
    // A valid one with more tokens than the context length.
    for (name, bytes) in &whole {
        fs::write(saved.path.join(name), bytes).unwrap();
    }
    saved.conversations = valid;
    let mut process = start_saving(subject, &subject.tiny, &limits(48), &saved).await;
    let request = TestRequest::text("hello").max_tokens(4);
    let response = process.generate(&request).await;
    assert_eq!(response.started().cached_tokens, 0);
    process.shut_down().await;
}

pub(crate) async fn an_empty_kv_cache_is_not_saved(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = saved_folder(folder.path());
    let tiny = &subject.tiny;
    let mut process = start_saving(subject, tiny, &limits(1024), &saved).await;
    process.unload_to(&mut saved).await;
    process.shut_down().await;
    assert!(
        saved.conversations.is_empty(),
        "an empty KV cache was saved"
    );

    let mut process = start_saving(subject, tiny, &limits(1024), &saved).await;
    process.generate(&first()).await.summary();
    process.trim(Trim::Everything).await;
    process.unload_to(&mut saved).await;
    process.shut_down().await;
    assert!(saved.conversations.is_empty(), "a freed KV cache was saved");

    // A folder that does not exist does not stop the unload.
    let mut nowhere = saved_folder(&folder.path().join("no/such/folder"));
    let mut process = start_saving(subject, tiny, &limits(1024), &nowhere).await;
    process.generate(&first()).await.summary();
    process.unload_to(&mut nowhere).await;
    process.shut_down().await;
    assert!(nowhere.conversations.is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// After a stop in prefill or decode, the tokens that were computed by then are valid and saved.
pub(crate) async fn the_kv_cache_of_a_stopped_response_is_saved(subject: &Subject) {
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
        let folder = tempfile::tempdir().unwrap();
        let mut saved = saved_folder(folder.path());
        let mut process = start_saving(subject, &subject.tiny, &limits(8192), &saved).await;
        let job = process.start_job(&request);
        process.until(is_reached).await;
        process.stop(Some(job), FinishReason::Shed);
        let stopped = process.response().await;
        let done = stopped.prefill.last().copied().unwrap_or_default();
        process.unload_to(&mut saved).await;
        process.shut_down().await;
        let mut process = start_saving(subject, &subject.tiny, &limits(8192), &saved).await;
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
