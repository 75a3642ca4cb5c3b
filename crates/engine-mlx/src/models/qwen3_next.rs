//! The hybrid Qwen models: Qwen3-Next and Qwen3-Coder-Next (Qwen Team 2025), Qwen 3.5 and 3.6 (Qwen
//! Team 2026; of these the text part). One layer of every few has full attention, the others carry
//! a recurrent state of fixed size (`nn/gated_delta.rs`). Some have a mixture of experts.

use serde::Deserialize;
use serde_json::Value;
use transom_engine::EngineError;

use super::Parsed;
use super::args::DecoderArgs;
use super::check::check_ranges;
use super::llama::{LayerOptions, Llama, MixerOptions};
use super::qwen3_moe::MoeArgs;
use crate::config::ModelConfig;
use crate::nn::{AttentionOptions, GatedDeltaShape};

#[derive(Debug, Clone, Deserialize)]
struct RecurrentArgs {
    linear_num_key_heads: i32,
    linear_num_value_heads: i32,
    linear_key_head_dim: i32,
    linear_value_head_dim: i32,
    linear_conv_kernel_dim: i32,
    /// Every n-th layer has full attention, if `layer_types` is missing.
    #[serde(default = "four")]
    full_attention_interval: i32,
    layer_types: Option<Vec<String>>,
}

fn four() -> i32 {
    4
}

impl RecurrentArgs {
    fn from_config(config: &ModelConfig, n_layers: i32) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        check_ranges!(config, args, {
            linear_num_key_heads: 1..=1 << 10,
            linear_num_value_heads: 1..=1 << 10,
            linear_key_head_dim: 1..=1 << 12,
            linear_value_head_dim: 1..=1 << 12,
            // With a width of 1, the two layouts of the weights could not be distinguished.
            linear_conv_kernel_dim: 2..=64,
            full_attention_interval: 1..=1 << 10,
        });
        let (n_keys, n_values) = (args.linear_num_key_heads, args.linear_num_value_heads);
        if n_values % n_keys != 0 {
            let reason = format!("{n_values} value heads cannot share {n_keys} key heads evenly");
            return Err(config.bad(reason));
        }
        if let Some(types) = &args.layer_types {
            config.check_layer_types(types, n_layers)?;
            let known = ["linear_attention", "full_attention"];
            if let Some(other) = types.iter().find(|name| !known.contains(&name.as_str())) {
                return Err(config.unsupported(format!(
                    "layer_types: {other:?} is not supported; full_attention and linear_attention \
                     are"
                )));
            }
        }
        Ok(args)
    }

    fn is_recurrent(&self, layer: i32) -> bool {
        match &self.layer_types {
            Some(types) => types[layer as usize] == "linear_attention",
            None => (layer + 1) % self.full_attention_interval != 0,
        }
    }

    fn shape(&self, hidden_size: i32) -> GatedDeltaShape {
        GatedDeltaShape {
            hidden_size,
            n_key_heads: self.linear_num_key_heads,
            n_value_heads: self.linear_num_value_heads,
            key_dim: self.linear_key_head_dim,
            value_dim: self.linear_value_head_dim,
            conv_width: self.linear_conv_kernel_dim,
        }
    }
}

pub(super) fn plain(config: &ModelConfig) -> Parsed {
    parse(config, false)
}

/// Parses a Qwen 3.5 or 3.6, which scale the weights of experts to sum to one.
pub(super) fn with_normalized_experts(config: &ModelConfig) -> Parsed {
    parse(config, true)
}

/// `normalize` is the default of `norm_topk_prob`.
fn parse(config: &ModelConfig, normalize: bool) -> Parsed {
    let mut config = config.text_part()?;
    let number = |name: &str| config.json.get(name).and_then(Value::as_i64);
    let moe = match number("num_experts") {
        None | Some(0) => None,
        Some(_) => Some(MoeArgs::from_config(&config, normalize)?),
    };
    // Mixtures leave out the width of dense layers, which they do not have.
    if moe.is_some() && number("intermediate_size").is_none() {
        let width = config.json["moe_intermediate_size"].clone();
        config.json["intermediate_size"] = width;
    }
    let args = DecoderArgs::from_config(&config)?;
    let recurrent = RecurrentArgs::from_config(&config, args.num_hidden_layers)?;
    let hidden_size = args.hidden_size;
    let attention = AttentionOptions {
        has_head_norms: true,
        is_gated: true,
        ..AttentionOptions::default()
    };
    Ok(Llama::boxed(args, |layer| LayerOptions {
        mixer: if recurrent.is_recurrent(layer) {
            MixerOptions::Recurrent(recurrent.shape(hidden_size))
        } else {
            MixerOptions::Attention(attention)
        },
        experts: moe.as_ref().and_then(|moe| moe.experts(hidden_size, layer)),
    }))
}
