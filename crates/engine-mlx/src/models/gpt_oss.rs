//! gpt-oss (OpenAI 2025): mixtures of experts with clipped gates; every other layer sees a window,
//! and every head may look at nothing (a sink).

use serde::Deserialize;
use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize};
use super::windows::{Pattern, Windows};
use crate::config::{ModelConfig, bad};
use crate::nn::{
    Activation, Attention, Block, ExpertShape, Experts, Gate, RmsNorm, Routing, Transformer,
};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "gpt_oss",
    size,
    load,
};

/// The bound that the activation's formula has.
const SWIGLU_LIMIT: f32 = 7.0;

/// What Llama's configuration does not have.
#[derive(Debug, Deserialize)]
struct Args {
    num_local_experts: i32,
    num_experts_per_tok: Option<i32>,
    /// The authors' own name for it.
    experts_per_token: Option<i32>,
    #[serde(default = "swiglu_limit")]
    swiglu_limit: f32,
}

fn swiglu_limit() -> f32 {
    SWIGLU_LIMIT
}

impl Args {
    fn from_config(config: &ModelConfig) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        let (n_experts, n_used) = (args.num_local_experts, args.n_used());
        let limit = args.swiglu_limit;
        if !(1..=1 << 12).contains(&n_experts) {
            let reason =
                format!("num_local_experts is {n_experts}, but must be between 1 and 4096");
            return Err(bad(&config.path, reason));
        }
        if !(1..=n_experts).contains(&n_used) {
            let reason =
                format!("num_experts_per_tok is {n_used}, but must be between 1 and {n_experts}");
            return Err(bad(&config.path, reason));
        }
        if limit != SWIGLU_LIMIT {
            return Err(EngineError::Unsupported {
                path: config.path.clone(),
                reason: format!("swiglu_limit {limit} is not supported; {SWIGLU_LIMIT} is"),
            });
        }
        Ok(args)
    }

    fn n_used(&self) -> i32 {
        let named = self.num_experts_per_tok.or(self.experts_per_token);
        named.unwrap_or(4)
    }
}

fn windows(config: &ModelConfig, args: &DecoderArgs) -> Result<Windows, EngineError> {
    Windows::new(
        config,
        args.num_hidden_layers,
        args.sliding_window,
        args.layer_types.as_deref(),
        Pattern::Alternating,
        args.max_position_embeddings,
    )
}

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    Args::from_config(config)?;
    windows(config, &args)?;
    Ok(args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    let own = Args::from_config(config)?;
    let windows = windows(config, &args)?;
    let on_cpu = loader.compute().is_cpu();
    let experts = ExpertShape {
        hidden_size: args.hidden_size,
        intermediate_size: args.intermediate_size,
        n_experts: own.num_local_experts,
        n_used: own.n_used(),
    };
    let norm = |loader: &mut Loader<'_>, path: &str| -> Result<RmsNorm, EngineError> {
        let weight = loader.vector(&format!("{path}.weight"), args.hidden_size)?;
        Ok(RmsNorm::new(weight, args.rms_norm_eps))
    };
    let embedding = loader.embedding("model.embed_tokens", args.vocab_size, args.hidden_size)?;
    let mut blocks = Vec::new();
    for layer in 0..args.num_hidden_layers {
        let path = format!("model.layers.{layer}");
        let mixer_norm = norm(loader, &format!("{path}.input_layernorm"))?;
        let own_path = format!("{path}.self_attn");
        let attention = Attention::load(loader, &own_path, args.attention_shape())?
            .with_sinks(loader, &own_path)?
            .with_window(windows.of(layer));
        let mlp_norm = norm(loader, &format!("{path}.post_attention_layernorm"))?;
        let mlp = Experts::load(
            loader,
            &format!("{path}.mlp"),
            "router",
            experts,
            Routing::TopThenSoftmax,
            Activation::new(Gate::ClippedSilu, on_cpu),
        )?;
        blocks.push(Block::new(mixer_norm, attention, mlp_norm, mlp));
    }
    Ok(Transformer {
        embedding,
        embedding_scale: None,
        token_tables: None,
        blocks,
        norm: norm(loader, "model.norm")?,
        head: Some(loader.linear("lm_head", args.hidden_size, args.vocab_size)?),
        logit_cap: None,
        ropes: vec![args.rope(config, on_cpu)?],
        on_cpu,
    })
}
