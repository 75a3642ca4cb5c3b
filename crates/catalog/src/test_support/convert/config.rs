//! Reads and checks `config.json`, and writes its numbers to GGUF.
//!
//! The GGUF keys are those that llama.cpp reads for its architectures `llama`, `qwen2` and `qwen3`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{damaged, unsupported};
use crate::file_error::FileError;
use crate::safetensors::read_config;
use crate::test_support::GgufWriter;

#[derive(Debug)]
pub(super) struct ModelConfig {
    pub(super) path: PathBuf,
    pub(super) family: Family,
    pub(super) vocab_size: usize,
    pub(super) width: usize,
    pub(super) n_layers: usize,
    pub(super) n_heads: usize,
    pub(super) n_kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) ff_width: usize,
    pub(super) context_length: usize,
    pub(super) norm_epsilon: f32,
    pub(super) rope_base: f32,
    rope_scaling: Option<RopeScaling>,
    /// `None` if the file doesn't say it.
    pub(super) ties_embeddings: Option<bool>,
    pub(super) quantization: Option<QuantizationConfig>,
}

/// Architectures that can be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Also Mistral, which differs only in its numbers.
    Llama,
    Qwen2,
    Qwen3,
}

impl Family {
    /// Returns the name in GGUF, which is also the prefix of the keys.
    pub(super) fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }
}

/// How Llama 3 scales positions beyond the training length.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RopeScaling {
    factor: f64,
    low: f64,
    high: f64,
    original: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AffineQuantization {
    pub(super) bits: usize,
    pub(super) group_size: usize,
}

/// The entry `quantization`: a default, and exceptions by layer.
#[derive(Debug)]
pub(super) struct QuantizationConfig {
    default: AffineQuantization,
    by_layer: BTreeMap<String, Option<AffineQuantization>>,
}

impl QuantizationConfig {
    pub(super) fn of(&self, layer: &str) -> Option<AffineQuantization> {
        match self.by_layer.get(layer) {
            Some(own) => *own,
            None => Some(self.default),
        }
    }
}

impl ModelConfig {
    pub(super) fn read(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join("config.json");
        let json = read_config(folder)?;
        let reader = Reader {
            path: &path,
            json: &json,
        };
        let family = match reader.json.get("model_type").and_then(Value::as_str) {
            Some("llama" | "mistral") => Family::Llama,
            Some("qwen2") => Family::Qwen2,
            Some("qwen3") => Family::Qwen3,
            _ => return Err(reader.unsupported("model_type")),
        };
        reader.refuse_unsupported()?;
        let width = reader.size("hidden_size", 1 << 17)?;
        let n_heads = reader.size("num_attention_heads", 1 << 10)?;
        let n_kv_heads = reader.size_or("num_key_value_heads", 1 << 10, n_heads)?;
        let head_dim = reader.size_or("head_dim", 1 << 12, width / n_heads)?;
        if !n_heads.is_multiple_of(n_kv_heads) || !head_dim.is_multiple_of(2) || head_dim == 0 {
            let reason = format!("{n_heads} heads of {head_dim} cannot share {n_kv_heads}");
            return Err(damaged(&path, reason));
        }
        let (rope_base, rope_scaling) = reader.rope(family)?;
        Ok(Self {
            family,
            vocab_size: reader.size("vocab_size", 1 << 24)?,
            width,
            n_layers: reader.size("num_hidden_layers", 1 << 10)?,
            n_heads,
            n_kv_heads,
            head_dim,
            ff_width: reader.size("intermediate_size", 1 << 20)?,
            context_length: reader.context_length()?,
            norm_epsilon: reader.number("rms_norm_eps")? as f32,
            rope_base,
            rope_scaling,
            ties_embeddings: json.get("tie_word_embeddings").and_then(Value::as_bool),
            quantization: reader.quantization()?,
            path,
        })
    }

    pub(super) fn write(&self, to: &mut GgufWriter) {
        let architecture = self.family.architecture();
        let mut number = |key: &str, value: usize| {
            to.u32(&format!("{architecture}.{key}"), value as u32);
        };
        number("vocab_size", self.vocab_size);
        number("context_length", self.context_length);
        number("embedding_length", self.width);
        number("block_count", self.n_layers);
        number("feed_forward_length", self.ff_width);
        number("attention.head_count", self.n_heads);
        number("attention.head_count_kv", self.n_kv_heads);
        number("attention.key_length", self.head_dim);
        number("attention.value_length", self.head_dim);
        number("rope.dimension_count", self.head_dim);
        let key = |key: &str| format!("{architecture}.{key}");
        to.f32(&key("attention.layer_norm_rms_epsilon"), self.norm_epsilon)
            .f32(&key("rope.freq_base"), self.rope_base);
    }

    /// Returns the divisors for each of the head's frequencies in Llama 3's scaling: short waves stay,
    /// long ones are stretched by the factor, and those in between are blended.
    pub(super) fn rope_factors(&self) -> Option<Vec<f32>> {
        let RopeScaling {
            factor,
            low,
            high,
            original,
        } = self.rope_scaling?;
        let factor_of = |index: usize| {
            let exponent = (2 * index) as f64 / self.head_dim as f64;
            let wavelength = std::f64::consts::TAU * f64::from(self.rope_base).powf(exponent);
            if wavelength < original / high {
                1.0
            } else if wavelength > original / low {
                factor
            } else {
                let smooth = (original / wavelength - low) / (high - low);
                1.0 / ((1.0 - smooth) / factor + smooth)
            }
        };
        let indices = 0..self.head_dim / 2;
        Some(indices.map(|index| factor_of(index) as f32).collect())
    }
}

struct Reader<'a> {
    path: &'a Path,
    json: &'a Value,
}

impl Reader<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    fn unsupported(&self, key: &str) -> FileError {
        let value = self.json.get(key);
        let value = value.map_or("missing".to_owned(), ToString::to_string);
        unsupported(self.path, key, value)
    }

    fn size(&self, key: &str, most: usize) -> Result<usize, FileError> {
        let value = self.value(key).and_then(Value::as_u64);
        value
            .and_then(|value| usize::try_from(value).ok())
            .filter(|value| (1..=most).contains(value))
            .ok_or_else(|| self.unsupported(key))
    }

    fn size_or(&self, key: &str, most: usize, default: usize) -> Result<usize, FileError> {
        match self.value(key) {
            None => Ok(default),
            Some(_) => self.size(key, most),
        }
    }

    fn number(&self, key: &str) -> Result<f64, FileError> {
        let value = self.value(key).and_then(Value::as_f64);
        value
            .filter(|value| value.is_finite() && *value > 0.0)
            .ok_or_else(|| self.unsupported(key))
    }

    /// Refuses entries that change the computation in ways that GGUF or this converter can't express.
    fn refuse_unsupported(&self) -> Result<(), FileError> {
        match self.value("hidden_act").and_then(Value::as_str) {
            None | Some("silu" | "swish") => {}
            Some(_) => return Err(self.unsupported("hidden_act")),
        }
        let is_usual = |key: &str, usual: f64| match self.value(key) {
            Some(value) if value.as_f64() != Some(usual) => Err(self.unsupported(key)),
            _ => Ok(()),
        };
        is_usual("partial_rotary_factor", 1.0)?;
        if self.value("rope_traditional").and_then(Value::as_bool) == Some(true) {
            return Err(self.unsupported("rope_traditional"));
        }
        Ok(())
    }

    /// Returns the context length. Inside a sliding window, attention is the same with and without it.
    /// llama.cpp has none for these architectures, so the context ends where the window does.
    fn context_length(&self) -> Result<usize, FileError> {
        let context = self.size("max_position_embeddings", 1 << 28)?;
        let is_off = self.value("use_sliding_window").and_then(Value::as_bool) == Some(false);
        let window = self.size_or("sliding_window", usize::MAX, usize::MAX)?;
        Ok(if is_off { context } else { context.min(window) })
    }

    /// Returns base and scaling. Newer files have both in one entry, `rope_parameters`.
    fn rope(&self, family: Family) -> Result<(f32, Option<RopeScaling>), FileError> {
        let (key, entry) = match self.value("rope_parameters") {
            Some(entry) => ("rope_parameters", Some(entry)),
            None => ("rope_scaling", self.value("rope_scaling")),
        };
        let number = |name: &str| {
            let value = entry.and_then(|entry| entry.get(name))?.as_f64();
            value.filter(|value| value.is_finite() && *value > 0.0)
        };
        let base = match (self.value("rope_theta"), number("rope_theta"), family) {
            (Some(_), _, _) => self.number("rope_theta")?,
            (None, Some(base), _) => base,
            // The first Llama models don't contain it.
            (None, None, Family::Llama) => 10_000.0,
            (None, None, _) => return Err(self.unsupported("rope_theta")),
        };
        let kind = entry.and_then(|entry| entry.get("rope_type").or_else(|| entry.get("type")));
        let needed = |name: &str| number(name).ok_or_else(|| self.unsupported(key));
        let scaling = match (kind.and_then(Value::as_str), family) {
            (None, _) if entry.is_none_or(|entry| entry.get("factor").is_none()) => None,
            (Some("default"), _) => None,
            // llama.cpp reads the factors for this architecture only.
            (Some("llama3"), Family::Llama) => Some(RopeScaling {
                factor: needed("factor")?,
                low: needed("low_freq_factor")?,
                high: needed("high_freq_factor")?,
                original: needed("original_max_position_embeddings")?,
            }),
            _ => return Err(self.unsupported(key)),
        };
        if scaling.is_some_and(|scaling| scaling.low >= scaling.high) {
            return Err(self.unsupported(key));
        }
        Ok((base as f32, scaling))
    }

    fn quantization(&self) -> Result<Option<QuantizationConfig>, FileError> {
        let Some(entry) = self.value("quantization") else {
            return match self.value("quantization_config") {
                None => Ok(None),
                Some(_) => Err(self.unsupported("quantization_config")),
            };
        };
        let default = self.one_quantization("quantization", entry)?;
        let mut by_layer = BTreeMap::new();
        for (layer, value) in entry.as_object().into_iter().flatten() {
            let own = match value {
                Value::Bool(false) => None,
                Value::Bool(true) => Some(default),
                Value::Object(_) => Some(self.one_quantization(layer, value)?),
                _ => continue,
            };
            by_layer.insert(layer.clone(), own);
        }
        Ok(Some(QuantizationConfig { default, by_layer }))
    }

    fn one_quantization(&self, name: &str, entry: &Value) -> Result<AffineQuantization, FileError> {
        let unsupported = || unsupported(self.path, name, entry.to_string());
        if entry.get("mode").is_some_and(|mode| mode != "affine") {
            return Err(unsupported());
        }
        let number = |key: &str, usual: &[u64]| {
            let value = entry.get(key).and_then(Value::as_u64);
            value
                .filter(|value| usual.contains(value))
                .map(|value| value as usize)
                .ok_or_else(unsupported)
        };
        Ok(AffineQuantization {
            bits: number("bits", &[2, 3, 4, 5, 6, 8])?,
            group_size: number("group_size", &[32, 64, 128])?,
        })
    }
}
