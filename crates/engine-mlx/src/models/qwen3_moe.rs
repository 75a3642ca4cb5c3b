//! Qwen 3's mixtures of experts (Yang et al. 2025): Qwen 3, with most or all of its feed-forward
//! layers many small ones.

use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize, attention_with_head_norm};
use super::mixture::MixtureArgs;
use super::stack::{NormWeights, Stack, TextPaths};
use crate::config::ModelConfig;
use crate::nn::{Mixer, Transformer};
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "qwen3_moe",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    MixtureArgs::from_config(config, false)?;
    Ok(args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    let mixture = MixtureArgs::from_config(config, false)?;
    let attention = attention_with_head_norm(&args);
    let stack = Stack {
        args: &args,
        paths: TextPaths::PLAIN,
        norms: NormWeights::Whole,
    };
    stack.load(
        config,
        loader,
        |loader, path, layer| -> Result<Box<dyn Mixer>, EngineError> {
            let attention = attention(loader, &format!("{path}.self_attn"), layer)?;
            Ok(Box::new(attention))
        },
        |loader, path, layer| mixture.mlp(&args, loader, path, layer),
    )
}
