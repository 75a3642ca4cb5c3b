//! Downloads and what went wrong with them, in a window's terms.

use std::path::Path;

use serde_json::Value;
use transom_catalog::Installed;
use transom_hub::{Download, HubError, State};

use crate::catalogue;
use crate::models;
use crate::wire::{DownloadState, DownloadView, TroubleView};

/// All downloads, in their order. `installed` is asked for the models that the done ones became.
pub(crate) fn download_views(list: &[Download], installed: &[Installed]) -> Vec<DownloadView> {
    list.iter().map(|one| view(one, installed)).collect()
}

fn view(download: &Download, installed: &[Installed]) -> DownloadView {
    DownloadView {
        id: download.id.0,
        key: download.key.clone(),
        name: download.name.clone(),
        state: state(download, installed),
        done_bytes: download.done_bytes,
        total_bytes: download.total_bytes,
        bytes_per_second: Some(download.bytes_per_second).filter(|rate| *rate > 0),
        seconds_left: download.seconds_left.map(whole),
    }
}

fn state(download: &Download, installed: &[Installed]) -> DownloadState {
    match &download.state {
        State::Waiting => DownloadState::Waiting,
        State::Downloading => DownloadState::Downloading,
        State::Verifying {
            done_bytes,
            total_bytes,
        } => DownloadState::Verifying {
            fraction: *done_bytes as f64 / (*total_bytes).max(1) as f64,
        },
        State::Retrying { seconds, because } => DownloadState::Retrying {
            seconds: whole(*seconds),
            because: trouble(because),
        },
        State::Paused => DownloadState::Paused,
        State::Done => DownloadState::Done {
            model: model_of(download, installed).map(models::id_of),
        },
        State::Failed(error) => DownloadState::Failed {
            because: trouble(error),
        },
    }
}

/// The model that a download became: it lies in the download's folder, in its packing.
fn model_of<'a>(download: &Download, installed: &'a [Installed]) -> Option<&'a Installed> {
    let packing = download.key.rsplit('/').next().unwrap_or_default();
    let folder: &Path = &download.folder;
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut here = installed.iter().filter(|model| {
        let path = model.id.canonicalize();
        path.is_ok_and(|path| path.starts_with(&folder)) && model.facts.is_ok()
    });
    here.find(|model| catalogue::is_of(model, packing))
}

/// What went wrong, as a code with what its sentence is filled with.
pub(crate) fn trouble(error: &HubError) -> TroubleView {
    let values = match serde_json::to_value(error) {
        Ok(Value::Object(mut values)) => {
            values.remove("code");
            values
        }
        _ => serde_json::Map::new(),
    };
    TroubleView {
        code: error.code().to_owned(),
        reason: error.to_string(),
        values,
    }
}

fn whole(figure: u64) -> u32 {
    u32::try_from(figure).unwrap_or(u32::MAX)
}
