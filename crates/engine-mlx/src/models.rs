//! One file an architecture, named as `model_type` names it. Each says what its configuration
//! holds (`Args`) and how its weights become the shared layers (`load`), in the same order and
//! words, so that reading one is knowing how to write the next.

mod args;
mod gemma3;
mod gemma3_text;
mod gemma4;
mod gemma4_text;
mod gemma4_unified;
mod gpt_oss;
mod hybrid;
mod llama;
mod ministral3;
mod mistral;
mod mistral3;
mod mixture;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod qwen3_5_moe;
mod qwen3_moe;
mod qwen3_next;
mod rope;
mod smollm3;
mod stack;
mod windows;

pub(crate) use args::ModelSize;

use transom_engine::EngineError;

use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

/// An architecture: its name in `config.json`, what its sizes are, and how it is loaded.
pub(crate) struct Architecture {
    pub(crate) model_type: &'static str,
    pub(crate) size: fn(&ModelConfig) -> Result<ModelSize, EngineError>,
    pub(crate) load: fn(&ModelConfig, &mut Loader<'_>) -> Result<Transformer, EngineError>,
}

/// All that this engine runs.
const ARCHITECTURES: &[Architecture] = &[
    gemma3::ARCHITECTURE,
    gemma3_text::ARCHITECTURE,
    gemma4::ARCHITECTURE,
    gemma4_text::ARCHITECTURE,
    gemma4_unified::ARCHITECTURE,
    gpt_oss::ARCHITECTURE,
    llama::ARCHITECTURE,
    ministral3::ARCHITECTURE,
    mistral::ARCHITECTURE,
    mistral3::ARCHITECTURE,
    phi3::ARCHITECTURE,
    qwen2::ARCHITECTURE,
    qwen3::ARCHITECTURE,
    qwen3_5::ARCHITECTURE,
    qwen3_5_moe::ARCHITECTURE,
    qwen3_moe::ARCHITECTURE,
    qwen3_next::ARCHITECTURE,
    smollm3::ARCHITECTURE,
];

/// The architecture that `config` names.
pub(crate) fn architecture(config: &ModelConfig) -> Result<&'static Architecture, EngineError> {
    ARCHITECTURES
        .iter()
        .find(|architecture| architecture.model_type == config.model_type)
        .ok_or_else(|| {
            let supported: Vec<_> = ARCHITECTURES.iter().map(|a| a.model_type).collect();
            EngineError::Unsupported {
                path: config.path.clone(),
                reason: format!(
                    "model_type {:?} is not supported; supported are {}",
                    config.model_type,
                    supported.join(", ")
                ),
            }
        })
}
