//! The matrices of a mixture of experts, for which checkpoints have different layouts.
//!
//! mlx-lm writes one stack per projection (`gate_proj` in `switch_mlp`, `experts` or
//! `experts.switch_glu`). The authors' own files have one tensor per expert
//! (`experts.7.gate_proj`), or stacks, of which one contains gates and values
//! (`experts.gate_up_proj`).
//!
//! Rule: tensors are stacked one projection at a time, so that never more than one projection is in
//! memory twice.

use transom_engine::EngineError;

use super::Loader;
use super::loader::{ElementKind, TensorSource};
use crate::linear::Linear;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertPath<'a> {
    /// Path of the layer, such as `model.layers.0.mlp`.
    pub(crate) layer: &'a str,
    pub(crate) n_experts: i32,
}

impl ExpertPath<'_> {
    fn source(self, loader: &Loader<'_>, name: &str) -> TensorSource {
        let Self { layer, n_experts } = self;
        let stacked = ["switch_mlp", "experts", "experts.switch_glu"]
            .map(|folder| format!("{layer}.{folder}.{name}"))
            .into_iter()
            .find(|path| loader.contains(path) || loader.contains(&format!("{path}.weight")));
        match stacked {
            Some(path) => TensorSource::Stack { path, n_experts },
            None => TensorSource::Each(
                (0..n_experts)
                    .map(|expert| format!("{layer}.experts.{expert}.{name}"))
                    .collect(),
            ),
        }
    }
}

impl Loader<'_> {
    /// Returns true if the experts at `path` have a stack with this name.
    pub(crate) fn has_expert_stack(&self, path: ExpertPath<'_>, name: &str) -> bool {
        matches!(path.source(self, name), TensorSource::Stack { .. })
    }

    /// Loads one matrix `[n_out, n_in]` per expert, and their biases, if they have any.
    pub(crate) fn expert_linear(
        &mut self,
        path: ExpertPath<'_>,
        name: &str,
        n_in: i32,
        n_out: i32,
    ) -> Result<Linear, EngineError> {
        let source = path.source(self, name);
        let matrix = self.matrix_from(&source, n_in, n_out)?;
        let has_bias = self.contains(&format!("{}.bias", source.first()));
        let bias = has_bias.then(|| self.part(&source, ".bias", &[n_out], ElementKind::Floats));
        Ok(Linear::new(matrix, bias.transpose()?))
    }
}
