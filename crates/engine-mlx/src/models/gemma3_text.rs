//! Gemma 3 (Gemma Team 2025): five layers of six see a window, and turn queries and keys faster than
//! the sixth, which sees all; four norms a block, all with weights around zero.

use mlx_rs::{Array, Dtype};
use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use super::Architecture;
use super::args::ModelSize;
use super::rope::RopeSource;
use super::windows::{Pattern, Windows};
use crate::config::{ModelConfig, bad};
use crate::error::{Context, MlxResult};
use crate::nn::{
    Attention, AttentionShape, Block, Gate, GatedMlp, RmsNorm, Rope, RopeForm, Transformer,
};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "gemma3_text",
    size,
    load,
};

/// Numbers of the ropes in [`Transformer`].
const GLOBAL_ROPE: usize = 0;
const LOCAL_ROPE: usize = 1;

/// The configuration, with the defaults of the reference implementation: the authors' files leave
/// out what agrees with them.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Args {
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
    /// The newer spelling: a rope for each type of layer.
    rope_parameters: Option<RopeParameters>,
    query_pre_attn_scalar: f32,
    sliding_window: Option<i32>,
    sliding_window_pattern: Option<i32>,
    /// The same in files of another age; some have both.
    _sliding_window_pattern: Option<i32>,
    layer_types: Option<Vec<String>>,
    hidden_activation: Option<String>,
    attn_logit_softcapping: Option<f32>,
    final_logit_softcapping: Option<f32>,
}

#[derive(Debug, Clone, Deserialize)]
struct RopeParameters {
    full_attention: Option<Value>,
    sliding_attention: Option<Value>,
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

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    Args::plain(config)?.size(config)
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    Args::plain(config)?.load(config, loader, "")
}

impl Args {
    fn plain(config: &ModelConfig) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        args.check(config)?;
        Ok(args)
    }

    /// The text half of a multimodal configuration.
    pub(super) fn nested(config: &ModelConfig) -> Result<Self, EngineError> {
        let Some(text) = config.json.get("text_config") else {
            return Err(bad(&config.path, "it has no text_config"));
        };
        let mut args = Self::deserialize(text)
            .map_err(|error| bad(&config.path, format!("text_config: {error}")))?;
        // Where both have one, the outer is the one that the tensors have.
        if let Some(outer) = config.json.get("vocab_size").and_then(Value::as_i64) {
            args.vocab_size = i32::try_from(outer).unwrap_or(i32::MAX);
        }
        args.check(config)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 17),
            ("num_hidden_layers", self.num_hidden_layers, 1 << 10),
            ("num_attention_heads", self.num_attention_heads, 1 << 10),
            ("num_key_value_heads", self.num_key_value_heads, 1 << 10),
            ("intermediate_size", self.intermediate_size, 1 << 20),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                1 << 28,
            ),
            ("sliding_window_pattern", self.pattern(), 1 << 10),
        ];
        for (name, value, max) in sizes {
            if !(1..=max).contains(&value) {
                let reason = format!("{name} is {value}, but must be between 1 and {max}");
                return Err(bad(&config.path, reason));
            }
        }
        let (n_heads, n_kv_heads) = (self.num_attention_heads, self.num_key_value_heads);
        if !(2..=1 << 12).contains(&self.head_dim) || self.head_dim % 2 != 0 {
            let head_dim = self.head_dim;
            let reason = format!("head_dim is {head_dim}, but must be even and between 2 and 4096");
            return Err(bad(&config.path, reason));
        }
        if n_heads % n_kv_heads != 0 {
            let reason = format!(
                "{n_heads} attention heads cannot share {n_kv_heads} key-value heads evenly"
            );
            return Err(bad(&config.path, reason));
        }
        for (name, value, least) in [
            ("rms_norm_eps", self.rms_norm_eps, 0.0),
            (
                "query_pre_attn_scalar",
                self.query_pre_attn_scalar,
                f32::MIN_POSITIVE,
            ),
            (
                "final_logit_softcapping",
                self.final_logit_softcapping.unwrap_or(1.0),
                f32::MIN_POSITIVE,
            ),
        ] {
            if !(value.is_finite() && value >= least) {
                let least = if least == 0.0 { "at least" } else { "above" };
                let reason = format!("{name} is {value}, but must be {least} 0");
                return Err(bad(&config.path, reason));
            }
        }
        let unsupported = |reason: String| EngineError::Unsupported {
            path: config.path.clone(),
            reason,
        };
        if let Some(cap) = self.attn_logit_softcapping {
            return Err(unsupported(format!(
                "attn_logit_softcapping {cap} is not supported; Gemma 3 has none"
            )));
        }
        match self.hidden_activation.as_deref() {
            None | Some("gelu_pytorch_tanh") => Ok(()),
            Some(other) => Err(unsupported(format!(
                "hidden_activation {other:?} is not supported; gelu_pytorch_tanh is"
            ))),
        }
    }

    /// Every so many-th layer sees all.
    fn pattern(&self) -> i32 {
        self.sliding_window_pattern
            .or(self._sliding_window_pattern)
            .unwrap_or(6)
    }

    fn windows(&self, config: &ModelConfig) -> Result<Windows, EngineError> {
        Windows::new(
            config,
            self.num_hidden_layers,
            self.sliding_window,
            self.layer_types.as_deref(),
            Pattern::FullEach(self.pattern()),
            self.max_position_embeddings,
        )
    }

    /// Sizes that matter outside the model.
    pub(super) fn size(&self, config: &ModelConfig) -> Result<ModelSize, EngineError> {
        self.windows(config)?;
        Ok(ModelSize {
            context_length: self.max_position_embeddings as usize,
            vocab_size: self.vocab_size as usize,
        })
    }

    /// The rope of layers that see all, and that of those that see a window.
    fn ropes(&self, config: &ModelConfig) -> Result<[RopeForm; 2], EngineError> {
        let parameters = self.rope_parameters.as_ref();
        let source = RopeSource {
            entry: parameters
                .and_then(|all| all.full_attention.as_ref())
                .or(self.rope_scaling.as_ref()),
            theta: self.rope_theta,
            head_dim: self.head_dim,
            share: None,
            max_positions: self.max_position_embeddings,
            original_max_positions: None,
        };
        let local = RopeSource {
            entry: parameters.and_then(|all| all.sliding_attention.as_ref()),
            theta: self.rope_local_base_freq,
            ..source
        };
        Ok([
            source.or_base(1_000_000.0).form(config)?,
            local.or_base(10_000.0).form(config)?,
        ])
    }

    /// Builds the model from tensors whose names begin with `prefix`.
    pub(super) fn load(
        &self,
        config: &ModelConfig,
        loader: &mut Loader<'_>,
        prefix: &str,
    ) -> Result<Transformer, EngineError> {
        let on_cpu = loader.compute().is_cpu();
        let windows = self.windows(config)?;
        let ropes = self.ropes(config)?;
        let embedding = loader.embedding(
            &format!("{prefix}model.embed_tokens"),
            self.vocab_size,
            self.hidden_size,
        )?;
        let mut blocks = Vec::new();
        for layer in 0..self.num_hidden_layers {
            let path = format!("{prefix}model.layers.{layer}");
            blocks.push(self.load_block(loader, &path, windows.of(layer), self.slides(layer))?);
        }
        let head = format!("{prefix}lm_head");
        let head = if loader.contains(&format!("{head}.weight")) {
            Some(loader.linear(&head, self.hidden_size, self.vocab_size)?)
        } else {
            None
        };
        Ok(Transformer {
            embedding,
            embedding_scale: Some(bf16((self.hidden_size as f32).sqrt()).during("loading")?),
            token_tables: None,
            blocks,
            norm: self.norm(loader, &format!("{prefix}model.norm"), self.hidden_size)?,
            head,
            logit_cap: self.final_logit_softcapping,
            ropes: ropes.iter().map(|form| Rope::new(form, on_cpu)).collect(),
            on_cpu,
        })
    }

    /// Whether the layer is one of those that see a window, even if the window holds everything.
    fn slides(&self, layer: i32) -> bool {
        match &self.layer_types {
            Some(types) => types[layer as usize] == "sliding_attention",
            None => (layer + 1) % self.pattern() != 0,
        }
    }

    fn load_block(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        window: Option<i32>,
        slides: bool,
    ) -> Result<Block, EngineError> {
        let norm = |loader: &mut Loader<'_>, name: &str| {
            self.norm(loader, &format!("{path}.{name}"), self.hidden_size)
        };
        let shape = AttentionShape {
            hidden_size: self.hidden_size,
            n_heads: self.num_attention_heads,
            n_kv_heads: self.num_key_value_heads,
            head_dim: self.head_dim,
        };
        let mixer_norm = norm(loader, "input_layernorm")?;
        let own_path = format!("{path}.self_attn");
        let attention = Attention::load(loader, &own_path, shape)?;
        let queries = self.norm_weight(loader, &format!("{own_path}.q_norm"), self.head_dim)?;
        let keys = self.norm_weight(loader, &format!("{own_path}.k_norm"), self.head_dim)?;
        let attention = attention
            .with_head_norm(&queries, &keys, self.rms_norm_eps)
            .during(&own_path)?
            .with_scale(self.query_pre_attn_scalar.sqrt().recip())
            .with_rope(Some(if slides { LOCAL_ROPE } else { GLOBAL_ROPE }))
            .with_window(window);
        let mixer_output_norm = norm(loader, "post_attention_layernorm")?;
        let mlp_norm = norm(loader, "pre_feedforward_layernorm")?;
        let mlp_path = format!("{path}.mlp");
        let mlp = GatedMlp::load(loader, &mlp_path, self.hidden_size, self.intermediate_size)?
            .with_gate(Gate::GeluTanh, loader);
        let mlp_output_norm = norm(loader, "post_feedforward_layernorm")?;
        let mut block = Block::new(mixer_norm, attention, mlp_norm, mlp);
        block.mixer_output_norm = Some(mixer_output_norm);
        block.mlp_output_norm = Some(mlp_output_norm);
        Ok(block)
    }

    fn norm(&self, loader: &mut Loader<'_>, path: &str, size: i32) -> Result<RmsNorm, EngineError> {
        let weight = self.norm_weight(loader, path, size)?;
        Ok(RmsNorm::new(weight, self.rms_norm_eps))
    }

    /// Gemma stores by how much a norm's weight differs from one.
    fn norm_weight(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        size: i32,
    ) -> Result<Array, EngineError> {
        let stored = loader.vector(&format!("{path}.weight"), size)?;
        plus_one(&stored).during(path)
    }
}

fn plus_one(weight: &Array) -> MlxResult<Array> {
    let one = Array::from_f32(1.0).as_dtype(weight.dtype())?;
    let weight = weight.add(&one)?;
    weight.eval()?;
    Ok(weight)
}

/// The nearest number that bf16 has: what embeddings are multiplied by was rounded in training.
fn bf16(value: f32) -> MlxResult<f32> {
    let rounded = Array::from_f32(value).as_dtype(Dtype::Bfloat16)?;
    Ok(rounded.as_dtype(Dtype::Float32)?.item_exact::<f32>())
}
