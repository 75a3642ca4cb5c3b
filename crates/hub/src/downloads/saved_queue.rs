//! Saves and restores the queue, and finds part files that the saved queue does not list.
//!
//! Rule: downloaded bytes are never forgotten. An unreadable queue file is set aside, and part
//! files without an entry return as paused downloads, so nothing occupies disk space unseen.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::HubError;
use crate::disk::save_json;
use crate::job::Shared;
use crate::lock::Lock;
use crate::part_file::PartFile;
use crate::plan::Plan;
use crate::queue::{Queue, SavedDownload};

const NAME: &str = "queue.json";

#[derive(Default, Serialize, Deserialize)]
struct QueueFile {
    #[serde(alias = "lines")]
    entries: Vec<SavedDownload>,
}

/// Writes the queue file. Blocks.
pub(super) fn save(folder: &Path, entries: Vec<SavedDownload>) -> Result<(), HubError> {
    save_json(&folder.join(NAME), &QueueFile { entries })
}

/// Restores the saved downloads, and adds a paused download for each folder of part files that has
/// no entry. Blocks.
pub(super) fn restore(shared: &Shared, queue: &mut Queue) {
    let folder = &shared.options.parts_folder;
    let path = folder.join(NAME);
    let entries = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, "the queue's file cannot be read and is set aside");
            let _ = fs::rename(&path, path.with_extension("damaged"));
            QueueFile::default()
        }),
        Err(_) => QueueFile::default(),
    };
    let mut known = Vec::new();
    for saved in entries.entries {
        let parts = shared.folder(&saved.request.key);
        let (done, total) = on_disk(&parts);
        known.push(parts);
        queue.restore(saved, done, total);
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for parts in entries.flatten().map(|entry| entry.path()) {
        if known.contains(&parts) || Lock::is_held(&parts) {
            continue;
        }
        if let Some(plan) = Plan::load(&parts) {
            let saved = SavedDownload {
                id: queue.new_id(),
                request: plan.request,
                is_paused: true,
                failed: None,
            };
            let (done, total) = on_disk(&parts);
            queue.restore(saved, done, total);
        }
    }
}

/// Returns how many bytes of a download are on the disk, and its total size if it has a plan.
fn on_disk(parts: &Path) -> (u64, Option<u64>) {
    let Some(plan) = Plan::load(parts) else {
        return (0, None);
    };
    let sizes = plan.files.iter().map(|file| {
        let verified = fs::metadata(Plan::verified_path(parts, file));
        match verified {
            Ok(_) => file.size_bytes,
            Err(_) => PartFile::len_on_disk(parts, file),
        }
    });
    (sizes.sum(), Some(plan.total_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_and_the_plans_of_an_earlier_version_are_read() {
        let request = r#"{"key": "k", "name": "n", "repository": "o/n", "revision": "main",
            "files": [{"name": "a.gguf", "size_bytes": 5, "sha256": null}], "folder": "/m"}"#;
        let saved =
            format!(r#"{{"id": 7, "wanted": {request}, "is_paused": true, "failed": null}}"#);
        let queue: QueueFile = serde_json::from_str(&format!(r#"{{"lines": [{saved}]}}"#)).unwrap();
        assert_eq!(queue.entries[0].request.files[0].size_bytes, Some(5));
        let plan = format!(r#"{{"wanted": {request}, "commit": "c", "files": []}}"#);
        let plan: Plan = serde_json::from_str(&plan).unwrap();
        assert_eq!(plan.request, queue.entries[0].request);
    }
}
