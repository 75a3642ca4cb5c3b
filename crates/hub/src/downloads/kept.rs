//! The queue's own file, and parts that no queue knows.
//!
//! Rule: what lies on the disk is never forgotten. A file that cannot be read is set aside, and
//! parts without a line come back as paused ones, so that nothing takes room unseen.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::job::Shared;
use crate::lock::Lock;
use crate::part::Part;
use crate::plan::Plan;
use crate::queue::{Kept, Queue};
use crate::{HubError, disk};

const NAME: &str = "queue.json";

#[derive(Serialize, Deserialize)]
struct File {
    lines: Vec<Kept>,
}

/// Writes the queue's file. Blocks.
pub(super) fn keep(folder: &Path, lines: Vec<Kept>) -> Result<(), HubError> {
    let path = folder.join(NAME);
    let text = serde_json::to_vec_pretty(&File { lines }).unwrap_or_default();
    disk::replace(&path, &text).map_err(|error| disk::trouble(&path, &error))
}

/// Reads what was kept, and adopts parts that no line speaks of. Blocks.
pub(super) fn restore(shared: &Shared, queue: &mut Queue) {
    let folder = &shared.options.parts_folder;
    let path = folder.join(NAME);
    let lines = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, "the queue's file cannot be read and is set aside");
            let _ = fs::rename(&path, path.with_extension("damaged"));
            File { lines: Vec::new() }
        }),
        Err(_) => File { lines: Vec::new() },
    };
    let mut known = Vec::new();
    for kept in lines.lines {
        let parts = shared.folder(&kept.wanted.key);
        let (done, total) = on_disk(&parts);
        known.push(parts);
        queue.restore(kept, done, total);
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for parts in entries.flatten().map(|entry| entry.path()) {
        if known.contains(&parts) || Lock::is_held(&parts) {
            continue;
        }
        if let Some(plan) = Plan::any_kept(&parts) {
            let kept = Kept {
                id: queue.fresh_id(),
                wanted: plan.wanted,
                is_paused: true,
                failed: None,
            };
            let (done, total) = on_disk(&parts);
            queue.restore(kept, done, total);
        }
    }
}

/// How much of a download is there.
fn on_disk(parts: &Path) -> (u64, Option<u64>) {
    let Some(plan) = Plan::any_kept(parts) else {
        return (0, None);
    };
    let there = plan.files.iter().map(|file| {
        let whole = fs::metadata(Plan::whole_path(parts, file));
        match whole {
            Ok(_) => file.size_bytes,
            Err(_) => Part::len_on_disk(parts, file),
        }
    });
    (there.sum(), Some(plan.total_bytes()))
}
