//! The facts of a model in the catalog, before it is downloaded.
//!
//! Rule: with these facts, [`crate::fit`] computes the same memory need as with the facts that
//! [`crate::inspect`] reads from the files; tests compare both. Facts that the catalog doesn't
//! contain, such as the chat template, are left out.

use super::quantization::{self, Quantization};
use super::{Architecture, Entry, Tag, Variant};
use crate::facts::{
    EmbeddingFacts, Format, LayerKind, ModelFacts, Pooling, TensorTypeStats, gguf_architecture,
};
use crate::fit::llama::has_kv_cache;

/// Weights that share a scale in MLX's quantized layers, as mlx-lm writes them.
const GROUP_SIZE: f64 = 64.0;
/// Bytes of a group's scale and bias.
const SCALE_BYTES: f64 = 4.0;
/// Experts that a token uses, for a mixture whose entry doesn't say it. Most mixtures in the
/// built-in catalog use this many; none uses fewer than four or more than ten.
const DEFAULT_EXPERTS: u64 = 8;

impl Entry {
    /// Returns the facts that this variant will have when it is installed.
    pub fn facts(&self, variant: &Variant) -> ModelFacts {
        let numbers = &self.architecture;
        let weight_bytes = self.weight_bytes(variant);
        let active = numbers.active_parameters.unwrap_or(numbers.parameters);
        let share = active as f64 / numbers.parameters as f64;
        let layers = layers(numbers);
        ModelFacts {
            format: variant.format,
            architecture: match variant.format {
                Format::Gguf => self.gguf_architecture().to_owned(),
                Format::Safetensors => numbers.model_type.clone(),
            },
            name: Some(self.name.clone()),
            context_length: Some(self.context_length),
            n_layers: Some(numbers.layers),
            n_heads: Some(numbers.heads),
            n_kv_heads: layers
                .iter()
                .map(|kind| match kind {
                    LayerKind::Sliding => numbers.sliding_kv_heads,
                    _ => numbers.kv_heads,
                })
                .collect(),
            key_length: Some(numbers.head_dim),
            value_length: Some(numbers.value_dim),
            sliding_window: numbers.sliding_window,
            layers,
            sliding_key_length: numbers.sliding_head_dim,
            sliding_value_length: numbers.sliding_head_dim,
            linear_state_bytes: numbers.linear_state_bytes,
            hidden_size: Some(numbers.hidden_size),
            feed_forward_length: Some(numbers.intermediate_size),
            n_used_experts: n_used_experts(numbers),
            vocab_size: Some(numbers.vocabulary),
            n_parameters: numbers.parameters,
            weight_bytes,
            active_weight_bytes: (weight_bytes as f64 * share) as u64,
            mix: mix(variant, weight_bytes),
            bits: bits(variant),
            chat_template: None,
            embedding: self.embedding(),
            n_files: n_weight_files(variant),
        }
    }

    fn is_embedder(&self) -> bool {
        self.tags.contains(&Tag::Embedding)
    }

    /// Returns llama.cpp's name of the architecture.
    pub(crate) fn gguf_architecture(&self) -> &str {
        match gguf_architecture(&self.architecture.model_type) {
            "gemma3" if self.is_embedder() => "gemma-embedding",
            name => name,
        }
    }

    /// Returns how the model embeds. The catalog doesn't say the kind of pooling, which decides the
    /// memory need only if attention is causal; then it is that of the last token.
    fn embedding(&self) -> Option<EmbeddingFacts> {
        let is_causal = has_kv_cache(self.gguf_architecture());
        self.is_embedder().then_some(EmbeddingFacts {
            pooling: match is_causal {
                true => Pooling::Last,
                false => Pooling::Mean,
            },
            is_causal,
            has_dense: false,
        })
    }

    /// Returns the bytes of the weights that are loaded: those of the weight files, else of the
    /// whole download, else the usual size of this many parameters in this quantization.
    fn weight_bytes(&self, variant: &Variant) -> u64 {
        let usual = || {
            let bits = match quantization_of(variant) {
                Some(kind) if kind.is_words() => kind.bits + SCALE_BYTES * 8.0 / GROUP_SIZE,
                Some(kind) => kind.bits,
                None => 16.0,
            };
            (self.architecture.parameters as f64 * bits / 8.0) as u64
        };
        let sum = variant.weight_files_bytes();
        let fetched = sum.or_else(|| variant.size_bytes());
        let not_loaded = match variant.format {
            Format::Safetensors => self.architecture.vision_parameters.saturating_mul(2),
            Format::Gguf => 0,
        };
        fetched.map_or_else(usual, |bytes| bytes.saturating_sub(not_loaded))
    }
}

/// Returns the experts per layer that a token uses; 0 without experts.
fn n_used_experts(numbers: &Architecture) -> u64 {
    match numbers.active_parameters {
        Some(_) => numbers.experts_per_token.unwrap_or(DEFAULT_EXPERTS),
        None => 0,
    }
}

/// Returns the kind of each layer. Among the shared layers, the share of layers with a window is
/// the same as among the others, because the pattern continues; shares are rounded.
fn layers(numbers: &Architecture) -> Vec<LayerKind> {
    let n_own = numbers.layers - numbers.shared_layers;
    let own = |n: u64| (n * n_own + numbers.layers / 2) / numbers.layers;
    let (n_sliding, n_linear) = (own(numbers.sliding_layers), own(numbers.linear_layers));
    let mut layers = LayerKind::from_counts(n_own, n_sliding, n_linear);
    // The reader limits the number of layers, so the cast is safe.
    layers.resize(numbers.layers as usize, LayerKind::Shared);
    layers
}

fn n_weight_files(variant: &Variant) -> usize {
    let weights = variant.files.iter().filter(|file| variant.is_weights(file));
    weights.count().max(1)
}

fn quantization_of(variant: &Variant) -> Option<Quantization> {
    quantization::of(variant.format, &variant.quantization)
}

fn bits(variant: &Variant) -> Option<u64> {
    let words = quantization_of(variant).filter(Quantization::is_words);
    words.map(|quantization| quantization.bits as u64)
}

/// Returns the tensor types of the weights: all have the main type, except the scales and biases
/// that MLX stores next to the words of a quantized layer.
fn mix(variant: &Variant, weight_bytes: u64) -> Vec<TensorTypeStats> {
    let Some(quantization) = quantization_of(variant) else {
        return Vec::new();
    };
    let packed = |kind: &str, bytes: u64| TensorTypeStats {
        kind: kind.to_owned(),
        n_tensors: 0,
        bytes,
    };
    if !quantization.is_words() {
        return vec![packed(quantization.kind, weight_bytes)];
    }
    let words = GROUP_SIZE * quantization.bits / 8.0;
    let words = (weight_bytes as f64 * words / (words + SCALE_BYTES)) as u64;
    vec![
        packed(quantization.kind, words),
        packed("BF16", weight_bytes.saturating_sub(words)),
    ]
}
