//! Qwen3-Next (Qwen Team 2025), and Qwen3-Coder-Next: a hybrid with mixtures of experts.

use transom_engine::EngineError;

use super::Architecture;
use super::args::ModelSize;
use super::hybrid::HybridArgs;
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "qwen3_next",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    HybridArgs::from_config(config, false).map(|args| args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    HybridArgs::from_config(config, false)?.load(loader)
}
