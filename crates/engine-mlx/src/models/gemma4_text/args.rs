//! The configuration of Gemma 4, read and checked; and what follows from it for each layer.
//!
//! Rule: every number that sizes memory or loops is checked here, before anything is loaded.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use crate::config::{ModelConfig, bad};
use crate::models::ModelSize;
use crate::models::rope::RopeSource;
use crate::models::windows::{Pattern, Windows};
use crate::nn::{AttentionShape, ExpertShape, RopeForm};

/// The configuration, with the defaults of the reference implementation.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(in crate::models) struct Args {
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
    /// The same in some files; some have both.
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

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RopeParameters {
    full_attention: Option<Value>,
    sliding_attention: Option<Value>,
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
    pub(super) fn plain(config: &ModelConfig) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        args.check(config)?;
        Ok(args)
    }

    /// The text half of a multimodal configuration.
    pub(in crate::models) fn nested(config: &ModelConfig) -> Result<Self, EngineError> {
        let Some(text) = config.json.get("text_config") else {
            return Err(bad(&config.path, "it has no text_config"));
        };
        let args = Self::deserialize(text)
            .map_err(|error| bad(&config.path, format!("text_config: {error}")))?;
        args.check(config)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let n_layers = self.num_hidden_layers;
        let own_or = |value: Option<i32>| value.unwrap_or(1);
        let n_experts = own_or(self.num_experts);
        let sizes = [
            ("vocab_size", self.vocab_size, 1, 1 << 24),
            ("hidden_size", self.hidden_size, 1, 1 << 17),
            ("num_hidden_layers", n_layers, 1, 1 << 10),
            ("num_attention_heads", self.num_attention_heads, 1, 1 << 10),
            ("num_key_value_heads", self.num_key_value_heads, 1, 1 << 10),
            ("intermediate_size", self.intermediate_size, 1, 1 << 20),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                1,
                1 << 28,
            ),
            (
                "sliding_window_pattern",
                self.sliding_window_pattern,
                1,
                1 << 10,
            ),
            (
                "hidden_size_per_layer_input",
                self.hidden_size_per_layer_input,
                0,
                1 << 14,
            ),
            (
                "vocab_size_per_layer_input",
                self.vocab_size_per_layer_input,
                1,
                1 << 24,
            ),
            (
                "num_kv_shared_layers",
                self.num_kv_shared_layers,
                0,
                n_layers - 1,
            ),
            (
                "num_global_key_value_heads",
                own_or(self.num_global_key_value_heads),
                1,
                1 << 10,
            ),
            ("head_dim", self.head_dim, 2, 1 << 12),
            (
                "global_head_dim",
                self.global_head_dim.unwrap_or(2),
                2,
                1 << 12,
            ),
            ("num_experts", n_experts, 1, 1 << 12),
            ("top_k_experts", own_or(self.top_k_experts), 1, n_experts),
            (
                "moe_intermediate_size",
                own_or(self.expert_width()),
                1,
                1 << 20,
            ),
        ];
        for (name, value, min, max) in sizes {
            if !(min..=max).contains(&value) {
                let reason = format!("{name} is {value}, but must be between {min} and {max}");
                return Err(bad(&config.path, reason));
            }
        }
        for slides in [true, false] {
            let shape = self.shape(slides);
            let AttentionShape {
                n_heads,
                n_kv_heads,
                head_dim,
                ..
            } = shape;
            if n_heads % n_kv_heads != 0 || head_dim % 2 != 0 {
                let reason = format!(
                    "{n_heads} attention heads of {head_dim} features cannot share {n_kv_heads} \
                     key-value heads evenly"
                );
                return Err(bad(&config.path, reason));
            }
        }
        let (epsilon, cap) = (self.rms_norm_eps, self.final_logit_softcapping);
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            let reason = format!("rms_norm_eps is {epsilon}, but must be at least 0");
            return Err(bad(&config.path, reason));
        }
        if let Some(cap) = cap
            && !(cap.is_finite() && cap > 0.0)
        {
            let reason = format!("final_logit_softcapping is {cap}, but must be above 0");
            return Err(bad(&config.path, reason));
        }
        if self.enable_moe_block
            && (self.num_experts.is_none()
                || self.top_k_experts.is_none()
                || self.expert_width().is_none())
        {
            let reason = "enable_moe_block needs num_experts, top_k_experts and \
                          moe_intermediate_size";
            return Err(bad(&config.path, reason));
        }
        match self.hidden_activation.as_deref() {
            None | Some("gelu_pytorch_tanh") => Ok(()),
            Some(other) => Err(EngineError::Unsupported {
                path: config.path.clone(),
                reason: format!(
                    "hidden_activation {other:?} is not supported; gelu_pytorch_tanh is"
                ),
            }),
        }
    }

    pub(super) fn windows(&self, config: &ModelConfig) -> Result<Windows, EngineError> {
        let windows = Windows::new(
            config,
            self.num_hidden_layers,
            self.sliding_window,
            self.layer_types.as_deref(),
            Pattern::FullEach(self.sliding_window_pattern),
            self.max_position_embeddings,
        )?;
        let has_own = |slides| (0..self.n_own()).any(|layer| self.slides(layer) == slides);
        let orphan = (self.n_own()..self.num_hidden_layers)
            .map(|layer| (layer, self.slides(layer)))
            .find(|&(_, slides)| !has_own(slides));
        if let Some((layer, slides)) = orphan {
            let kind = if slides { "sliding" } else { "full" };
            let reason = format!(
                "layer {layer} shares the keys of an earlier layer with {kind}_attention, but \
                 none has keys of its own"
            );
            return Err(bad(&config.path, reason));
        }
        Ok(windows)
    }

    /// Whether the layer is one of those that see a window, even if the window holds everything.
    pub(super) fn slides(&self, layer: i32) -> bool {
        match &self.layer_types {
            Some(types) => types[layer as usize] == "sliding_attention",
            None => (layer + 1) % self.sliding_window_pattern != 0,
        }
    }

    fn expert_width(&self) -> Option<i32> {
        self.moe_intermediate_size.or(self.expert_intermediate_size)
    }

    /// Layers that have keys of their own; those after them look at these.
    pub(super) fn n_own(&self) -> i32 {
        self.num_hidden_layers - self.num_kv_shared_layers
    }

    pub(super) fn shape(&self, slides: bool) -> AttentionShape {
        let global_heads = self
            .num_global_key_value_heads
            .filter(|_| self.attention_k_eq_v);
        let (n_kv_heads, head_dim) = if slides {
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

    pub(super) fn experts(&self) -> Option<ExpertShape> {
        self.enable_moe_block.then_some(ExpertShape {
            hidden_size: self.hidden_size,
            intermediate_size: self.expert_width()?,
            n_experts: self.num_experts?,
            n_used: self.top_k_experts?,
        })
    }

    /// Sizes that matter outside the model.
    pub(in crate::models) fn size(&self, config: &ModelConfig) -> Result<ModelSize, EngineError> {
        self.windows(config)?;
        Ok(ModelSize {
            context_length: self.max_position_embeddings as usize,
            vocab_size: self.vocab_size as usize,
        })
    }

    /// The rope of layers that see all, and that of those that see a window.
    pub(super) fn ropes(&self, config: &ModelConfig) -> Result<[RopeForm; 2], EngineError> {
        let source = |entry: Option<&Value>, slides: bool, base: f32| {
            let source = RopeSource {
                entry,
                theta: None,
                head_dim: self.shape(slides).head_dim,
                share: None,
                max_positions: self.max_position_embeddings,
                original_max_positions: None,
            };
            source.or_base(base).form(config)
        };
        let parameters = &self.rope_parameters;
        let default = serde_json::json!({
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
        });
        let global = parameters.full_attention.as_ref().unwrap_or(&default);
        Ok([
            source(Some(global), false, 1_000_000.0)?,
            source(parameters.sliding_attention.as_ref(), true, 10_000.0)?,
        ])
    }
}
