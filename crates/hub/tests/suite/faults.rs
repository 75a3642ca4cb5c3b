//! Downloads with one injected fault at a time.
//!
//! Rule: a successful download is compared with the hub's bytes; a failed one leaves nothing in the
//! final folder.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use transom_hub::test_support::{Fault, LimitedDisk, LocalHub, Route};
use transom_hub::{Disk, Downloads, Hub, RequestedFile, State, Token, TokenSource};

use crate::fixture::{Fixture, MODEL, REPOSITORY, failed, noise, until};

#[tokio::test]
async fn a_model_is_downloaded_over_several_connections() {
    let fixture = Fixture::with_model(300_000);
    let done = fixture.download_and_verify().await;
    assert_eq!(done.done_bytes, 300_002);
    assert_eq!(done.total_bytes, Some(300_002));
    assert!(!fixture.model().join("README.md").exists());
    assert_eq!(std::fs::read_dir(fixture.parts()).unwrap().count(), 0);
}

#[tokio::test]
async fn dropped_connections_lose_only_unwritten_bytes() {
    let fixture = Fixture::with_model(300_000);
    fixture.local.fail(Route::Blob, Fault::Drop(7000), 20);
    fixture.local.fail(Route::Blob, Fault::Refuse, 2);
    let done = fixture.download_and_verify().await;
    assert_eq!(done.last_error.unwrap().code(), "dropped");
}

/// Starts a queue whose client sends this token.
async fn with_token(fixture: &Fixture, token: &str) -> Downloads {
    let mut options = fixture.local.options();
    options.token = TokenSource::Given(Token::new(token.to_owned()).unwrap());
    let hub = Hub::new(options).unwrap();
    Downloads::start(hub, fixture.options()).await.unwrap()
}

#[tokio::test]
async fn the_token_is_sent_only_to_the_hub() {
    let fixture = Fixture::with_model(50_000);
    fixture.local.accept_token("hf_right");
    fixture.local.gate(REPOSITORY);
    let downloads = with_token(&fixture, "hf_right").await;
    assert_eq!(fixture.download(&downloads).await.state, State::Done);
    let received = fixture.local.requests();
    assert!(
        received
            .iter()
            .any(|received| received.route == Route::Blob)
    );
    for received in received {
        assert_eq!(
            received.has_token,
            received.route != Route::Blob,
            "{received:?}"
        );
    }
}

#[tokio::test]
async fn a_redirect_to_a_renamed_repository_carries_the_token() {
    let fixture = Fixture::with_model(50_000);
    fixture.local.accept_token("hf_right");
    fixture.local.gate(REPOSITORY);
    fixture.local.rename("former/name", REPOSITORY);
    let downloads = with_token(&fixture, "hf_right").await;
    let mut request = fixture.request();
    request.repository = "former/name".to_owned();
    let id = downloads.add(request).await.unwrap();
    until(&downloads, id, "done", |it| it.state == State::Done).await;
    fixture.assert_complete();
}

#[tokio::test]
async fn a_model_on_another_disk_than_its_part_files_is_complete() {
    let fixture = Fixture::with_model(50_000);
    // Another disk, if the system has such a folder.
    let other = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let other = other.unwrap();
    let downloads = fixture.downloads().await;
    let mut request = fixture.request();
    request.folder = other.path().join("owner/model");
    let id = downloads.add(request).await.unwrap();
    until(&downloads, id, "done", |it| it.state == State::Done).await;
    let found = std::fs::read(other.path().join("owner/model").join(MODEL)).unwrap();
    assert_eq!(Some(found), fixture.local.bytes(REPOSITORY, MODEL));
    let n_files = std::fs::read_dir(other.path().join("owner/model")).unwrap();
    assert_eq!(n_files.count(), 2, "no copy is left half");
    assert_eq!(std::fs::read_dir(fixture.parts()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_error_for_a_gated_model_contains_its_page() {
    let fixture = Fixture::with_model(50_000);
    fixture.local.gate(REPOSITORY);
    let ended = fixture.download_alone().await;
    let error = failed(&ended);
    assert_eq!(error.code(), "gated");
    let page = format!("{}/{REPOSITORY}", fixture.local.address());
    assert!(error.to_string().contains(&page), "{error}");
}

#[tokio::test]
async fn a_busy_hub_is_retried_and_a_broken_one_is_given_up() {
    let fixture = Fixture::with_model(50_000);
    fixture
        .local
        .fail(Route::Blob, Fault::Status(429, Some(0)), 3);
    fixture
        .local
        .fail(Route::Resolve, Fault::Status(503, None), 2);
    fixture.download_and_verify().await;
    let fixture = Fixture::with_model(50_000);
    fixture
        .local
        .fail(Route::Blob, Fault::Status(502, None), 1000);
    fails_and_succeeds_after_resume(&fixture, "server_trouble").await;
}

/// The download fails and leaves nothing in the final folder. After the faults end and the user
/// resumes it, it succeeds.
async fn fails_and_succeeds_after_resume(fixture: &Fixture, code: &str) {
    let downloads = fixture.downloads().await;
    let ended = fixture.download(&downloads).await;
    assert_eq!(failed(&ended).code(), code);
    assert!(!fixture.model().exists());
    fixture.local.clear_faults();
    downloads.resume(ended.id).await.unwrap();
    until(&downloads, ended.id, "done", |it| it.state == State::Done).await;
    fixture.assert_complete();
}

#[tokio::test]
async fn retry_after_sets_the_delay() {
    for status in [429, 503] {
        let fixture = Fixture::with_model(2000);
        fixture
            .local
            .fail(Route::Listing, Fault::Status(status, Some(1)), 1);
        let downloads = fixture.downloads().await;
        let id = downloads.add(fixture.request()).await.unwrap();
        let waits = until(&downloads, id, "waiting before a retry", |it| {
            matches!(it.state, State::Retrying { .. })
        });
        let State::Retrying { seconds, .. } = waits.await.state else {
            unreachable!("it was waited for");
        };
        assert_eq!(seconds, 1, "status {status}");
        until(&downloads, id, "done", |it| it.state == State::Done).await;
    }
}

#[tokio::test]
async fn expired_links_are_requested_again() {
    let fixture = Fixture::with_model(300_000);
    fixture.local.fail(Route::Blob, Fault::ExpireLinks, 2);
    fixture.download_and_verify().await;
}

#[tokio::test]
async fn a_store_without_ranges_sends_the_entire_file() {
    let fixture = Fixture::with_model(300_000);
    fixture.local.fail(Route::Blob, Fault::IgnoreRange, 1000);
    fixture.download_and_verify().await;
}

#[tokio::test]
async fn a_refused_range_is_retried_and_given_up() {
    let fixture = Fixture::with_model(50_000);
    fixture
        .local
        .fail(Route::Blob, Fault::Status(416, None), 1000);
    assert_eq!(
        failed(&fixture.download_alone().await).code(),
        "range_refused"
    );
}

#[tokio::test]
async fn responses_with_wrong_lengths_are_retried() {
    for by in [-1000, 1000] {
        let fixture = Fixture::with_model(50_000);
        fixture.local.fail(Route::Blob, Fault::Length(by), 2);
        let done = fixture.download_and_verify().await;
        assert_eq!(done.last_error.unwrap().code(), "wrong_length");
    }
}

#[tokio::test]
async fn a_damaged_file_is_downloaded_once_more_and_then_fails() {
    let fixture = Fixture::with_model(50_000);
    fixture.local.fail(Route::Blob, Fault::WrongBytes, 1);
    let done = fixture.download_and_verify().await;
    assert_eq!(done.last_error.unwrap().code(), "wrong_hash");
    let fixture = Fixture::with_model(50_000);
    fixture.local.fail(Route::Blob, Fault::WrongBytes, 1000);
    fails_and_succeeds_after_resume(&fixture, "wrong_hash").await;
}

#[tokio::test]
async fn a_small_file_is_verified_with_gits_checksum() {
    let fixture = Fixture::with_model(2000);
    fixture.local.fail(Route::Resolve, Fault::WrongBytes, 1000);
    let text = failed(&fixture.download_alone().await).to_string();
    assert!(
        text.starts_with("config.json failed verification"),
        "{text}"
    );
}

#[tokio::test]
async fn a_file_that_changed_starts_over_and_reports_it() {
    let fixture = Fixture::with_model(300_000);
    let mut options = fixture.options();
    options.connections_per_file = 1;
    let downloads = Downloads::start(fixture.hub(), options).await.unwrap();
    fixture.local.fail(Route::Blob, Fault::Drop(20_000), 3);
    fixture.local.fail(Route::Blob, Fault::Change, 1);
    let done = fixture.download(&downloads).await;
    assert_eq!(done.state, State::Done);
    assert_eq!(done.last_error.unwrap().code(), "changed_meanwhile");
    fixture.assert_complete();
}

#[tokio::test]
async fn complete_files_stay_when_another_file_changes() {
    let fixture = Fixture::with_model(2000);
    fixture
        .local
        .put(REPOSITORY, "a.safetensors", noise(100_000, 2));
    fixture
        .local
        .put(REPOSITORY, "b.safetensors", noise(200_000, 3));
    fixture
        .local
        .fail(Route::Blob, Fault::Slow(60_000), u32::MAX);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, id, "at b", |it| it.done_bytes > 110_000).await;
    fixture
        .local
        .rewrite(REPOSITORY, "b.safetensors", noise(190_000, 4));
    fixture.local.clear_faults();
    // The open connections send the old bytes to the end.
    downloads.pause(id).await.unwrap();
    downloads.resume(id).await.unwrap();
    until(&downloads, id, "done", |it| it.state == State::Done).await;
    let found = std::fs::read(fixture.model().join("b.safetensors")).unwrap();
    assert_eq!(found, noise(190_000, 4));
    let received = fixture.local.requests().into_iter();
    let of_a = received
        .filter(|received| received.path.contains("blobs") && received.path.contains("a.safe"));
    assert_eq!(of_a.count(), 5, "five pieces of 20,000 bytes, once each");
}

#[tokio::test]
async fn a_file_unlike_the_listed_one_is_refused_before_the_download() {
    let fixture = Fixture::with_model(50_000);
    let downloads = fixture.downloads().await;
    for file in [
        RequestedFile {
            size_bytes: Some(7),
            ..RequestedFile::named(MODEL)
        },
        RequestedFile {
            sha256: Some("0".repeat(64)),
            ..RequestedFile::named(MODEL)
        },
    ] {
        let mut request = fixture.request();
        request.files = vec![RequestedFile::named("config.json"), file];
        let id = downloads.add(request).await.unwrap();
        let ended = until(&downloads, id, "over", |it| it.state.is_finished()).await;
        assert_eq!(failed(&ended).code(), "not_as_listed");
    }
    assert_eq!(fixture.requested_bytes(), 0);
}

#[tokio::test]
async fn a_full_disk_is_an_error_with_sizes_before_and_during_the_download() {
    let fixture = Fixture::with_model(300_000);
    let disk = Arc::new(LimitedDisk::with_free_bytes(1000));
    let mut options = fixture.options();
    options.disk = disk.clone();
    options.spare_bytes = 500;
    let downloads = Downloads::start(fixture.hub(), options).await.unwrap();
    let ended = fixture.download(&downloads).await;
    let json = serde_json::to_value(failed(&ended)).unwrap();
    assert_eq!(json["code"], "disk_full");
    assert_eq!(json["needed_bytes"], 300_502);
    assert_eq!(json["free_bytes"], 1000);
    assert_eq!(fixture.requested_bytes(), 0);
    disk.report_free_bytes(1_000_000);
    disk.set_free_bytes(100_000);
    downloads.resume(ended.id).await.unwrap();
    let failed_again = until(&downloads, ended.id, "full", |it| {
        it.state.is_finished() && it.done_bytes > 0
    });
    let failed_again = failed_again.await;
    assert_eq!(failed(&failed_again).code(), "disk_full");
    assert!(!fixture.model().exists());
    disk.set_free_bytes(1_000_000);
    downloads.resume(ended.id).await.unwrap();
    until(&downloads, ended.id, "done", |it| it.state == State::Done).await;
    fixture.assert_complete();
}

/// A disk whose first response waits until the test allows it.
#[derive(Debug)]
struct SlowDisk {
    disk: LimitedDisk,
    gate: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Disk for SlowDisk {
    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let gate = self.gate.lock().unwrap().take();
        if let Some(gate) = gate {
            gate.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        self.disk.free_bytes(folder)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.write_at(file, bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.disk.sync(file)
    }
}

#[tokio::test]
async fn a_model_too_large_for_the_disk_does_not_block_others() {
    let fixture = Fixture::with_model(300_000);
    fixture.local.put("owner/small", "config.json", "{}");
    fixture.local.put("owner/small", MODEL, noise(50_000, 2));
    let (open, gate) = mpsc::channel();
    let mut options = fixture.options();
    options.disk = Arc::new(SlowDisk {
        disk: LimitedDisk::with_free_bytes(100_000),
        gate: Mutex::new(Some(gate)),
    });
    let downloads = Downloads::start(fixture.hub(), options).await.unwrap();
    let large = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, large, "checking the disk space", |it| {
        it.total_bytes.is_some()
    })
    .await;
    let mut request = fixture.request();
    request.key = "small".to_owned();
    request.repository = "owner/small".to_owned();
    request.folder = fixture.folder.path().join("models/owner/small");
    let small = downloads.add(request).await.unwrap();
    until(&downloads, small, "checking the disk space", |it| {
        it.total_bytes.is_some()
    })
    .await;
    open.send(()).unwrap();
    let ended = until(&downloads, large, "over", |it| it.state.is_finished()).await;
    assert_eq!(failed(&ended).code(), "disk_full");
    let ended = until(&downloads, small, "over", |it| it.state.is_finished()).await;
    assert_eq!(ended.state, State::Done);
}

#[tokio::test]
async fn files_in_place_on_another_disk_need_no_space_there() {
    let fixture = Fixture::with_model(50_000);
    // Another disk, if the system has such a folder.
    let other = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let other = other.unwrap();
    let mut request = fixture.request();
    request.folder = other.path().join("model");
    std::fs::create_dir(&request.folder).unwrap();
    std::fs::write(request.folder.join(MODEL), noise(50_000, 1)).unwrap();
    let mut options = fixture.options();
    options.disk = Arc::new(LimitedDisk::with_free_bytes(10_000));
    let downloads = Downloads::start(fixture.hub(), options).await.unwrap();
    let id = downloads.add(request).await.unwrap();
    let ended = until(&downloads, id, "over", |it| it.state.is_finished()).await;
    assert_eq!(ended.state, State::Done);
    assert!(other.path().join("model/config.json").exists());
}

#[tokio::test]
async fn the_error_for_an_unwritable_folder_contains_its_path() {
    let fixture = Fixture::with_model(2000);
    std::fs::create_dir_all(fixture.folder.path().join("models")).unwrap();
    std::fs::write(fixture.model().parent().unwrap(), "a file in the way").unwrap();
    let text = failed(&fixture.download_alone().await).to_string();
    assert!(text.contains("models/owner"), "{text}");
}

#[tokio::test]
async fn a_lost_network_is_awaited_and_the_download_continues() {
    let mut fixture = Fixture::with_model(300_000);
    let port: u16 = fixture
        .local
        .address()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    fixture.local.fail(Route::Blob, Fault::Slow(100_000), 1000);
    let downloads = fixture.downloads().await;
    let id = downloads.add(fixture.request()).await.unwrap();
    until(&downloads, id, "downloading", |it| it.done_bytes > 1000).await;
    fixture.local = LocalHub::start().unwrap();
    let lost = until(
        &downloads,
        id,
        "waiting",
        |it| matches!(&it.state, State::Retrying { error, .. } if error.code() == "unreachable"),
    );
    lost.await;
    fixture.local = back_at(port).await;
    fixture.local.put(REPOSITORY, "config.json", "{}");
    fixture.local.put(REPOSITORY, "README.md", "words");
    fixture.local.put(REPOSITORY, MODEL, noise(300_000, 1));
    let done = until(&downloads, id, "done", |it| it.state.is_finished()).await;
    assert_eq!(done.state, State::Done);
    fixture.assert_complete();
}

/// The port may be busy for a moment after its hub has stopped.
async fn back_at(port: u16) -> LocalHub {
    let mut every = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..3000 {
        every.tick().await;
        if let Ok(hub) = LocalHub::start_at(port) {
            return hub;
        }
    }
    panic!("port {port} was not free again after a minute");
}

#[tokio::test]
async fn a_silent_store_times_out_and_is_retried() {
    let fixture = Fixture::with_model(50_000);
    let mut options = fixture.local.options();
    options.silence = Duration::from_millis(300);
    let hub = Hub::new(options).unwrap();
    let mut options = fixture.options();
    options.retry.max_attempts = 100;
    let downloads = Downloads::start(hub, options).await.unwrap();
    fixture.local.fail(Route::Blob, Fault::Silence(5000), 1);
    let done = fixture.download(&downloads).await;
    assert_eq!(done.state, State::Done);
    assert_eq!(done.last_error.unwrap().code(), "silent");
    fixture.assert_complete();
}
