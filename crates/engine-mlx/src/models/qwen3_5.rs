//! Qwen 3.5 and 3.6 (Qwen Team 2026): hybrids that also see; here is the text part of them.

use transom_engine::EngineError;

use super::Architecture;
use super::args::ModelSize;
use super::hybrid::HybridArgs;
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "qwen3_5",
    size,
    load,
};

pub(super) fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    HybridArgs::from_config(config, true).map(|args| args.size())
}

pub(super) fn load(
    config: &ModelConfig,
    loader: &mut Loader<'_>,
) -> Result<Transformer, EngineError> {
    HybridArgs::from_config(config, true)?.load(loader)
}
