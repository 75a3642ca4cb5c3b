//! Downloads as pages see them, and their places in the queue.

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
fn a_view_has_the_state_and_a_rate_only_if_there_is_one() {
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
fn an_error_has_its_code_and_values() {
    let view = hub_error_view(&HubError::DiskFull {
        folder: "/models".into(),
        needed_bytes: 5,
        free_bytes: 2,
    });
    assert_eq!(view.code, "disk_full");
    assert_eq!(view.values["needed_bytes"], 5);
    assert!(!view.values.contains_key("code") && !view.reason.is_empty());
    assert!(hub_error_view(&HubError::Offline).values.is_empty());
}

#[test]
fn a_move_places_a_download_before_the_one_at_its_position() {
    let list: Vec<Download> = (1..=3).map(|id| download(id, State::Queued)).collect();
    let to = |id, place| queue_place(&list, DownloadId(id), place);
    assert_eq!(to(3, 0), QueuePosition::First);
    assert_eq!(to(3, 1), QueuePosition::Before(DownloadId(2)));
    assert_eq!(to(1, 1), QueuePosition::Before(DownloadId(3)));
    assert_eq!(to(1, 7), QueuePosition::Last);
}

#[test]
fn free_space_is_known_before_the_models_folder_exists() {
    let folder = tempfile::tempdir().unwrap();
    let model_source = ModelSource::new(folder.path(), || {});
    assert!(!folder.path().join(MODELS_FOLDER).exists());
    assert!(model_source.disk().free_bytes.unwrap() > 0);
    assert_eq!(model_source.disk().pending_bytes(), 0);
}
