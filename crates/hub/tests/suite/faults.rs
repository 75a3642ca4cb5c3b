//! One fault at a time, and what becomes of a download with it.
//!
//! Rule: what ends well is compared with the hub's bytes; what does not leaves nothing in place.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use transom_hub::test_support::{Fault, LocalHub, Route, TightDisk};
use transom_hub::{Disk, Downloads, Hub, State, Token, TokenSource, WantedFile};

use crate::desk::{Desk, MODEL, REPOSITORY, failed, noise, until};

#[tokio::test]
async fn a_model_comes_whole_over_several_connections() {
    let desk = Desk::with_model(300_000);
    let done = desk.comes_whole().await;
    assert_eq!(done.done_bytes, 300_002);
    assert_eq!(done.total_bytes, Some(300_002));
    assert!(!desk.model().join("README.md").exists());
    assert_eq!(std::fs::read_dir(desk.parts()).unwrap().count(), 0);
}

#[tokio::test]
async fn dropped_connections_cost_only_what_was_not_written() {
    let desk = Desk::with_model(300_000);
    desk.local.fail(Route::Blob, Fault::Drop(7000), 20);
    desk.local.fail(Route::Blob, Fault::Refuse, 2);
    let done = desk.comes_whole().await;
    assert_eq!(done.last_trouble.unwrap().code(), "dropped");
}

/// A queue at a hub to which this token is shown.
async fn with_token(desk: &Desk, token: &str) -> Downloads {
    let mut options = desk.local.options();
    options.token = TokenSource::Given(Token::new(token.to_owned()).unwrap());
    let hub = Hub::new(options).unwrap();
    Downloads::start(hub, desk.options()).await.unwrap()
}

#[tokio::test]
async fn the_token_stays_with_the_hub() {
    let desk = Desk::with_model(50_000);
    desk.local.accept_token("hf_right");
    desk.local.gate(REPOSITORY);
    let downloads = with_token(&desk, "hf_right").await;
    assert_eq!(desk.fetch(&downloads).await.state, State::Done);
    let seen = desk.local.seen();
    assert!(seen.iter().any(|seen| seen.route == Route::Blob));
    for seen in seen {
        assert_eq!(seen.has_token, seen.route != Route::Blob, "{seen:?}");
    }
}

#[tokio::test]
async fn a_renamed_repository_is_followed_with_the_token() {
    let desk = Desk::with_model(50_000);
    desk.local.accept_token("hf_right");
    desk.local.gate(REPOSITORY);
    desk.local.rename("former/name", REPOSITORY);
    let downloads = with_token(&desk, "hf_right").await;
    let mut wanted = desk.wanted();
    wanted.repository = "former/name".to_owned();
    let id = downloads.add(wanted).await.unwrap();
    until(&downloads, id, "done", |it| it.state == State::Done).await;
    desk.assert_whole();
}

#[tokio::test]
async fn a_model_on_another_disk_than_its_parts_comes_whole() {
    let desk = Desk::with_model(50_000);
    // Another disk where the system has such a folder.
    let other = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let other = other.unwrap();
    let downloads = desk.downloads().await;
    let mut wanted = desk.wanted();
    wanted.folder = other.path().join("owner/model");
    let id = downloads.add(wanted).await.unwrap();
    until(&downloads, id, "done", |it| it.state == State::Done).await;
    let found = std::fs::read(other.path().join("owner/model").join(MODEL)).unwrap();
    assert_eq!(Some(found), desk.local.bytes(REPOSITORY, MODEL));
    let n_files = std::fs::read_dir(other.path().join("owner/model")).unwrap();
    assert_eq!(n_files.count(), 2, "no copy is left half");
    assert_eq!(std::fs::read_dir(desk.parts()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_gated_model_names_the_page_where_to_accept() {
    let desk = Desk::with_model(50_000);
    desk.local.gate(REPOSITORY);
    let ended = desk.fetched().await;
    let error = failed(&ended);
    assert_eq!(error.code(), "gated");
    let page = format!("{}/{REPOSITORY}", desk.local.address());
    assert!(error.to_string().contains(&page), "{error}");
}

#[tokio::test]
async fn a_busy_hub_is_waited_for_and_a_broken_one_is_given_up() {
    let desk = Desk::with_model(50_000);
    desk.local.fail(Route::Blob, Fault::Status(429, Some(0)), 3);
    desk.local.fail(Route::Resolve, Fault::Status(503, None), 2);
    desk.comes_whole().await;
    let desk = Desk::with_model(50_000);
    desk.local.fail(Route::Blob, Fault::Status(502, None), 1000);
    is_given_up_and_comes_when_told(&desk, "server_trouble").await;
}

/// Fails, leaves nothing in place, and comes whole when the hub is well again and somebody says so.
async fn is_given_up_and_comes_when_told(desk: &Desk, code: &str) {
    let downloads = desk.downloads().await;
    let ended = desk.fetch(&downloads).await;
    assert_eq!(failed(&ended).code(), code);
    assert!(!desk.model().exists());
    desk.local.heal();
    downloads.resume(ended.id).await.unwrap();
    until(&downloads, ended.id, "done", |it| it.state == State::Done).await;
    desk.assert_whole();
}

#[tokio::test]
async fn a_hub_that_says_when_it_is_back_is_asked_then() {
    for status in [429, 503] {
        let desk = Desk::with_model(2000);
        desk.local
            .fail(Route::Listing, Fault::Status(status, Some(1)), 1);
        let downloads = desk.downloads().await;
        let id = downloads.add(desk.wanted()).await.unwrap();
        let waits = until(&downloads, id, "waiting as told", |it| {
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
async fn links_that_expire_are_asked_for_again() {
    let desk = Desk::with_model(300_000);
    desk.local.fail(Route::Blob, Fault::ExpireLinks, 2);
    desk.comes_whole().await;
}

#[tokio::test]
async fn a_store_without_ranges_sends_all_at_once() {
    let desk = Desk::with_model(300_000);
    desk.local.fail(Route::Blob, Fault::IgnoreRange, 1000);
    desk.comes_whole().await;
}

#[tokio::test]
async fn a_refused_range_is_tried_and_given_up() {
    let desk = Desk::with_model(50_000);
    desk.local.fail(Route::Blob, Fault::Status(416, None), 1000);
    assert_eq!(failed(&desk.fetched().await).code(), "range_refused");
}

#[tokio::test]
async fn wrong_lengths_are_not_believed() {
    for by in [-1000, 1000] {
        let desk = Desk::with_model(50_000);
        desk.local.fail(Route::Blob, Fault::Length(by), 2);
        let done = desk.comes_whole().await;
        assert_eq!(done.last_trouble.unwrap().code(), "wrong_length");
    }
}

#[tokio::test]
async fn damage_is_found_and_fetched_once_more_and_then_told() {
    let desk = Desk::with_model(50_000);
    desk.local.fail(Route::Blob, Fault::WrongBytes, 1);
    let done = desk.comes_whole().await;
    assert_eq!(done.last_trouble.unwrap().code(), "wrong_hash");
    let desk = Desk::with_model(50_000);
    desk.local.fail(Route::Blob, Fault::WrongBytes, 1000);
    is_given_up_and_comes_when_told(&desk, "wrong_hash").await;
}

#[tokio::test]
async fn a_small_file_is_checked_with_gits_checksum() {
    let desk = Desk::with_model(2000);
    desk.local.fail(Route::Resolve, Fault::WrongBytes, 1000);
    let text = failed(&desk.fetched().await).to_string();
    assert!(text.starts_with("config.json came damaged"), "{text}");
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_starts_over_and_says_so() {
    let desk = Desk::with_model(300_000);
    let mut options = desk.options();
    options.connections_a_file = 1;
    let downloads = Downloads::start(desk.hub(), options).await.unwrap();
    desk.local.fail(Route::Blob, Fault::Drop(20_000), 3);
    desk.local.fail(Route::Blob, Fault::Change, 1);
    let done = desk.fetch(&downloads).await;
    assert_eq!(done.state, State::Done);
    assert_eq!(done.last_trouble.unwrap().code(), "changed_meanwhile");
    desk.assert_whole();
}

#[tokio::test]
async fn what_is_whole_already_stays_when_another_file_changes() {
    let desk = Desk::with_model(2000);
    desk.local
        .put(REPOSITORY, "a.safetensors", noise(100_000, 2));
    desk.local
        .put(REPOSITORY, "b.safetensors", noise(200_000, 3));
    desk.local.fail(Route::Blob, Fault::Slow(60_000), u32::MAX);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, id, "at b", |it| it.done_bytes > 110_000).await;
    desk.local
        .rewrite(REPOSITORY, "b.safetensors", noise(190_000, 4));
    desk.local.heal();
    // The connections that are under way bring the old bytes to their end.
    downloads.pause(id).await.unwrap();
    downloads.resume(id).await.unwrap();
    until(&downloads, id, "done", |it| it.state == State::Done).await;
    let found = std::fs::read(desk.model().join("b.safetensors")).unwrap();
    assert_eq!(found, noise(190_000, 4));
    let seen = desk.local.seen().into_iter();
    let of_a = seen.filter(|seen| seen.path.contains("blobs") && seen.path.contains("a.safe"));
    assert_eq!(of_a.count(), 5, "five pieces of 20,000 bytes, once each");
}

#[tokio::test]
async fn a_file_that_is_not_the_listed_one_is_refused_before_it_comes() {
    let desk = Desk::with_model(50_000);
    let downloads = desk.downloads().await;
    for file in [
        WantedFile {
            size_bytes: Some(7),
            ..WantedFile::named(MODEL)
        },
        WantedFile {
            sha256: Some("0".repeat(64)),
            ..WantedFile::named(MODEL)
        },
    ] {
        let mut wanted = desk.wanted();
        wanted.files = vec![WantedFile::named("config.json"), file];
        let id = downloads.add(wanted).await.unwrap();
        let ended = until(&downloads, id, "over", |it| it.state.is_over()).await;
        assert_eq!(failed(&ended).code(), "not_as_listed");
    }
    assert_eq!(desk.asked_bytes(), 0);
}

#[tokio::test]
async fn a_full_disk_is_told_with_its_numbers_before_and_during() {
    let desk = Desk::with_model(300_000);
    let disk = Arc::new(TightDisk::with_room(1000));
    let mut options = desk.options();
    options.disk = disk.clone();
    options.spare_bytes = 500;
    let downloads = Downloads::start(desk.hub(), options).await.unwrap();
    let ended = desk.fetch(&downloads).await;
    let json = serde_json::to_value(failed(&ended)).unwrap();
    assert_eq!(json["code"], "disk_full");
    assert_eq!(json["needed_bytes"], 300_502);
    assert_eq!(json["free_bytes"], 1000);
    assert_eq!(desk.asked_bytes(), 0);
    disk.claim(1_000_000);
    disk.set_room(100_000);
    downloads.resume(ended.id).await.unwrap();
    let came = until(&downloads, ended.id, "full", |it| {
        it.state.is_over() && it.done_bytes > 0
    });
    let came = came.await;
    assert_eq!(failed(&came).code(), "disk_full");
    assert!(!desk.model().exists());
    disk.set_room(1_000_000);
    downloads.resume(ended.id).await.unwrap();
    until(&downloads, ended.id, "done", |it| it.state == State::Done).await;
    desk.assert_whole();
}

/// A disk whose first answer waits until the test lets it go.
#[derive(Debug)]
struct SlowDisk {
    disk: TightDisk,
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
async fn a_model_too_large_for_the_disk_keeps_no_other_one_out() {
    let desk = Desk::with_model(300_000);
    desk.local.put("owner/small", "config.json", "{}");
    desk.local.put("owner/small", MODEL, noise(50_000, 2));
    let (open, gate) = mpsc::channel();
    let mut options = desk.options();
    options.disk = Arc::new(SlowDisk {
        disk: TightDisk::with_room(100_000),
        gate: Mutex::new(Some(gate)),
    });
    let downloads = Downloads::start(desk.hub(), options).await.unwrap();
    let large = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, large, "asking for room", |it| {
        it.total_bytes.is_some()
    })
    .await;
    let mut wanted = desk.wanted();
    wanted.key = "small".to_owned();
    wanted.repository = "owner/small".to_owned();
    wanted.folder = desk.folder.path().join("models/owner/small");
    let small = downloads.add(wanted).await.unwrap();
    until(&downloads, small, "asking for room", |it| {
        it.total_bytes.is_some()
    })
    .await;
    open.send(()).unwrap();
    let ended = until(&downloads, large, "over", |it| it.state.is_over()).await;
    assert_eq!(failed(&ended).code(), "disk_full");
    let ended = until(&downloads, small, "over", |it| it.state.is_over()).await;
    assert_eq!(ended.state, State::Done);
}

#[tokio::test]
async fn what_is_in_place_on_another_disk_needs_no_room_there() {
    let desk = Desk::with_model(50_000);
    // Another disk where the system has such a folder.
    let other = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let other = other.unwrap();
    let mut wanted = desk.wanted();
    wanted.folder = other.path().join("model");
    std::fs::create_dir(&wanted.folder).unwrap();
    std::fs::write(wanted.folder.join(MODEL), noise(50_000, 1)).unwrap();
    let mut options = desk.options();
    options.disk = Arc::new(TightDisk::with_room(10_000));
    let downloads = Downloads::start(desk.hub(), options).await.unwrap();
    let id = downloads.add(wanted).await.unwrap();
    let ended = until(&downloads, id, "over", |it| it.state.is_over()).await;
    assert_eq!(ended.state, State::Done);
    assert!(other.path().join("model/config.json").exists());
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let desk = Desk::with_model(2000);
    std::fs::create_dir_all(desk.folder.path().join("models")).unwrap();
    std::fs::write(desk.model().parent().unwrap(), "a file in the way").unwrap();
    let text = failed(&desk.fetched().await).to_string();
    assert!(text.contains("models/owner"), "{text}");
}

#[tokio::test]
async fn without_a_network_it_waits_and_goes_on_by_itself() {
    let mut desk = Desk::with_model(300_000);
    let port: u16 = desk
        .local
        .address()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    desk.local.fail(Route::Blob, Fault::Slow(100_000), 1000);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, id, "coming", |it| it.done_bytes > 1000).await;
    desk.local = LocalHub::start().unwrap();
    let lost = until(
        &downloads,
        id,
        "waiting",
        |it| matches!(&it.state, State::Retrying { because, .. } if because.code() == "unreachable"),
    );
    lost.await;
    desk.local = back_at(port).await;
    desk.local.put(REPOSITORY, "config.json", "{}");
    desk.local.put(REPOSITORY, "README.md", "words");
    desk.local.put(REPOSITORY, MODEL, noise(300_000, 1));
    let done = until(&downloads, id, "done", |it| it.state.is_over()).await;
    assert_eq!(done.state, State::Done);
    desk.assert_whole();
}

/// The port may be busy for a moment after its hub has gone.
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
async fn a_silent_store_is_left_and_asked_again() {
    let desk = Desk::with_model(50_000);
    let mut options = desk.local.options();
    options.silence = Duration::from_millis(300);
    let hub = Hub::new(options).unwrap();
    let mut options = desk.options();
    options.patience.n_tries = 100;
    let downloads = Downloads::start(hub, options).await.unwrap();
    desk.local.fail(Route::Blob, Fault::Silence(5000), 1);
    let done = desk.fetch(&downloads).await;
    assert_eq!(done.state, State::Done);
    assert_eq!(done.last_trouble.unwrap().code(), "silent");
    desk.assert_whole();
}
