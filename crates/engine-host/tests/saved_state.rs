//! Saving the KV caches in one child process and restoring them in the next.
//!
//! Rule: whatever goes wrong, the model loads and unloads, and a prompt is at worst read again.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/test_worker.rs"]
mod test_worker;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use transom_engine::ConversationId;
use transom_engine_host::wire::{Command, Report};
use transom_engine_host::{SavedConversation, SavedFolder, StateKey, WorkerEnd};

use test_worker::{TestWorker, workers};

const MAX_BYTES: u64 = 1 << 20;

/// A folder, and the conversations that the last process has saved in it.
struct Disk {
    folder: TempDir,
    n_processes: usize,
    saved: Vec<SavedConversation>,
}

impl Disk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            n_processes: 0,
            saved: Vec::new(),
        }
    }

    /// Returns a folder with the conversation `hi`.
    async fn with_conversation() -> Self {
        let mut disk = Self::new();
        let (mut worker, _) = disk.load("answer").await;
        generate(&mut worker, "hi").await;
        disk.unload(worker).await;
        assert_eq!(disk.saved.len(), 1);
        disk
    }

    /// Starts a worker in `mode` and loads. Returns the tokens of the newest saved conversation.
    async fn load(&mut self, mode: &str) -> (TestWorker, usize) {
        self.n_processes += 1;
        let folder = SavedFolder {
            path: self.folder.path().to_owned(),
            prefix: self.n_processes.to_string(),
            conversations: self.saved.clone(),
        };
        let mut worker = TestWorker::start(&workers(mode));
        worker.send(engine::load_of("model", Some(folder)));
        let is_end = |report: &Report| matches!(report, Report::Loaded { .. });
        match in_time(worker.until(is_end)).await {
            Report::Loaded { saved_tokens, .. } => (worker, saved_tokens),
            other => panic!("{other:?}"),
        }
    }

    /// Unloads, saving the KV caches, and ends the worker.
    async fn unload(&mut self, worker: TestWorker) {
        self.unload_within(worker, MAX_BYTES).await;
    }

    async fn unload_within(&mut self, mut worker: TestWorker, max_bytes: u64) {
        worker.send(Command::Unload {
            save: Some(max_bytes),
        });
        self.saved = saved_until(&mut worker, |report| {
            matches!(report, Report::Unloaded { .. })
        })
        .await;
        assert_eq!(in_time(worker.shut_down()).await, WorkerEnd::Requested);
    }

    /// Returns the paths of all files, in order.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// Continues the conversation in a new process. Returns the tokens that were not read again.
    async fn cached_tokens(&mut self, mode: &str) -> usize {
        let (mut worker, _) = self.load(mode).await;
        let cached_tokens = generate(&mut worker, "hi!").await;
        assert_eq!(in_time(worker.shut_down()).await, WorkerEnd::Requested);
        cached_tokens
    }
}

/// Returns the conversations that are reported as saved before a report that is the end.
async fn saved_until(
    worker: &mut TestWorker,
    is_end: impl Fn(&Report) -> bool,
) -> Vec<SavedConversation> {
    let mut saved = Vec::new();
    let is_saved = |report: &Report| matches!(report, Report::Saved { .. });
    loop {
        match in_time(worker.until(|report| is_saved(report) || is_end(report))).await {
            Report::Saved { conversation } => saved.push(conversation),
            _ => return saved,
        }
    }
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = timeout(Duration::from_secs(60), work).await;
    done.expect("it ends in time")
}

/// Returns the tokens of `prompt` that were not read again.
async fn generate(worker: &mut TestWorker, prompt: &str) -> usize {
    worker.send(engine::generate(1, prompt));
    in_time(worker.job_end()).await.unwrap().stats.cached_tokens
}

#[tokio::test]
async fn the_next_process_restores_the_saved_kv_cache() {
    let mut disk = Disk::with_conversation().await;
    let files = disk.files();
    assert_eq!(files.len(), 3, "a description, a head and a block");
    for path in &files {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let (mut worker, saved_tokens) = disk.load("answer").await;
    assert_eq!(saved_tokens, 4, "two of the prompt and two of the response");
    assert_eq!(generate(&mut worker, "hi!").await, 2);
    assert_eq!(disk.files(), files, "files stay as they are");
    disk.unload(worker).await;
    assert_eq!(disk.saved.len(), 1, "it is the same conversation");
    assert_eq!(disk.cached_tokens("answer").await, 3);
}

#[tokio::test]
async fn nothing_is_written_again() {
    let mut disk = Disk::with_conversation().await;
    let before = (disk.saved.clone(), disk.files());
    let (mut worker, _) = disk.load("answer").await;
    // Another request with the same conversation, whose tokens are all saved.
    generate(&mut worker, "hi").await;
    worker.send(Command::Save {
        max_bytes: MAX_BYTES,
    });
    let is_end = |report: &Report| matches!(report, Report::SaveEnded);
    let saved = saved_until(&mut worker, is_end).await;
    assert_eq!((saved, disk.files()), before);
    disk.unload(worker).await;
    assert_eq!((disk.saved.clone(), disk.files()), before);
}

#[tokio::test]
async fn an_empty_kv_cache_is_not_saved() {
    let mut disk = Disk::new();
    let (worker, saved_tokens) = disk.load("answer").await;
    assert_eq!(saved_tokens, 0);
    disk.unload(worker).await;
    assert!(disk.saved.is_empty() && disk.files().is_empty());
}

#[tokio::test]
async fn a_forgotten_conversation_is_not_saved_or_restored() {
    let mut disk = Disk::with_conversation().await;
    for conversation in [None, Some(ConversationId(1))] {
        let (mut worker, _) = disk.load("answer").await;
        worker.send(Command::Forget { conversation });
        let is_end = |report: &Report| matches!(report, Report::Trimmed { .. });
        in_time(worker.until(is_end)).await;
        let expected = match conversation {
            Some(_) => 2,
            None => 0,
        };
        assert_eq!(generate(&mut worker, "hi!").await, expected);
        worker.send(Command::Forget { conversation });
        in_time(worker.until(is_end)).await;
        worker.send(Command::Unload {
            save: Some(MAX_BYTES),
        });
        let is_end = |report: &Report| matches!(report, Report::Unloaded { .. });
        assert!(saved_until(&mut worker, is_end).await.is_empty());
    }
    assert_eq!(disk.files().len(), 3, "only the parent removes files");
    let (mut worker, _) = disk.load("answer").await;
    generate(&mut worker, "hi").await;
    disk.unload(worker).await;
}

#[tokio::test]
async fn a_kv_cache_that_exceeds_the_limit_is_not_saved() {
    let mut disk = Disk::new();
    for max_bytes in [0, 28, 60, 100] {
        let (mut worker, _) = disk.load("answer").await;
        generate(&mut worker, "hi").await;
        disk.unload_within(worker, max_bytes).await;
        assert!(disk.saved.is_empty() && disk.files().is_empty());
    }
}

#[tokio::test]
async fn another_key_or_a_damaged_file_costs_a_prefill() {
    let mut disk = Disk::with_conversation().await;
    let saved = disk.saved.clone();
    disk.saved[0].key = StateKey::random().unwrap();
    assert_eq!(disk.cached_tokens("answer").await, 0);
    disk.saved = saved;
    let description = disk.folder.path().join(&disk.saved[0].files[0]);
    for path in disk.files() {
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        for bytes in [
            &whole[..0],
            &whole[..7],
            &whole[..whole.len() - 1],
            &damaged[..],
        ] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(disk.cached_tokens("answer").await, 0, "{}", path.display());
            // After a failure, the description keeps its other name.
            let taken = description.with_added_extension("taken");
            if taken.exists() {
                fs::rename(taken, &description).unwrap();
            }
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(disk.cached_tokens("answer").await, 0, "{}", path.display());
        let taken = description.with_added_extension("taken");
        if taken.exists() {
            fs::rename(taken, &description).unwrap();
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(disk.cached_tokens("answer").await, 2);
}

#[tokio::test]
async fn an_error_while_saving_does_not_stop_the_unload() {
    let mut disk = Disk::new();
    let (mut worker, _) = disk.load("answer").await;
    generate(&mut worker, "hi").await;
    // The disk is gone.
    fs::remove_dir(disk.folder.path()).unwrap();
    disk.unload(worker).await;
    assert!(disk.saved.is_empty());
    fs::create_dir(disk.folder.path()).unwrap();
    let (mut worker, _) = disk.load("panic-in-save").await;
    generate(&mut worker, "hi").await;
    disk.unload(worker).await;
    assert!(disk.saved.is_empty() && disk.files().is_empty());
}

/// The next process does not read the files again.
#[tokio::test]
async fn files_that_crash_the_process_are_read_once() {
    let mut disk = Disk::with_conversation().await;
    let (mut worker, _) = disk.load("abort-in-restore").await;
    worker.send(engine::generate(1, "hi!"));
    let end = in_time(worker.end()).await;
    assert!(matches!(end, WorkerEnd::Died { .. }), "{end}");
    assert_eq!(disk.cached_tokens("abort-in-restore").await, 0);
}

#[tokio::test]
async fn a_panic_while_restoring_fails_one_request() {
    let mut disk = Disk::with_conversation().await;
    let (mut worker, _) = disk.load("panic-in-restore").await;
    worker.send(engine::generate(1, "hi!"));
    let error = in_time(worker.job_end()).await.unwrap_err().to_string();
    assert!(error.contains("out of order"), "{error}");
    assert_eq!(in_time(worker.shut_down()).await, WorkerEnd::Requested);
    assert_eq!(disk.cached_tokens("panic-in-restore").await, 0);
}
