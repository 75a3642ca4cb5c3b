//! Configuration that decoder-only architectures share, checked; and the layers built from it.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use super::rope::RopeSource;
use super::stack::{NormWeights, Stack, TextPaths};
use crate::config::{ModelConfig, bad};
use crate::error::Context;
use crate::nn::{Attention, AttentionShape, GatedMlp, Mixer, Rope, Transformer};
use crate::weights::Loader;

/// Sizes that matter outside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelSize {
    /// Tokens that the model was made to attend to.
    pub(crate) context_length: usize,
    /// Tokens in the vocabulary.
    pub(crate) vocab_size: usize,
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
    /// Whether the embedding table gives the logits too; if it is missing, that is so for weights
    /// without a head.
    pub(crate) tie_word_embeddings: Option<bool>,
    pub(crate) hidden_act: Option<String>,
    pub(crate) sliding_window: Option<i32>,
    /// What each layer is; all see everything where it is missing.
    pub(crate) layer_types: Option<Vec<String>>,
    /// The share of a head's features that is turned.
    pub(crate) partial_rotary_factor: Option<f32>,
    /// Where it stands outside the rope's own entry.
    pub(crate) original_max_position_embeddings: Option<i32>,
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

    /// Sizes that matter outside the model.
    pub(crate) fn size(&self) -> ModelSize {
        ModelSize {
            context_length: self.max_position_embeddings as usize,
            vocab_size: self.vocab_size as usize,
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

    /// Builds the whole model; `attention` loads the attention layer at a path, of the block with
    /// this number, which is where these architectures differ.
    pub(crate) fn load_transformer(
        &self,
        config: &ModelConfig,
        loader: &mut Loader<'_>,
        attention: impl Fn(&mut Loader<'_>, &str, i32) -> Result<Attention, EngineError>,
    ) -> Result<Transformer, EngineError> {
        let stack = Stack {
            args: self,
            paths: TextPaths::found_in(loader),
            norms: NormWeights::Whole,
        };
        stack.load(
            config,
            loader,
            |loader, path, layer| -> Result<Box<dyn Mixer>, EngineError> {
                let attention = attention(loader, &format!("{path}.self_attn"), layer)?;
                Ok(Box::new(attention))
            },
            |loader, path, _| {
                let (n_in, width) = (self.hidden_size, self.intermediate_size);
                Ok(GatedMlp::load(loader, path, n_in, width)?.into())
            },
        )
    }

    /// The rotary embedding of all layers.
    pub(crate) fn rope(&self, config: &ModelConfig, on_cpu: bool) -> Result<Rope, EngineError> {
        let source = RopeSource {
            entry: self.rope_parameters.as_ref().or(self.rope_scaling.as_ref()),
            theta: self.rope_theta,
            head_dim: self.head_dim(),
            share: self.partial_rotary_factor,
            max_positions: self.max_position_embeddings,
            original_max_positions: self.original_max_position_embeddings,
        };
        Ok(Rope::new(&source.form(config)?, on_cpu))
    }
}

/// Loads the attention of architectures without head norms; biases come with the weights.
pub(crate) fn plain_attention(
    args: &DecoderArgs,
) -> impl Fn(&mut Loader<'_>, &str, i32) -> Result<Attention, EngineError> {
    let shape = args.attention_shape();
    move |loader, path, _| Attention::load(loader, path, shape)
}

/// Loads attention that normalises each head's queries and keys.
pub(crate) fn attention_with_head_norm(
    args: &DecoderArgs,
) -> impl Fn(&mut Loader<'_>, &str, i32) -> Result<Attention, EngineError> {
    let shape = args.attention_shape();
    let epsilon = args.rms_norm_eps;
    move |loader, path, _| {
        let attention = Attention::load(loader, path, shape)?;
        let queries = loader.vector(&format!("{path}.q_norm.weight"), shape.head_dim)?;
        let keys = loader.vector(&format!("{path}.k_norm.weight"), shape.head_dim)?;
        attention
            .with_head_norm(&queries, &keys, epsilon)
            .during(path)
    }
}
