//! The models that the suite loads, and damaged ones that it must not be able to load.
//!
//! Rule: what several cases share is written once, under a name that appears only when the file is
//! whole; what a case spoils is its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};
use transom_catalog::convert::{Packing, convert};

/// Tokens of context that the tiny model is said to have been made for.
const TINY_CONTEXT_LENGTH: usize = 4096;

/// A model that cannot be loaded.
pub(crate) struct Damaged {
    /// What is wrong with it.
    pub(crate) what: &'static str,
    /// What to load.
    pub(crate) path: PathBuf,
    /// A word of the message beside the file's name.
    pub(crate) word: &'static str,
}

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
            tiny_gguf: gguf("tiny.gguf", &tiny_folder, Packing::F32),
            starter_gguf: gguf("starter.gguf", &starter_folder(), Packing::F32),
            shipped_gguf: gguf("shipped.gguf", &starter_folder(), Packing::Q4_1),
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

/// The folder of the tiny model: committed weights, tokenizer and template, and more context.
fn assemble_tiny(to: &Path) {
    let fixtures = root().join("crates/engine-mlx/tests/fixtures");
    fs::create_dir(to).unwrap();
    for part in ["models/qwen3-bf16", "tokenizer"] {
        copy_files(&fixtures.join(part), to);
    }
    fs::remove_file(to.join("golden.safetensors")).unwrap();
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

/// A folder is the model already.
pub(crate) fn as_folder(folder: &Path, _: &Path) -> PathBuf {
    folder.to_owned()
}

/// The folder's model as one GGUF file of the path's name.
pub(crate) fn as_gguf(folder: &Path, to: &Path) -> PathBuf {
    let to = to.with_extension("gguf");
    convert(folder, &to, Packing::F32, &mut |_, _| {}).unwrap();
    to
}

pub(crate) fn damaged_folders(folder: &Path) -> Vec<Damaged> {
    let spoil = |what: &'static str, word, change: &dyn Fn(&Path)| {
        let path = copy_of_tiny(folder, &what.replace(' ', "-"));
        change(&path);
        Damaged { what, path, word }
    };
    let weights = "model.safetensors";
    vec![
        spoil("truncated weights", weights, &|model| {
            halve(&model.join(weights));
        }),
        spoil("weights of another format", weights, &|model| {
            overwrite(&model.join(weights), b"not a safetensors file at all");
        }),
        spoil("no weights", "safetensors", &|model| {
            fs::remove_file(model.join(weights)).unwrap();
        }),
        spoil("a tokenizer that is none", "tokenizer.json", &|model| {
            fs::write(model.join("tokenizer.json"), "{\"model\":").unwrap();
        }),
        spoil("another architecture", "mamba9", &|model| {
            change_json(&model.join("config.json"), |config| {
                config["model_type"] = json!("mamba9");
            });
        }),
        spoil("a template that is none", "template", &|model| {
            change_json(&model.join("tokenizer_config.json"), |config| {
                config["chat_template"] = json!("{% for %}");
            });
        }),
    ]
}

pub(crate) fn damaged_ggufs(folder: &Path) -> Vec<Damaged> {
    let spoil = |what: &'static str, word, change: &dyn Fn(&mut Vec<u8>)| {
        let path = folder.join(what.replace(' ', "-")).with_extension("gguf");
        let mut bytes = fs::read(&models().tiny_gguf).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        Damaged { what, path, word }
    };
    let untemplated = copy_of_tiny(folder, "a-template-that-is-none");
    change_json(&untemplated.join("tokenizer_config.json"), |config| {
        config["chat_template"] = json!("{% for %}");
    });
    vec![
        spoil("truncated weights", "truncated-weights.gguf", &|bytes| {
            bytes.truncate(bytes.len() - 1000);
        }),
        spoil("a truncated header", "a-truncated-header.gguf", &|bytes| {
            bytes.truncate(1000);
        }),
        spoil("another format", "another-format.gguf", &|bytes| {
            bytes[..4].copy_from_slice(b"GGML");
        }),
        spoil("an unknown version", "99", &|bytes| bytes[4] = 99),
        spoil("an empty file", "an-empty-file.gguf", &Vec::clear),
        spoil("another architecture", "mamb9", &|bytes| {
            set_text(bytes, "general.architecture", "mamb9");
        }),
        spoil("a tokenizer that is none", "zzzz", &|bytes| {
            set_text(bytes, "tokenizer.ggml.model", "zzzz");
        }),
        spoil("a hostile number of tensors", "hostile", &|bytes| {
            bytes[8..16].fill(0xff);
        }),
        Damaged {
            what: "a template that is none",
            path: as_gguf(&untemplated, &folder.join("untemplated")),
            word: "template",
        },
    ]
}

/// Writes over the text that a GGUF file has for `key`, which must be as long.
fn set_text(bytes: &mut [u8], key: &str, text: &str) {
    let found = bytes.windows(key.len()).position(|at| at == key.as_bytes());
    // After the key: the type (string) in 4 bytes, the length in 8.
    let length = found.unwrap() + key.len() + 4;
    let n_bytes = u64::from_le_bytes(bytes[length..length + 8].try_into().unwrap());
    assert_eq!(n_bytes, text.len() as u64, "{key}");
    bytes[length + 8..length + 8 + text.len()].copy_from_slice(text.as_bytes());
}

/// Cuts the second half of a file off.
pub(crate) fn halve(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

/// Writes over the beginning of a file.
pub(crate) fn overwrite(path: &Path, start: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[..start.len()].copy_from_slice(start);
    fs::write(path, bytes).unwrap();
}
