//! Qwen 3 with a mixture of experts (Yang et al. 2025): Qwen 3, in which some or all feed-forward
//! layers are mixtures.

use serde::Deserialize;
use transom_engine::EngineError;

use super::Parsed;
use super::args::DecoderArgs;
use super::check::check_ranges;
use super::llama::LlamaForm;
use crate::config::ModelConfig;
use crate::nn::{
    Activation, Attention, ExpertShape, Experts, Gate, GatedMlp, Mlp, NormWeights, Routing,
    SharedExpert,
};
use crate::weights::Loader;

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

    fn is_mixture(&self, layer: i32) -> bool {
        !self.mlp_only_layers.contains(&layer) && (layer + 1) % self.decoder_sparse_step == 0
    }

    /// Loads the feed-forward layer at `path`, of the layer with this number.
    pub(super) fn load_mlp(
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
            normalize: self.norm_topk_prob == Some(true),
        };
        let activation = Activation::new(Gate::Silu, loader.compute().is_cpu());
        let experts = Experts::load(loader, path, "gate", shape, routing, activation)?;
        let width = self.shared_expert_intermediate_size;
        if width == 0 {
            return Ok(experts.into());
        }
        let shared = SharedExpert {
            mlp: GatedMlp::load(loader, &format!("{path}.shared_expert"), hidden_size, width)?,
            gate: loader.linear(&format!("{path}.shared_expert_gate"), hidden_size, 1)?,
        };
        Ok(experts.with_shared(shared).into())
    }
}

struct Qwen3Moe {
    args: DecoderArgs,
    moe: MoeArgs,
}

pub(super) fn parse(config: &ModelConfig) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    let moe = MoeArgs::from_config(config, false)?;
    Ok(Box::new(Qwen3Moe { args, moe }))
}

impl LlamaForm for Qwen3Moe {
    fn args(&self) -> &DecoderArgs {
        &self.args
    }

    fn load_attention(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        _: i32,
    ) -> Result<Attention, EngineError> {
        let attention = Attention::load(loader, path, self.args.attention_shape())?;
        attention.with_head_norms(loader, path, NormWeights::Plain, self.args.rms_norm_eps)
    }

    fn load_mlp(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Mlp, EngineError> {
        self.moe.load_mlp(&self.args, loader, path, layer)
    }
}
