//! The models that the suite loads, and damaged ones that it must not be able to load.
//!
//! Rule: what several cases share is written once, under a name that appears only when the file is
//! whole; what a case spoils is its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};
use transom_catalog::LayerKind;
use transom_catalog::convert::{Quantization, convert};
use transom_catalog::test_support::TinyModel;

/// Tokens of context that the tiny model is said to have been made for.
const TINY_CONTEXT_LENGTH: usize = 4096;

/// Models that are made once.
pub(crate) struct Models {
    pub(crate) tiny_folder: PathBuf,
    pub(crate) tiny_gguf: PathBuf,
    pub(crate) starter_gguf: PathBuf,
    pub(crate) shipped_gguf: PathBuf,
}

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap().to_owned()
}

/// Where files lie that all cases share.
fn shared() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance")
}

pub(crate) fn starter_folder() -> PathBuf {
    root().join("assets/starter")
}

pub(crate) fn models() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(|| {
        let tiny_folder = once("tiny", assemble_tiny);
        let gguf = |name, folder: &Path, packing| {
            once(name, |to| {
                convert(folder, to, packing, &mut |_, _| {}).unwrap()
            })
        };
        Models {
            tiny_gguf: gguf("tiny.gguf", &tiny_folder, Quantization::F32),
            starter_gguf: gguf("starter.gguf", &starter_folder(), Quantization::F32),
            shipped_gguf: gguf("shipped.gguf", &starter_folder(), Quantization::Q4_1),
            tiny_folder,
        }
    })
}

/// What `make` writes to a path that it is given, under the name `name`; made anew in each run.
fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let shared = shared();
    fs::create_dir_all(&shared).unwrap();
    let draft = tempfile::tempdir_in(&shared).unwrap();
    make(&draft.path().join(name));
    let path = shared.join(name);
    let _ = fs::rename(&path, draft.path().join("old"));
    fs::rename(draft.path().join(name), &path).unwrap();
    path
}

/// A committed model with random weights, and the tokenizer and template that all of them share.
fn assemble(name: &str, to: &Path) {
    let fixtures = root().join("crates/engine-mlx/tests/fixtures");
    fs::create_dir(to).unwrap();
    for part in [&format!("models/{name}"), "tokenizer"] {
        copy_files(&fixtures.join(part), to);
    }
    fs::remove_file(to.join("golden.safetensors")).unwrap();
}

/// The folder of the tiny model, with more context than it was committed with.
fn assemble_tiny(to: &Path) {
    assemble("qwen3-bf16", to);
    change_json(&to.join("config.json"), |config| {
        config["max_position_embeddings"] = json!(TINY_CONTEXT_LENGTH);
    });
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// A copy of the tiny model's folder, in `folder`.
pub(crate) fn copy_of_tiny(folder: &Path, name: &str) -> PathBuf {
    let copy = folder.join(name);
    fs::create_dir(&copy).unwrap();
    copy_files(&models().tiny_folder, &copy);
    copy
}

pub(crate) fn change_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(path).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

pub(crate) fn family_folders(folder: &Path) -> Vec<PathBuf> {
    let names = [
        "llama-bf16-biases",
        "llama-bf16-llama3",
        "mistral-bf16-sharded",
        "qwen2-bf16",
        "qwen3-mixed",
    ];
    let assembled = names.map(|name| {
        let to = folder.join(name);
        assemble(name, &to);
        to
    });
    assembled.to_vec()
}

/// For MLX, also those that cannot be converted: with windows, experts, states and tables.
pub(crate) fn every_family_folder(folder: &Path) -> Vec<PathBuf> {
    const FAMILIES: [&str; 11] = [
        "gemma3-",
        "gemma4-",
        "gpt-oss-",
        "ministral3-",
        "mistral-window",
        "mistral3-",
        "phi3-",
        "qwen3-5-",
        "qwen3-moe-",
        "qwen3-next-",
        "smollm3-",
    ];
    let fixtures = root().join("crates/engine-mlx/tests/fixtures/models");
    let names = fs::read_dir(&fixtures).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_wanted = |name: &String| FAMILIES.iter().any(|family| name.starts_with(family));
    let mut names: Vec<String> = names.filter(is_wanted).collect();
    names.sort();
    let assembled = names.iter().map(|name| {
        let to = folder.join(name);
        assemble(name, &to);
        to
    });
    family_folders(folder)
        .into_iter()
        .chain(assembled)
        .collect()
}

/// Tokens at the end of a shared prefix that this model reads again: a recurrent state goes back only
/// to a pinned place, which lies before the opening of the answer.
pub(crate) fn reread_tokens(model: &Path) -> usize {
    let facts = transom_catalog::inspect(model).unwrap();
    let has_states = facts.layers.contains(&LayerKind::Linear);
    if has_states { 8 } else { 0 }
}

/// Those that are converted, and one with a sliding window, which no folder here has.
pub(crate) fn family_ggufs(folder: &Path) -> Vec<PathBuf> {
    let folders = family_folders(folder);
    let mut models: Vec<PathBuf> = folders.iter().map(|from| as_gguf(from, from)).collect();
    let windowed = TinyModel {
        architecture: "gemma3",
        context_length: 512,
        quantization: Quantization::F32,
        ..TinyModel::default()
    };
    models.push(folder.join("gemma3.gguf"));
    windowed.write(models.last().unwrap());
    models
}

/// A folder is the model already.
pub(crate) fn as_folder(folder: &Path, _: &Path) -> PathBuf {
    folder.to_owned()
}

/// The folder's model as one GGUF file of the path's name.
pub(crate) fn as_gguf(folder: &Path, to: &Path) -> PathBuf {
    let to = to.with_extension("gguf");
    convert(folder, &to, Quantization::F32, &mut |_, _| {}).unwrap();
    to
}
