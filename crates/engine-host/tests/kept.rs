//! A conversation that outlives its process, between real children and the disk.
//!
//! Rule: whatever goes wrong, the model loads and unloads, and no file is read twice.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/talk.rs"]
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use transom_engine_host::wire::{Command, Report};
use transom_engine_host::{WorkerEnd, remove_leftovers};

use talk::{Talk, workers};

/// A folder, and the place of a conversation in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("conversation");
    (folder, place)
}

fn n_files(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = timeout(Duration::from_secs(60), work).await;
    done.expect("it ends in time")
}

/// A child that answers as `mode` says, and loads with `place`; with the tokens that it took up, or
/// the reason why it has no model.
async fn load(mode: &str, place: &Path) -> (Talk, Result<usize, String>) {
    let mut talk = Talk::start(&workers(mode));
    talk.send(engine::load_of("model", Some(place.to_owned())));
    let is_end =
        |report: &Report| matches!(report, Report::Loaded { .. } | Report::LoadFailed { .. });
    let loaded = match in_time(talk.until(is_end)).await {
        Report::Loaded {
            restored_tokens, ..
        } => Ok(restored_tokens),
        Report::LoadFailed { error } => Err(error.to_string()),
        other => panic!("{other:?}"),
    };
    (talk, loaded)
}

/// Has the child keep its conversation at `place`, and leave.
async fn unload(mut talk: Talk, place: &Path) {
    let state = Some(place.to_owned());
    talk.send(Command::Unload { state });
    in_time(talk.until(|report| matches!(report, Report::Unloaded { .. }))).await;
    assert_eq!(in_time(talk.leave()).await, WorkerEnd::AsTold);
}

async fn answer(talk: &mut Talk) {
    talk.send(engine::generate(1, "hi"));
    in_time(talk.job_end()).await.unwrap();
}

#[tokio::test]
async fn a_conversation_goes_from_one_process_to_the_next() {
    let (folder, place) = place();
    let (mut talk, loaded) = load("answer", &place).await;
    assert_eq!(loaded, Ok(0));
    answer(&mut talk).await;
    unload(talk, &place).await;
    assert_eq!(n_files(&folder), 1);
    let (talk, loaded) = load("answer", &place).await;
    assert_eq!(loaded, Ok(4), "two tokens asked, two answered");
    assert_eq!(n_files(&folder), 0, "it is taken up once");
    unload(talk, &place).await;
    assert_eq!(n_files(&folder), 1);
}

#[tokio::test]
async fn where_nothing_was_said_nothing_is_kept() {
    let (folder, place) = place();
    let (talk, _) = load("answer", &place).await;
    unload(talk, &place).await;
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_damaged_conversation_costs_nothing_but_itself() {
    let (folder, place) = place();
    fs::write(&place, "no number").unwrap();
    let (mut talk, loaded) = load("answer", &place).await;
    assert_eq!((loaded, n_files(&folder)), (Ok(0), 0));
    answer(&mut talk).await;
}

#[tokio::test]
async fn a_conversation_that_cannot_be_written_does_not_stop_the_unload() {
    let (folder, place) = place();
    let (mut talk, _) = load("answer", &place).await;
    answer(&mut talk).await;
    unload(talk, &place.join("nowhere")).await;
    let (mut talk, _) = load("panic-in-save", &place).await;
    answer(&mut talk).await;
    unload(talk, &place).await;
    assert_eq!(n_files(&folder), 0);
}

/// One that ends the process is not read by the next.
#[tokio::test]
async fn a_conversation_that_crashes_its_process_does_so_once() {
    let (folder, place) = place();
    fs::write(&place, "4").unwrap();
    let mut talk = Talk::start(&workers("abort-in-restore"));
    talk.send(engine::load_of("model", Some(place.clone())));
    let end = in_time(talk.end()).await;
    assert!(matches!(end, WorkerEnd::Died { .. }), "{end}");
    let (_talk, loaded) = load("answer", &place).await;
    assert_eq!(loaded, Ok(0));
    remove_leftovers(&place);
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn a_panic_over_a_conversation_ends_the_load_and_happens_once() {
    let (_folder, place) = place();
    fs::write(&place, "4").unwrap();
    let (talk, loaded) = load("panic-in-restore", &place).await;
    let error = loaded.unwrap_err();
    assert!(error.contains("out of order"), "{error}");
    assert_eq!(in_time(talk.leave()).await, WorkerEnd::AsTold);
    let (_talk, loaded) = load("answer", &place).await;
    assert_eq!(loaded, Ok(0));
}

#[tokio::test]
async fn a_load_that_failed_leaves_the_conversation_for_the_next() {
    let (folder, place) = place();
    fs::write(&place, "4").unwrap();
    let (_, loaded) = load("panic-in-load", &place).await;
    assert!(loaded.is_err());
    assert_eq!(n_files(&folder), 1);
    let (_talk, loaded) = load("answer", &place).await;
    assert_eq!(loaded, Ok(4));
}
