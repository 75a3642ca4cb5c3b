//! Saving the KV cache in one child process and restoring it in the next.
//!
//! Rule: whatever goes wrong, the model loads and unloads, and no file is read twice.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/test_worker.rs"]
mod test_worker;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use transom_engine_host::wire::{Command, Report};
use transom_engine_host::{StateFile, StateKey, WorkerEnd, remove_leftovers};

use test_worker::{TestWorker, workers};

/// Returns a new folder and a file for saved KV caches in it.
fn state_file() -> (TempDir, StateFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile {
        path: folder.path().join("conversations"),
        key: StateKey::random().unwrap(),
        max_bytes: 1 << 20,
    };
    (folder, file)
}

/// Returns a file with the KV cache of a response.
async fn saved_state() -> (TempDir, StateFile) {
    let (folder, file) = state_file();
    let (mut worker, _) = load("answer", &file).await;
    generate(&mut worker).await;
    unload(worker, &file).await;
    assert_eq!(n_files(&folder), 1);
    (folder, file)
}

fn n_files(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = timeout(Duration::from_secs(60), work).await;
    done.expect("it ends in time")
}

/// Starts a worker in `mode` and loads with the KV caches in `file`. Returns the number of restored
/// tokens or the error of the load.
async fn load(mode: &str, file: &StateFile) -> (TestWorker, Result<usize, String>) {
    let mut worker = TestWorker::start(&workers(mode));
    worker.send(engine::load_of("model", Some(file.clone())));
    let is_end =
        |report: &Report| matches!(report, Report::Loaded { .. } | Report::LoadFailed { .. });
    let loaded = match in_time(worker.until(is_end)).await {
        Report::Loaded {
            restored_tokens, ..
        } => Ok(restored_tokens),
        Report::LoadFailed { error } => Err(error.to_string()),
        other => panic!("{other:?}"),
    };
    (worker, loaded)
}

/// Unloads with the KV caches saved to `file`, and ends the worker.
async fn unload(mut worker: TestWorker, file: &StateFile) {
    let state = Some(file.clone());
    worker.send(Command::Unload { state });
    in_time(worker.until(|report| matches!(report, Report::Unloaded { .. }))).await;
    assert_eq!(in_time(worker.shut_down()).await, WorkerEnd::Requested);
}

async fn generate(worker: &mut TestWorker) {
    worker.send(engine::generate(1, "hi"));
    in_time(worker.job_end()).await.unwrap();
}

#[tokio::test]
async fn the_next_process_restores_the_saved_kv_cache() {
    let (folder, file) = saved_state().await;
    let mode = fs::metadata(&file.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (worker, loaded) = load("answer", &file).await;
    assert_eq!(
        loaded,
        Ok(4),
        "two tokens of the prompt and two of the response"
    );
    assert_eq!(n_files(&folder), 0, "it is restored once");
    unload(worker, &file).await;
    assert_eq!(n_files(&folder), 1);
}

#[tokio::test]
async fn an_empty_kv_cache_is_not_saved() {
    let (folder, file) = state_file();
    let (worker, loaded) = load("answer", &file).await;
    assert_eq!(loaded, Ok(0));
    unload(worker, &file).await;
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_kv_cache_that_exceeds_the_limit_is_not_saved() {
    let (folder, mut file) = state_file();
    file.max_bytes = 100;
    let (mut worker, _) = load("answer", &file).await;
    generate(&mut worker).await;
    unload(worker, &file).await;
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_file_with_another_key_or_a_damaged_one_does_not_fail_the_load() {
    let (folder, file) = saved_state().await;
    let other_key = StateFile {
        key: StateKey::random().unwrap(),
        ..file.clone()
    };
    let whole = fs::read(&file.path).unwrap();
    let (_worker, loaded) = load("answer", &other_key).await;
    assert_eq!((loaded, n_files(&folder)), (Ok(0), 0));
    for length in [0, 7, whole.len() / 2, whole.len() - 1] {
        fs::write(&file.path, &whole[..length]).unwrap();
        let (mut worker, loaded) = load("answer", &file).await;
        assert_eq!((loaded, n_files(&folder)), (Ok(0), 0), "{length} bytes");
        generate(&mut worker).await;
    }
    // A byte of the last block, which is read last.
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&file.path, damaged).unwrap();
    let (mut worker, loaded) = load("answer", &file).await;
    assert_eq!((loaded, n_files(&folder)), (Ok(0), 0));
    generate(&mut worker).await;
    fs::write(&file.path, whole).unwrap();
    assert_eq!(load("answer", &file).await.1, Ok(4));
}

#[tokio::test]
async fn an_error_while_saving_does_not_stop_the_unload() {
    let (folder, file) = state_file();
    let (mut worker, _) = load("answer", &file).await;
    generate(&mut worker).await;
    let nowhere = StateFile {
        path: file.path.join("nowhere"),
        ..file.clone()
    };
    unload(worker, &nowhere).await;
    let (mut worker, _) = load("panic-in-save", &file).await;
    generate(&mut worker).await;
    unload(worker, &file).await;
    assert_eq!(n_files(&folder), 0);
}

/// The next process does not read the file again.
#[tokio::test]
async fn a_file_that_crashes_the_process_is_read_once() {
    let (folder, file) = saved_state().await;
    let mut worker = TestWorker::start(&workers("abort-in-restore"));
    worker.send(engine::load_of("model", Some(file.clone())));
    let end = in_time(worker.end()).await;
    assert!(matches!(end, WorkerEnd::Died { .. }), "{end}");
    let (_worker, loaded) = load("answer", &file).await;
    assert_eq!(loaded, Ok(0));
    remove_leftovers(&file.path);
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_panic_while_restoring_fails_one_load() {
    let (_folder, file) = saved_state().await;
    let (worker, loaded) = load("panic-in-restore", &file).await;
    let error = loaded.unwrap_err();
    assert!(error.contains("out of order"), "{error}");
    assert_eq!(in_time(worker.shut_down()).await, WorkerEnd::Requested);
    let (_worker, loaded) = load("answer", &file).await;
    assert_eq!(loaded, Ok(0));
}

#[tokio::test]
async fn a_failed_load_leaves_the_file_for_the_next_load() {
    let (folder, file) = saved_state().await;
    let (_, loaded) = load("panic-in-load", &file).await;
    assert!(loaded.is_err());
    assert_eq!(n_files(&folder), 1);
    let (_worker, loaded) = load("answer", &file).await;
    assert_eq!(loaded, Ok(4));
}
