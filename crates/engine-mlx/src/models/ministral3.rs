//! Ministral 3 and Devstral 2 (Mistral AI 2025): Mistral, with queries that grow with the logarithm
//! of their place.

use serde_json::Value;
use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize};
use super::windows::{Pattern, Windows};
use crate::config::{ModelConfig, bad};
use crate::nn::{Attention, QueryScale, Transformer};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "ministral3",
    size,
    load,
};

fn args(config: &ModelConfig) -> Result<DecoderArgs, EngineError> {
    let mut args = DecoderArgs::from_config(config)?;
    if config.json.get("tie_word_embeddings").is_none() {
        // What the authors' own code takes it for.
        args.tie_word_embeddings = Some(true);
    }
    Ok(args)
}

fn windows(config: &ModelConfig, args: &DecoderArgs) -> Result<Windows, EngineError> {
    let layer_types = args.layer_types.as_deref();
    Windows::new(
        config,
        args.num_hidden_layers,
        // Layers without a type see all.
        args.sliding_window.filter(|_| layer_types.is_some()),
        layer_types,
        Pattern::Every,
        args.max_position_embeddings,
    )
}

/// The scale stands in the entry of the rotary embedding.
fn query_scale(config: &ModelConfig, args: &DecoderArgs) -> Result<QueryScale, EngineError> {
    let entry = args.rope_parameters.as_ref();
    let number = |name: &str| -> Result<f64, EngineError> {
        entry
            .and_then(|entry| entry.get(name))
            .and_then(Value::as_f64)
            .ok_or_else(|| bad(&config.path, format!("rope_parameters has no {name}")))
    };
    let growth = number("llama_4_scaling_beta")?;
    let period = number("original_max_position_embeddings")?;
    if !growth.is_finite() || growth < 0.0 {
        let reason = format!("llama_4_scaling_beta is {growth}, but must be at least 0");
        return Err(bad(&config.path, reason));
    }
    let max = f64::from(1 << 28);
    if !(1.0..=max).contains(&period) {
        let reason = format!(
            "original_max_position_embeddings is {period}, but must be between 1 and {max}"
        );
        return Err(bad(&config.path, reason));
    }
    Ok(QueryScale {
        growth: growth as f32,
        period: period as i32,
    })
}

pub(super) fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    let args = args(config)?;
    windows(config, &args)?;
    Ok(args.size())
}

pub(super) fn load(
    config: &ModelConfig,
    loader: &mut Loader<'_>,
) -> Result<Transformer, EngineError> {
    let args = args(config)?;
    let windows = windows(config, &args)?;
    let scale = query_scale(config, &args)?;
    let shape = args.attention_shape();
    args.load_transformer(config, loader, |loader, path, layer| {
        let attention = Attention::load(loader, path, shape)?;
        Ok(attention
            .with_window(windows.of(layer))
            .with_query_scale(scale))
    })
}
