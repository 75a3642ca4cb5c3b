//! The queue with real jobs: order, pause, cancel, restarts, two programs.
//!
//! Rule: requested bytes are counted, so that a resume that starts over is noticed.

use std::sync::atomic::{AtomicUsize, Ordering};

use transom_hub::test_support::{Fault, Route};
use transom_hub::{DownloadRequest, Downloads, QueuePosition, State};

use crate::fixture::{Fixture, MODEL, REPOSITORY, failed, noise, until, until_list};

/// So slow that the download is still running when the test changes something.
fn slow(fixture: &Fixture) {
    fixture
        .local
        .fail(Route::Blob, Fault::Slow(60_000), u32::MAX);
}

#[tokio::test]
async fn a_pause_keeps_the_bytes_and_a_resume_downloads_only_the_rest() {
    let fixture = Fixture::with_model(200_000);
    slow(&fixture);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, id, "downloading", |it| it.done_bytes > 30_000).await;
    downloads.pause(id).await.unwrap();
    let paused = until(&downloads, id, "paused", |it| it.state == State::Paused).await;
    assert_eq!(paused.bytes_per_second, 0);
    // The part files are saved when the run ends.
    downloads.stop().await;
    let before = fixture.requested_bytes();
    fixture.local.clear_faults();
    let again = fixture.downloads().await;
    assert_eq!(fixture.download(&again).await.state, State::Done);
    fixture.assert_complete();
    let requested = fixture.requested_bytes() - before;
    assert!(
        requested <= 200_000 - 30_000,
        "{requested} bytes were downloaded again"
    );
}

/// Number of holders of [`Awake`].
static N_AWAKE: AtomicUsize = AtomicUsize::new(0);

/// Prevents sleep until it is dropped.
struct Awake;

impl Drop for Awake {
    fn drop(&mut self) {
        N_AWAKE.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn until_awake(n: usize) {
    while N_AWAKE.load(Ordering::SeqCst) != n {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_machine_stays_awake_while_bytes_are_received() {
    let fixture = Fixture::with_model(200_000);
    slow(&fixture);
    let mut options = fixture.options();
    options.keep_awake = || {
        N_AWAKE.fetch_add(1, Ordering::SeqCst);
        Box::new(Awake)
    };
    let downloads = Downloads::start(fixture.hub(), options).await.unwrap();
    assert_eq!(N_AWAKE.load(Ordering::SeqCst), 0);
    let id = downloads.add(fixture.request()).await.unwrap();
    until_awake(1).await;
    downloads.pause(id).await.unwrap();
    until_awake(0).await;
    fixture.local.clear_faults();
    downloads.resume(id).await.unwrap();
    until(&downloads, id, "over", |it| it.state.is_finished()).await;
    until_awake(0).await;
}

#[tokio::test]
async fn canceling_deletes_part_files_and_returns_their_size() {
    let fixture = Fixture::with_model(400_000);
    slow(&fixture);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, id, "downloading", |it| it.done_bytes > 60_000).await;
    let freed_bytes = downloads.cancel(id).await.unwrap();
    assert!(freed_bytes > 30_000, "{freed_bytes:?}");
    assert!(downloads.watch().borrow().is_empty());
    assert_eq!(std::fs::read_dir(fixture.parts()).unwrap().count(), 0);
    assert_eq!(
        downloads.pause(id).await.unwrap_err().code(),
        "no_such_download"
    );
}

#[tokio::test]
async fn the_queue_continues_after_a_restart_with_the_same_commit() {
    let fixture = Fixture::with_model(200_000);
    slow(&fixture);
    let mut options = fixture.options();
    options.is_persistent = true;
    let old = fixture.local.bytes(REPOSITORY, MODEL).unwrap();
    let downloads = Downloads::start(fixture.hub(), options.clone())
        .await
        .unwrap();
    let id = downloads.add(fixture.request()).await.unwrap();
    let mut other = fixture.request();
    other.key = "other".to_owned();
    other.folder = fixture.folder.path().join("models/other");
    let other = downloads.add(other).await.unwrap();
    downloads.pause(other).await.unwrap();
    until(&downloads, id, "downloading", |it| it.done_bytes > 20_000).await;
    downloads.stop().await;
    // Immediately, while the old handle still exists.
    let again = Downloads::start(fixture.hub(), options).await.unwrap();
    let list = again.watch().borrow().clone();
    assert_eq!(list.len(), 2);
    assert!(list[0].done_bytes > 20_000, "{list:?}");
    assert_eq!(list[1].state, State::Paused);
    fixture
        .local
        .put(REPOSITORY, "config.json", "{\"new\": true}");
    fixture.local.clear_faults();
    until(&again, list[0].id, "done", |it| it.state == State::Done).await;
    assert_eq!(std::fs::read(fixture.model().join(MODEL)).unwrap(), old);
    let config = std::fs::read_to_string(fixture.model().join("config.json")).unwrap();
    assert_eq!(config, "{}", "the commit did not change");
}

#[tokio::test]
async fn a_deleted_commit_is_replaced_by_the_newest_one() {
    let fixture = Fixture::with_model(200_000);
    slow(&fixture);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, id, "downloading", |it| it.done_bytes > 20_000).await;
    downloads.pause(id).await.unwrap();
    fixture
        .local
        .put(REPOSITORY, "config.json", "{\"new\": true}");
    fixture.local.forget_history(REPOSITORY);
    fixture.local.clear_faults();
    downloads.resume(id).await.unwrap();
    let done = until(&downloads, id, "over", |it| it.state.is_finished()).await;
    assert_eq!(done.state, State::Done);
    fixture.assert_complete();
}

#[tokio::test]
async fn part_files_missing_in_the_queue_return_as_paused_downloads() {
    let fixture = Fixture::with_model(200_000);
    slow(&fixture);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, id, "downloading", |it| it.done_bytes > 20_000).await;
    downloads.stop().await;
    let mut options = fixture.options();
    options.is_persistent = true;
    let app = Downloads::start(fixture.hub(), options).await.unwrap();
    let list = app.watch().borrow().clone();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].state, State::Paused);
    assert!(list[0].done_bytes > 20_000 && list[0].total_bytes == Some(200_002));
    let freed_bytes = app.cancel(list[0].id).await.unwrap();
    assert!(freed_bytes > 0);
}

#[tokio::test]
async fn a_second_program_waits_for_the_first_and_takes_over() {
    let fixture = Fixture::with_model(200_000);
    slow(&fixture);
    let (first, second) = (fixture.downloads().await, fixture.downloads().await);
    let id = first.add(fixture.request()).await.unwrap();
    until(&first, id, "downloading", |it| it.done_bytes > 20_000).await;
    let other = second.add(fixture.request()).await.unwrap();
    let waiting = until(
        &second,
        other,
        "waiting for the first",
        |it| matches!(&it.state, State::Retrying { error, .. } if error.code() == "in_use"),
    );
    let waiting = waiting.await;
    let text = waiting.last_error.unwrap().to_string();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    fixture.local.clear_faults();
    first.pause(id).await.unwrap();
    until(&second, other, "done", |it| it.state == State::Done).await;
    fixture.assert_complete();
    let n_bytes = fixture.requested_bytes();
    first.resume(id).await.unwrap();
    until(&first, id, "done", |it| it.state == State::Done).await;
    assert_eq!(
        fixture.requested_bytes(),
        n_bytes,
        "the model was already complete"
    );
}

#[tokio::test]
async fn a_download_moved_first_runs_first() {
    let fixture = Fixture::with_model(100_000);
    slow(&fixture);
    let mut options = fixture.options();
    options.max_concurrent = 1;
    let downloads = Downloads::start(fixture.hub(), options).await.unwrap();
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        let request = DownloadRequest {
            key: key.to_owned(),
            folder: fixture.folder.path().join("models").join(key),
            ..fixture.request()
        };
        ids.push(downloads.add(request).await.unwrap());
    }
    until(&downloads, ids[0], "downloading", |it| it.done_bytes > 5000).await;
    downloads
        .move_to(ids[2], QueuePosition::First)
        .await
        .unwrap();
    let is_c_first = |list: &[transom_hub::Download]| {
        let states: Vec<_> = list.iter().map(|it| (&*it.key, &it.state)).collect();
        states.len() == 3
            && states[0].0 == "c"
            && (states[0].1.is_busy() || matches!(states[0].1, State::Retrying { .. }))
            && *states[1].1 == State::Queued
    };
    until_list(&downloads, "c first", is_c_first).await;
    fixture.local.clear_faults();
    let all_done = |list: &[transom_hub::Download]| list.iter().all(|it| it.state == State::Done);
    until_list(&downloads, "all done", all_done).await;
    assert_eq!(downloads.cancel(ids[0]).await.unwrap(), 0);
    assert!(fixture.folder.path().join("models/a").join(MODEL).exists());
}

#[tokio::test]
async fn rate_and_remaining_time_are_reported() {
    let fixture = Fixture::with_model(400_000);
    slow(&fixture);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    let download = until(&downloads, id, "a remaining time", |it| {
        it.seconds_left.is_some()
    })
    .await;
    assert!(
        (10_000..2_000_000).contains(&download.bytes_per_second),
        "{download:?}"
    );
    assert!(download.seconds_left.unwrap() < 60, "{download:?}");
    downloads.cancel(id).await.unwrap();
}

#[tokio::test]
async fn other_files_stay_and_correct_files_are_not_downloaded_again() {
    let fixture = Fixture::with_model(50_000);
    std::fs::create_dir_all(fixture.model()).unwrap();
    std::fs::write(fixture.model().join("mine.txt"), "mine").unwrap();
    std::fs::write(fixture.model().join(MODEL), noise(50_000, 1)).unwrap();
    let downloads = fixture.downloads().await;
    assert_eq!(fixture.download(&downloads).await.state, State::Done);
    fixture.assert_complete();
    assert!(fixture.model().join("mine.txt").exists());
    assert!(
        fixture
            .local
            .requests()
            .iter()
            .all(|received| received.route != Route::Blob)
    );
}

#[tokio::test]
async fn a_missing_repository_fails_at_once() {
    let fixture = Fixture::with_model(2000);
    let downloads = fixture.downloads().await;
    let mut request = fixture.request();
    request.repository = "owner/none".to_owned();
    let id = downloads.add(request).await.unwrap();
    let ended = until(&downloads, id, "over", |it| it.state.is_finished()).await;
    assert_eq!(failed(&ended).code(), "token_needed");
    let mut request = fixture.request();
    request.repository = "../etc".to_owned();
    assert_eq!(downloads.add(request).await.unwrap_err().code(), "bad_name");
}
