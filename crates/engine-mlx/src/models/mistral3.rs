//! The text half of Mistral's checkpoints that also see (Mistral Small 3.1 and later, Ministral 3,
//! Devstral 2): `mistral` or `ministral3`, as the nested configuration says.

use serde_json::Value;
use transom_engine::EngineError;

use super::args::ModelSize;
use super::{Architecture, ministral3, mistral};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "mistral3",
    size,
    load,
};

/// The text half's configuration, and whether it is Ministral's.
fn text(config: &ModelConfig) -> Result<(ModelConfig, bool), EngineError> {
    let mut text = config.of_text()?;
    if text.json.get("tie_word_embeddings").is_none() {
        text.json["tie_word_embeddings"] = Value::Bool(false);
    }
    match text.json.get("model_type").and_then(Value::as_str) {
        Some("ministral3") => Ok((text, true)),
        Some("mistral" | "llama") => Ok((text, false)),
        other => Err(EngineError::Unsupported {
            path: config.path.clone(),
            reason: format!(
                "text_config names the model_type {:?}, which is not supported; ministral3 and \
                 mistral are",
                other.unwrap_or_default()
            ),
        }),
    }
}

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    match text(config)? {
        (text, true) => ministral3::size(&text),
        (text, false) => mistral::size(&text),
    }
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    match text(config)? {
        (text, true) => ministral3::load(&text, loader),
        (text, false) => mistral::load(&text, loader),
    }
}
