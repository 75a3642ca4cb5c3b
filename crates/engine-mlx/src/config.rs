//! The JSON configuration of a model folder: architecture, quantization, end tokens, sampling.
//!
//! Rule: the files are not trusted. Every number that sizes memory or loops is checked before use.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use transom_engine::tokenizer_config::read_json;
use transom_engine::{EngineError, SamplingParams, UnsupportedFeature};

/// Configuration files have a few kilobytes, or up to 300 if they list each layer. Parsed, they
/// take up to sixty times as much memory.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    /// Path of `config.json`, for messages.
    pub(crate) path: PathBuf,
    pub(crate) json: Value,
    /// `model_type`, which selects the architecture.
    pub(crate) model_type: String,
    /// How quantized layers are stored; `None` if no layer is quantized.
    pub(crate) quantization: Option<QuantizationConfig>,
    /// Tokens that end a response.
    pub(crate) end_tokens: Vec<u32>,
    /// Sampling recommended by the model's authors.
    pub(crate) sampling: SamplingParams,
    /// The caller's limit of the context length.
    pub(crate) context_limit: usize,
}

/// How one quantized matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Quantization {
    /// Weights that share a scale.
    pub(crate) group_size: i32,
    /// Bits per weight.
    pub(crate) bits: i32,
    #[serde(default)]
    pub(crate) mode: QuantizationMode,
}

/// The meaning of packed bits, with MLX's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QuantizationMode {
    /// Integers, times a scale plus a bias per group.
    #[default]
    Affine,
    /// 4-bit floats, times a power of two per group (OCP microscaling formats, 2023).
    Mxfp4,
    /// 8-bit floats, times a power of two per group.
    Mxfp8,
    /// 4-bit floats, times an 8-bit float per group.
    Nvfp4,
}

impl QuantizationMode {
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Affine => c"affine",
            Self::Mxfp4 => c"mxfp4",
            Self::Mxfp8 => c"mxfp8",
            Self::Nvfp4 => c"nvfp4",
        }
    }

    /// Returns true if groups have biases, and scales that are floats and not bytes.
    pub(crate) fn is_affine(self) -> bool {
        self == Self::Affine
    }

    /// Returns the group sizes and the bits that the mode allows.
    fn allowed(self) -> (&'static [i32], &'static [i32]) {
        match self {
            Self::Affine => (&[32, 64, 128], &[2, 3, 4, 5, 6, 8]),
            Self::Mxfp4 => (&[32], &[4]),
            Self::Mxfp8 => (&[32], &[8]),
            Self::Nvfp4 => (&[16], &[4]),
        }
    }
}

/// The `quantization` entry: a default, and exceptions by path of the layer.
#[derive(Debug, Clone)]
pub(crate) struct QuantizationConfig {
    default: Quantization,
    by_layer: BTreeMap<String, Option<Quantization>>,
}

impl QuantizationConfig {
    /// Returns how the layer at `path` is stored; `None` if it is not quantized.
    pub(crate) fn for_layer(&self, path: &str) -> Option<Quantization> {
        match self.by_layer.get(path) {
            Some(layer) => *layer,
            None => Some(self.default),
        }
    }

    /// Returns a text such as `4-bit, group 64`.
    pub(crate) fn describe(&self) -> String {
        let is_other = |layer: &Option<Quantization>| *layer != Some(self.default);
        let mixed = self.by_layer.values().any(is_other);
        let Quantization {
            group_size,
            bits,
            mode,
        } = self.default;
        let mixed = if mixed { ", mixed" } else { "" };
        match mode {
            QuantizationMode::Affine => format!("{bits}-bit, group {group_size}{mixed}"),
            _ => format!("{}{mixed}", mode.name().to_string_lossy()),
        }
    }
}

impl ModelConfig {
    /// Reads the configuration of the model in `folder`, for a context of at most `context_limit`
    /// tokens.
    pub(crate) fn from_folder(folder: &Path, context_limit: usize) -> Result<Self, EngineError> {
        let path = folder.join("config.json");
        let Some(json) = read_json::<Value>(&path, MAX_CONFIG_BYTES)? else {
            let hint =
                "choose a folder that holds config.json, tokenizer.json and *.safetensors files";
            return Err(EngineError::not_found(path, "model configuration", hint));
        };
        let Some(model_type) = json.get("model_type").and_then(Value::as_str) else {
            let reason = "it names no model_type, so the architecture is unknown";
            return Err(EngineError::bad_file(path, reason));
        };
        let generation = GenerationConfig::from_folder(folder);
        Ok(Self {
            model_type: model_type.to_owned(),
            quantization: quantization(&path, &json)?,
            end_tokens: end_tokens(&json, &generation),
            sampling: generation.sampling(),
            context_limit,
            json,
            path,
        })
    }

    /// Returns the configuration of the text part of a multimodal model: the values of
    /// `text_config`, and those outside it that it does not have. A text model is its own text
    /// part.
    pub(crate) fn text_part(&self) -> Result<Self, EngineError> {
        let mut config = self.clone();
        if let Some(text) = config.json.get("text_config").cloned() {
            let (Some(outer), Value::Object(inner)) = (config.json.as_object_mut(), text) else {
                let reason = "text_config is not an object";
                return Err(EngineError::bad_file(&self.path, reason));
            };
            outer.remove("text_config");
            outer.extend(inner);
        }
        Ok(config)
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        T::deserialize(&self.json).map_err(|error| EngineError::bad_file(&self.path, error))
    }

    /// Deserializes the values of `text_config`, the text part of a multimodal model.
    pub(crate) fn parse_text_config<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        let Some(text) = self.json.get("text_config") else {
            return Err(EngineError::bad_file(&self.path, "it has no text_config"));
        };
        T::deserialize(text)
            .map_err(|error| EngineError::bad_file(&self.path, format!("text_config: {error}")))
    }
}

/// `generation_config.json`. The file is only advice: invalid values are ignored with a warning,
/// and the model loads.
#[derive(Debug, Default)]
struct GenerationConfig {
    path: PathBuf,
    json: Value,
}

impl GenerationConfig {
    fn from_folder(folder: &Path) -> Self {
        let path = folder.join("generation_config.json");
        let json = read_json(&path, MAX_CONFIG_BYTES).unwrap_or_else(|error| {
            tracing::warn!(%error, "the recommended sampling parameters are not used");
            None
        });
        Self {
            path,
            json: json.unwrap_or_default(),
        }
    }

    fn sampling(&self) -> SamplingParams {
        const FIELDS: [&str; 5] = [
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "repetition_penalty",
        ];
        let mut sampling = SamplingParams::default();
        for field in FIELDS {
            let Some(value) = self.json.get(field).filter(|value| !value.is_null()) else {
                continue;
            };
            match with_field(&sampling, field, value) {
                Ok(changed) => sampling = changed,
                Err(error) => self.warn(field, value, &error.to_string()),
            }
        }
        match self.json.get("do_sample") {
            Some(Value::Bool(false)) => sampling.temperature = 0.0,
            None | Some(Value::Null | Value::Bool(true)) => {}
            Some(value) => self.warn("do_sample", value, "it is neither true nor false"),
        }
        sampling
    }

    fn warn(&self, field: &str, value: &Value, reason: &str) {
        let path = self.path.display();
        tracing::warn!(%path, field, %value, reason, "a recommended sampling parameter is not used");
    }
}

/// Returns `sampling` with another value of a field, whose name is that of `generation_config.json`.
fn with_field(
    sampling: &SamplingParams,
    field: &str,
    value: &Value,
) -> Result<SamplingParams, Box<dyn Error>> {
    let mut json = serde_json::to_value(sampling)?;
    json[field] = value.clone();
    let changed: SamplingParams = serde_json::from_value(json)?;
    changed.validate(usize::MAX)?;
    Ok(changed)
}

/// Returns the end tokens of both files: for many chat models, `generation_config.json` lists more
/// of them than `config.json`.
fn end_tokens(config: &Value, generation: &GenerationConfig) -> Vec<u32> {
    // Some multimodal files have them only in their text part.
    let text = config.get("text_config");
    let values = [
        config.get("eos_token_id"),
        text.and_then(|text| text.get("eos_token_id")),
        generation.json.get("eos_token_id"),
    ];
    let mut tokens: Vec<u32> = values
        .into_iter()
        .flatten()
        .flat_map(|value| match value {
            Value::Array(values) => values.clone(),
            single => vec![single.clone()],
        })
        .filter_map(|value| u32::try_from(value.as_u64()?).ok())
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

fn quantization(path: &Path, config: &Value) -> Result<Option<QuantizationConfig>, EngineError> {
    // mlx-lm writes `quantization` and `quantization_config` with the same content. Other tools
    // write only the second, each in its own format.
    let Some(entry) = config.get("quantization") else {
        if let Some(method) = config
            .get("quantization_config")
            .and_then(|entry| entry.get("quant_method"))
        {
            let reason = format!(
                "weights quantized with {method} are not supported; use an MLX conversion \
                 (affine, 2 to 8 bits) or plain weights"
            );
            let feature = unsupported_quantization(method);
            return Err(EngineError::unsupported(path, feature, reason));
        }
        return Ok(None);
    };
    if entry.is_null() {
        return Ok(None);
    }
    let default = parse_quantization(path, "quantization", entry)?;
    let mut by_layer = BTreeMap::new();
    for (layer, value) in entry.as_object().into_iter().flatten() {
        let own = match value {
            Value::Bool(is_quantized) => is_quantized.then_some(default),
            Value::Object(_) => Some(parse_quantization(path, layer, value)?),
            _ => continue,
        };
        by_layer.insert(layer.clone(), own);
    }
    Ok(Some(QuantizationConfig { default, by_layer }))
}

fn parse_quantization(path: &Path, name: &str, entry: &Value) -> Result<Quantization, EngineError> {
    if let Some(mode) = entry.get("mode")
        && QuantizationMode::deserialize(mode).is_err()
    {
        let reason = format!(
            "{name}: quantization mode {mode} is not supported; affine, mxfp4, mxfp8 and nvfp4 are"
        );
        let feature = unsupported_quantization(mode);
        return Err(EngineError::unsupported(path, feature, reason));
    }
    let quantization = Quantization::deserialize(entry)
        .map_err(|error| EngineError::bad_file(path, format!("{name}: {error}")))?;
    let (group_sizes, bits) = quantization.mode.allowed();
    for (field, value, allowed) in [
        ("group_size", quantization.group_size, group_sizes),
        ("bits", quantization.bits, bits),
    ] {
        if !allowed.contains(&value) {
            let allowed: Vec<String> = allowed.iter().map(i32::to_string).collect();
            let allowed = allowed.join(" or ");
            let reason = format!("{name}: {field} is {value}, but must be {allowed}");
            return Err(EngineError::bad_file(path, reason));
        }
    }
    Ok(quantization)
}

fn unsupported_quantization(name: &Value) -> UnsupportedFeature {
    let name = name
        .as_str()
        .map_or_else(|| name.to_string(), str::to_owned);
    UnsupportedFeature::Quantization { name }
}

#[cfg(test)]
mod tests;
