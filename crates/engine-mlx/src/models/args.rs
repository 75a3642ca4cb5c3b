//! Configuration that decoder-only architectures share, checked; and the layers built from it.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use crate::config::{ModelConfig, bad};
use crate::error::Context;
use crate::nn::{
    Attention, AttentionShape, Block, GatedMlp, Llama3Scaling, RmsNorm, Rope, RopeScaling,
    Transformer,
};
use crate::weights::Loader;

/// Sizes that matter outside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelSize {
    /// Tokens that the model was made to attend to.
    pub(crate) context_length: usize,
    /// Tokens in the vocabulary.
    pub(crate) vocab_size: usize,
    /// Transformer layers.
    pub(crate) n_layers: usize,
    /// Query heads of a layer.
    pub(crate) n_heads: usize,
    /// Key-value heads of a layer.
    pub(crate) n_kv_heads: usize,
    /// Size of a head.
    pub(crate) head_dim: usize,
    /// Width of the residual stream.
    pub(crate) hidden_size: usize,
    /// Width inside the MLP.
    pub(crate) intermediate_size: usize,
}

/// The entries of `config.json` that Llama and its kin have in common.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DecoderArgs {
    pub(crate) vocab_size: i32,
    pub(crate) hidden_size: i32,
    pub(crate) num_hidden_layers: i32,
    pub(crate) num_attention_heads: i32,
    pub(crate) num_key_value_heads: Option<i32>,
    pub(crate) head_dim: Option<i32>,
    pub(crate) intermediate_size: i32,
    pub(crate) rms_norm_eps: f32,
    #[serde(default = "default_max_position_embeddings")]
    pub(crate) max_position_embeddings: i32,
    pub(crate) rope_theta: Option<f32>,
    pub(crate) rope_scaling: Option<Value>,
    /// The newer spelling, which holds `rope_theta` and the scaling in one entry.
    pub(crate) rope_parameters: Option<Value>,
    #[serde(default)]
    pub(crate) tie_word_embeddings: bool,
    pub(crate) hidden_act: Option<String>,
    pub(crate) sliding_window: Option<i32>,
}

fn default_max_position_embeddings() -> i32 {
    2048
}

impl DecoderArgs {
    /// Reads and checks the configuration.
    pub(crate) fn from_config(config: &ModelConfig) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        args.check(config)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 17),
            ("num_hidden_layers", self.num_hidden_layers, 1 << 10),
            ("num_attention_heads", self.num_attention_heads, 1 << 10),
            ("num_key_value_heads", self.n_kv_heads(), 1 << 10),
            ("intermediate_size", self.intermediate_size, 1 << 20),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                1 << 28,
            ),
        ];
        for (name, value, max) in sizes {
            if !(1..=max).contains(&value) {
                return Err(bad(
                    &config.path,
                    format!("{name} is {value}, but must be between 1 and {max}"),
                ));
            }
        }
        let head_dim = self.head_dim();
        if !(2..=1 << 12).contains(&head_dim) || head_dim % 2 != 0 {
            return Err(bad(
                &config.path,
                format!("head_dim is {head_dim}, but must be even and between 2 and 4096"),
            ));
        }
        if self.num_attention_heads % self.n_kv_heads() != 0 {
            return Err(bad(
                &config.path,
                format!(
                    "{} attention heads cannot share {} key-value heads evenly",
                    self.num_attention_heads,
                    self.n_kv_heads()
                ),
            ));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps >= 0.0) {
            return Err(bad(
                &config.path,
                format!(
                    "rms_norm_eps is {}, but must be at least 0",
                    self.rms_norm_eps
                ),
            ));
        }
        match self.hidden_act.as_deref() {
            None | Some("silu" | "swish") => Ok(()),
            Some(other) => Err(EngineError::Unsupported {
                path: config.path.clone(),
                reason: format!("hidden_act {other:?} is not supported; silu is"),
            }),
        }
    }

    fn n_kv_heads(&self) -> i32 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    fn head_dim(&self) -> i32 {
        self.head_dim
            .unwrap_or(self.hidden_size / self.num_attention_heads)
    }

    /// Sizes for the limits and the memory that the model needs.
    pub(crate) fn size(&self) -> ModelSize {
        ModelSize {
            context_length: self.max_position_embeddings as usize,
            vocab_size: self.vocab_size as usize,
            n_layers: self.num_hidden_layers as usize,
            n_heads: self.num_attention_heads as usize,
            n_kv_heads: self.n_kv_heads() as usize,
            head_dim: self.head_dim() as usize,
            hidden_size: self.hidden_size as usize,
            intermediate_size: self.intermediate_size as usize,
        }
    }

    /// Sizes of the attention layers.
    pub(crate) fn attention_shape(&self) -> AttentionShape {
        AttentionShape {
            hidden_size: self.hidden_size,
            n_heads: self.num_attention_heads,
            n_kv_heads: self.n_kv_heads(),
            head_dim: self.head_dim(),
        }
    }

    /// Builds the whole model; `attention` loads the attention layer at a path, which is where
    /// these architectures differ.
    pub(crate) fn load_transformer(
        &self,
        config: &ModelConfig,
        loader: &mut Loader<'_>,
        attention: impl Fn(&mut Loader<'_>, &str) -> Result<Attention, EngineError>,
    ) -> Result<Transformer, EngineError> {
        let on_cpu = loader.compute().is_cpu();
        let rope = self.rope(config, on_cpu)?;
        let norm = |loader: &mut Loader<'_>, path: &str| -> Result<RmsNorm, EngineError> {
            let weight = loader.vector(&format!("{path}.weight"), self.hidden_size)?;
            Ok(RmsNorm::new(weight, self.rms_norm_eps))
        };
        let embedding =
            loader.embedding("model.embed_tokens", self.vocab_size, self.hidden_size)?;
        let mut blocks = Vec::new();
        for layer in 0..self.num_hidden_layers {
            let path = format!("model.layers.{layer}");
            blocks.push(Block {
                attention_norm: norm(loader, &format!("{path}.input_layernorm"))?,
                attention: attention(loader, &format!("{path}.self_attn"))?,
                mlp_norm: norm(loader, &format!("{path}.post_attention_layernorm"))?,
                mlp: GatedMlp::load(
                    loader,
                    &format!("{path}.mlp"),
                    self.hidden_size,
                    self.intermediate_size,
                )?,
            });
        }
        let head = if self.tie_word_embeddings {
            None
        } else {
            Some(loader.linear("lm_head", self.hidden_size, self.vocab_size)?)
        };
        Ok(Transformer {
            embedding,
            blocks,
            norm: norm(loader, "model.norm")?,
            head,
            rope,
            on_cpu,
        })
    }

    fn rope(&self, config: &ModelConfig, on_cpu: bool) -> Result<Rope, EngineError> {
        let entry = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let number = |name: &str| entry.and_then(|e| e.get(name)).and_then(Value::as_f64);
        let base = self
            .rope_theta
            .or(number("rope_theta").map(|base| base as f32))
            .unwrap_or(10_000.0);
        if !(base.is_finite() && base > 0.0) {
            return Err(bad(
                &config.path,
                format!("rope_theta is {base}, but must be above 0"),
            ));
        }
        let kind = entry
            .and_then(|e| e.get("rope_type").or_else(|| e.get("type")))
            .and_then(Value::as_str)
            .unwrap_or("default");
        let scaling = match (kind, entry) {
            ("llama3", Some(entry)) => RopeScaling::Llama3(
                Llama3Scaling::deserialize(entry)
                    .map_err(|error| bad(&config.path, format!("rope_scaling: {error}")))?,
            ),
            ("linear", _) => RopeScaling::Linear {
                factor: number("factor").unwrap_or(1.0) as f32,
            },
            ("default", _) => RopeScaling::None,
            (other, _) => {
                return Err(EngineError::Unsupported {
                    path: config.path.clone(),
                    reason: format!(
                        "rope scaling {other:?} is not supported; default, linear and llama3 are"
                    ),
                });
            }
        };
        if let RopeScaling::Linear { factor } | RopeScaling::Llama3(Llama3Scaling { factor, .. }) =
            scaling
            && !(factor.is_finite() && factor > 0.0)
        {
            return Err(bad(
                &config.path,
                format!("rope_scaling factor is {factor}, but must be above 0"),
            ));
        }
        Ok(Rope::new(self.head_dim(), base, scaling, on_cpu))
    }
}

/// Loads the attention of architectures without head norms; biases come with the weights.
pub(crate) fn plain_attention(
    args: &DecoderArgs,
) -> impl Fn(&mut Loader<'_>, &str) -> Result<Attention, EngineError> {
    let shape = args.attention_shape();
    move |loader, path| Attention::load(loader, path, shape)
}

/// Loads attention that normalises each head's queries and keys.
pub(crate) fn attention_with_head_norm(
    args: &DecoderArgs,
) -> impl Fn(&mut Loader<'_>, &str) -> Result<Attention, EngineError> {
    let shape = args.attention_shape();
    let epsilon = args.rms_norm_eps;
    move |loader, path| {
        let attention = Attention::load(loader, path, shape)?;
        let queries = loader.vector(&format!("{path}.q_norm.weight"), shape.head_dim)?;
        let keys = loader.vector(&format!("{path}.k_norm.weight"), shape.head_dim)?;
        attention
            .with_head_norm(&queries, &keys, epsilon)
            .during(path)
    }
}
