//! Gemma 3 (Gemma Team 2025). Five layers of six have a sliding window, and rotate queries and keys
//! faster than the sixth, which has full attention. Each layer has four norms, whose weights are
//! stored minus one.

use mlx_rs::{Array, Dtype, ops};
use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use super::check::check_ranges;
use super::rope::{RopeParameters, RopeSource};
use super::windows::{Pattern, SlidingWindows};
use super::{Architecture, ModelSize, Parsed};
use crate::config::ModelConfig;
use crate::error::{Context, MlxResult};
use crate::kv_cache::LayerCache;
use crate::nn::{
    Attention, AttentionOptions, AttentionShape, CachedLayer, Gate, GatedMlp, Norms, RmsNorm, Rope,
    RopeConfig, Step, Transformer,
};
use crate::weights::Loader;

/// Indices of [`Transformer::ropes`].
const GLOBAL_ROPE: usize = 0;
const LOCAL_ROPE: usize = 1;

/// The configuration, with the defaults of the reference implementation: the authors' files leave
/// out values that equal them.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
struct Args {
    vocab_size: i32,
    hidden_size: i32,
    num_hidden_layers: i32,
    intermediate_size: i32,
    num_attention_heads: i32,
    num_key_value_heads: i32,
    head_dim: i32,
    rms_norm_eps: f32,
    max_position_embeddings: i32,
    rope_theta: Option<f32>,
    rope_local_base_freq: Option<f32>,
    rope_scaling: Option<Value>,
    /// The newer form: a rotary embedding for each type of layer.
    rope_parameters: Option<RopeParameters>,
    query_pre_attn_scalar: f32,
    sliding_window: Option<i32>,
    /// Every n-th layer has full attention.
    sliding_window_pattern: Option<i32>,
    /// The name of the same value in other versions of the files; some have both.
    _sliding_window_pattern: Option<i32>,
    layer_types: Option<Vec<String>>,
    hidden_activation: Option<String>,
    attn_logit_softcapping: Option<f32>,
    final_logit_softcapping: Option<f32>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            vocab_size: 262_208,
            hidden_size: 2304,
            num_hidden_layers: 26,
            intermediate_size: 9216,
            num_attention_heads: 8,
            num_key_value_heads: 4,
            head_dim: 256,
            rms_norm_eps: 1e-6,
            max_position_embeddings: 131_072,
            rope_theta: None,
            rope_local_base_freq: None,
            rope_scaling: None,
            rope_parameters: None,
            query_pre_attn_scalar: 256.0,
            sliding_window: Some(4096),
            sliding_window_pattern: None,
            _sliding_window_pattern: None,
            layer_types: None,
            hidden_activation: None,
            attn_logit_softcapping: None,
            final_logit_softcapping: None,
        }
    }
}

struct Gemma3 {
    args: Args,
    windows: SlidingWindows,
    /// The rotary embeddings of layers with full attention and with a window.
    ropes: [RopeConfig; 2],
    norms: Norms,
    /// With this, the names of all tensors begin.
    prefix: &'static str,
}

pub(super) fn text(config: &ModelConfig) -> Parsed {
    parse(config, config.parse()?, "")
}

/// Parses the text part of a multimodal checkpoint.
pub(super) fn multimodal(config: &ModelConfig) -> Parsed {
    let mut args: Args = config.parse_text_config()?;
    // If both parts have a vocabulary size, the tensors have the outer one.
    if let Some(outer) = config.json.get("vocab_size").and_then(Value::as_i64) {
        args.vocab_size = i32::try_from(outer).unwrap_or(i32::MAX);
    }
    parse(config, args, "language_model.")
}

fn parse(config: &ModelConfig, args: Args, prefix: &'static str) -> Parsed {
    args.check(config)?;
    let windows = SlidingWindows::new(
        config,
        args.num_hidden_layers,
        args.sliding_window,
        args.layer_types.as_deref(),
        Pattern::AllButEvery(args.pattern()),
        args.max_position_embeddings,
    )?;
    let ropes = args.ropes(config)?;
    let norms = Norms {
        epsilon: args.rms_norm_eps,
        are_minus_one: true,
    };
    Ok(Box::new(Gemma3 {
        args,
        norms,
        windows,
        ropes,
        prefix,
    }))
}

impl Args {
    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        check_ranges!(config, self, {
            vocab_size: 1..=1 << 24,
            hidden_size: 1..=1 << 17,
            num_hidden_layers: 1..=1 << 10,
            num_attention_heads: 1..=1 << 10,
            num_key_value_heads: 1..=1 << 10,
            intermediate_size: 1..=1 << 20,
            max_position_embeddings: 1..=1 << 28,
        });
        config.check_range("sliding_window_pattern", self.pattern(), 1..=1 << 10)?;
        let (n_heads, n_kv_heads) = (self.num_attention_heads, self.num_key_value_heads);
        config.check_heads(self.head_dim, n_heads, n_kv_heads)?;
        config.check_rms_norm_eps(self.rms_norm_eps)?;
        config.check_above_zero("query_pre_attn_scalar", self.query_pre_attn_scalar)?;
        let softcap = self.final_logit_softcapping.unwrap_or(1.0);
        config.check_above_zero("final_logit_softcapping", softcap)?;
        if let Some(softcap) = self.attn_logit_softcapping {
            return Err(config.unsupported(format!(
                "attn_logit_softcapping {softcap} is not supported; Gemma 3 has none"
            )));
        }
        let activation = self.hidden_activation.as_deref();
        config.check_activation("hidden_activation", activation, &["gelu_pytorch_tanh"])
    }

    fn pattern(&self) -> i32 {
        self.sliding_window_pattern
            .or(self._sliding_window_pattern)
            .unwrap_or(6)
    }

    fn ropes(&self, config: &ModelConfig) -> Result<[RopeConfig; 2], EngineError> {
        let parameters = self.rope_parameters.as_ref();
        let global = RopeSource {
            entry: parameters
                .and_then(|all| all.full_attention.as_ref())
                .or(self.rope_scaling.as_ref()),
            theta: self.rope_theta,
            head_dim: self.head_dim,
            max_positions: self.max_position_embeddings,
            ..RopeSource::default()
        };
        let local = RopeSource {
            entry: parameters.and_then(|all| all.sliding_attention.as_ref()),
            theta: self.rope_local_base_freq,
            ..global
        };
        Ok([
            global.or_base(1_000_000.0).parse(config)?,
            local.or_base(10_000.0).parse(config)?,
        ])
    }
}

impl Architecture for Gemma3 {
    fn size(&self) -> ModelSize {
        ModelSize::new(self.args.max_position_embeddings, self.args.vocab_size)
    }

    fn load(&self, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
        let Self {
            args,
            ropes,
            prefix,
            ..
        } = self;
        let on_cpu = loader.compute().is_cpu();
        let table = format!("{prefix}model.embed_tokens");
        let embedding = loader.matrix(&table, args.hidden_size, args.vocab_size)?;
        let layers = (0..args.num_hidden_layers)
            .map(|layer| self.load_layer(loader, layer))
            .collect::<Result<Vec<_>, _>>()?;
        let lm_head = format!("{prefix}lm_head");
        let has_head = loader.contains(&format!("{lm_head}.weight"));
        let lm_head = has_head.then(|| loader.linear(&lm_head, args.hidden_size, args.vocab_size));
        Ok(Transformer {
            embedding,
            embedding_scale: Some(bf16((args.hidden_size as f32).sqrt()).during("loading")?),
            layers: Box::new(layers),
            norm: self
                .norms
                .load(loader, &format!("{prefix}model.norm"), args.hidden_size)?,
            lm_head: lm_head.transpose()?,
            logit_softcap: args.final_logit_softcapping,
            ropes: ropes.iter().map(|rope| Rope::new(rope, on_cpu)).collect(),
            on_cpu,
            quantizes_parked: false,
        })
    }
}

/// Rounds to the nearest bf16 number, because training rounded the scale of the embeddings.
fn bf16(value: f32) -> MlxResult<f32> {
    let rounded = Array::from_f32(value).as_dtype(Dtype::Bfloat16)?;
    Ok(rounded.as_dtype(Dtype::Float32)?.item_exact::<f32>())
}

impl Gemma3 {
    fn load_layer(&self, loader: &mut Loader<'_>, layer: i32) -> Result<Gemma3Layer, EngineError> {
        let args = &self.args;
        let path = format!("{}model.layers.{layer}", self.prefix);
        let norm = |loader: &mut Loader<'_>, name: &str| {
            let path = format!("{path}.{name}");
            self.norms.load(loader, &path, args.hidden_size)
        };
        let mlp = format!("{path}.mlp");
        Ok(Gemma3Layer {
            attention_norm: norm(loader, "input_layernorm")?,
            attention: self.load_attention(loader, &format!("{path}.self_attn"), layer)?,
            attention_output_norm: norm(loader, "post_attention_layernorm")?,
            mlp_norm: norm(loader, "pre_feedforward_layernorm")?,
            mlp: GatedMlp::load(
                loader,
                &mlp,
                args.hidden_size,
                args.intermediate_size,
                Gate::GeluTanh,
            )?,
            mlp_output_norm: norm(loader, "post_feedforward_layernorm")?,
        })
    }

    fn load_attention(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Attention, EngineError> {
        let args = &self.args;
        let shape = AttentionShape {
            hidden_size: args.hidden_size,
            n_heads: args.num_attention_heads,
            n_kv_heads: args.num_key_value_heads,
            head_dim: args.head_dim,
        };
        let is_sliding = self.windows.is_sliding(layer);
        let options = AttentionOptions {
            window: self.windows.window(layer),
            rope: Some(if is_sliding { LOCAL_ROPE } else { GLOBAL_ROPE }),
            scale: Some(args.query_pre_attn_scalar.sqrt().recip()),
            has_head_norms: true,
            ..AttentionOptions::default()
        };
        Attention::load(loader, path, shape, options, self.norms)
    }
}

struct Gemma3Layer {
    attention_norm: RmsNorm,
    attention: Attention,
    attention_output_norm: RmsNorm,
    mlp_norm: RmsNorm,
    mlp: GatedMlp,
    mlp_output_norm: RmsNorm,
}

impl CachedLayer for Gemma3Layer {
    fn forward(
        &self,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
    ) -> MlxResult<Array> {
        let normed = self.attention_norm.forward(x)?;
        let attended = self.attention.forward(&normed, step, caches)?;
        let x = add_clipped(x, &self.attention_output_norm.forward(&attended)?)?;
        let normed = self.mlp_norm.forward(&x)?;
        let fed = self.mlp.forward(&normed)?;
        add_clipped(&x, &self.mlp_output_norm.forward(&fed)?)
    }

    fn new_cache(&self) -> LayerCache {
        self.attention.new_cache()
    }
}

/// Adds to the residual stream. Gemma's outgrows f16, so an f16 sum stops at the largest f16
/// number.
pub(super) fn add_clipped(x: &Array, y: &Array) -> MlxResult<Array> {
    const MAX: f32 = 65504.0;
    if x.dtype() != Dtype::Float16 {
        return x.add(y);
    }
    let sum = x
        .as_dtype(Dtype::Float32)?
        .add(y.as_dtype(Dtype::Float32)?)?;
    ops::minimum(
        ops::maximum(sum, Array::from_f32(-MAX))?,
        Array::from_f32(MAX),
    )?
    .as_dtype(Dtype::Float16)
}
