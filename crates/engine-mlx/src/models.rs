//! The architectures that this engine runs, and how each is loaded.
//!
//! [`ARCHITECTURES`] has one row per `model_type` of `config.json`. Architectures that differ only
//! in options share a file: `llama.rs` contains the forward pass of most of them, and the files next
//! to it describe how their layers differ. `gemma3.rs` and `gemma4.rs` contain forward passes of
//! their own.

mod args;
mod check;
mod gemma3;
mod gemma4;
mod gpt_oss;
mod llama;
mod mistral;
mod qwen3_moe;
mod qwen3_next;
mod rope;
mod smollm3;
mod windows;

use transom_engine::EngineError;

use crate::config::ModelConfig;
use crate::nn::Transformer;
use crate::weights::Loader;

/// The checked configuration of a model, which can load the model.
pub(crate) trait Architecture {
    fn size(&self) -> ModelSize;

    fn load(&self, loader: &mut Loader<'_>) -> Result<Transformer, EngineError>;
}

/// Sizes that matter outside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelSize {
    /// Tokens that the model was trained to attend to.
    pub(crate) context_length: usize,
    pub(crate) vocab_size: usize,
}

impl ModelSize {
    fn new(context_length: i32, vocab_size: i32) -> Self {
        Self {
            context_length: context_length as usize,
            vocab_size: vocab_size as usize,
        }
    }
}

type Parsed = Result<Box<dyn Architecture>, EngineError>;

type Parse = fn(&ModelConfig) -> Parsed;

/// Each supported `model_type`, and the function that parses and checks its configuration.
const ARCHITECTURES: &[(&str, Parse)] = &[
    ("gemma3", gemma3::multimodal),
    ("gemma3_text", gemma3::text),
    ("gemma4", gemma4::multimodal),
    ("gemma4_text", gemma4::text),
    ("gemma4_unified", gemma4::multimodal),
    ("gpt_oss", gpt_oss::parse),
    ("llama", llama::plain),
    ("ministral3", mistral::ministral3),
    ("mistral", mistral::mistral),
    ("mistral3", mistral::multimodal),
    ("phi3", llama::plain),
    ("qwen2", llama::plain),
    ("qwen3", llama::with_head_norms),
    ("qwen3_5", qwen3_next::with_normalized_experts),
    ("qwen3_5_moe", qwen3_next::with_normalized_experts),
    ("qwen3_moe", qwen3_moe::parse),
    ("qwen3_next", qwen3_next::plain),
    ("smollm3", smollm3::parse),
];

/// Parses and checks the configuration for the architecture that it names.
pub(crate) fn parse(config: &ModelConfig) -> Parsed {
    let row = ARCHITECTURES
        .iter()
        .find(|(model_type, _)| *model_type == config.model_type);
    match row {
        Some((_, parse)) => parse(config),
        None => {
            let supported: Vec<_> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
            let (name, supported) = (&config.model_type, supported.join(", "));
            let reason = format!("model_type {name:?} is not supported; supported are {supported}");
            Err(config.unsupported_architecture(name, reason))
        }
    }
}

/// Returns the prefix of the text part's tensors and the path of its output head: those of a
/// multimodal checkpoint, as mlx-lm or as its authors write it, or those of a text model.
fn tensor_paths(loader: &Loader<'_>) -> (&'static str, &'static str) {
    let multimodal = [
        ("language_model.model", "language_model.lm_head"),
        ("model.language_model", "lm_head"),
    ];
    multimodal
        .into_iter()
        .find(|(model, _)| loader.contains(&format!("{model}.embed_tokens.weight")))
        .unwrap_or(("model", "lm_head"))
}
