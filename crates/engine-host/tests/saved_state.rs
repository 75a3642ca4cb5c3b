//! Saving the KV cache in one child process and restoring it in the next.
//!
//! Rule: whatever goes wrong, the model loads and unloads, and no file is read twice.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/test_worker.rs"]
mod test_worker;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use transom_engine_host::wire::{Command, Report};
use transom_engine_host::{WorkerEnd, remove_leftovers};

use test_worker::{TestWorker, workers};

/// Returns a new folder and the path of a saved KV cache in it.
fn state_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversation");
    (folder, path)
}

fn n_files(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = timeout(Duration::from_secs(60), work).await;
    done.expect("it ends in time")
}

/// Starts a worker in `mode` and loads with the KV cache at `path`. Returns the number of restored
/// tokens or the error of the load.
async fn load(mode: &str, path: &Path) -> (TestWorker, Result<usize, String>) {
    let mut worker = TestWorker::start(&workers(mode));
    worker.send(engine::load_of("model", Some(path.to_owned())));
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

/// Unloads with the KV cache saved to `path`, and ends the worker.
async fn unload(mut worker: TestWorker, path: &Path) {
    let state = Some(path.to_owned());
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
    let (folder, path) = state_path();
    let (mut worker, loaded) = load("answer", &path).await;
    assert_eq!(loaded, Ok(0));
    generate(&mut worker).await;
    unload(worker, &path).await;
    assert_eq!(n_files(&folder), 1);
    let (worker, loaded) = load("answer", &path).await;
    assert_eq!(
        loaded,
        Ok(4),
        "two tokens of the prompt and two of the response"
    );
    assert_eq!(n_files(&folder), 0, "it is restored once");
    unload(worker, &path).await;
    assert_eq!(n_files(&folder), 1);
}

#[tokio::test]
async fn an_empty_kv_cache_is_not_saved() {
    let (folder, path) = state_path();
    let (worker, _) = load("answer", &path).await;
    unload(worker, &path).await;
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_damaged_file_does_not_fail_the_load() {
    let (folder, path) = state_path();
    fs::write(&path, "no number").unwrap();
    let (mut worker, loaded) = load("answer", &path).await;
    assert_eq!((loaded, n_files(&folder)), (Ok(0), 0));
    generate(&mut worker).await;
}

#[tokio::test]
async fn an_error_while_saving_does_not_stop_the_unload() {
    let (folder, path) = state_path();
    let (mut worker, _) = load("answer", &path).await;
    generate(&mut worker).await;
    unload(worker, &path.join("nowhere")).await;
    let (mut worker, _) = load("panic-in-save", &path).await;
    generate(&mut worker).await;
    unload(worker, &path).await;
    assert_eq!(n_files(&folder), 0);
}

/// The next process does not read the file again.
#[tokio::test]
async fn a_file_that_crashes_the_process_is_read_once() {
    let (folder, path) = state_path();
    fs::write(&path, "4").unwrap();
    let mut worker = TestWorker::start(&workers("abort-in-restore"));
    worker.send(engine::load_of("model", Some(path.clone())));
    let end = in_time(worker.end()).await;
    assert!(matches!(end, WorkerEnd::Died { .. }), "{end}");
    let (_worker, loaded) = load("answer", &path).await;
    assert_eq!(loaded, Ok(0));
    remove_leftovers(&path);
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_panic_while_restoring_fails_one_load() {
    let (_folder, path) = state_path();
    fs::write(&path, "4").unwrap();
    let (worker, loaded) = load("panic-in-restore", &path).await;
    let error = loaded.unwrap_err();
    assert!(error.contains("out of order"), "{error}");
    assert_eq!(in_time(worker.shut_down()).await, WorkerEnd::Requested);
    let (_worker, loaded) = load("answer", &path).await;
    assert_eq!(loaded, Ok(0));
}

#[tokio::test]
async fn a_failed_load_leaves_the_file_for_the_next_load() {
    let (folder, path) = state_path();
    fs::write(&path, "4").unwrap();
    let (_, loaded) = load("panic-in-load", &path).await;
    assert!(loaded.is_err());
    assert_eq!(n_files(&folder), 1);
    let (_worker, loaded) = load("answer", &path).await;
    assert_eq!(loaded, Ok(4));
}
