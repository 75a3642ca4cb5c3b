//! SmolLM3 (Bakouch et al. 2025): Llama, in which every fourth layer has no position embedding.

use serde::Deserialize;

use super::Parsed;
use super::args::DecoderArgs;
use super::llama::Llama;
use super::windows::Pattern;
use crate::config::ModelConfig;
use crate::nn::AttentionOptions;

/// The values that Llama's configuration does not have.
#[derive(Debug, Deserialize)]
struct OwnArgs {
    /// For each layer a 1 if its queries and keys are rotated, else a 0.
    no_rope_layers: Option<Vec<i32>>,
    /// If the list is missing, every n-th layer is not rotated.
    #[serde(default = "four")]
    no_rope_layer_interval: i32,
    #[serde(default)]
    use_sliding_window: bool,
}

fn four() -> i32 {
    4
}

pub(super) fn parse(config: &ModelConfig) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    let own: OwnArgs = config.parse()?;
    let n_layers = args.num_hidden_layers;
    if let Some(layers) = &own.no_rope_layers
        && layers.len() != n_layers as usize
    {
        let n_listed = layers.len();
        let reason = format!("no_rope_layers names {n_listed} layers, but there are {n_layers}");
        return Err(config.bad(reason));
    }
    let interval = own.no_rope_layer_interval;
    if interval < 1 {
        let reason = format!("no_rope_layer_interval is {interval}, but must be at least 1");
        return Err(config.bad(reason));
    }
    let window = args.sliding_window.filter(|_| own.use_sliding_window);
    let windows = args.windows(config, window, Pattern::All)?;
    Ok(Llama::boxed(args, |layer| {
        let attention = AttentionOptions {
            window: windows.window(layer),
            rope: own.has_rope(layer).then_some(0),
            ..AttentionOptions::default()
        };
        attention.into()
    }))
}

impl OwnArgs {
    fn has_rope(&self, layer: i32) -> bool {
        match &self.no_rope_layers {
            Some(layers) => layers[layer as usize] != 0,
            None => (layer + 1) % self.no_rope_layer_interval != 0,
        }
    }
}
