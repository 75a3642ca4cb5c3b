//! Reads the cache of Hugging Face's libraries: `models--owner--name/snapshots/<commit>`, whose files
//! are links to blobs.
//!
//! Rule: in a repository, the snapshot of the branch `main` comes first. Other snapshots add only
//! models that it doesn't have.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::FoundModel;
use super::other_apps::is_complete;
use crate::model_files;

const DEPTH: usize = 2;
/// Maximum size of a file in `refs`, which contains a commit.
const MAX_REF_BYTES: u64 = 256;

pub(super) fn models_in(folder: &Path) -> Vec<FoundModel> {
    let mut repositories: Vec<PathBuf> = model_files::paths_in(folder).collect();
    repositories.sort();
    let models = repositories.iter().filter_map(|path| {
        let repository = model_files::cached_repository(Some(&path.join("snapshots")))?;
        Some(of_repository(path, &repository))
    });
    models.flatten().collect()
}

fn of_repository(folder: &Path, repository: &str) -> Vec<FoundModel> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for snapshot in snapshots(folder) {
        for mut found in super::models_in(&snapshot, DEPTH) {
            let path = &found.files.paths[0];
            let below = path.strip_prefix(&snapshot).unwrap_or(path).to_owned();
            // An incomplete snapshot must not hide a complete one.
            if !is_complete(&found) || !seen.insert(below) {
                continue;
            }
            found.repository = Some(repository.to_owned());
            all.push(found);
        }
    }
    all
}

/// Returns the snapshots of a repository: first that of `main`, then those of other branches, then
/// the rest, the newest first.
fn snapshots(repository: &Path) -> Vec<PathBuf> {
    let commit = |path: PathBuf| {
        let text = transom_files::read_to_string(&path, MAX_REF_BYTES).ok()?;
        Some(text.trim().to_owned())
    };
    let main = commit(repository.join("refs/main"));
    let branches = model_files::paths_in(&repository.join("refs")).filter_map(commit);
    let branches: HashSet<String> = branches.collect();
    let folders = model_files::paths_in(&repository.join("snapshots"));
    let folders = folders.filter(|path| path.is_dir());
    let mut snapshots: Vec<PathBuf> = folders.map(|path| model_files::absolute(&path)).collect();
    snapshots.sort_by_cached_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_main = main.as_deref() == Some(&*name);
        let is_branch = branches.contains(&*name);
        let changed = path.metadata().and_then(|metadata| metadata.modified());
        let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
        (!is_main, !is_branch, std::cmp::Reverse(changed))
    });
    snapshots
}
