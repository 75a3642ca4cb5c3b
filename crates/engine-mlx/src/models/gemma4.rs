//! Gemma 4 (Gemma Team 2026): Gemma 3 with normalized values, and with larger heads in the layers
//! with full attention, whose keys may also be their values.
//!
//! The small models have per-layer embeddings, and their last layers use the keys and values of
//! earlier layers. One large model has a mixture of experts next to each feed-forward layer.

mod args;
mod attention;
mod per_layer;

use mlx_rs::Array;
use transom_engine::EngineError;

use self::args::Args;
use self::attention::{AttentionArgs, Gemma4Attention, KeySource, SharedKeys};
use self::per_layer::{PerLayerEmbedding, PerLayerGate};
use super::gemma3::add_clipped;
use super::windows::SlidingWindows;
use super::{Architecture, ModelSize, Parsed};
use crate::config::ModelConfig;
use crate::error::{Context, MlxResult};
use crate::kv_cache::LayerCache;
use crate::nn::{
    Activation, ExpertOptions, Experts, Gate, GatedMlp, LayerQueue, Layers, Norms, RmsNorm, Rope,
    RopeConfig, Step, Transformer, of_layer,
};
use crate::weights::Loader;

/// Indices of [`Transformer::ropes`] and of [`SharedKeys`], by type of attention.
const GLOBAL: usize = 0;
const LOCAL: usize = 1;

struct Gemma4 {
    args: Args,
    windows: SlidingWindows,
    /// By type of attention.
    ropes: [RopeConfig; 2],
    norms: Norms,
}

pub(super) fn text(config: &ModelConfig) -> Parsed {
    parse(config, config.parse()?)
}

/// Parses the text part of a multimodal checkpoint.
pub(super) fn multimodal(config: &ModelConfig) -> Parsed {
    parse(config, config.parse_text_config()?)
}

fn parse(config: &ModelConfig, args: Args) -> Parsed {
    args.check(config)?;
    let windows = args.windows(config)?;
    let ropes = args.ropes(config)?;
    let norms = Norms {
        epsilon: args.rms_norm_eps,
        are_minus_one: false,
    };
    Ok(Box::new(Gemma4 {
        args,
        norms,
        windows,
        ropes,
    }))
}

impl Architecture for Gemma4 {
    fn size(&self) -> ModelSize {
        ModelSize::new(self.args.max_position_embeddings, self.args.vocab_size)
    }

    fn load(&self, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
        let args = &self.args;
        let on_cpu = loader.compute().is_cpu();
        let (model, lm_head) = super::tensor_paths(loader);
        let table = format!("{model}.embed_tokens");
        let embedding = loader.matrix(&table, args.hidden_size, args.vocab_size)?;
        let per_layer = self.load_per_layer_embedding(loader, model)?;
        let mut layers = Vec::new();
        for layer in 0..args.num_hidden_layers {
            layers.push(self.load_layer(loader, &format!("{model}.layers.{layer}"), layer)?);
        }
        let has_head = !args.tie_word_embeddings;
        let lm_head = has_head.then(|| loader.linear(lm_head, args.hidden_size, args.vocab_size));
        Ok(Transformer {
            embedding,
            embedding_scale: Some((args.hidden_size as f32).sqrt()),
            layers: Box::new(Gemma4Layers { per_layer, layers }),
            norm: self
                .norms
                .load(loader, &format!("{model}.norm"), args.hidden_size)?,
            lm_head: lm_head.transpose()?,
            logit_softcap: args.final_logit_softcapping,
            ropes: self
                .ropes
                .each_ref()
                .map(|rope| Rope::new(rope, on_cpu))
                .into(),
            on_cpu,
            quantizes_parked: false,
        })
    }
}

impl Gemma4 {
    fn load_per_layer_embedding(
        &self,
        loader: &mut Loader<'_>,
        model: &str,
    ) -> Result<Option<PerLayerEmbedding>, EngineError> {
        let args = &self.args;
        let (width, n_layers) = (args.hidden_size_per_layer_input, args.num_hidden_layers);
        if width == 0 {
            return Ok(None);
        }
        let n_out = width * n_layers;
        let table = format!("{model}.embed_tokens_per_layer");
        let projection = format!("{model}.per_layer_model_projection");
        let norm = format!("{model}.per_layer_projection_norm");
        Ok(Some(PerLayerEmbedding {
            embedding: loader.matrix(&table, n_out, args.vocab_size_per_layer_input)?,
            embedding_scale: (width as f32).sqrt(),
            projection: loader.linear(&projection, args.hidden_size, n_out)?,
            projection_scale: (args.hidden_size as f32).sqrt().recip(),
            norm: self.norms.load(loader, &norm, width)?,
            n_layers,
            width,
        }))
    }

    fn load_layer(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Gemma4Layer, EngineError> {
        let args = &self.args;
        let norm = |loader: &mut Loader<'_>, name: &str| {
            self.norms
                .load(loader, &format!("{path}.{name}"), args.hidden_size)
        };
        let attention_norm = norm(loader, "input_layernorm")?;
        let attention = self.load_attention(loader, &format!("{path}.self_attn"), layer)?;
        let attention_output_norm = norm(loader, "post_attention_layernorm")?;
        let width = if args.use_double_wide_mlp && args.shares_keys(layer) {
            2 * args.intermediate_size
        } else {
            args.intermediate_size
        };
        let mlp_norm = norm(loader, "pre_feedforward_layernorm")?;
        let mlp = format!("{path}.mlp");
        let mlp = GatedMlp::load(loader, &mlp, args.hidden_size, width, Gate::GeluTanh)?;
        let moe = match args.experts() {
            None => None,
            Some(options) => Some(Moe {
                mlp_output_norm: norm(loader, "post_feedforward_layernorm_1")?,
                router_norm: self.load_router_norm(loader, path)?,
                experts_norm: norm(loader, "pre_feedforward_layernorm_2")?,
                experts: load_experts(loader, path, options)?,
                experts_output_norm: norm(loader, "post_feedforward_layernorm_2")?,
            }),
        };
        let output_norm = norm(loader, "post_feedforward_layernorm")?;
        let per_layer_gate = self.load_per_layer_gate(loader, path)?;
        let scale = format!("{path}.layer_scalar");
        let has_scale = loader.contains(&scale);
        let output_scale = has_scale.then(|| loader.vector(&scale, 1)).transpose()?;
        Ok(Gemma4Layer {
            attention_norm,
            attention,
            attention_output_norm,
            mlp_norm,
            mlp,
            moe,
            output_norm,
            per_layer_gate,
            output_scale,
        })
    }

    fn load_attention(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Gemma4Attention, EngineError> {
        let is_sliding = self.windows.is_sliding(layer);
        let args = AttentionArgs {
            shape: self.args.attention_shape(is_sliding),
            source: if self.args.shares_keys(layer) {
                KeySource::EarlierLayer
            } else if self.args.attention_k_eq_v && !is_sliding {
                KeySource::OneProjection
            } else {
                KeySource::TwoProjections
            },
            norms: self.norms,
            kind: if is_sliding { LOCAL } else { GLOBAL },
            window: self.windows.window(layer),
        };
        Gemma4Attention::load(loader, path, args)
    }

    fn load_per_layer_gate(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
    ) -> Result<Option<PerLayerGate>, EngineError> {
        let args = &self.args;
        let (width, hidden_size) = (args.hidden_size_per_layer_input, args.hidden_size);
        if width == 0 {
            return Ok(None);
        }
        let gate = format!("{path}.per_layer_input_gate");
        let projection = format!("{path}.per_layer_projection");
        let norm = format!("{path}.post_per_layer_input_norm");
        Ok(Some(PerLayerGate {
            gate: loader.linear(&gate, hidden_size, width)?,
            activation: Activation::new(Gate::GeluTanh, loader.compute().is_cpu()),
            projection: loader.linear(&projection, width, hidden_size)?,
            norm: self.norms.load(loader, &norm, hidden_size)?,
        }))
    }

    /// The scale of the router is divided by the square root of the width.
    fn load_router_norm(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
    ) -> Result<RmsNorm, EngineError> {
        let hidden_size = self.args.hidden_size;
        let scale = loader.vector(&format!("{path}.router.scale"), hidden_size)?;
        let root = Array::from_f32((hidden_size as f32).sqrt().recip());
        let weight = root
            .as_dtype(scale.dtype())
            .and_then(|root| scale.multiply(root));
        let weight = weight.during(path)?;
        weight.eval().during(path)?;
        Ok(RmsNorm::new(weight, self.args.rms_norm_eps))
    }
}

fn load_experts(
    loader: &mut Loader<'_>,
    path: &str,
    options: ExpertOptions,
) -> Result<Experts, EngineError> {
    let scales = format!("{path}.router.per_expert_scale");
    let scales = loader.vector(&scales, options.shape.n_experts)?;
    Ok(Experts::load(loader, path, options)?.with_scales(scales))
}

struct Gemma4Layers {
    per_layer: Option<PerLayerEmbedding>,
    layers: Vec<Gemma4Layer>,
}

struct Gemma4Layer {
    attention_norm: RmsNorm,
    attention: Gemma4Attention,
    attention_output_norm: RmsNorm,
    mlp_norm: RmsNorm,
    mlp: GatedMlp,
    moe: Option<Moe>,
    output_norm: RmsNorm,
    per_layer_gate: Option<PerLayerGate>,
    /// Factor of the output, `[1]`.
    output_scale: Option<Array>,
}

/// The mixture of experts next to a feed-forward layer, and the norms that both need then.
struct Moe {
    mlp_output_norm: RmsNorm,
    /// Norm of the router's input; its weight includes the scale of the router.
    router_norm: RmsNorm,
    experts_norm: RmsNorm,
    experts: Experts,
    experts_output_norm: RmsNorm,
}

impl Layers for Gemma4Layers {
    fn forward(
        &self,
        tokens: &Array,
        mut x: Array,
        step: &Step<'_>,
        sequences: &mut [&mut [LayerCache]],
    ) -> MlxResult<Array> {
        let per_layer = match &self.per_layer {
            Some(embedding) => embedding.forward(tokens, &x)?,
            None => Vec::new(),
        };
        let mut shared = SharedKeys::default();
        let mut queue = LayerQueue::new(self.layers.len(), &x, step, sequences)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let mut caches = of_layer(sequences, index);
            x = layer.forward(&x, per_layer.get(index), step, &mut caches, &mut shared)?;
            queue.push(&x)?;
        }
        Ok(x)
    }

    fn new_caches(&self) -> Vec<LayerCache> {
        let layers = self.layers.iter();
        layers.map(|layer| layer.attention.new_cache()).collect()
    }
}

impl Gemma4Layer {
    /// `per_layer` is this layer's own embedding of each token, `[1, tokens, width]`.
    fn forward(
        &self,
        x: &Array,
        per_layer: Option<&Array>,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
        shared: &mut SharedKeys,
    ) -> MlxResult<Array> {
        let normed = self.attention_norm.forward(x)?;
        let attended = self.attention.forward(&normed, step, caches, shared)?;
        let x = add_clipped(x, &self.attention_output_norm.forward(&attended)?)?;
        let fed = self.feed_forward(&x)?;
        let mut x = add_clipped(&x, &self.output_norm.forward(&fed)?)?;
        if let (Some(gate), Some(per_layer)) = (&self.per_layer_gate, per_layer) {
            x = x.add(gate.forward(&x, per_layer)?)?;
        }
        match &self.output_scale {
            Some(scale) => x.multiply(scale),
            None => Ok(x),
        }
    }

    /// The feed-forward layer, plus the mixture of experts if there is one.
    fn feed_forward(&self, x: &Array) -> MlxResult<Array> {
        let dense = self.mlp.forward(&self.mlp_norm.forward(x)?)?;
        let Some(moe) = &self.moe else {
            return Ok(dense);
        };
        let mixed = moe
            .experts
            .forward_routed_by(&moe.experts_norm.forward(x)?, &moe.router_norm.forward(x)?)?;
        moe.mlp_output_norm
            .forward(&dense)?
            .add(moe.experts_output_norm.forward(&mixed)?)
    }
}
