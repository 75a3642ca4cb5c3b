//! Mistral (Jiang et al. 2023): Llama, in its first version with a sliding attention window.

use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize, plain_attention};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "mistral",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    let mut size = args.size();
    // Within its window the model attends to everything, so that a context no longer than the
    // window is exact with a full cache.
    if let Some(window) = args.sliding_window.filter(|&window| window > 0) {
        size.context_length = size.context_length.min(window as usize);
    }
    Ok(size)
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    args.load_transformer(config, loader, plain_attention(&args))
}
