//! Reads llama.cpp's own older cache: a flat folder of GGUF files named `owner_name_file.gguf`, with a
//! `manifest=owner=name=tag.json` for each download.
//!
//! Rule: the manifests say which part of a name is the repository. It is never guessed.

use std::path::Path;

use super::FoundModel;
use crate::model_files::{self, ModelFiles};
use crate::weight_files;

pub(super) fn models_in(folder: &Path) -> Vec<FoundModel> {
    let repositories = repositories(folder);
    let models = model_files::gguf_models(folder)
        .into_iter()
        .filter_map(|file| {
            let name = file.file_name()?.to_str()?.to_owned();
            let mut files = ModelFiles::of_file(file);
            let found = repositories.iter().find_map(|(prefix, repository)| {
                let rest = name.strip_prefix(&**prefix)?;
                Some((prefix, repository, rest))
            });
            let Some((prefix, repository, rest)) = found else {
                let repository = None;
                return Some(FoundModel { files, repository });
            };
            // A projector for images is not a model by itself.
            if rest.starts_with("mmproj") {
                return None;
            }
            if let Some(name) = files.name.strip_prefix(&**prefix) {
                files.name = name.to_owned();
            }
            let repository = Some(repository.clone());
            Some(FoundModel { files, repository })
        });
    models.collect()
}

/// Returns the prefixes of file names with their repositories, the longest prefix first.
fn repositories(folder: &Path) -> Vec<(String, String)> {
    let files = weight_files::files_of(folder);
    let mut repositories: Vec<(String, String)> = files
        .filter_map(|file| {
            let name = file.file_name()?.to_str()?;
            let name = name.strip_prefix("manifest=")?.strip_suffix(".json")?;
            let mut parts = name.split('=');
            let (owner, name) = (parts.next()?, parts.next()?);
            Some((format!("{owner}_{name}_"), format!("{owner}/{name}")))
        })
        .collect();
    repositories.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    repositories
}
