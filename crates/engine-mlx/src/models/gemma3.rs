//! The text half of multimodal Gemma 3 checkpoints: `gemma3_text` under another name, with its
//! configuration nested and its tensors prefixed.

use transom_engine::EngineError;

use super::args::ModelSize;
use super::{Architecture, gemma3_text};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "gemma3",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    gemma3_text::Args::nested(config)?.size(config)
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    gemma3_text::Args::nested(config)?.load(config, loader, "language_model.")
}
