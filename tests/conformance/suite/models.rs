//! The models that the suite loads.
//!
//! Rule: models for several cases are written once and get their name only when they are complete.
//! A case changes only its own copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};
use transom_catalog::LayerKind;
use transom_catalog::test_support::TinyModel;
use transom_catalog::test_support::convert::{Quantization, convert};

/// The context length in the configuration of the tiny model.
const TINY_CONTEXT_LENGTH: usize = 4096;

/// Models that are created once per run.
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

/// Returns the folder of files that all cases share.
fn shared_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance")
}

pub(crate) fn starter_folder() -> PathBuf {
    root().join("assets/starter")
}

pub(crate) fn shared_models() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(|| {
        let tiny_folder = create_shared("tiny", assemble_tiny);
        let gguf = |name, folder: &Path, quantization| {
            create_shared(name, |to| convert(folder, to, quantization).unwrap())
        };
        Models {
            tiny_gguf: gguf("tiny.gguf", &tiny_folder, Quantization::F32),
            starter_gguf: gguf("starter.gguf", &starter_folder(), Quantization::F32),
            shipped_gguf: gguf("shipped.gguf", &starter_folder(), Quantization::Q4_1),
            tiny_folder,
        }
    })
}

/// Creates the shared file or folder `name` with `make`, replacing that of an earlier run, and
/// returns its path.
fn create_shared(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let folder = shared_folder();
    fs::create_dir_all(&folder).unwrap();
    let temporary = tempfile::tempdir_in(&folder).unwrap();
    make(&temporary.path().join(name));
    let path = folder.join(name);
    let _ = fs::rename(&path, temporary.path().join("old"));
    fs::rename(temporary.path().join(name), &path).unwrap();
    path
}

/// Assembles a committed model with random weights, with the shared tokenizer and template.
fn assemble(name: &str, to: &Path) {
    let fixtures = root().join("crates/engine-mlx/tests/fixtures");
    fs::create_dir(to).unwrap();
    for part in [&format!("models/{name}"), "tokenizer"] {
        copy_files(&fixtures.join(part), to);
    }
    fs::remove_file(to.join("golden.safetensors")).unwrap();
}

/// Assembles the folder of the tiny model, with a longer context than the committed one.
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

/// Copies the folder of the tiny model to `folder`.
pub(crate) fn copy_of_tiny(folder: &Path, name: &str) -> PathBuf {
    let copy = folder.join(name);
    fs::create_dir(&copy).unwrap();
    copy_files(&shared_models().tiny_folder, &copy);
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

/// Creates folders of all families for MLX, also of those that cannot be converted.
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
    let is_in_families = |name: &String| FAMILIES.iter().any(|family| name.starts_with(family));
    let mut names: Vec<String> = names.filter(is_in_families).collect();
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

/// Returns the tokens at the end of a shared prefix that this model computes again. A recurrent
/// state can only be rewound to a checkpoint, which is before the opening of the response.
pub(crate) fn reread_tokens(model: &Path) -> usize {
    let facts = transom_catalog::inspect(model).unwrap();
    let has_states = facts.layers.contains(&LayerKind::Linear);
    if has_states { 8 } else { 0 }
}

/// Creates GGUF files of the convertible families, and one with a sliding window, which no folder
/// has.
pub(crate) fn family_ggufs(folder: &Path) -> Vec<PathBuf> {
    let folders = family_folders(folder);
    let mut ggufs: Vec<PathBuf> = folders.iter().map(|from| as_gguf(from, from)).collect();
    let windowed = TinyModel {
        architecture: "gemma3",
        context_length: 512,
        quantization: Quantization::F32,
        ..TinyModel::default()
    };
    ggufs.push(folder.join("gemma3.gguf"));
    windowed.write(ggufs.last().unwrap());
    ggufs
}

/// Returns the folder, which is the model already.
pub(crate) fn as_folder(folder: &Path, _: &Path) -> PathBuf {
    folder.to_owned()
}

/// Converts the folder to a GGUF file with the name of the path.
pub(crate) fn as_gguf(folder: &Path, to: &Path) -> PathBuf {
    let to = to.with_extension("gguf");
    convert(folder, &to, Quantization::F32).unwrap();
    to
}
