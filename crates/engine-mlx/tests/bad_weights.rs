//! Weight files that are inconsistent, truncated or do not fit the configuration are errors that
//! name the file. Loading any bytes as a header or a configuration returns a model or an error.

#[path = "fixtures/broken_models.rs"]
mod broken_models;
#[path = "fixtures/support.rs"]
mod support;

use std::fs;
use std::path::Path;

use broken_models::{Tensor, assert_refused, try_load, with_config, with_json, with_tensors};
use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::{Value, json};
use support::assemble;
use tempfile::TempDir;
use transom_engine::EngineError;

const MODEL: &str = "qwen3-q4-g64";
const WEIGHTS: &str = "model.safetensors";
const SHARDED: &str = "mistral-bf16-sharded";
const INDEX: &str = "model.safetensors.index.json";

/// Returns a model with these bytes as its weights.
fn with_weights(bytes: &[u8]) -> TempDir {
    let folder = assemble(MODEL);
    fs::write(folder.path().join(WEIGHTS), bytes).expect("written");
    folder
}

/// Returns a safetensors file with this header.
fn file(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), data].concat()
}

#[test]
fn the_error_of_missing_weights_names_the_folder() {
    let folder = assemble(MODEL);
    fs::remove_file(folder.path().join(WEIGHTS)).expect("the file existed");
    let name = folder.path().display().to_string();
    assert_refused(folder.path(), &[&name, "safetensors", "not found"]);
}

#[test]
fn truncated_weights_are_refused() {
    let bytes = fs::read(assemble(MODEL).path().join(WEIGHTS)).expect("the weights exist");
    for length in [0, 1, 7, 8, 9, 500, bytes.len() / 2, bytes.len() - 1] {
        let folder = with_weights(&bytes[..length]);
        assert_refused(folder.path(), &[WEIGHTS, "download the model again"]);
    }
}

#[test]
fn weights_with_more_bytes_than_the_header_says_are_refused() {
    let mut bytes = fs::read(assemble(MODEL).path().join(WEIGHTS)).expect("the weights exist");
    bytes.push(0);
    assert_refused(with_weights(&bytes).path(), &[WEIGHTS]);
}

#[test]
fn a_header_longer_than_the_file_is_refused() {
    for length in [40, 99_999_999, 100_000_001, 1 << 62, u64::MAX] {
        let bytes = [&length.to_le_bytes()[..], b"{}"].concat();
        assert_refused(with_weights(&bytes).path(), &[WEIGHTS, "safetensors"]);
    }
}

#[test]
fn a_header_with_a_flipped_bit_is_refused() {
    let bytes = fs::read(assemble(MODEL).path().join(WEIGHTS)).expect("the weights exist");
    // The opening brace, the highest byte of the length, and the first quote of the first name.
    for (position, bit) in [(8, 0), (7, 6), (9, 7)] {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1 << bit;
        assert_refused(with_weights(&damaged).path(), &[WEIGHTS, "safetensors"]);
    }
}

#[test]
fn headers_with_wrong_tensors_are_refused() {
    let f32s = |shape: Value, offsets: [u64; 2]| json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
    let headers = [
        (
            "overlap",
            json!({"a": f32s(json!([8]), [0, 32]), "b": f32s(json!([8]), [16, 48])}),
        ),
        ("beyond the file", json!({"a": f32s(json!([32]), [0, 128])})),
        (
            "far beyond the file",
            json!({"a": f32s(json!([16]), [1 << 60, (1 << 60) + 64])}),
        ),
        ("wrong product", json!({"a": f32s(json!([4, 5]), [0, 64])})),
        ("backwards", json!({"a": f32s(json!([16]), [64, 0])})),
        (
            "hole",
            json!({"a": f32s(json!([8]), [0, 32]), "b": f32s(json!([4]), [48, 64])}),
        ),
        (
            "too large to count",
            json!({"a": f32s(json!([1_u64 << 40, 1_u64 << 40]), [0, 64])}),
        ),
        (
            "negative",
            json!({"a": {"dtype": "F32", "shape": [-16], "data_offsets": [0, 64]}}),
        ),
        (
            "unknown type",
            json!({"a": {"dtype": "Q9", "shape": [16], "data_offsets": [0, 64]}}),
        ),
        ("no offsets", json!({"a": {"dtype": "F32", "shape": [16]}})),
        ("a list", json!([1, 2, 3])),
    ];
    for (case, header) in headers {
        let folder = with_weights(&file(&header, &[0; 64]));
        let error = try_load(folder.path()).expect_err(case);
        assert!(error.to_string().contains(WEIGHTS), "{case}: {error}");
        assert!(
            matches!(error, EngineError::BadFile { .. }),
            "{case}: {error}"
        );
    }
}

#[test]
fn the_error_of_a_tensor_with_the_wrong_shape_has_both_shapes() {
    let folder = with_tensors(MODEL, |tensors| {
        let norm = tensors
            .get_mut("model.norm.weight")
            .expect("the tensor exists");
        norm.shape = vec![2, 32];
    });
    assert_refused(
        folder.path(),
        &[WEIGHTS, "model.norm.weight", "[2, 32]", "[64]"],
    );
    let folder = with_tensors(MODEL, |tensors| {
        let scales = tensors
            .get_mut("model.layers.1.mlp.up_proj.scales")
            .expect("the tensor exists");
        scales.shape.reverse();
    });
    assert_refused(
        folder.path(),
        &[WEIGHTS, "up_proj.scales", "[1, 128]", "[128, 1]"],
    );
}

#[test]
fn sizes_that_differ_from_the_tensors_are_refused() {
    for (key, value) in [
        ("vocab_size", 320),
        ("hidden_size", 128),
        ("intermediate_size", 256),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 1),
        ("head_dim", 32),
    ] {
        let folder = with_config(MODEL, |config| config[key] = json!(value));
        assert_refused(
            folder.path(),
            &[WEIGHTS, "has the shape", "config.json asks for"],
        );
    }
}

#[test]
fn the_error_names_a_missing_tensor() {
    for name in [
        "model.norm.weight",
        "model.embed_tokens.weight",
        "model.layers.1.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_norm.weight",
        "model.layers.0.mlp.down_proj.biases",
    ] {
        let folder = with_tensors(MODEL, |tensors| {
            tensors.remove(name).expect("the tensor exists");
        });
        let path = folder.path().display().to_string();
        assert_refused(folder.path(), &[&path, name, "missing"]);
    }
}

#[test]
fn the_error_names_a_missing_layer() {
    let folder = with_config(MODEL, |config| config["num_hidden_layers"] = json!(3));
    assert_refused(folder.path(), &["model.layers.2.", "missing"]);
}

#[test]
fn unknown_tensors_are_ignored() {
    let folder = with_tensors(MODEL, |tensors| {
        for (name, dtype, size) in [
            (
                "model.layers.0.self_attn.rotary_emb.inv_freq",
                Dtype::F32,
                4,
            ),
            ("position_ids", Dtype::I64, 8),
            ("lm_head.weight", Dtype::F64, 8),
            ("model.vision.flag", Dtype::BOOL, 1),
        ] {
            let tensor = Tensor {
                dtype,
                shape: vec![4],
                data: vec![1; 4 * size],
            };
            tensors.insert(name.to_owned(), tensor);
        }
    });
    assert_eq!(try_load(folder.path()), Ok(()));
}

#[test]
fn a_needed_tensor_of_integers_is_refused() {
    let folder = with_tensors(MODEL, |tensors| {
        let norm = tensors
            .get_mut("model.norm.weight")
            .expect("the tensor exists");
        norm.dtype = Dtype::I16;
    });
    assert_refused(folder.path(), &[WEIGHTS, "model.norm.weight", "I16"]);
}

#[test]
fn packed_weights_of_the_wrong_type_are_refused() {
    let folder = with_tensors(MODEL, |tensors| {
        let packed = tensors
            .get_mut("model.layers.0.self_attn.q_proj.weight")
            .expect("the tensor exists");
        packed.dtype = Dtype::F32;
    });
    assert_refused(folder.path(), &[WEIGHTS, "q_proj.weight"]);
}

#[test]
fn the_error_of_a_group_that_does_not_divide_the_matrix_has_both_sizes() {
    let folder = with_config(MODEL, |config| {
        for key in ["quantization", "quantization_config"] {
            config[key]["group_size"] = json!(128);
        }
    });
    let name = folder.path().display().to_string();
    assert_refused(folder.path(), &[&name, "64", "groups of 128"]);
}

#[test]
fn quantized_tensors_without_a_quantization_entry_are_refused() {
    let folder = with_config(MODEL, |config| {
        for key in ["quantization", "quantization_config"] {
            config.as_object_mut().expect("an object").remove(key);
        }
    });
    assert_refused(folder.path(), &["model.embed_tokens", "config.json"]);
}

/// Returns the sharded model with a changed index.
fn with_index(change: impl FnOnce(&mut Value)) -> TempDir {
    with_json(SHARDED, INDEX, change)
}

#[test]
fn the_error_names_a_missing_shard() {
    let folder = assemble(SHARDED);
    let shard = "model-00002-of-00003.safetensors";
    fs::remove_file(folder.path().join(shard)).expect("the file existed");
    assert_refused(folder.path(), &[shard, "not found", "index"]);
}

#[test]
fn an_index_that_points_outside_the_folder_is_refused() {
    for target in [
        "../secret.safetensors",
        "/etc/passwd",
        "a/../../b.safetensors",
        "",
    ] {
        let folder = with_index(|index| {
            index["weight_map"]["model.norm.weight"] = json!(target);
        });
        assert_refused(folder.path(), &[INDEX, target]);
    }
}

#[test]
fn the_error_names_a_broken_index() {
    for index in [
        json!({}),
        json!({"weight_map": 5}),
        json!({"weight_map": {"a": 5}}),
    ] {
        let folder = with_index(|value| *value = index);
        assert_refused(folder.path(), &[INDEX]);
    }
}

#[test]
fn a_tensor_in_two_shards_is_refused() {
    let folder = assemble(SHARDED);
    let copy = "model-00004-of-00004.safetensors";
    let first = folder.path().join("model-00001-of-00003.safetensors");
    fs::copy(first, folder.path().join(copy)).expect("copied");
    fs::remove_file(folder.path().join(INDEX)).expect("the file existed");
    assert_refused(folder.path(), &[copy, "more than one file"]);
}

#[test]
fn shards_without_an_index_are_loaded() {
    let folder = assemble(SHARDED);
    fs::remove_file(folder.path().join(INDEX)).expect("the file existed");
    assert_eq!(try_load(folder.path()), Ok(()));
}

/// Damage to the bytes of a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Vec<(prop::sample::Index, u8)>),
    Truncate(prop::sample::Index),
    Overwrite(prop::sample::Index, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => prop::collection::vec((any_index(), 0_u8..8), 1..4).prop_map(Damage::Flip),
        1 => any_index().prop_map(Damage::Truncate),
        // With digits, JSON stays valid more often than with other bytes.
        3 => (any_index(), prop::collection::vec(b'0'..=b'9', 1..6))
            .prop_map(|(at, digits)| Damage::Overwrite(at, digits)),
    ]
}

fn any_index() -> impl Strategy<Value = prop::sample::Index> {
    any::<prop::sample::Index>()
}

impl Damage {
    /// Damages the first `n_bytes` of `bytes`.
    fn apply(&self, bytes: &mut Vec<u8>, n_bytes: usize) {
        match self {
            Self::Flip(flips) => {
                for (position, bit) in flips {
                    bytes[position.index(n_bytes)] ^= 1 << bit;
                }
            }
            Self::Truncate(length) => bytes.truncate(length.index(n_bytes)),
            Self::Overwrite(start, digits) => {
                let start = start.index(n_bytes);
                let end = n_bytes.min(start + digits.len());
                bytes[start..end].copy_from_slice(&digits[..end - start]);
            }
        }
    }
}

/// Checks that loading returns a model, or an error that names a path in the folder.
fn assert_model_or_error(folder: &Path) {
    if let Err(error) = try_load(folder) {
        let name = folder.display().to_string();
        assert!(error.to_string().contains(&name), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn loading_a_damaged_header_returns_a_model_or_an_error(damage in damage()) {
        let folder = assemble("qwen2-q2-g64");
        let path = folder.path().join(WEIGHTS);
        let mut bytes = fs::read(&path).expect("the weights exist");
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        damage.apply(&mut bytes, 8 + length as usize);
        fs::write(&path, bytes).expect("written");
        assert_model_or_error(folder.path());
    }

    #[test]
    fn loading_a_damaged_configuration_returns_a_model_or_an_error(damage in damage()) {
        let folder = assemble("qwen3-mixed");
        let path = folder.path().join("config.json");
        let mut bytes = fs::read(&path).expect("the file exists");
        let length = bytes.len();
        damage.apply(&mut bytes, length);
        fs::write(&path, bytes).expect("written");
        assert_model_or_error(folder.path());
    }
}
