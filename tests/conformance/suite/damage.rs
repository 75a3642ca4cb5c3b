//! Models that must not load: damaged ones, and ones whose parts contradict each other.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::files::{as_gguf, change_json, copy_of_tiny, models};

/// A model that cannot be loaded.
pub(crate) struct Damaged {
    /// What is wrong with it.
    pub(crate) what: &'static str,
    /// What to load.
    pub(crate) path: PathBuf,
    /// A word of the message.
    pub(crate) word: &'static str,
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

/// Where a GGUF file has the value of `key`: after its type, in 4 bytes.
fn value_of(bytes: &[u8], key: &str) -> usize {
    let with_length = [&(key.len() as u64).to_le_bytes(), key.as_bytes()].concat();
    let found = bytes
        .windows(with_length.len())
        .position(|at| at == with_length);
    found.unwrap() + with_length.len() + 4
}

/// Writes over the text that a GGUF file has for `key`, which must be as long.
fn set_text(bytes: &mut [u8], key: &str, text: &str) {
    let length = value_of(bytes, key);
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

/// Configurations that no weights fit.
pub(crate) fn contradictory_folders(folder: &Path) -> Vec<Damaged> {
    let wrong = [
        ("num_attention_heads", json!(0)),
        ("num_key_value_heads", json!(3)),
        ("num_hidden_layers", json!(1_000_000)),
        ("hidden_size", json!(63)),
        ("head_dim", json!(0)),
        ("head_dim", json!(1 << 30)),
        ("intermediate_size", json!(-1)),
        ("vocab_size", json!(1_u64 << 40)),
        ("rms_norm_eps", json!("small")),
        ("rope_theta", json!(0)),
    ];
    let models = wrong.into_iter().enumerate().map(|(n, (key, value))| {
        let path = copy_of_tiny(folder, &format!("{n}-{key}"));
        change_json(&path.join("config.json"), |config| config[key] = value);
        Damaged {
            what: key,
            path,
            word: "",
        }
    });
    models.collect()
}

/// Headers that no tensors fit, of which llama.cpp takes some for impossible.
pub(crate) fn contradictory_ggufs(folder: &Path) -> Vec<Damaged> {
    let wrong = [
        ("qwen3.rope.dimension_count", 8),
        ("qwen3.rope.dimension_count", 1 << 20),
        ("qwen3.attention.head_count", 0),
        ("qwen3.attention.head_count", 3),
        ("qwen3.attention.head_count_kv", 0),
        ("qwen3.attention.head_count_kv", 3),
        ("qwen3.attention.key_length", 0),
        ("qwen3.block_count", 0),
        ("qwen3.block_count", 100_000),
        ("qwen3.embedding_length", 63),
        ("qwen3.feed_forward_length", u32::MAX),
        ("qwen3.vocab_size", u32::MAX),
        ("tokenizer.ggml.eos_token_id", u32::MAX - 5),
    ];
    let models = wrong.into_iter().enumerate().map(|(n, (key, value))| {
        let path = folder.join(format!("{n}-{key}.gguf"));
        let mut bytes = fs::read(&models().tiny_gguf).unwrap();
        let at = value_of(&bytes, key);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        Damaged {
            what: key,
            path,
            word: "",
        }
    });
    models.collect()
}
