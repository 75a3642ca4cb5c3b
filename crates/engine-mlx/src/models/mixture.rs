//! Mixtures of experts as the configurations of the Qwen family describe them, checked.

use serde::Deserialize;
use transom_engine::EngineError;

use super::args::DecoderArgs;
use crate::config::{ModelConfig, bad};
use crate::nn::{Activation, ExpertShape, Experts, Gate, GatedMlp, Mlp, Routing, SharedExpert};
use crate::weights::Loader;

/// The entries that a mixture adds.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MixtureArgs {
    num_experts: i32,
    num_experts_per_tok: i32,
    moe_intermediate_size: i32,
    /// Whether the weights of the experts that are used sum to one.
    norm_topk_prob: Option<bool>,
    /// Every so many-th layer is a mixture.
    #[serde(default = "every")]
    decoder_sparse_step: i32,
    /// Layers that are none.
    #[serde(default)]
    mlp_only_layers: Vec<i32>,
    /// Width of the expert that all tokens pass through, where there is one.
    #[serde(default)]
    shared_expert_intermediate_size: i32,
}

fn every() -> i32 {
    1
}

impl MixtureArgs {
    /// Reads and checks the entries; `is_normalized` holds where `norm_topk_prob` is missing.
    pub(crate) fn from_config(
        config: &ModelConfig,
        is_normalized: bool,
    ) -> Result<Self, EngineError> {
        let mut args: Self = config.parse()?;
        args.norm_topk_prob.get_or_insert(is_normalized);
        args.check(config)?;
        Ok(args)
    }

    fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let n_experts = self.num_experts;
        for (name, value, min, max) in [
            ("num_experts", n_experts, 1, 1 << 12),
            (
                "num_experts_per_tok",
                self.num_experts_per_tok,
                1,
                n_experts,
            ),
            (
                "moe_intermediate_size",
                self.moe_intermediate_size,
                1,
                1 << 20,
            ),
            ("decoder_sparse_step", self.decoder_sparse_step, 1, 1 << 10),
            (
                "shared_expert_intermediate_size",
                self.shared_expert_intermediate_size,
                0,
                1 << 20,
            ),
        ] {
            if !(min..=max).contains(&value) {
                let reason = format!("{name} is {value}, but must be between {min} and {max}");
                return Err(bad(&config.path, reason));
            }
        }
        Ok(())
    }

    fn is_mixture(&self, layer: i32) -> bool {
        !self.mlp_only_layers.contains(&layer) && (layer + 1) % self.decoder_sparse_step == 0
    }

    /// The feed-forward half of the block with this number.
    pub(crate) fn mlp(
        &self,
        args: &DecoderArgs,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Mlp, EngineError> {
        let hidden_size = args.hidden_size;
        if !self.is_mixture(layer) {
            return Ok(GatedMlp::load(loader, path, hidden_size, args.intermediate_size)?.into());
        }
        let shape = ExpertShape {
            hidden_size,
            intermediate_size: self.moe_intermediate_size,
            n_experts: self.num_experts,
            n_used: self.num_experts_per_tok,
        };
        let routing = Routing::SoftmaxThenTop {
            is_normalized: self.norm_topk_prob == Some(true),
        };
        let activation = Activation::new(Gate::Silu, loader.compute().is_cpu());
        let experts = Experts::load(loader, path, "gate", shape, routing, activation)?;
        let width = self.shared_expert_intermediate_size;
        if width == 0 {
            return Ok(experts.into());
        }
        let shared = SharedExpert {
            mlp: GatedMlp::load(loader, &format!("{path}.shared_expert"), hidden_size, width)?,
            gate: Some(loader.linear(&format!("{path}.shared_expert_gate"), hidden_size, 1)?),
        };
        Ok(experts.with_shared(shared).into())
    }
}
