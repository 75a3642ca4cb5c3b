//! Reads files from the writer of the `gguf` package, and compares with its reader's results.
//!
//! `fixtures/make_reader_goldens.py` makes both without our code.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use transom_catalog::gguf::{GgufFile, TensorInfo, Value};
use transom_catalog::{KvType, inspect};

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/reader"
    ))
}

/// Returns a value in the form of the goldens.
fn written(value: Value<'_>) -> Json {
    match value {
        Value::U8(n) => json!(n),
        Value::I8(n) => json!(n),
        Value::U16(n) => json!(n),
        Value::I16(n) => json!(n),
        Value::U32(n) => json!(n),
        Value::I32(n) => json!(n),
        Value::U64(n) => json!(n),
        Value::I64(n) => json!(n),
        Value::F32(x) => json!(f64::from(x)),
        Value::F64(x) => json!(x),
        Value::Bool(value) => json!(value),
        Value::String(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::Array(array) => array.iter().map(written).collect(),
    }
}

/// Returns the type's name in the `gguf` package.
fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::U8(_) => "UINT8",
        Value::I8(_) => "INT8",
        Value::U16(_) => "UINT16",
        Value::I16(_) => "INT16",
        Value::U32(_) => "UINT32",
        Value::I32(_) => "INT32",
        Value::U64(_) => "UINT64",
        Value::I64(_) => "INT64",
        Value::F32(_) => "FLOAT32",
        Value::F64(_) => "FLOAT64",
        Value::Bool(_) => "BOOL",
        Value::String(_) => "STRING",
        Value::Array(_) => "ARRAY",
    }
}

#[test]
fn files_of_the_gguf_package_are_read_as_its_reader_does() {
    let text = fs::read_to_string(folder().join("goldens.json")).unwrap();
    let goldens: Json = serde_json::from_str(&text).unwrap();
    let goldens = goldens.as_object().unwrap();
    assert_eq!(goldens.len(), 5);
    for (name, golden) in goldens {
        let path = folder().join(name);
        let bytes = fs::read(&path).unwrap();
        let file = GgufFile::open(&path).unwrap();
        let view = file.view().unwrap();
        let entries: serde_json::Map<String, Json> = view
            .entries()
            .map(|(key, value)| (key.to_owned(), json!([type_name(value), written(value)])))
            .collect();
        assert_eq!(Json::Object(entries), golden["entries"], "{name}");
        let described = |tensor: TensorInfo<'_>| {
            let start = view.data_offset() + tensor.offset;
            let data = &bytes[start as usize..(start + tensor.n_bytes) as usize];
            let shape = &tensor.shape[..tensor.n_axes];
            let sum = crc32fast::hash(data);
            let tensor_type = tensor.kind.name();
            (
                tensor.name.to_owned(),
                json!([tensor_type, shape, start, sum]),
            )
        };
        let tensors: serde_json::Map<String, Json> = view.tensors().map(described).collect();
        assert_eq!(Json::Object(tensors), golden["tensors"], "{name}");
    }
}

#[test]
fn a_big_endian_file_is_reported_as_big_endian() {
    let fault = GgufFile::open(&folder().join("big-endian.gguf")).unwrap_err();
    let message = fault.to_string();
    assert!(
        message.contains("a big-endian GGUF file (version 3)"),
        "{message}"
    );
}

#[test]
fn a_model_of_the_gguf_package_is_described() {
    let facts = inspect(&folder().join("model.gguf")).unwrap();
    assert_eq!(facts.name.as_deref(), Some("a small model"));
    assert_eq!(facts.n_kv_heads, [2, 1]);
    assert_eq!(
        (facts.vocab_size, facts.sliding_window),
        (Some(3), Some(512))
    );
    assert_eq!(facts.kv_cache_bytes(1, KvType::F16), Some(3 * 16 * 2 * 2));
}
