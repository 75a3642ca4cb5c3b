use std::fs;
use std::path::PathBuf;

use half::f16;
use serde_json::Value as Json;

use super::*;
use crate::gguf::{Gguf, GgufFile, TensorInfo, Value};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn starter() -> PathBuf {
    repository().join("assets/starter")
}

fn mlx_fixtures() -> PathBuf {
    repository().join("crates/engine-mlx/tests/fixtures")
}

/// Returns a copy of a model folder that a test may change.
fn model(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut sources = vec![mlx_fixtures().join("tokenizer")];
    sources.push(mlx_fixtures().join("models").join(name));
    if name == "starter" {
        sources = vec![starter()];
    }
    for source in sources {
        for entry in fs::read_dir(source).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
    }
    folder
}

fn converted(folder: &Path, quantization: Quantization) -> Result<GgufFile, FileError> {
    let to = folder.join("converted.gguf");
    convert(folder, &to, quantization)?;
    Ok(GgufFile::open(&to).unwrap())
}

/// Decodes a tensor with separate code for the layouts, so that encoding errors show.
fn decoded(file: &[u8], view: &Gguf<'_>, tensor: &TensorInfo<'_>) -> Vec<f32> {
    let start = (view.data_offset() + tensor.offset) as usize;
    let bytes = &file[start..start + tensor.n_bytes as usize];
    let half = |at: &[u8]| f16::from_le_bytes([at[0], at[1]]).to_f32();
    match tensor.kind {
        TensorType::F32 => bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        TensorType::F16 => bytes.chunks_exact(2).map(half).collect(),
        TensorType::Q8_0 => bytes
            .chunks_exact(34)
            .flat_map(|b| b[2..].iter().map(move |&q| half(b) * f32::from(q as i8)))
            .collect(),
        TensorType::Q4_1 => bytes
            .chunks_exact(20)
            .flat_map(|b| {
                let codes = b[4..].iter().map(|q| q & 15);
                let codes = codes.chain(b[4..].iter().map(|q| q >> 4));
                codes.map(move |q| half(b) * f32::from(q) + half(&b[2..]))
            })
            .collect(),
        other => panic!("no goldens for {other}"),
    }
}

fn goldens() -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/convert_goldens.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The goldens are MLX's dequantized weights and the `gguf` package's names and types, from
/// `tests/fixtures/make_goldens.py`. If this fails, its `verify` says which tensor differs.
#[test]
fn each_quantization_equals_mlx_and_the_gguf_package() {
    let goldens = goldens();
    let goldens = goldens.as_object().unwrap();
    assert!(goldens.len() > 25, "{} models", goldens.len());
    for (name, golden) in goldens {
        let folder = model(name);
        for (quantization, key) in [
            (Quantization::F32, "F32"),
            (Quantization::F16, "F16"),
            (Quantization::Q8_0, "Q8_0"),
            (Quantization::Q4_1, "Q4_1"),
        ] {
            let file = converted(folder.path(), quantization).unwrap();
            let bytes = fs::read(file.path()).unwrap();
            let view = file.view().unwrap();
            let mut tensors: Vec<_> = view.tensors().collect();
            tensors.sort_by_key(|tensor| tensor.name);
            let mut sum = crc32fast::Hasher::new();
            for tensor in tensors {
                let values = decoded(&bytes, &view, &tensor);
                if tensor.name == "rope_freqs.weight" {
                    check_factors(&values, &golden["rope_freqs"]);
                    continue;
                }
                sum.update(tensor.name.as_bytes());
                let values: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                sum.update(&values);
            }
            assert_eq!(u64::from(sum.finalize()), golden[key], "{name} as {key}");
        }
    }
}

fn check_factors(found: &[f32], expected: &Json) {
    let expected: Vec<f64> = serde_json::from_value(expected.clone()).unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let error = (f64::from(*found) / expected - 1.0).abs();
        assert!(error < 1e-6, "{found} is not {expected}");
    }
}

#[test]
fn the_starter_becomes_a_complete_model() {
    let folder = model("starter");
    let file = converted(folder.path(), Quantization::Q4_1).unwrap();
    let view = file.view().unwrap();
    let text = |key: &str| view.get(key).unwrap().as_str().unwrap();
    let number = |key: &str| view.get(key).unwrap().as_u64().unwrap();
    assert_eq!(text("general.architecture"), "qwen3");
    assert_eq!(text("tokenizer.ggml.model"), "gpt2");
    assert_eq!(text("tokenizer.ggml.pre"), "qwen2");
    assert_eq!(number("qwen3.block_count"), 12);
    assert_eq!(number("qwen3.attention.head_count_kv"), 2);
    assert_eq!(number("qwen3.context_length"), 2048);
    assert_eq!(view.get("qwen3.rope.freq_base"), Some(Value::F32(10_000.0)));
    assert_eq!(number("general.file_type"), 3);
    assert_eq!(number("tokenizer.ggml.eos_token_id"), 2);
    assert_eq!(number("tokenizer.ggml.padding_token_id"), 0);
    assert_eq!(view.get("tokenizer.ggml.bos_token_id"), None);
    assert_eq!(
        view.get("tokenizer.ggml.add_bos_token"),
        Some(Value::Bool(false))
    );
    assert!(text("tokenizer.chat_template").contains("<|im_start|>assistant"));
    let length = |key: &str| view.get(key).unwrap().as_array().unwrap().len();
    assert_eq!(length("tokenizer.ggml.tokens"), 16_384);
    assert_eq!(length("tokenizer.ggml.token_type"), 16_384);
    assert_eq!(length("tokenizer.ggml.merges"), 16_125);
    assert_eq!(view.get("general.sampling.temp"), Some(Value::F32(0.0)));
    // The embeddings are tied, so there is no output matrix.
    assert!(view.tensors().all(|tensor| tensor.name != "output.weight"));
}

#[test]
fn recommended_sampling_is_kept() {
    let folder = model("qwen3-bf16");
    let written = |generation: &str| {
        fs::write(folder.path().join("generation_config.json"), generation).unwrap();
        converted(folder.path(), Quantization::F16)
    };
    let recommended = r#"{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
        "min_p": null, "repetition_penalty": 1.05}"#;
    let file = written(recommended).unwrap();
    let view = file.view().unwrap();
    let get = |name: &str| view.get(&format!("general.sampling.{name}"));
    assert_eq!(get("temp"), Some(Value::F32(0.6)));
    assert_eq!(get("top_k"), Some(Value::U32(20)));
    assert_eq!(get("top_p"), Some(Value::F32(0.95)));
    assert_eq!(get("min_p"), None);
    assert_eq!(get("penalty_repeat"), Some(Value::F32(1.05)));

    let file = written(r#"{"do_sample": false, "temperature": 0.6}"#).unwrap();
    let view = file.view().unwrap();
    assert_eq!(view.get("general.sampling.temp"), Some(Value::F32(0.0)));

    let message = written(r#"{"top_k": "many"}"#).unwrap_err().to_string();
    assert!(message.contains("generation_config.json"), "{message}");
    assert!(
        message.contains("top_k") && message.contains("many"),
        "{message}"
    );
}

/// 4-bit weights as Q4_1 take only a few bytes more than in the folder.
#[test]
fn four_bit_weights_do_not_grow() {
    let folder = model("qwen3-q4-g64");
    let file = converted(folder.path(), Quantization::Q4_1).unwrap();
    let before = fs::metadata(folder.path().join("model.safetensors")).unwrap();
    let after = file.view().unwrap().tensor_bytes();
    assert!(
        after < before.len() * 115 / 100,
        "{after} of {}",
        before.len()
    );
}

mod refused;
