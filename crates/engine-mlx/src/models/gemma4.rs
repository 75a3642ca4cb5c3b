//! The text half of multimodal Gemma 4 checkpoints: `gemma4_text` under another name, with its
//! configuration nested and its tensors prefixed.

use transom_engine::EngineError;

use super::args::ModelSize;
use super::{Architecture, gemma4_text};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "gemma4",
    size,
    load,
};

pub(super) fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    gemma4_text::Args::nested(config)?.size(config)
}

pub(super) fn load(
    config: &ModelConfig,
    loader: &mut Loader<'_>,
) -> Result<Transformer, EngineError> {
    gemma4_text::Args::nested(config)?.load(config, loader)
}
