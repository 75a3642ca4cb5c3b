//! SmolLM3 (Bakouch et al. 2025): Llama, in which every fourth layer has no positions.

use serde::Deserialize;
use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize};
use super::windows::{Pattern, Windows};
use crate::config::{ModelConfig, bad};
use crate::nn::{Attention, Transformer};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "smollm3",
    size,
    load,
};

/// What Llama's configuration does not have.
#[derive(Debug, Deserialize)]
struct Args {
    /// A one for each layer whose queries and keys are turned by their positions, else a zero.
    no_rope_layers: Option<Vec<i32>>,
    /// Every so many-th layer has no positions, where the list is missing.
    #[serde(default = "four")]
    no_rope_layer_interval: i32,
    #[serde(default)]
    use_sliding_window: bool,
}

fn four() -> i32 {
    4
}

impl Args {
    fn from_config(config: &ModelConfig, n_layers: i32) -> Result<Self, EngineError> {
        let args: Self = config.parse()?;
        if let Some(layers) = &args.no_rope_layers
            && layers.len() != n_layers as usize
        {
            let n_named = layers.len();
            let reason = format!("no_rope_layers names {n_named} layers, but there are {n_layers}");
            return Err(bad(&config.path, reason));
        }
        let interval = args.no_rope_layer_interval;
        if interval < 1 {
            let reason = format!("no_rope_layer_interval is {interval}, but must be at least 1");
            return Err(bad(&config.path, reason));
        }
        Ok(args)
    }

    fn has_positions(&self, layer: i32) -> bool {
        match &self.no_rope_layers {
            Some(layers) => layers.get(layer as usize).is_none_or(|&turned| turned != 0),
            None => (layer + 1) % self.no_rope_layer_interval != 0,
        }
    }

    fn windows(&self, config: &ModelConfig, args: &DecoderArgs) -> Result<Windows, EngineError> {
        let window = args.sliding_window.filter(|_| self.use_sliding_window);
        let types = args.layer_types.as_deref();
        let n_layers = args.num_hidden_layers;
        let context_length = args.max_position_embeddings;
        Windows::new(
            config,
            n_layers,
            window,
            types,
            Pattern::Every,
            context_length,
        )
    }
}

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    let own = Args::from_config(config, args.num_hidden_layers)?;
    own.windows(config, &args)?;
    Ok(args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    let own = Args::from_config(config, args.num_hidden_layers)?;
    let windows = own.windows(config, &args)?;
    let shape = args.attention_shape();
    args.load_transformer(config, loader, |loader, path, layer| {
        let attention = Attention::load(loader, path, shape)?;
        Ok(attention
            .with_window(windows.of(layer))
            .with_rope(own.has_positions(layer).then_some(0)))
    })
}
