//! Models that must not load: damaged ones, and ones with inconsistent parts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::models::{as_gguf, change_json, copy_of_tiny, shared_models};

/// A model that cannot be loaded.
pub(crate) struct BrokenModel {
    /// The defect, in words.
    pub(crate) defect: &'static str,
    /// The path to load.
    pub(crate) path: PathBuf,
    /// Text that the error must contain.
    pub(crate) expected: &'static str,
}

pub(crate) fn damaged_folders(folder: &Path) -> Vec<BrokenModel> {
    let damage = |defect: &'static str, expected, change: &dyn Fn(&Path)| {
        let path = copy_of_tiny(folder, &defect.replace(' ', "-"));
        change(&path);
        BrokenModel {
            defect,
            path,
            expected,
        }
    };
    let weights = "model.safetensors";
    vec![
        damage("truncated weights", weights, &|model| {
            halve(&model.join(weights));
        }),
        damage("weights of another format", weights, &|model| {
            overwrite(&model.join(weights), b"not a safetensors file at all");
        }),
        damage("no weights", "safetensors", &|model| {
            fs::remove_file(model.join(weights)).unwrap();
        }),
        damage("an invalid tokenizer", "tokenizer.json", &|model| {
            fs::write(model.join("tokenizer.json"), "{\"model\":").unwrap();
        }),
        damage("another architecture", "mamba9", &|model| {
            change_json(&model.join("config.json"), |config| {
                config["model_type"] = json!("mamba9");
            });
        }),
        damage("an invalid template", "template", &|model| {
            change_json(&model.join("tokenizer_config.json"), |config| {
                config["chat_template"] = json!("{% for %}");
            });
        }),
    ]
}

pub(crate) fn damaged_ggufs(folder: &Path) -> Vec<BrokenModel> {
    let damage = |defect: &'static str, expected, change: &dyn Fn(&mut Vec<u8>)| {
        let path = folder.join(defect.replace(' ', "-")).with_extension("gguf");
        let mut bytes = fs::read(&shared_models().tiny_gguf).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        BrokenModel {
            defect,
            path,
            expected,
        }
    };
    let without_template = copy_of_tiny(folder, "an-invalid-template");
    change_json(&without_template.join("tokenizer_config.json"), |config| {
        config["chat_template"] = json!("{% for %}");
    });
    vec![
        damage("truncated weights", "truncated-weights.gguf", &|bytes| {
            bytes.truncate(bytes.len() - 1000);
        }),
        damage("a truncated header", "a-truncated-header.gguf", &|bytes| {
            bytes.truncate(1000);
        }),
        damage("another format", "another-format.gguf", &|bytes| {
            bytes[..4].copy_from_slice(b"GGML");
        }),
        damage("an unknown version", "99", &|bytes| bytes[4] = 99),
        damage("an empty file", "an-empty-file.gguf", &Vec::clear),
        damage("another architecture", "mamb9", &|bytes| {
            set_text(bytes, "general.architecture", "mamb9");
        }),
        damage("an invalid tokenizer", "zzzz", &|bytes| {
            set_text(bytes, "tokenizer.ggml.model", "zzzz");
        }),
        damage("a hostile number of tensors", "hostile", &|bytes| {
            bytes[8..16].fill(0xff);
        }),
        BrokenModel {
            defect: "an invalid template",
            path: as_gguf(&without_template, &folder.join("untemplated")),
            expected: "template",
        },
    ]
}

/// Returns the offset of the value of `key` in a GGUF file, which follows the 4 bytes of its type.
fn value_of(bytes: &[u8], key: &str) -> usize {
    let with_length = [&(key.len() as u64).to_le_bytes(), key.as_bytes()].concat();
    let found = bytes
        .windows(with_length.len())
        .position(|at| at == with_length);
    found.unwrap() + with_length.len() + 4
}

/// Overwrites the text of `key` in a GGUF file with one of the same length.
fn set_text(bytes: &mut [u8], key: &str, text: &str) {
    let length = value_of(bytes, key);
    let n_bytes = u64::from_le_bytes(bytes[length..length + 8].try_into().unwrap());
    assert_eq!(n_bytes, text.len() as u64, "{key}");
    bytes[length + 8..length + 8 + text.len()].copy_from_slice(text.as_bytes());
}

/// Removes the second half of a file.
pub(crate) fn halve(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

/// Overwrites the beginning of a file.
pub(crate) fn overwrite(path: &Path, start: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[..start.len()].copy_from_slice(start);
    fs::write(path, bytes).unwrap();
}

/// Creates models whose configuration contradicts the weights.
pub(crate) fn contradictory_folders(folder: &Path) -> Vec<BrokenModel> {
    let invalid = [
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
    let models = invalid.into_iter().enumerate().map(|(n, (key, value))| {
        let path = copy_of_tiny(folder, &format!("{n}-{key}"));
        change_json(&path.join("config.json"), |config| config[key] = value);
        BrokenModel {
            defect: key,
            path,
            expected: "",
        }
    });
    models.collect()
}

/// Creates models whose header contradicts the tensors. llama.cpp aborts on some of them.
pub(crate) fn contradictory_ggufs(folder: &Path) -> Vec<BrokenModel> {
    let invalid = [
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
    let models = invalid.into_iter().enumerate().map(|(n, (key, value))| {
        let path = folder.join(format!("{n}-{key}.gguf"));
        let mut bytes = fs::read(&shared_models().tiny_gguf).unwrap();
        let at = value_of(&bytes, key);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        BrokenModel {
            defect: key,
            path,
            expected: "",
        }
    });
    models.collect()
}
