//! The values of `config.json` that the architectures of Llama's form share, checked.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use super::ModelSize;
use super::check::check_ranges;
use super::rope::RopeSource;
use super::windows::{Pattern, SlidingWindows};
use crate::config::ModelConfig;
use crate::nn::{AttentionShape, RopeConfig};

/// The values that Llama and the architectures of its form have in common.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DecoderArgs {
    pub(super) vocab_size: i32,
    pub(super) hidden_size: i32,
    pub(super) num_hidden_layers: i32,
    num_attention_heads: i32,
    num_key_value_heads: Option<i32>,
    head_dim: Option<i32>,
    pub(super) intermediate_size: i32,
    pub(super) rms_norm_eps: f32,
    #[serde(default = "default_max_position_embeddings")]
    max_position_embeddings: i32,
    rope_theta: Option<f32>,
    rope_scaling: Option<Value>,
    /// The newer form, which contains `rope_theta` and the scaling.
    rope_parameters: Option<Value>,
    /// Fraction of each head's features that is rotated.
    partial_rotary_factor: Option<f32>,
    /// Set by models that do not have it in `rope_scaling`.
    original_max_position_embeddings: Option<i32>,
    /// Whether the output head shares the embedding table. If missing, it does if the weights have
    /// no head.
    pub(super) tie_word_embeddings: Option<bool>,
    hidden_act: Option<String>,
    pub(super) sliding_window: Option<i32>,
    /// The type of each layer. If missing, all layers have full attention.
    pub(super) layer_types: Option<Vec<String>>,
    /// The rotary embedding that the values above describe.
    #[serde(skip)]
    pub(super) rope: RopeConfig,
}

fn default_max_position_embeddings() -> i32 {
    2048
}

impl DecoderArgs {
    pub(super) fn from_config(config: &ModelConfig) -> Result<Self, EngineError> {
        let mut args: Self = config.parse()?;
        args.check(config)?;
        args.rope = args.rope_source().parse(config)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        check_ranges!(config, self, {
            vocab_size: 1..=1 << 24,
            hidden_size: 1..=1 << 17,
            num_hidden_layers: 1..=1 << 10,
            num_attention_heads: 1..=1 << 10,
            intermediate_size: 1..=1 << 20,
            max_position_embeddings: 1..=1 << 28,
        });
        let n_kv_heads = self.n_kv_heads();
        config.check_range("num_key_value_heads", n_kv_heads, 1..=1 << 10)?;
        config.check_heads(self.head_dim(), self.num_attention_heads, n_kv_heads)?;
        config.check_rms_norm_eps(self.rms_norm_eps)?;
        config.check_activation("hidden_act", self.hidden_act.as_deref(), &["silu", "swish"])
    }

    fn n_kv_heads(&self) -> i32 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    fn head_dim(&self) -> i32 {
        self.head_dim
            .unwrap_or(self.hidden_size / self.num_attention_heads)
    }

    fn rope_source(&self) -> RopeSource<'_> {
        RopeSource {
            entry: self.rope_parameters.as_ref().or(self.rope_scaling.as_ref()),
            theta: self.rope_theta,
            head_dim: self.head_dim(),
            partial_rotary_factor: self.partial_rotary_factor,
            max_positions: self.max_position_embeddings,
            original_max_positions: self.original_max_position_embeddings,
        }
    }

    pub(super) fn size(&self) -> ModelSize {
        ModelSize::new(self.max_position_embeddings, self.vocab_size)
    }

    pub(super) fn attention_shape(&self) -> AttentionShape {
        AttentionShape {
            hidden_size: self.hidden_size,
            n_heads: self.num_attention_heads,
            n_kv_heads: self.n_kv_heads(),
            head_dim: self.head_dim(),
        }
    }

    /// Returns the window of each layer, if those that have one have `window`.
    pub(super) fn windows(
        &self,
        config: &ModelConfig,
        window: Option<i32>,
        pattern: Pattern,
    ) -> Result<SlidingWindows, EngineError> {
        SlidingWindows::new(
            config,
            self.num_hidden_layers,
            window,
            self.layer_types.as_deref(),
            pattern,
            self.max_position_embeddings,
        )
    }
}
