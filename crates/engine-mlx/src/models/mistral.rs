//! Mistral (Jiang et al. 2023): Llama, in its first version with a sliding window. Ministral 3 and
//! Devstral 2 (Mistral AI 2025): Mistral with queries that grow with the logarithm of their
//! position.

use serde_json::Value;
use transom_engine::EngineError;

use super::Parsed;
use super::args::DecoderArgs;
use super::llama::Llama;
use super::windows::Pattern;
use crate::config::ModelConfig;
use crate::nn::{AttentionOptions, QueryScale};

pub(super) fn mistral(config: &ModelConfig) -> Parsed {
    let args = DecoderArgs::from_config(config)?;
    let window = args.sliding_window;
    with_windows(config, args, window, None)
}

pub(super) fn ministral3(config: &ModelConfig) -> Parsed {
    let query_scale = query_scale(config)?;
    let mut args = DecoderArgs::from_config(config)?;
    if config.json.get("tie_word_embeddings").is_none() {
        // The default of the authors' own code.
        args.tie_word_embeddings = Some(true);
    }
    // Layers without a type have no window.
    let window = args.sliding_window.filter(|_| args.layer_types.is_some());
    with_windows(config, args, window, Some(query_scale))
}

fn with_windows(
    config: &ModelConfig,
    args: DecoderArgs,
    window: Option<i32>,
    query_scale: Option<QueryScale>,
) -> Parsed {
    let windows = args.windows(config, window, Pattern::All)?;
    Ok(Llama::boxed(args, |layer| {
        let attention = AttentionOptions {
            window: windows.window(layer),
            query_scale,
            ..AttentionOptions::default()
        };
        attention.into()
    }))
}

/// Parses the text part of a multimodal checkpoint (Mistral Small 3.1 and later, Ministral 3,
/// Devstral 2), whose own `model_type` is one of the two.
pub(super) fn multimodal(config: &ModelConfig) -> Parsed {
    let mut text = config.text_part()?;
    if text.json.get("tie_word_embeddings").is_none() {
        text.json["tie_word_embeddings"] = Value::Bool(false);
    }
    match text.json.get("model_type").and_then(Value::as_str) {
        Some("ministral3") => ministral3(&text),
        Some("mistral" | "llama") => mistral(&text),
        other => {
            let name = other.unwrap_or_default();
            let reason = format!(
                "text_config names the model_type {name:?}, which is not supported; ministral3 and \
                 mistral are"
            );
            Err(config.unsupported_architecture(name, reason))
        }
    }
}

/// The scale is in the entry of the rotary embedding.
fn query_scale(config: &ModelConfig) -> Result<QueryScale, EngineError> {
    let entry = config.json.get("rope_parameters");
    let number = |name: &str| -> Result<f64, EngineError> {
        entry
            .and_then(|entry| entry.get(name))
            .and_then(Value::as_f64)
            .ok_or_else(|| config.bad(format!("rope_parameters has no {name}")))
    };
    let beta = number("llama_4_scaling_beta")?;
    let original = number("original_max_position_embeddings")?;
    if !beta.is_finite() || beta < 0.0 {
        let reason = format!("llama_4_scaling_beta is {beta}, but must be at least 0");
        return Err(config.bad(reason));
    }
    let max = f64::from(1 << 28);
    if !(1.0..=max).contains(&original) {
        return Err(config.bad(format!(
            "original_max_position_embeddings is {original}, but must be between 1 and {max}"
        )));
    }
    Ok(QueryScale {
        beta: beta as f32,
        original_max_positions: original as i32,
    })
}
