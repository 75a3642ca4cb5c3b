//! Qwen 3 with a mixture of experts (Yang et al. 2025): Qwen 3, in which some or all feed-forward
//! layers are mixtures.

use serde::Deserialize;
use transom_engine::EngineError;

use super::Parsed;
use super::args::DecoderArgs;
use super::check::check_ranges;
use super::llama::{LayerOptions, Llama};
use crate::config::ModelConfig;
use crate::nn::{AttentionOptions, ExpertOptions, ExpertShape, Gate, Routing};

/// The values of a mixture of experts, as the Qwen family names them.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct MoeArgs {
    num_experts: i32,
    num_experts_per_tok: i32,
    moe_intermediate_size: i32,
    /// Whether the weights of the selected experts are scaled to sum to one.
    norm_topk_prob: Option<bool>,
    /// Every n-th layer is a mixture.
    #[serde(default = "one")]
    decoder_sparse_step: i32,
    /// Layers that are never a mixture.
    #[serde(default)]
    mlp_only_layers: Vec<i32>,
    /// Width of the shared expert, through which all tokens pass; 0 if there is none.
    #[serde(default)]
    shared_expert_intermediate_size: i32,
}

fn one() -> i32 {
    1
}

impl MoeArgs {
    /// Reads and checks the values; `normalize` is the default of `norm_topk_prob`.
    pub(super) fn from_config(config: &ModelConfig, normalize: bool) -> Result<Self, EngineError> {
        let mut args: Self = config.parse()?;
        args.norm_topk_prob.get_or_insert(normalize);
        check_ranges!(config, args, {
            num_experts: 1..=1 << 12,
            num_experts_per_tok: 1..=args.num_experts,
            moe_intermediate_size: 1..=1 << 20,
            decoder_sparse_step: 1..=1 << 10,
            shared_expert_intermediate_size: 0..=1 << 20,
        });
        Ok(args)
    }

    /// Returns the mixture of the layer with this number; `None` if its feed-forward layer is dense.
    pub(super) fn experts(&self, hidden_size: i32, layer: i32) -> Option<ExpertOptions> {
        let is_mixture = (layer + 1) % self.decoder_sparse_step == 0;
        if !is_mixture || self.mlp_only_layers.contains(&layer) {
            return None;
        }
        let shared_width = self.shared_expert_intermediate_size;
        Some(ExpertOptions {
            router: "gate",
            shape: ExpertShape {
                hidden_size,
                intermediate_size: self.moe_intermediate_size,
                n_experts: self.num_experts,
                n_used: self.num_experts_per_tok,
            },
            routing: Routing::SoftmaxThenTop {
                normalize: self.norm_topk_prob == Some(true),
            },
            gate: Gate::Silu,
            shared_width: (shared_width > 0).then_some(shared_width),
        })
    }
}

pub(super) fn parse(config: &ModelConfig) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    let moe = MoeArgs::from_config(config, false)?;
    let hidden_size = args.hidden_size;
    let attention = AttentionOptions {
        has_head_norms: true,
        ..AttentionOptions::default()
    };
    Ok(Llama::boxed(args, |layer| LayerOptions {
        experts: moe.experts(hidden_size, layer),
        ..attention.into()
    }))
}
