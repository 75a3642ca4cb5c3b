//! Model folders in the layout of Hugging Face and mlx-lm: `config.json` beside safetensors files.
//!
//! Only the files' headers are read and checked, by the `safetensors` crate; their tensors stay on
//! the disk. Format: <https://github.com/huggingface/safetensors>.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use safetensors::tensor::Metadata;
use serde_json::Value;

use crate::facts::{Format, ModelFacts, Packed};

/// Longest header that is read; the format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Longest configuration or template.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FolderError {
    /// The file, or the folder where one is missing.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Reads what the model in `folder` is.
///
/// # Errors
/// [`FolderError`] for files that are missing, cut short or no JSON.
pub fn facts(folder: &Path) -> Result<ModelFacts, FolderError> {
    let config = read_json(&folder.join("config.json"))?;
    let number = |key: &str| config.get(key).and_then(Value::as_u64);
    let files = weight_files(folder)?;
    let mut tally = Tally::default();
    for file in &files {
        tally.read(file)?;
    }
    let n_layers = number("num_hidden_layers");
    let n_heads = number("num_attention_heads");
    let n_kv_heads = number("num_key_value_heads").or(n_heads);
    let width = number("hidden_size").zip(n_heads);
    let head_dim = number("head_dim").or(width.and_then(|(width, n)| width.checked_div(n)));
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    // No model has more layers; a file that says so is not followed.
    let layers = n_layers.unwrap_or(0).min(4096) as usize;
    Ok(ModelFacts {
        format: Format::Safetensors,
        architecture: text("model_type").unwrap_or_else(|| "unknown".to_owned()),
        name: folder_name(folder),
        context_length: number("max_position_embeddings"),
        n_layers,
        n_heads,
        n_kv_heads: n_kv_heads.map_or(Vec::new(), |n| vec![n; layers]),
        key_length: head_dim,
        value_length: head_dim,
        sliding_window: sliding_window(&config),
        layers: Vec::new(),
        sliding_key_length: None,
        sliding_value_length: None,
        linear_state_bytes: 0,
        hidden_size: number("hidden_size"),
        feed_forward_length: number("intermediate_size"),
        vocab_size: number("vocab_size"),
        n_parameters: tally.n_parameters(&config),
        weight_bytes: tally.kinds.values().map(|kind| kind.bytes).sum(),
        active_weight_bytes: tally.kinds.values().map(|kind| kind.bytes).sum(),
        bits: quantised_bits(&config),
        chat_template: chat_template(folder),
        n_files: files.len(),
        mix: tally.mix(),
    })
}

/// MLX packs what it quantised into 32-bit words, whose type says nothing.
fn quantised_bits(config: &Value) -> Option<u64> {
    config.get("quantization")?.get("bits")?.as_u64()
}

/// The window of the layers that have one. Some files name a window and switch it off.
fn sliding_window(config: &Value) -> Option<u64> {
    let is_off = config.get("use_sliding_window") == Some(&Value::Bool(false));
    let window = config.get("sliding_window")?.as_u64()?;
    (window > 0 && !is_off).then_some(window)
}

/// The checked header of a safetensors file.
pub(crate) struct Header {
    /// The open file.
    pub(crate) file: File,
    /// Types, shapes and places of its tensors.
    pub(crate) metadata: Metadata,
    /// Where the tensors' bytes begin in the file.
    pub(crate) data_at: u64,
}

impl Header {
    /// Reads the header; each tensor lies inside the file and has the bytes of its shape.
    pub(crate) fn read(path: &Path) -> Result<Self, FolderError> {
        let bad = |reason: String| FolderError {
            path: path.to_owned(),
            reason: format!("{reason}; download it again"),
        };
        let mut file = File::open(path).map_err(|error| bad(error.to_string()))?;
        let file_bytes = file
            .metadata()
            .map_err(|error| bad(error.to_string()))?
            .len();
        let mut length = [0; 8];
        file.read_exact(&mut length)
            .map_err(|_| bad("cut short in its first 8 bytes".to_owned()))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES || length > file_bytes.saturating_sub(8) {
            return Err(bad(format!(
                "says that its header has {length} bytes, but the file has {file_bytes}"
            )));
        }
        let mut header = Vec::new();
        (&file)
            .take(length)
            .read_to_end(&mut header)
            .map_err(|error| bad(error.to_string()))?;
        // Checks that the tensors lie side by side and have the sizes of their shapes.
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| bad(format!("a bad header ({error})")))?;
        let data_bytes = file_bytes - 8 - length;
        for (name, tensor) in metadata.tensors() {
            if tensor.data_offsets.1 as u64 > data_bytes {
                return Err(bad(format!(
                    "cut short: tensor {name} ends behind the file"
                )));
            }
        }
        Ok(Self {
            file,
            metadata,
            data_at: 8 + length,
        })
    }
}

/// Tensors by name and by type.
#[derive(Default)]
struct Tally {
    /// Elements of each tensor.
    tensors: BTreeMap<String, u64>,
    kinds: BTreeMap<String, Packed>,
}

impl Tally {
    fn read(&mut self, path: &Path) -> Result<(), FolderError> {
        let header = Header::read(path)?;
        for (name, tensor) in header.metadata.tensors() {
            let (start, end) = tensor.data_offsets;
            let n_elements = tensor.shape.iter().map(|&size| size as u64).product();
            self.tensors.insert(name, n_elements);
            let kind = format!("{:?}", tensor.dtype);
            let packed = self.kinds.entry(kind.clone()).or_insert(Packed {
                kind,
                n_tensors: 0,
                bytes: 0,
            });
            packed.n_tensors += 1;
            packed.bytes += (end - start) as u64;
        }
        Ok(())
    }

    /// Parameters: elements of plain tensors; of a matrix that MLX quantised the weights packed in
    /// its 32-bit words, while its scales and biases are storage.
    fn n_parameters(&self, config: &Value) -> u64 {
        let quantization = config.get("quantization");
        let bits = |layer: &str| {
            let entry = quantization?;
            let own = entry.get(layer).and_then(|layer| layer.get("bits"));
            own.or_else(|| entry.get("bits"))?
                .as_u64()
                .filter(|&bits| bits > 0)
        };
        let tensors = self.tensors.iter();
        let counts = tensors.map(|(name, &n_elements)| {
            if let Some((layer, kind)) = name.rsplit_once('.')
                && self.tensors.contains_key(&format!("{layer}.scales"))
            {
                return match (kind, bits(layer)) {
                    ("weight", Some(bits)) => n_elements.saturating_mul(32) / bits,
                    ("scales" | "biases", _) => 0,
                    _ => n_elements,
                };
            }
            n_elements
        });
        counts.fold(0, u64::saturating_add)
    }

    fn mix(self) -> Vec<Packed> {
        let mut mix: Vec<Packed> = self.kinds.into_values().collect();
        mix.sort_by_key(|packed| std::cmp::Reverse(packed.bytes));
        mix
    }
}

/// All weight files, in order. Beside `model*.safetensors` some folders hold the same weights in
/// another form (`consolidated.safetensors`), or adapters; where there are none, all files count.
pub(crate) fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let bad = |reason: String| FolderError {
        path: folder.to_owned(),
        reason,
    };
    let entries = fs::read_dir(folder).map_err(|error| bad(error.to_string()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "safetensors"))
        .collect();
    let is_usual = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("model")
    };
    if files.iter().any(is_usual) {
        files.retain(is_usual);
    }
    files.sort();
    if files.is_empty() {
        return Err(bad(
            "has no *.safetensors files; name a model folder or a GGUF file".to_owned(),
        ));
    }
    Ok(files)
}

/// The template of `chat_template.jinja`, else of `tokenizer_config.json`.
fn chat_template(folder: &Path) -> Option<String> {
    let path = folder.join("chat_template.jinja");
    if let Ok(text) = read_text(&path) {
        return Some(text);
    }
    let config = read_json(&folder.join("tokenizer_config.json")).ok()?;
    config.get("chat_template")?.as_str().map(str::to_owned)
}

pub(crate) fn read_json(path: &Path) -> Result<Value, FolderError> {
    serde_json::from_str(&read_text(path)?).map_err(|error| FolderError {
        path: path.to_owned(),
        reason: format!("not JSON: {error}"),
    })
}

pub(crate) fn read_text(path: &Path) -> Result<String, FolderError> {
    let bad = |reason: String| FolderError {
        path: path.to_owned(),
        reason,
    };
    let file = File::open(path).map_err(|error| bad(error.to_string()))?;
    let mut text = String::new();
    let mut limited = file.take(MAX_TEXT_BYTES);
    let read = limited.read_to_string(&mut text);
    read.map_err(|error| bad(error.to_string()))?;
    Ok(text)
}

pub(crate) fn folder_name(folder: &Path) -> Option<String> {
    let whole = folder.canonicalize().ok()?;
    Some(whole.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::KvType;

    fn starter() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter")
    }

    /// Against what the model's card says of it.
    #[test]
    fn the_starter_is_described_by_its_files() {
        let facts = facts(&starter()).unwrap();
        assert_eq!(
            (&*facts.architecture, facts.format),
            ("qwen3", Format::Safetensors)
        );
        assert_eq!(facts.name.as_deref(), Some("starter"));
        assert_eq!(facts.n_parameters, 25_961_984);
        assert_eq!((facts.n_layers, facts.vocab_size), (Some(8), Some(8192)));
        assert_eq!(facts.n_kv_heads, [2; 8]);
        assert_eq!(
            facts.kv_cache_bytes(1, KvType::F16),
            Some(8 * 2 * 64 * 2 * 2)
        );
        assert!(facts.chat_template.is_some());
        let bytes = fs::metadata(starter().join("model.safetensors"))
            .unwrap()
            .len();
        assert!(facts.weight_bytes < bytes && facts.weight_bytes > bytes / 10 * 9);
        assert_eq!(facts.mix[0].kind, "U32");
    }

    fn folder_with(config: &str, weights: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config).unwrap();
        fs::write(folder.path().join("model.safetensors"), weights).unwrap();
        folder
    }

    fn weights(header: &str, n_data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + n_data, 0);
        bytes
    }

    const ONE: &str = r#"{"a.weight":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}"#;

    #[test]
    fn a_folder_that_says_little_is_described_as_far_as_it_goes() {
        let folder = folder_with("{}", &weights(ONE, 12));
        let facts = facts(folder.path()).unwrap();
        assert_eq!((facts.n_parameters, facts.weight_bytes), (6, 12));
        assert_eq!(facts.architecture, "unknown");
        assert_eq!(facts.kv_cache_bytes(1, KvType::F16), None);
    }

    #[test]
    fn a_window_counts_unless_it_is_switched_off() {
        let facts = |config: &str| {
            let folder = folder_with(config, &weights(ONE, 12));
            facts(folder.path()).unwrap()
        };
        let on = facts(r#"{"sliding_window": 512}"#);
        assert_eq!(on.sliding_window, Some(512));
        assert!(on.may_need_less_than(513) && !on.may_need_less_than(512));
        let off = facts(r#"{"sliding_window": 512, "use_sliding_window": false}"#);
        assert_eq!(off.sliding_window, None);
        assert!(!off.may_need_less_than(1 << 20));
    }

    /// Some folders hold the weights a second time, in the form of another program.
    #[test]
    fn weights_of_other_programs_are_not_counted() {
        let folder = folder_with("{}", &weights(ONE, 12));
        let copy = folder.path().join("consolidated.safetensors");
        fs::write(copy, weights(ONE, 12)).unwrap();
        let facts = facts(folder.path()).unwrap();
        assert_eq!((facts.n_parameters, facts.n_files), (6, 1));
    }

    #[test]
    fn each_fault_is_named_with_its_file() {
        let check = |config: &str, weights: &[u8], expected: &str| {
            let folder = folder_with(config, weights);
            let message = facts(folder.path()).unwrap_err().to_string();
            assert!(
                message.contains(expected),
                "{message:?} does not say {expected:?}"
            );
        };
        let good = weights(ONE, 12);
        check("{", &good, "config.json: not JSON");
        check(
            "{}",
            &good[..5],
            "model.safetensors: cut short in its first 8 bytes",
        );
        check("{}", &good[..20], "says that its header has");
        check(
            "{}",
            &good[..good.len() - 1],
            "tensor a.weight ends behind the file",
        );
        check("{}", &weights("{\"a\":3}", 0), "a bad header");
        check(
            "{}",
            &u64::MAX.to_le_bytes(),
            "says that its header has 18446744073709551615",
        );
        let empty = tempfile::tempdir().unwrap();
        let message = facts(empty.path()).unwrap_err().to_string();
        assert!(message.contains("config.json"), "{message}");
        fs::write(empty.path().join("config.json"), "{}").unwrap();
        let message = facts(empty.path()).unwrap_err().to_string();
        assert!(message.contains("no *.safetensors files"), "{message}");
    }
}
