//! Reads the cache of Hugging Face's libraries: `models--owner--name/snapshots/<commit>`, whose files
//! are links to blobs. Checks whether folders in this format are complete, for other apps too.
//!
//! Rule: in a repository, the snapshot of the branch `main` comes first. Other snapshots add only
//! models that it doesn't have.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::FoundModel;
use crate::facts::Format;
use crate::model_files;
use crate::safetensors::{MAX_WEIGHT_FILES, indexed_files, read_config};
use crate::weight_files;

const DEPTH: usize = 2;
/// Maximum size of a file in `refs`, which contains a commit.
const MAX_REF_BYTES: u64 = 256;

pub(super) fn models_in(folder: &Path) -> Vec<FoundModel> {
    let mut repositories: Vec<PathBuf> = weight_files::paths_in(folder).collect();
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
    let branches = weight_files::paths_in(&repository.join("refs")).filter_map(commit);
    let branches: HashSet<String> = branches.collect();
    let folders = weight_files::paths_in(&repository.join("snapshots"));
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

/// Returns true if all files of a folder exist. For a GGUF file, reading its header checks that.
pub(super) fn is_complete(found: &FoundModel) -> bool {
    let path = &found.files.paths[0];
    match model_files::format_of(path) {
        Format::Gguf => true,
        Format::Safetensors => has_all_weights(path) && has_tokenizer(path) && is_for_text(path),
    }
}

/// Returns true if every weight file exists that the index lists, or that the names of parts count.
fn has_all_weights(folder: &Path) -> bool {
    if folder.join("model.safetensors.index.json").exists() {
        return indexed_files(folder)
            .is_ok_and(|files| files.iter().all(|file| folder.join(file).is_file()));
    }
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.all(|name| match name.strip_suffix(".safetensors") {
        // A link to nothing is a file that is still being downloaded.
        Some(stem) => folder.join(&name).is_file() && has_all_parts(folder, stem),
        None => true,
    })
}

/// Returns true if the other parts of `model-00001-of-00003` exist.
fn has_all_parts(folder: &Path, stem: &str) -> bool {
    let Some((base, n_parts)) = stem.rsplit_once("-of-") else {
        return true;
    };
    let base = base.rsplit_once('-').map(|(base, _)| base);
    let (Some(base), Ok(n)) = (base, n_parts.parse::<usize>()) else {
        return true;
    };
    let part = |number: usize| format!("{base}-{number:05}-of-{n_parts}.safetensors");
    n <= MAX_WEIGHT_FILES && (1..=n).all(|number| folder.join(part(number)).is_file())
}

fn has_tokenizer(folder: &Path) -> bool {
    let names = [
        "tokenizer.json",
        "tokenizer.model",
        "tekken.json",
        "vocab.json",
    ];
    names.iter().any(|name| folder.join(name).is_file())
}

/// Returns true if a folder contains a model that generates text. Caches also contain models for
/// speech, images and search.
fn is_for_text(folder: &Path) -> bool {
    let Ok(config) = read_config(folder) else {
        return false;
    };
    let is_pair = config.get("is_encoder_decoder") == Some(&Value::Bool(true));
    let names = config.get("architectures").and_then(Value::as_array);
    let is_generator = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        name.ends_with("ForCausalLM") || name.ends_with("ForConditionalGeneration")
    };
    !is_pair && names.is_none_or(|names| names.is_empty() || names.iter().any(is_generator))
}
