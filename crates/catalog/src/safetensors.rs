//! Reads model folders in the layout of Hugging Face and mlx-lm: `config.json` and safetensors files.
//!
//! Only the headers of the files are read and checked, by the `safetensors` crate; the tensors stay
//! on the disk. The format is documented at <https://github.com/huggingface/safetensors>.

mod embedding;
mod json;
pub(crate) mod layers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use transom_files::{file_name, has_extension};

use crate::facts::{Format, ModelFacts, TensorTypeStats};
use crate::file_error::{FaultCode, FileError};
pub(crate) use json::{chat_template, indexed_files, read_config, read_json};
use layers::Config;

/// Maximum header size of a file. The largest published headers have a few megabytes.
const MAX_HEADER_BYTES: u64 = 16 << 20;
/// Maximum number of values in a header; a tensor has about eight.
const MAX_HEADER_VALUES: usize = 1 << 20;
/// Maximum number of tensors of a model. The largest published models have about 200,000.
const MAX_TENSORS: usize = 1 << 19;
pub(crate) const MAX_WEIGHT_FILES: usize = 10_000;

/// Reads the facts of the model in `folder`.
///
/// # Errors
/// [`FileError`] if a file is missing, cut short or not JSON.
pub fn facts(folder: &Path) -> Result<ModelFacts, FileError> {
    let config = read_config(folder)?;
    let files = weight_files(folder)?;
    let mut tally = TensorSums::default();
    for file in &files {
        tally.read(file)?;
    }
    let part = Config::new(&config);
    let layers = part.layers();
    Ok(ModelFacts {
        format: Format::Safetensors,
        architecture: part.model_type().to_owned(),
        name: folder_name(folder),
        context_length: part.number("max_position_embeddings"),
        n_layers: part.number("num_hidden_layers"),
        n_heads: part.number("num_attention_heads"),
        n_kv_heads: layers.n_kv_heads,
        key_length: layers.key_length,
        value_length: layers.value_length,
        sliding_window: layers.window,
        layers: layers.kinds,
        sliding_key_length: layers.sliding_head,
        sliding_value_length: layers.sliding_head,
        linear_state_bytes: layers.state_bytes,
        hidden_size: part.number("hidden_size"),
        feed_forward_length: part.feed_forward_length(),
        n_used_experts: part.experts().map_or(0, |(used, _)| used),
        vocab_size: part.number("vocab_size"),
        n_parameters: tally.n_parameters(&config),
        weight_bytes: tally.weight_bytes(),
        active_weight_bytes: tally.active_bytes(part.experts()),
        bits: quantized_bits(&config),
        chat_template: chat_template(folder)?,
        embedding: embedding::facts(folder, &config),
        n_files: files.len(),
        mix: tally.mix(),
    })
}

/// Returns the bits of weights that MLX quantized. The tensor type of such weights is only U32.
fn quantized_bits(config: &Value) -> Option<u64> {
    config.get("quantization")?.get("bits")?.as_u64()
}

/// Reads the header of a safetensors file: types, shapes and positions of its tensors. Checks that
/// each tensor is inside the file and has the size of its shape.
pub(crate) fn read_header(path: &Path) -> Result<Metadata, FileError> {
    let bad =
        |code, reason: &str| FileError::new(path, code, format!("{reason}; download it again"));
    let io = |error: io::Error| bad(FaultCode::of_io(&error), &error.to_string());
    let mut file = transom_files::open(path).map_err(io)?;
    let file_bytes = file.metadata().map_err(io)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| bad(FaultCode::Truncated, "cut short in its first 8 bytes"))?;
    let length = u64::from_le_bytes(length);
    if length > file_bytes.saturating_sub(8) {
        let reason =
            format!("says that its header has {length} bytes, but the file has {file_bytes}");
        return Err(bad(FaultCode::Truncated, &reason));
    }
    if length > MAX_HEADER_BYTES {
        let reason = format!("its header has {length} bytes; the limit is {MAX_HEADER_BYTES}");
        return Err(bad(FaultCode::TooLarge, &reason));
    }
    let mut header = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(length).read_to_end(&mut header).map_err(io)?;
    if json::n_values(&header) > MAX_HEADER_VALUES {
        let reason = format!("its header has more than {MAX_HEADER_VALUES} values");
        return Err(bad(FaultCode::TooLarge, &reason));
    }
    // Checks that the tensors are contiguous and have the sizes of their shapes.
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| bad(FaultCode::WrongFormat, &format!("a bad header ({error})")))?;
    let data_bytes = file_bytes - 8 - length;
    let is_outside = |tensor: &TensorInfo| tensor.data_offsets.1 as u64 > data_bytes;
    if let Some((name, _)) = metadata.tensors().into_iter().find(|(_, t)| is_outside(t)) {
        let reason = format!("cut short: tensor {name} ends behind the file");
        return Err(bad(FaultCode::Truncated, &reason));
    }
    Ok(metadata)
}

/// Sums over tensors, by name and by type.
#[derive(Default)]
struct TensorSums {
    /// Number of elements and bytes of each tensor.
    tensors: BTreeMap<String, (u64, u64)>,
    kinds: BTreeMap<String, TensorTypeStats>,
}

impl TensorSums {
    fn read(&mut self, path: &Path) -> Result<(), FileError> {
        for (name, tensor) in read_header(path)?.tensors() {
            if !is_for_text(&name) {
                continue;
            }
            let (start, end) = tensor.data_offsets;
            let bytes = (end - start) as u64;
            let n_elements = tensor.shape.iter().map(|&size| size as u64).product();
            self.tensors.insert(name, (n_elements, bytes));
            let kind = format!("{:?}", tensor.dtype);
            let packed = self.kinds.entry(kind.clone()).or_insert(TensorTypeStats {
                kind,
                n_tensors: 0,
                bytes: 0,
            });
            packed.n_tensors += 1;
            packed.bytes = packed.bytes.saturating_add(bytes);
        }
        if self.tensors.len() > MAX_TENSORS {
            let reason = format!("the model has more than {MAX_TENSORS} tensors");
            return Err(FileError::new(path, FaultCode::TooLarge, reason));
        }
        Ok(())
    }

    fn weight_bytes(&self) -> u64 {
        let bytes = self.kinds.values().map(|kind| kind.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the number of parameters: the elements of plain tensors, and of a matrix that MLX
    /// quantized the weights in its 32-bit words. Scales and biases don't count.
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
        let counts = tensors.map(|(name, &(n_elements, _))| {
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

    /// Returns the bytes that a token reads: all weights, but only its share of the experts, and only one
    /// row of embedding tables, unless the table is also the output matrix.
    fn active_bytes(&self, experts: Option<(u64, u64)>) -> u64 {
        let has_head = self.tensors.keys().any(|name| name.contains("lm_head."));
        let read = self.tensors.iter().map(|(name, &(_, bytes))| {
            let is_expert = name.contains(".experts.") || name.contains(".switch_mlp.");
            let is_table = name.contains("embed_tokens_per_layer.")
                || has_head && name.contains("embed_tokens.");
            match experts {
                _ if is_table => 0,
                Some((used, all)) if is_expert => {
                    let share = u128::from(bytes) * u128::from(used) / u128::from(all);
                    u64::try_from(share).unwrap_or(bytes)
                }
                _ => bytes,
            }
        });
        read.fold(0, u64::saturating_add)
    }

    fn mix(self) -> Vec<TensorTypeStats> {
        let mut mix: Vec<TensorTypeStats> = self.kinds.into_values().collect();
        mix.sort_by_key(|packed| std::cmp::Reverse(packed.bytes));
        mix
    }
}

/// Returns true if a tensor is loaded. Tensors for images, audio and multi-token prediction are not
/// loaded and don't count.
pub fn is_for_text(name: &str) -> bool {
    const OTHERS: [&str; 9] = [
        // Heads for multi-token prediction.
        "mtp.",
        "vision_tower.",
        "vision_embedder.",
        "vision_model.",
        "visual.",
        "multi_modal_projector.",
        "audio_tower.",
        "embed_audio.",
        "embed_vision.",
    ];
    let name = name.strip_prefix("model.").unwrap_or(name);
    let name = name.strip_prefix("language_model.").unwrap_or(name);
    !OTHERS.iter().any(|other| name.starts_with(other))
}

/// Returns all weight files in order: those in the index, else `model*.safetensors`, else all. Some
/// folders also contain adapters, or the same weights in another form
/// (`consolidated.safetensors`).
pub(crate) fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = fs::read_dir(folder).map_err(|error| FileError::io(folder, &error))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths
        .filter(|path| has_extension(path, "safetensors"))
        .collect();
    let indexed = indexed_files(folder).unwrap_or_default();
    let is_indexed = |path: &PathBuf| indexed.contains(&file_name(path));
    let is_usual = |path: &PathBuf| file_name(path).starts_with("model");
    if files.iter().any(is_indexed) {
        files.retain(is_indexed);
    } else if files.iter().any(is_usual) {
        files.retain(is_usual);
    }
    files.sort();
    if files.is_empty() {
        let reason = "has no *.safetensors files; name a model folder or a GGUF file";
        return Err(FileError::new(folder, FaultCode::NoWeights, reason));
    }
    if files.len() > MAX_WEIGHT_FILES {
        let reason = format!("has more than {MAX_WEIGHT_FILES} weight files");
        return Err(FileError::new(folder, FaultCode::TooLarge, reason));
    }
    Ok(files)
}

pub(crate) fn folder_name(folder: &Path) -> Option<String> {
    let whole = folder.canonicalize().ok()?;
    Some(whole.file_name()?.to_string_lossy().into_owned())
}
