//! Qwen 2 and 2.5 (Yang et al. 2024): Llama with biases on queries, keys and values, which come
//! with the weights.

use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize, plain_attention};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "qwen2",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    DecoderArgs::from_config(config).map(|args| args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    args.load_transformer(config, loader, plain_attention(&args))
}
