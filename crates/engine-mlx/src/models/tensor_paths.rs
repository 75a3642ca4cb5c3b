//! The names under which checkpoints store the text part of a model.

use crate::weights::Loader;

/// Prefixes of the tensors of the text part of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TensorPaths {
    /// Embedding, layers and last norm.
    pub(super) model: &'static str,
    pub(super) lm_head: &'static str,
}

impl TensorPaths {
    /// Returns the prefixes that the checkpoint uses: those of a multimodal model, as mlx-lm or as
    /// its authors write it, or those of a text model.
    pub(super) fn find(loader: &Loader<'_>) -> Self {
        let multimodal = [
            ("language_model.model", "language_model.lm_head"),
            ("model.language_model", "lm_head"),
        ];
        let (model, lm_head) = multimodal
            .into_iter()
            .find(|(model, _)| loader.contains(&format!("{model}.embed_tokens.weight")))
            .unwrap_or(("model", "lm_head"));
        Self { model, lm_head }
    }
}
