//! Mistral (Jiang et al. 2023): Llama, in its first version with a sliding attention window.

use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize};
use super::windows::{Pattern, Windows};
use crate::config::ModelConfig;
use crate::nn::{Attention, Transformer};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "mistral",
    size,
    load,
};

fn windows(config: &ModelConfig, args: &DecoderArgs) -> Result<Windows, EngineError> {
    Windows::new(
        config,
        args.num_hidden_layers,
        args.sliding_window,
        args.layer_types.as_deref(),
        Pattern::Every,
        args.max_position_embeddings,
    )
}

pub(super) fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    windows(config, &args)?;
    Ok(args.size())
}

pub(super) fn load(
    config: &ModelConfig,
    loader: &mut Loader<'_>,
) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    let windows = windows(config, &args)?;
    let shape = args.attention_shape();
    args.load_transformer(config, loader, |loader, path, layer| {
        let attention = Attention::load(loader, path, shape)?;
        Ok(attention.with_window(windows.of(layer)))
    })
}
