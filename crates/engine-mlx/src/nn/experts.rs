//! Mixtures of experts (Shazeer et al. 2017): a router selects a few of many feed-forward layers
//! for each token. Some models also have a shared expert, through which all tokens pass.
//!
//! The products gather each token's matrices from a stack. With many tokens, as in prefill, the
//! rows are first sorted by expert, so that the device reads each matrix once for all of its rows.

use mlx_rs::{Array, ops};
use transom_engine::EngineError;

use super::{Activation, Gate, GatedMlp};
use crate::error::{Context, MlxResult};
use crate::linear::{Linear, LinearGroup};
use crate::ops::slice_axis;
use crate::weights::{ExpertPath, Loader};

/// With this many rows, sorting is faster (mlx-lm's threshold).
const MIN_SORTED_ROWS: i32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpertShape {
    /// Features of the hidden state.
    pub(crate) hidden_size: i32,
    /// Width inside one expert.
    pub(crate) intermediate_size: i32,
    pub(crate) n_experts: i32,
    /// Experts per token, at most `n_experts`.
    pub(crate) n_used: i32,
}

/// How the scores of the router select and weight experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Routing {
    /// Softmax over all experts, of which the highest are selected and, if `normalize` is set,
    /// scaled to sum to one (Qwen).
    SoftmaxThenTop { normalize: bool },
    /// Softmax over the highest scores (gpt-oss).
    TopThenSoftmax,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertOptions {
    pub(crate) router: &'static str,
    pub(crate) shape: ExpertShape,
    pub(crate) routing: Routing,
    pub(crate) gate: Gate,
    /// Width of the shared expert, if there is one.
    pub(crate) shared_width: Option<i32>,
}

/// A feed-forward layer through which all tokens pass.
struct SharedExpert {
    mlp: GatedMlp,
    /// The sigmoid of this product is the weight of the layer: `[1, hidden_size]`.
    gate: Linear,
}

pub(crate) struct Experts {
    router: Linear,
    routing: Routing,
    shape: ExpertShape,
    /// The products that compute the gates and the values of the experts.
    gate_up: LinearGroup,
    down: Linear,
    activation: Activation,
    shared: Option<SharedExpert>,
    /// Factors of the experts' weights, `[n_experts]`.
    scales: Option<Array>,
}

impl Experts {
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        options: ExpertOptions,
    ) -> Result<Self, EngineError> {
        let ExpertShape {
            hidden_size,
            intermediate_size,
            n_experts,
            ..
        } = options.shape;
        let router = format!("{path}.{}", options.router);
        let router = loader.linear(&router, hidden_size, n_experts)?;
        let experts = ExpertPath {
            layer: path,
            n_experts,
        };
        let gate_up = if loader.has_expert_stack(experts, "gate_up_proj") {
            let n_out = 2 * intermediate_size;
            LinearGroup::Fused(loader.expert_linear(experts, "gate_up_proj", hidden_size, n_out)?)
        } else {
            let mut load =
                |name| loader.expert_linear(experts, name, hidden_size, intermediate_size);
            let linears = vec![load("gate_proj")?, load("up_proj")?];
            LinearGroup::new(linears, loader.compute().copies_weights()).during(path)?
        };
        let down = loader.expert_linear(experts, "down_proj", intermediate_size, hidden_size)?;
        let shared = match options.shared_width {
            Some(width) => {
                let shared = format!("{path}.shared_expert");
                Some(SharedExpert {
                    mlp: GatedMlp::load(loader, &shared, hidden_size, width, options.gate)?,
                    gate: loader.linear(&format!("{shared}_gate"), hidden_size, 1)?,
                })
            }
            None => None,
        };
        Ok(Self {
            router,
            routing: options.routing,
            shape: options.shape,
            gate_up,
            down,
            activation: Activation::new(options.gate, loader.compute().is_cpu()),
            shared,
            scales: None,
        })
    }

    /// Multiplies the weight of each expert by its scale, `[n_experts]` (Gemma 4).
    #[must_use]
    pub(crate) fn with_scales(mut self, scales: Array) -> Self {
        self.scales = Some(scales);
        self
    }

    /// Maps `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        self.forward_routed_by(x, x)
    }

    /// Maps `x` as [`Experts::forward`] does, with the experts that `router_input` selects.
    pub(crate) fn forward_routed_by(&self, x: &Array, router_input: &Array) -> MlxResult<Array> {
        let (experts, mut weights) = self.route(router_input)?;
        if let Some(scales) = &self.scales {
            weights = weights.multiply(scales.take_axis(&experts, 0)?)?;
        }
        let outputs = self.expert_outputs(x, &experts)?;
        let mixed = outputs
            .multiply(weights.expand_dims(-1)?)?
            .sum_axis(-2, false)?
            .as_dtype(x.dtype())?;
        let Some(shared) = &self.shared else {
            return Ok(mixed);
        };
        let output = shared.mlp.forward(x)?;
        mixed.add(ops::sigmoid(shared.gate.forward(x)?)?.multiply(output)?)
    }

    /// Returns the experts of each token and their weights, `[1, tokens, n_used]` each.
    fn route(&self, x: &Array) -> MlxResult<(Array, Array)> {
        let (n_experts, n_used) = (self.shape.n_experts, self.shape.n_used);
        let scores = self.router.forward(x)?;
        let highest = |scores: &Array| -> MlxResult<(Array, Array)> {
            let order = ops::argpartition_axis(scores, -n_used, -1)?;
            let experts = slice_axis(&order, 2, n_experts - n_used, n_experts)?;
            let values = scores.take_along_axis(&experts, -1)?;
            Ok((experts, values))
        };
        match self.routing {
            Routing::SoftmaxThenTop { normalize } => {
                let (experts, weights) = highest(&ops::softmax_axis(&scores, -1, true)?)?;
                if !normalize {
                    return Ok((experts, weights));
                }
                let sum = weights.sum_axis(-1, true)?;
                Ok((experts, weights.divide(sum)?))
            }
            Routing::TopThenSoftmax => {
                let (experts, scores) = highest(&scores)?;
                Ok((experts, ops::softmax_axis(&scores, -1, true)?))
            }
        }
    }

    /// Returns the outputs of each token's experts, `[1, tokens, n_used, hidden_size]`.
    fn expert_outputs(&self, x: &Array, experts: &Array) -> MlxResult<Array> {
        let (hidden_size, n_used) = (self.shape.hidden_size, self.shape.n_used);
        let n_tokens = x.dim(1);
        let n_rows = n_tokens * n_used;
        if n_rows < MIN_SORTED_ROWS {
            let x = x.reshape(&[1, n_tokens, 1, 1, hidden_size])?;
            return self.run_experts(&x, experts, false)?.squeeze_axes(&[-2]);
        }
        let experts = experts.flatten(None, None)?;
        let order = ops::argsort_axis(&experts, 0)?;
        let tokens = order.floor_divide(Array::from_int(n_used).as_dtype(order.dtype())?)?;
        let rows = x
            .reshape(&[n_tokens, 1, hidden_size])?
            .take_axis(&tokens, 0)?;
        let sorted = self.run_experts(&rows, &experts.take_axis(&order, 0)?, true)?;
        let inverse = ops::argsort_axis(&order, 0)?;
        sorted
            .take_axis(&inverse, 0)?
            .reshape(&[1, n_tokens, n_used, hidden_size])
    }

    fn run_experts(&self, x: &Array, experts: &Array, are_sorted: bool) -> MlxResult<Array> {
        let n_outs = [self.shape.intermediate_size; 2];
        let forward = |linear: &Linear| linear.forward_gathered(x, experts, are_sorted);
        let [gate, up] = self.gate_up.forward_parts(&n_outs, forward)?;
        let activated = self.activation.forward(&gate, &up)?;
        self.down.forward_gathered(&activated, experts, are_sorted)
    }
}

/// The feed-forward part of a layer.
pub(crate) enum Mlp {
    Dense(GatedMlp),
    Experts(Box<Experts>),
}

impl Mlp {
    /// Maps `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        match self {
            Self::Dense(mlp) => mlp.forward(x),
            Self::Experts(experts) => experts.forward(x),
        }
    }
}

#[cfg(test)]
mod tests;
