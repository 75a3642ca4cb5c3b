//! Llama 2 and 3 (Touvron et al. 2023; Grattafiori et al. 2024), and the forward pass of all
//! architectures of the same form.
//!
//! A layer computes `x + mixer(norm(x))`, then `x + mlp(norm(x))`. Architectures of this form
//! differ in their mixer (attention, or a recurrent layer), in their feed-forward layer, and in how
//! norms are stored. Four differ in nothing else than this file reads from the configuration or the
//! weights: Llama; Qwen 2 and 2.5, whose weights have biases; Phi 3 and 4, whose weights have fused
//! matrices; and Qwen 3 with its head norms.

use mlx_rs::Array;
use transom_engine::EngineError;

use super::args::DecoderArgs;
use super::tensor_paths::TensorPaths;
use super::{Architecture, ModelSize, Parsed};
use crate::config::ModelConfig;
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::nn::{
    Attention, GatedMlp, Layers, Mixer, Mlp, NormWeights, RmsNorm, Rope, Step, Transformer,
};
use crate::weights::Loader;

/// An architecture of Llama's form.
pub(super) trait LlamaForm {
    /// Returns the values that all architectures of this form have.
    fn args(&self) -> &DecoderArgs;

    /// Loads the attention at `path`, of the layer with this number.
    fn load_attention(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Attention, EngineError>;

    /// Loads the mixer of the layer at `path`: its attention, unless the architecture has others.
    fn load_mixer(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Box<dyn Mixer>, EngineError> {
        let attention = self.load_attention(loader, &format!("{path}.self_attn"), layer)?;
        Ok(Box::new(attention))
    }

    /// Loads the feed-forward layer at `path`, of the layer with this number.
    fn load_mlp(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        _layer: i32,
    ) -> Result<Mlp, EngineError> {
        let args = self.args();
        Ok(GatedMlp::load(loader, path, args.hidden_size, args.intermediate_size)?.into())
    }

    /// Returns how the checkpoint stores norms.
    fn norm_weights(&self, _: &Loader<'_>, _: TensorPaths) -> Result<NormWeights, EngineError> {
        Ok(NormWeights::Plain)
    }
}

impl<T: LlamaForm> Architecture for T {
    fn size(&self) -> ModelSize {
        self.args().size()
    }

    fn load(&self, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
        let args = self.args();
        let paths = TensorPaths::find(loader);
        let TensorPaths { model, lm_head } = paths;
        let norm_weights = self.norm_weights(loader, paths)?;
        let norm = |loader: &mut Loader<'_>, path: &str| {
            norm_weights.load_norm(loader, path, args.hidden_size, args.rms_norm_eps)
        };
        let table = format!("{model}.embed_tokens");
        let embedding = loader.embedding(&table, args.vocab_size, args.hidden_size)?;
        let mut layers = Vec::new();
        for layer in 0..args.num_hidden_layers {
            let path = format!("{model}.layers.{layer}");
            layers.push(LlamaLayer {
                mixer_norm: norm(loader, &format!("{path}.input_layernorm"))?,
                mixer: self.load_mixer(loader, &path, layer)?,
                mlp_norm: norm(loader, &format!("{path}.post_attention_layernorm"))?,
                mlp: self.load_mlp(loader, &format!("{path}.mlp"), layer)?,
            });
        }
        let has_head = || loader.contains(&format!("{lm_head}.weight"));
        let is_tied = args.tie_word_embeddings.unwrap_or_else(|| !has_head());
        let lm_head = if is_tied {
            None
        } else {
            Some(loader.linear(lm_head, args.hidden_size, args.vocab_size)?)
        };
        let on_cpu = loader.compute().is_cpu();
        Ok(Transformer {
            embedding,
            embedding_scale: None,
            layers: Box::new(LlamaLayers(layers)),
            norm: norm(loader, &format!("{model}.norm"))?,
            lm_head,
            logit_softcap: None,
            ropes: vec![Rope::new(&args.rope, on_cpu)],
            on_cpu,
        })
    }
}

struct LlamaLayers(Vec<LlamaLayer>);

struct LlamaLayer {
    mixer_norm: RmsNorm,
    mixer: Box<dyn Mixer>,
    mlp_norm: RmsNorm,
    mlp: Mlp,
}

impl Layers for LlamaLayers {
    fn forward(
        &self,
        _: &Array,
        mut x: Array,
        step: &Step<'_>,
        caches: &mut [LayerCache],
    ) -> MlxResult<Array> {
        for (layer, cache) in self.0.iter().zip(caches) {
            x = layer.forward(&x, step, cache)?;
        }
        Ok(x)
    }

    fn new_caches(&self) -> Vec<LayerCache> {
        self.0.iter().map(|layer| layer.mixer.new_cache()).collect()
    }
}

impl LlamaLayer {
    fn forward(&self, x: &Array, step: &Step<'_>, cache: &mut LayerCache) -> MlxResult<Array> {
        let normed = self.mixer_norm.forward(x)?;
        let x = x.add(self.mixer.forward(&normed, step, cache)?)?;
        let normed = self.mlp_norm.forward(&x)?;
        x.add(self.mlp.forward(&normed)?)
    }
}

/// Llama, and the architectures that differ from it only in a flag.
struct Llama {
    args: DecoderArgs,
    /// Whether each head's queries and keys are normalized.
    has_head_norms: bool,
}

/// Parses a Llama, Phi 3 or 4, Qwen 2 or 2.5.
pub(super) fn plain(config: &ModelConfig) -> Parsed {
    parse(config, false)
}

/// Parses a Qwen 3 (Yang et al. 2025).
pub(super) fn with_head_norms(config: &ModelConfig) -> Parsed {
    parse(config, true)
}

fn parse(config: &ModelConfig, has_head_norms: bool) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    Ok(Box::new(Llama {
        args,
        has_head_norms,
    }))
}

impl LlamaForm for Llama {
    fn args(&self) -> &DecoderArgs {
        &self.args
    }

    fn load_attention(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        _: i32,
    ) -> Result<Attention, EngineError> {
        let attention = Attention::load(loader, path, self.args.attention_shape())?;
        if !self.has_head_norms {
            return Ok(attention);
        }
        attention.with_head_norms(loader, path, NormWeights::Plain, self.args.rms_norm_eps)
    }
}
