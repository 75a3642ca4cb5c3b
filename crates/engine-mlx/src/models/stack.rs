//! Whole models from their blocks, for architectures whose blocks have Llama's two halves and norms:
//! where the tensors lie, and how each layer's halves are loaded, is the architecture's to say.

use mlx_rs::Array;
use transom_engine::EngineError;

use super::args::DecoderArgs;
use crate::config::ModelConfig;
use crate::error::{Context, MlxResult};
use crate::nn::{Block, Mixer, Mlp, RmsNorm, Transformer};
use crate::weights::Loader;

/// Where the text part of a checkpoint lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPaths {
    /// Embedding, layers and last norm.
    pub(crate) model: &'static str,
    /// The head.
    pub(crate) head: &'static str,
}

impl TextPaths {
    /// A text model's own.
    pub(crate) const PLAIN: Self = Self {
        model: "model",
        head: "lm_head",
    };

    /// Those of a multimodal checkpoint, as mlx-lm or as the authors write it, or of a text model.
    pub(crate) fn found_in(loader: &Loader<'_>) -> Self {
        let multimodal = [
            Self {
                model: "language_model.model",
                head: "language_model.lm_head",
            },
            Self {
                model: "model.language_model",
                head: "lm_head",
            },
        ];
        multimodal
            .into_iter()
            .find(|paths| loader.contains(&format!("{}.embed_tokens.weight", paths.model)))
            .unwrap_or(Self::PLAIN)
    }
}

/// How the weights of norms are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormWeights {
    /// As they are used.
    Whole,
    /// By how much they differ from one.
    AroundOne,
}

impl NormWeights {
    /// The weight `[size]` of the norm at `path`.
    pub(crate) fn load(
        self,
        loader: &mut Loader<'_>,
        path: &str,
        size: i32,
    ) -> Result<Array, EngineError> {
        let stored = loader.vector(&format!("{path}.weight"), size)?;
        match self {
            Self::Whole => Ok(stored),
            Self::AroundOne => plus_one(&stored).during(path),
        }
    }
}

fn plus_one(weight: &Array) -> MlxResult<Array> {
    let one = Array::from_f32(1.0).as_dtype(weight.dtype())?;
    let weight = weight.add(&one)?;
    weight.eval()?;
    Ok(weight)
}

/// How a model is put together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack<'a> {
    pub(crate) args: &'a DecoderArgs,
    pub(crate) paths: TextPaths,
    pub(crate) norms: NormWeights,
}

impl Stack<'_> {
    /// Builds the model; `mixer` and `mlp` load the halves of the block at a path, which has this
    /// number.
    pub(crate) fn load(
        &self,
        config: &ModelConfig,
        loader: &mut Loader<'_>,
        mixer: impl Fn(&mut Loader<'_>, &str, i32) -> Result<Box<dyn Mixer>, EngineError>,
        mlp: impl Fn(&mut Loader<'_>, &str, i32) -> Result<Mlp, EngineError>,
    ) -> Result<Transformer, EngineError> {
        let Self { args, paths, norms } = *self;
        let TextPaths { model, head } = paths;
        let on_cpu = loader.compute().is_cpu();
        let rope = args.rope(config, on_cpu)?;
        let norm = |loader: &mut Loader<'_>, path: &str| -> Result<RmsNorm, EngineError> {
            let weight = norms.load(loader, path, args.hidden_size)?;
            Ok(RmsNorm::new(weight, args.rms_norm_eps))
        };
        let table = format!("{model}.embed_tokens");
        let embedding = loader.embedding(&table, args.vocab_size, args.hidden_size)?;
        let mut blocks = Vec::new();
        for layer in 0..args.num_hidden_layers {
            let path = format!("{model}.layers.{layer}");
            let mixer_norm = norm(loader, &format!("{path}.input_layernorm"))?;
            let mixer = mixer(loader, &path, layer)?;
            let mlp_norm = norm(loader, &format!("{path}.post_attention_layernorm"))?;
            let mlp = mlp(loader, &format!("{path}.mlp"), layer)?;
            blocks.push(Block::boxed(mixer_norm, mixer, mlp_norm, mlp));
        }
        let has_head = || loader.contains(&format!("{head}.weight"));
        let is_tied = args.tie_word_embeddings.unwrap_or_else(|| !has_head());
        let head = if is_tied {
            None
        } else {
            Some(loader.linear(head, args.hidden_size, args.vocab_size)?)
        };
        Ok(Transformer {
            embedding,
            embedding_scale: None,
            token_tables: None,
            blocks,
            norm: norm(loader, &format!("{model}.norm"))?,
            head,
            logit_cap: None,
            ropes: vec![rope],
            on_cpu,
        })
    }
}
