//! What a model folder's JSON files say: architecture, quantisation, end tokens, sampling.
//!
//! Nothing here is trusted: every number that sizes memory or loops is checked before it is used.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use transom_engine::{EngineError, SamplingParams};

/// Configuration files have a few kilobytes, and up to 300 with a form for each layer. Parsed, they
/// take up to sixty times as much.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// `config.json`, and what `generation_config.json` adds to it.
#[derive(Debug)]
pub(crate) struct ModelConfig {
    /// Path of `config.json`, for messages.
    pub(crate) path: PathBuf,
    /// The whole of it.
    pub(crate) json: Value,
    /// `model_type`, which picks the architecture.
    pub(crate) model_type: String,
    /// How quantised layers are stored; `None` for plain weights.
    pub(crate) quantization: Option<QuantizationConfig>,
    /// Tokens that end an answer.
    pub(crate) end_tokens: Vec<u32>,
    /// Sampling recommended by the model's authors.
    pub(crate) sampling: SamplingParams,
    /// Tokens of context that the caller asked for.
    pub(crate) context_limit: usize,
}

/// Storage of one quantised matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Quantization {
    /// Weights that share a scale.
    pub(crate) group_size: i32,
    /// Bits a weight.
    pub(crate) bits: i32,
    /// What the bits mean.
    #[serde(default)]
    pub(crate) mode: QuantizationMode,
}

/// What packed bits mean, with MLX's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QuantizationMode {
    /// Whole numbers, times a scale and plus a bias of each group.
    #[default]
    Affine,
    /// Floats of 4 bits, times a power of two (OCP microscaling formats, 2023).
    Mxfp4,
    /// Floats of 8 bits, times a power of two.
    Mxfp8,
    /// Floats of 4 bits, times a float of 8 bits.
    Nvfp4,
}

impl QuantizationMode {
    /// The name that MLX knows it by.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Affine => c"affine",
            Self::Mxfp4 => c"mxfp4",
            Self::Mxfp8 => c"mxfp8",
            Self::Nvfp4 => c"nvfp4",
        }
    }

    /// Whether groups have biases, and scales that are floats rather than bytes.
    pub(crate) fn is_affine(self) -> bool {
        self == Self::Affine
    }

    /// The group sizes and the bits that it is defined for.
    fn forms(self) -> (&'static [i32], &'static [i32]) {
        match self {
            Self::Affine => (&[32, 64, 128], &[2, 3, 4, 5, 6, 8]),
            Self::Mxfp4 => (&[32], &[4]),
            Self::Mxfp8 => (&[32], &[8]),
            Self::Nvfp4 => (&[16], &[4]),
        }
    }
}

/// The `quantization` entry: a default, and exceptions by layer path.
#[derive(Debug, Clone)]
pub(crate) struct QuantizationConfig {
    default: Quantization,
    by_layer: BTreeMap<String, Option<Quantization>>,
}

impl QuantizationConfig {
    /// How the layer at `path` is stored, if it is quantised at all.
    pub(crate) fn of(&self, path: &str) -> Option<Quantization> {
        match self.by_layer.get(path) {
            Some(layer) => *layer,
            None => Some(self.default),
        }
    }

    /// The default in words, such as `4-bit, group 64`.
    pub(crate) fn describe(&self) -> String {
        let mixed = self
            .by_layer
            .values()
            .any(|layer| *layer != Some(self.default));
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
    /// Reads the configuration of the model in `folder`, to be used with a context of at most
    /// `context_limit` tokens.
    pub(crate) fn from_folder(folder: &Path, context_limit: usize) -> Result<Self, EngineError> {
        let path = folder.join("config.json");
        let Some(json) = read_json::<Value>(&path, MAX_CONFIG_BYTES)? else {
            return Err(EngineError::NotFound {
                path,
                what: "model configuration".to_owned(),
                hint: "choose a folder that holds config.json, tokenizer.json and \
                       *.safetensors files"
                    .to_owned(),
            });
        };
        let Some(model_type) = json.get("model_type").and_then(Value::as_str) else {
            return Err(bad(
                &path,
                "it names no model_type, so the architecture is unknown",
            ));
        };
        let generation = Generation::from_folder(folder);
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

    /// The configuration of the text part of a multimodal model: what `text_config` says, and for the
    /// rest what stands beside it. That of a text model is its own.
    pub(crate) fn of_text(&self) -> Result<Self, EngineError> {
        let mut json = self.json.clone();
        if let Some(text) = json.get("text_config").cloned() {
            let (Some(outer), Value::Object(inner)) = (json.as_object_mut(), text) else {
                return Err(bad(&self.path, "text_config is no object"));
            };
            outer.remove("text_config");
            outer.extend(inner);
        }
        Ok(Self {
            path: self.path.clone(),
            json,
            model_type: self.model_type.clone(),
            quantization: self.quantization.clone(),
            end_tokens: self.end_tokens.clone(),
            sampling: self.sampling.clone(),
            context_limit: self.context_limit,
        })
    }

    /// The configuration as an architecture's own arguments.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        T::deserialize(&self.json).map_err(|error| bad(&self.path, error.to_string()))
    }
}

/// `generation_config.json`. It is advice: what cannot be used is left out with a warning, and the
/// model loads all the same.
#[derive(Debug, Default)]
struct Generation {
    path: PathBuf,
    json: Value,
}

impl Generation {
    fn from_folder(folder: &Path) -> Self {
        let path = folder.join("generation_config.json");
        let json = read_json(&path, MAX_CONFIG_BYTES).unwrap_or_else(|error| {
            tracing::warn!(%error, "the recommended sampling is not used");
            None
        });
        Self {
            path,
            json: json.unwrap_or_default(),
        }
    }

    fn sampling(&self) -> SamplingParams {
        type Set = fn(&mut SamplingParams, f64);
        let mut sampling = SamplingParams::default();
        let fields: [(&str, Set); 5] = [
            ("temperature", |sampling, value| {
                sampling.temperature = value as f32
            }),
            ("top_k", |sampling, value| sampling.top_k = value as usize),
            ("top_p", |sampling, value| sampling.top_p = value as f32),
            ("min_p", |sampling, value| sampling.min_p = value as f32),
            ("repetition_penalty", |sampling, value| {
                sampling.repetition_penalty = value as f32;
            }),
        ];
        for (field, set) in fields {
            let Some(value) = self.json.get(field).filter(|value| !value.is_null()) else {
                continue;
            };
            let mut changed = sampling.clone();
            let number = value
                .as_f64()
                .filter(|&number| field != "top_k" || is_count(number));
            if let Some(number) = number {
                set(&mut changed, number);
            }
            match number.map(|_| changed.validate(usize::MAX)) {
                Some(Ok(())) => sampling = changed,
                Some(Err(error)) => self.warn(field, value, &error.to_string()),
                None => self.warn(field, value, "it is no such number"),
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
        tracing::warn!(%path, field, %value, reason, "a recommendation is not used");
    }
}

fn is_count(number: f64) -> bool {
    number >= 0.0 && number.fract() == 0.0
}

/// `generation_config.json` lists more end tokens than `config.json` for many chat models, so both
/// count.
fn end_tokens(config: &Value, generation: &Generation) -> Vec<u32> {
    // Some multimodal files name them in their text part only.
    let text = config.get("text_config");
    let named = [
        config.get("eos_token_id"),
        text.and_then(|text| text.get("eos_token_id")),
        generation.json.get("eos_token_id"),
    ];
    let mut tokens: Vec<u32> = named
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
    // mlx-lm writes both keys with the same content; files of other tools have only the second, in
    // forms of their own.
    let Some(entry) = config.get("quantization") else {
        if let Some(method) = config
            .get("quantization_config")
            .and_then(|entry| entry.get("quant_method"))
        {
            return Err(EngineError::Unsupported {
                path: path.to_owned(),
                reason: format!(
                    "weights quantised with {method} are not supported; use an MLX conversion \
                     (affine, 2 to 8 bits) or plain weights"
                ),
            });
        }
        return Ok(None);
    };
    if entry.is_null() {
        return Ok(None);
    }
    let default = one_quantization(path, "quantization", entry)?;
    let mut by_layer = BTreeMap::new();
    for (layer, value) in entry.as_object().into_iter().flatten() {
        match value {
            Value::Bool(false) => {
                by_layer.insert(layer.clone(), None);
            }
            Value::Bool(true) => {
                by_layer.insert(layer.clone(), Some(default));
            }
            Value::Object(_) => {
                let own = one_quantization(path, layer, value)?;
                by_layer.insert(layer.clone(), Some(own));
            }
            _ => {}
        }
    }
    Ok(Some(QuantizationConfig { default, by_layer }))
}

fn one_quantization(path: &Path, name: &str, entry: &Value) -> Result<Quantization, EngineError> {
    if let Some(mode) = entry.get("mode")
        && QuantizationMode::deserialize(mode).is_err()
    {
        return Err(EngineError::Unsupported {
            path: path.to_owned(),
            reason: format!(
                "{name}: quantisation mode {mode} is not supported; affine, mxfp4, mxfp8 and \
                 nvfp4 are"
            ),
        });
    }
    let quantization =
        Quantization::deserialize(entry).map_err(|error| bad(path, format!("{name}: {error}")))?;
    let (group_sizes, bits) = quantization.mode.forms();
    for (what, value, allowed) in [
        ("group_size", quantization.group_size, group_sizes),
        ("bits", quantization.bits, bits),
    ] {
        if !allowed.contains(&value) {
            return Err(bad(
                path,
                format!("{name}: {what} is {value}, but must be {}", one_of(allowed)),
            ));
        }
    }
    Ok(quantization)
}

/// `2, 3 or 4`.
fn one_of(values: &[i32]) -> String {
    let words: Vec<String> = values.iter().map(i32::to_string).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Reads a JSON file of at most `limit` bytes; `None` if it is not there.
pub(crate) fn read_json<T: DeserializeOwned>(
    path: &Path,
    limit: u64,
) -> Result<Option<T>, EngineError> {
    match transom_files::read(path, limit) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| bad(path, format!("not valid JSON: {error}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(bad(path, error.to_string())),
    }
}

pub(crate) fn bad(path: &Path, reason: impl Into<String>) -> EngineError {
    EngineError::BadFile {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests;
