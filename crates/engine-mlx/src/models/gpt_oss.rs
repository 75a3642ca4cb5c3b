//! gpt-oss (OpenAI 2025): a mixture of experts with clipped gates. Every other layer has a sliding
//! window, and every head has an attention sink.

use serde::Deserialize;

use super::Parsed;
use super::args::DecoderArgs;
use super::llama::{LayerOptions, Llama};
use super::windows::Pattern;
use crate::config::ModelConfig;
use crate::nn::{AttentionOptions, ExpertOptions, ExpertShape, Gate, Routing};

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
    let experts = ExpertOptions {
        router: "router",
        shape: ExpertShape {
            hidden_size: args.hidden_size,
            intermediate_size: args.intermediate_size,
            n_experts,
            n_used,
        },
        routing: Routing::TopThenSoftmax,
        gate: Gate::ClippedSilu,
        shared_width: None,
    };
    Ok(Llama::boxed(args, |layer| {
        let attention = AttentionOptions {
            window: windows.window(layer),
            has_sinks: true,
            ..AttentionOptions::default()
        };
        LayerOptions {
            experts: Some(experts),
            ..attention.into()
        }
    }))
}
