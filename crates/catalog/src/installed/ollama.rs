//! Reads Ollama's folder: `manifests/<host>/<owner>/<model>/<tag>` lists the layers of a model, and the
//! layer with its weights is the GGUF file `blobs/sha256-<digest>`.
//!
//! Rule: a model is listed only if its weights are one file. With an adapter, or with weights in
//! several layers, the file alone is another model.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::FoundModel;
use crate::model_files::ModelFiles;
use crate::safetensors::read_json;
use crate::weight_files;

/// Levels of folders below `manifests`: host, owner, model and tag.
const DEPTH: usize = 4;
/// Maximum size of a manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
const WEIGHTS: &str = "application/vnd.ollama.image.model";
const ADAPTER: &str = "application/vnd.ollama.image.adapter";

#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

pub(super) fn models_in(folder: &Path) -> Vec<FoundModel> {
    let manifests = folder.join("manifests");
    let mut tags = vec![manifests.clone()];
    for _ in 0..DEPTH {
        let below = tags.iter().flat_map(|path| weight_files::paths_in(path));
        tags = below.collect();
    }
    tags.sort();
    let models = tags.iter().filter_map(|tag| {
        let name = name_of(tag.strip_prefix(&manifests).ok()?)?;
        let paths = vec![weights(folder, tag)?];
        let files = ModelFiles { name, paths };
        let repository = None;
        Some(FoundModel { files, repository })
    });
    models.collect()
}

/// Returns the name that Ollama shows: `qwen3:8b`, `owner/model:latest` or
/// `hf.co/owner/model:Q4_K_M`.
fn name_of(below: &Path) -> Option<String> {
    let names: Option<Vec<&str>> = below.iter().map(OsStr::to_str).collect();
    match names?.as_slice() {
        ["registry.ollama.ai", "library", model, tag] => Some(format!("{model}:{tag}")),
        ["registry.ollama.ai", owner, model, tag] => Some(format!("{owner}/{model}:{tag}")),
        [host, owner, model, tag] => Some(format!("{host}/{owner}/{model}:{tag}")),
        _ => None,
    }
}

/// Returns the file with the weights of a model, if it is complete.
fn weights(folder: &Path, manifest: &Path) -> Option<PathBuf> {
    let manifest: Manifest = read_json(manifest, MAX_MANIFEST_BYTES).ok()?;
    let of_kind = |kind: &'static str| {
        let layers = manifest.layers.iter();
        layers.filter(move |layer| layer.media_type == kind)
    };
    let mut all = of_kind(WEIGHTS);
    let layer = all.next()?;
    if all.next().is_some() || of_kind(ADAPTER).next().is_some() {
        return None;
    }
    let name = layer.digest.replacen(':', "-", 1);
    let blob = folder.join("blobs").join(&name);
    let is_there = weight_files::is_ollama_blob(&blob) && !name.contains('/') && blob.is_file();
    is_there.then_some(blob)
}
