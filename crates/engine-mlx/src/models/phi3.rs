//! Phi 3 and 4 (Abdin et al. 2024): Llama with queries, keys and values in one matrix, gates and
//! values in another; the small ones turn a part of each head, and stretch the turning to reach far.

use transom_engine::EngineError;

use super::Architecture;
use super::args::{DecoderArgs, ModelSize, plain_attention};
use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    model_type: "phi3",
    size,
    load,
};

fn size(config: &ModelConfig) -> Result<ModelSize, EngineError> {
    DecoderArgs::from_config(config).map(|args| args.size())
}

fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Transformer, EngineError> {
    let args = DecoderArgs::from_config(config)?;
    args.load_transformer(config, loader, plain_attention(&args))
}
