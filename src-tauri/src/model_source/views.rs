//! Downloads and their errors, as pages see them.

use transom_hub::{Download, HubError, State};
use transom_library::Library;

use crate::wire::{DownloadState, DownloadView, HubErrorView, fields_of};

/// Returns all downloads in order. `library` identifies the models of finished downloads.
pub(crate) fn download_views(list: &[Download], library: Option<&Library>) -> Vec<DownloadView> {
    list.iter().map(|one| view(one, library)).collect()
}

fn view(download: &Download, library: Option<&Library>) -> DownloadView {
    DownloadView {
        id: download.id.0,
        key: download.key.clone(),
        name: download.name.clone(),
        state: state(download, library),
        done_bytes: download.done_bytes,
        total_bytes: download.total_bytes,
        bytes_per_second: Some(download.bytes_per_second).filter(|rate| *rate > 0),
        seconds_left: download.seconds_left,
    }
}

fn state(download: &Download, library: Option<&Library>) -> DownloadState {
    match &download.state {
        State::Queued => DownloadState::Waiting,
        State::Downloading => DownloadState::Downloading,
        State::Verifying {
            done_bytes,
            total_bytes,
        } => DownloadState::Verifying {
            fraction: *done_bytes as f64 / (*total_bytes).max(1) as f64,
        },
        State::Retrying { seconds, error } => DownloadState::Retrying {
            seconds: *seconds,
            error: hub_error_view(error),
        },
        State::Paused => DownloadState::Paused,
        State::Done => DownloadState::Done {
            model: library.and_then(|library| Some(library.id_of(library.find(&download.key)?))),
        },
        State::Failed(error) => DownloadState::Failed {
            error: hub_error_view(error),
        },
    }
}

/// Converts an error into its code and the values for its sentence.
pub(crate) fn hub_error_view(error: &HubError) -> HubErrorView {
    let mut values = fields_of(error);
    values.remove("code");
    HubErrorView {
        code: error.code(),
        reason: error.to_string(),
        values,
    }
}
