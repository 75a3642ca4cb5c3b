//! Downloads as pages see them, and where they stand in the queue.

use transom_hub::State;

use super::*;
use crate::wire::DownloadState;

fn download(id: u64, state: State) -> Download {
    Download {
        id: DownloadId(id),
        key: "qwen3-4b@4-bit".to_owned(),
        name: "Qwen3 4B · 4-bit".to_owned(),
        repository: "a/b".to_owned(),
        folder: "/nowhere/a/b".into(),
        state,
        done_bytes: 10,
        total_bytes: Some(40),
        bytes_per_second: 0,
        seconds_left: Some(90),
        last_error: None,
    }
}

#[test]
fn a_download_is_told_with_its_state_and_a_rate_only_while_it_has_one() {
    let list = [
        download(
            3,
            State::Verifying {
                done_bytes: 1,
                total_bytes: 4,
            },
        ),
        download(4, State::Done),
    ];
    let views = download_views(&list, None);
    assert_eq!(views[0].state, DownloadState::Verifying { fraction: 0.25 });
    assert_eq!(views[0].bytes_per_second, None);
    assert_eq!(views[0].seconds_left, Some(90));
    assert_eq!(views[1].state, DownloadState::Done { model: None });
}

#[test]
fn what_went_wrong_crosses_with_its_code_and_numbers() {
    let told = trouble(&HubError::DiskFull {
        folder: "/models".into(),
        needed_bytes: 5,
        free_bytes: 2,
    });
    assert_eq!(told.code, "disk_full");
    assert_eq!(told.values["needed_bytes"], 5);
    assert!(!told.values.contains_key("code") && !told.reason.is_empty());
    assert!(trouble(&HubError::Offline).values.is_empty());
}

#[test]
fn a_download_is_moved_before_the_one_at_its_new_place() {
    let list: Vec<Download> = (1..=3).map(|id| download(id, State::Queued)).collect();
    let to = |id, place| place_at(&list, DownloadId(id), place);
    assert_eq!(to(3, 0), QueuePosition::First);
    assert_eq!(to(3, 1), QueuePosition::Before(DownloadId(2)));
    assert_eq!(to(1, 1), QueuePosition::Before(DownloadId(3)));
    assert_eq!(to(1, 7), QueuePosition::Last);
}

#[test]
fn the_disk_is_asked_before_there_is_a_folder_for_models() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(folder.path(), || {});
    assert!(!shelf.models_folder().exists());
    assert!(shelf.disk().free_bytes.unwrap() > 0);
    assert_eq!(shelf.disk().pending_bytes(), 0);
}
