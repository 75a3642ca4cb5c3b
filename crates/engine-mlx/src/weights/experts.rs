//! The matrices of a mixture of experts, which checkpoints lay out in different ways.
//!
//! mlx-lm writes one stack a projection (`gate_proj` in `switch_mlp`, `experts` or
//! `experts.switch_glu`); the authors' own files hold one tensor an expert (`experts.7.gate_proj`),
//! or stacks whose first projection holds gates and values (`experts.gate_up_proj`). Rule: tensors
//! that have to be stacked are, one projection at a time, so that never more than one lies in memory
//! twice.

use mlx_rs::Array;
use transom_engine::EngineError;

use super::Loader;
use super::loader::{Kind, Source};
use crate::nn::ExpertLinear;

/// Where a mixture's matrices lie, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertPath<'a> {
    /// The layer, such as `model.layers.0.mlp`.
    pub(crate) layer: &'a str,
    /// Experts of the layer.
    pub(crate) n_experts: i32,
}

impl ExpertPath<'_> {
    fn source(self, loader: &Loader<'_>, name: &str) -> Source {
        let Self { layer, n_experts } = self;
        let stacked = ["switch_mlp", "experts", "experts.switch_glu"]
            .map(|folder| format!("{layer}.{folder}.{name}"))
            .into_iter()
            .find(|path| loader.contains(path) || loader.contains(&format!("{path}.weight")));
        match stacked {
            Some(path) => Source::Stack { path, n_experts },
            None => Source::Each(
                (0..n_experts)
                    .map(|expert| format!("{layer}.experts.{expert}.{name}"))
                    .collect(),
            ),
        }
    }
}

impl Loader<'_> {
    /// Whether the experts at `path` have a stack of this name.
    pub(crate) fn has_expert_stack(&self, path: ExpertPath<'_>, name: &str) -> bool {
        matches!(path.source(self, name), Source::Stack { .. })
    }

    /// A matrix `[n_out, n_in]` an expert with their biases, if they have some.
    pub(crate) fn expert_linear(
        &mut self,
        path: ExpertPath<'_>,
        name: &str,
        n_in: i32,
        n_out: i32,
    ) -> Result<ExpertLinear, EngineError> {
        let source = path.source(self, name);
        let matrix = self.matrix_from(&source, n_in, n_out)?;
        let bias: Option<Array> = if self.contains(&format!("{}.bias", source.first())) {
            Some(self.part(&source, ".bias", &[n_out], Kind::Floats)?)
        } else {
            None
        };
        Ok(ExpertLinear::new(matrix, bias))
    }
}
