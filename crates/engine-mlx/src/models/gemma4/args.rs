//! The configuration of Gemma 4, checked, and the values of each layer that follow from it.
//!
//! Rule: every number that sizes memory or loops is checked here, before anything is loaded.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use crate::config::ModelConfig;
use crate::models::check::check_ranges;
use crate::models::rope::{RopeParameters, RopeSource};
use crate::models::windows::{Pattern, SlidingWindows};
use crate::nn::{AttentionShape, ExpertOptions, ExpertShape, Gate, RopeConfig, Routing};

/// The configuration, with the defaults of the reference implementation.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Args {
    pub(super) vocab_size: i32,
    pub(super) vocab_size_per_layer_input: i32,
    pub(super) hidden_size: i32,
    pub(super) hidden_size_per_layer_input: i32,
    pub(super) num_hidden_layers: i32,
    pub(super) num_kv_shared_layers: i32,
    pub(super) intermediate_size: i32,
    pub(super) use_double_wide_mlp: bool,
    pub(super) num_attention_heads: i32,
    pub(super) num_key_value_heads: i32,
    pub(super) num_global_key_value_heads: Option<i32>,
    pub(super) head_dim: i32,
    pub(super) global_head_dim: Option<i32>,
    pub(super) attention_k_eq_v: bool,
    pub(super) enable_moe_block: bool,
    pub(super) num_experts: Option<i32>,
    pub(super) top_k_experts: Option<i32>,
    pub(super) moe_intermediate_size: Option<i32>,
    /// The name of `moe_intermediate_size` in some files; some have both.
    pub(super) expert_intermediate_size: Option<i32>,
    pub(super) rms_norm_eps: f32,
    pub(super) max_position_embeddings: i32,
    rope_parameters: RopeParameters,
    pub(super) sliding_window: Option<i32>,
    pub(super) sliding_window_pattern: i32,
    pub(super) layer_types: Option<Vec<String>>,
    pub(super) hidden_activation: Option<String>,
    pub(super) final_logit_softcapping: Option<f32>,
    pub(super) tie_word_embeddings: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            vocab_size: 262_144,
            vocab_size_per_layer_input: 262_144,
            hidden_size: 1536,
            hidden_size_per_layer_input: 256,
            num_hidden_layers: 35,
            num_kv_shared_layers: 20,
            intermediate_size: 6144,
            use_double_wide_mlp: true,
            num_attention_heads: 8,
            num_key_value_heads: 1,
            num_global_key_value_heads: None,
            head_dim: 256,
            global_head_dim: Some(512),
            attention_k_eq_v: false,
            enable_moe_block: false,
            num_experts: None,
            top_k_experts: None,
            moe_intermediate_size: None,
            expert_intermediate_size: None,
            rms_norm_eps: 1e-6,
            max_position_embeddings: 131_072,
            rope_parameters: RopeParameters::default(),
            sliding_window: Some(512),
            sliding_window_pattern: 5,
            layer_types: None,
            hidden_activation: None,
            final_logit_softcapping: Some(30.0),
            tie_word_embeddings: true,
        }
    }
}

impl Args {
    pub(super) fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        check_ranges!(config, self, {
            vocab_size: 1..=1 << 24,
            hidden_size: 1..=1 << 17,
            num_hidden_layers: 1..=1 << 10,
            num_attention_heads: 1..=1 << 10,
            num_key_value_heads: 1..=1 << 10,
            intermediate_size: 1..=1 << 20,
            max_position_embeddings: 1..=1 << 28,
            sliding_window_pattern: 1..=1 << 10,
            hidden_size_per_layer_input: 0..=1 << 14,
            vocab_size_per_layer_input: 1..=1 << 24,
            num_kv_shared_layers: 0..=self.num_hidden_layers - 1,
            head_dim: 2..=1 << 12,
        });
        let n_experts = self.num_experts.unwrap_or(1);
        for (name, value, range) in [
            (
                "num_global_key_value_heads",
                self.num_global_key_value_heads,
                1..=1 << 10,
            ),
            ("global_head_dim", self.global_head_dim, 2..=1 << 12),
            ("num_experts", self.num_experts, 1..=1 << 12),
            ("top_k_experts", self.top_k_experts, 1..=n_experts),
            ("moe_intermediate_size", self.expert_width(), 1..=1 << 20),
        ] {
            if let Some(value) = value {
                config.check_range(name, value, range)?;
            }
        }
        for is_sliding in [true, false] {
            let AttentionShape {
                n_heads,
                n_kv_heads,
                head_dim,
                ..
            } = self.attention_shape(is_sliding);
            if n_heads % n_kv_heads != 0 || head_dim % 2 != 0 {
                return Err(config.bad(format!(
                    "{n_heads} attention heads of {head_dim} features cannot share {n_kv_heads} \
                     key-value heads evenly"
                )));
            }
        }
        config.check_rms_norm_eps(self.rms_norm_eps)?;
        if let Some(softcap) = self.final_logit_softcapping {
            config.check_above_zero("final_logit_softcapping", softcap)?;
        }
        if self.enable_moe_block && self.experts().is_none() {
            let reason = "enable_moe_block needs num_experts, top_k_experts and \
                          moe_intermediate_size";
            return Err(config.bad(reason));
        }
        let activation = self.hidden_activation.as_deref();
        config.check_activation("hidden_activation", activation, &["gelu_pytorch_tanh"])
    }

    pub(super) fn windows(&self, config: &ModelConfig) -> Result<SlidingWindows, EngineError> {
        let n_layers = self.num_hidden_layers;
        let windows = SlidingWindows::new(
            config,
            n_layers,
            self.sliding_window,
            self.layer_types.as_deref(),
            Pattern::AllButEvery(self.sliding_window_pattern),
            self.max_position_embeddings,
        )?;
        let has_own_keys = |is_sliding| {
            let mut own = (0..n_layers).filter(|&layer| !self.shares_keys(layer));
            own.any(|layer| windows.is_sliding(layer) == is_sliding)
        };
        let mut sharing = (0..n_layers).filter(|&layer| self.shares_keys(layer));
        if let Some(layer) = sharing.find(|&layer| !has_own_keys(windows.is_sliding(layer))) {
            let is_sliding = windows.is_sliding(layer);
            let kind = if is_sliding { "sliding" } else { "full" };
            return Err(config.bad(format!(
                "layer {layer} shares the keys of an earlier layer with {kind}_attention, but none \
                 has keys of its own"
            )));
        }
        Ok(windows)
    }

    /// Returns true if the layer uses the keys and values of an earlier layer.
    pub(super) fn shares_keys(&self, layer: i32) -> bool {
        layer >= self.num_hidden_layers - self.num_kv_shared_layers
    }

    fn expert_width(&self) -> Option<i32> {
        self.moe_intermediate_size.or(self.expert_intermediate_size)
    }

    pub(super) fn attention_shape(&self, is_sliding: bool) -> AttentionShape {
        let global_heads = self
            .num_global_key_value_heads
            .filter(|_| self.attention_k_eq_v);
        let (n_kv_heads, head_dim) = if is_sliding {
            (self.num_key_value_heads, self.head_dim)
        } else {
            (
                global_heads.unwrap_or(self.num_key_value_heads),
                self.global_head_dim.unwrap_or(self.head_dim),
            )
        };
        AttentionShape {
            hidden_size: self.hidden_size,
            n_heads: self.num_attention_heads,
            n_kv_heads,
            head_dim,
        }
    }

    pub(super) fn experts(&self) -> Option<ExpertOptions> {
        self.enable_moe_block.then_some(ExpertOptions {
            router: "router.proj",
            shape: ExpertShape {
                hidden_size: self.hidden_size,
                intermediate_size: self.expert_width()?,
                n_experts: self.num_experts?,
                n_used: self.top_k_experts?,
            },
            routing: Routing::TopThenSoftmax,
            gate: Gate::GeluTanh,
            shared_width: None,
        })
    }

    /// Returns the rotary embeddings of layers with full attention and with a window.
    pub(super) fn ropes(&self, config: &ModelConfig) -> Result<[RopeConfig; 2], EngineError> {
        let parse = |entry: Option<&Value>, is_sliding: bool, base: f32| {
            let source = RopeSource {
                entry,
                head_dim: self.attention_shape(is_sliding).head_dim,
                max_positions: self.max_position_embeddings,
                ..RopeSource::default()
            };
            source.or_base(base).parse(config)
        };
        let parameters = &self.rope_parameters;
        let default = serde_json::json!({
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
        });
        let global = parameters.full_attention.as_ref().unwrap_or(&default);
        Ok([
            parse(Some(global), false, 1_000_000.0)?,
            parse(parameters.sliding_attention.as_ref(), true, 10_000.0)?,
        ])
    }
}
