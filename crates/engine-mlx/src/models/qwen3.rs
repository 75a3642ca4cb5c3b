//! Qwen 3 (Yang et al. 2025): Llama with normalised queries and keys.

use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize, attention_with_head_norm};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "qwen3",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    DecoderArgs::from_config(config).map(|args| args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    args.load_transformer(config, loader, attention_with_head_norm(&args))
}
