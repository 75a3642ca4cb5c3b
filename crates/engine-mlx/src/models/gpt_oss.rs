//! gpt-oss (OpenAI 2025): a mixture of experts with clipped gates. Every other layer has a sliding
//! window, and every head has an attention sink.

use serde::Deserialize;
use transom_engine::EngineError;

use super::Parsed;
use super::args::DecoderArgs;
use super::llama::LlamaForm;
use super::windows::{Pattern, SlidingWindows};
use crate::config::ModelConfig;
use crate::nn::{Activation, Attention, ExpertShape, Experts, Gate, Mlp, Routing};
use crate::weights::Loader;

/// The bound in the formula of the activation.
const SWIGLU_LIMIT: f32 = 7.0;

/// The values that Llama's configuration does not have.
#[derive(Debug, Deserialize)]
struct OwnArgs {
    num_local_experts: i32,
    num_experts_per_tok: Option<i32>,
    /// The authors' own name of `num_experts_per_tok`.
    experts_per_token: Option<i32>,
    #[serde(default = "swiglu_limit")]
    swiglu_limit: f32,
}

fn swiglu_limit() -> f32 {
    SWIGLU_LIMIT
}

struct GptOss {
    args: DecoderArgs,
    experts: ExpertShape,
    windows: SlidingWindows,
}

pub(super) fn parse(config: &ModelConfig) -> Parsed {
    let mut args = DecoderArgs::from_config(config)?;
    args.tie_word_embeddings = Some(false);
    let own: OwnArgs = config.parse()?;
    let n_experts = own.num_local_experts;
    config.check_range("num_local_experts", n_experts, 1..=1 << 12)?;
    let n_used = own.num_experts_per_tok.or(own.experts_per_token);
    let n_used = n_used.unwrap_or(4);
    config.check_range("num_experts_per_tok", n_used, 1..=n_experts)?;
    let limit = own.swiglu_limit;
    if limit != SWIGLU_LIMIT {
        let reason = format!("swiglu_limit {limit} is not supported; {SWIGLU_LIMIT} is");
        return Err(config.unsupported(reason));
    }
    let windows = args.windows(config, args.sliding_window, Pattern::Alternating)?;
    let experts = ExpertShape {
        hidden_size: args.hidden_size,
        intermediate_size: args.intermediate_size,
        n_experts,
        n_used,
    };
    Ok(Box::new(GptOss {
        args,
        experts,
        windows,
    }))
}

impl LlamaForm for GptOss {
    fn args(&self) -> &DecoderArgs {
        &self.args
    }

    fn load_attention(
        &self,
        loader: &mut Loader<'_>,
        path: &str,
        layer: i32,
    ) -> Result<Attention, EngineError> {
        let attention = Attention::load(loader, path, self.args.attention_shape())?;
        let attention = attention.with_window(self.windows.window(layer));
        attention.with_sinks(loader, path)
    }

    fn load_mlp(&self, loader: &mut Loader<'_>, path: &str, _: i32) -> Result<Mlp, EngineError> {
        let activation = Activation::new(Gate::ClippedSilu, loader.compute().is_cpu());
        let routing = Routing::TopThenSoftmax;
        let experts = Experts::load(loader, path, "router", self.experts, routing, activation)?;
        Ok(experts.into())
    }
}
