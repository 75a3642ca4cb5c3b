//! Mixtures of experts (Shazeer et al. 2017): of many feed-forward layers, each token passes through
//! the few that a router picks, and a shared one where the model has it.
//!
//! The products gather each token's matrices from a stack. With many tokens, as in prefill, rows are
//! first sorted by expert, so that the device reads a matrix once for all that use it.

use mlx_rs::{Array, ops};
use transom_engine::EngineError;

use super::{Activation, DenseBesideExperts, GatedMlp, Linear, Matrix};
use crate::error::{Context, MlxResult};
use crate::ops::slice_axis;
use crate::weights::{ExpertPath, Loader};

/// Rows from which sorting pays (mlx-lm's own bound).
const SORTED_ROWS: i32 = 64;

/// Sizes of a mixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpertShape {
    /// Features of the hidden state.
    pub(crate) hidden_size: i32,
    /// Width inside one expert.
    pub(crate) intermediate_size: i32,
    /// Experts of a layer.
    pub(crate) n_experts: i32,
    /// Experts that a token passes through, at most `n_experts`.
    pub(crate) n_used: i32,
}

/// How router scores become the weights of the experts that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Routing {
    /// Probabilities over all experts, of which the highest are taken, and if `is_normalized` scaled
    /// to sum to one (Qwen).
    SoftmaxThenTop { is_normalized: bool },
    /// The highest scores, turned into probabilities among themselves (gpt-oss).
    TopThenSoftmax,
}

/// A matrix an expert.
#[derive(Debug)]
pub(crate) struct ExpertLinear {
    /// `[n_experts, n_out, n_in]`.
    stack: Matrix,
    /// `[n_experts, n_out]`.
    bias: Option<Array>,
}

impl ExpertLinear {
    /// Products with the matrices of `stack`, to which rows of `bias` `[n_experts, n_out]` are added.
    pub(crate) fn new(stack: Matrix, bias: Option<Array>) -> Self {
        Self { stack, bias }
    }

    /// `[…, 1, n_in]` to `[…, 1, n_out]`; the expert of each row is in `indices`.
    fn forward(&self, x: &Array, indices: &Array, are_sorted: bool) -> MlxResult<Array> {
        let product = self.stack.gathered_product(x, indices, are_sorted)?;
        match &self.bias {
            Some(bias) => product.add(bias.take_axis(indices, 0)?.expand_dims(-2)?),
            None => Ok(product),
        }
    }

    /// Both outputs side by side, where their forms agree.
    fn joined(gate: &Self, up: &Self) -> MlxResult<Option<Self>> {
        let bias = match (&gate.bias, &up.bias) {
            (None, None) => None,
            (Some(gate), Some(up)) => Some(ops::concatenate(&[gate, up], -1)?),
            _ => return Ok(None),
        };
        let Some(stack) = Matrix::joined(&[&gate.stack, &up.stack])? else {
            return Ok(None);
        };
        // Done now, so that the parts can be freed before the next layer's are read.
        mlx_rs::transforms::eval(stack.arrays().into_iter().chain(&bias))?;
        Ok(Some(Self { stack, bias }))
    }
}

/// Gates and values of the experts.
#[derive(Debug)]
enum GateUp {
    /// In one product, gates first.
    Joined(ExpertLinear),
    /// One by one, where the weights are used in place and joining would copy them.
    Separate(ExpertLinear, ExpertLinear),
}

impl GateUp {
    fn forward(&self, x: &Array, indices: &Array, are_sorted: bool) -> MlxResult<(Array, Array)> {
        match self {
            Self::Joined(both) => {
                let both = both.forward(x, indices, are_sorted)?;
                let (axis, size) = (both.ndim() - 1, both.dim(-1));
                Ok((
                    slice_axis(&both, axis, 0, size / 2)?,
                    slice_axis(&both, axis, size / 2, size)?,
                ))
            }
            Self::Separate(gate, up) => Ok((
                gate.forward(x, indices, are_sorted)?,
                up.forward(x, indices, are_sorted)?,
            )),
        }
    }
}

/// A layer that every token passes through beside its experts.
pub(crate) struct SharedExpert {
    /// The layer.
    pub(crate) mlp: GatedMlp,
    /// How much of it is added, through a sigmoid: `[1, hidden_size]`. `None` adds all.
    pub(crate) gate: Option<Linear>,
}

/// The mixture.
pub(crate) struct Experts {
    router: Linear,
    routing: Routing,
    shape: ExpertShape,
    gate_up: GateUp,
    down: ExpertLinear,
    activation: Activation,
    shared: Option<SharedExpert>,
    /// What the weight of each expert is multiplied by, `[n_experts]`.
    factors: Option<Array>,
}

impl Experts {
    /// The mixture at `path`, with its router at `{path}.{router}`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        router: &str,
        shape: ExpertShape,
        routing: Routing,
        activation: Activation,
    ) -> Result<Self, EngineError> {
        let ExpertShape {
            hidden_size,
            intermediate_size,
            n_experts,
            ..
        } = shape;
        let router = loader.linear(&format!("{path}.{router}"), hidden_size, n_experts)?;
        let experts = ExpertPath {
            layer: path,
            n_experts,
        };
        let gate_up = if loader.has_expert_stack(experts, "gate_up_proj") {
            let n_out = 2 * intermediate_size;
            GateUp::Joined(loader.expert_linear(experts, "gate_up_proj", hidden_size, n_out)?)
        } else {
            let mut load =
                |name| loader.expert_linear(experts, name, hidden_size, intermediate_size);
            let (gate, up) = (load("gate_proj")?, load("up_proj")?);
            let joined = if loader.compute().copies_weights() {
                ExpertLinear::joined(&gate, &up).during(path)?
            } else {
                None
            };
            match joined {
                Some(joined) => GateUp::Joined(joined),
                None => GateUp::Separate(gate, up),
            }
        };
        Ok(Self {
            router,
            routing,
            shape,
            gate_up,
            down: loader.expert_linear(experts, "down_proj", intermediate_size, hidden_size)?,
            activation,
            shared: None,
            factors: None,
        })
    }

    /// Adds a layer that every token passes through.
    #[must_use]
    pub(crate) fn with_shared(mut self, shared: SharedExpert) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Multiplies the weight of each expert by its factor, `[n_experts]` (Gemma 4).
    #[must_use]
    pub(crate) fn with_factors(mut self, factors: Array) -> Self {
        self.factors = Some(factors);
        self
    }

    /// `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        self.forward_routed_by(x, x)
    }

    /// As [`Experts::forward`], but the experts are picked by another view of the tokens.
    pub(crate) fn forward_routed_by(&self, x: &Array, router_input: &Array) -> MlxResult<Array> {
        let (experts, mut weights) = self.route(router_input)?;
        if let Some(factors) = &self.factors {
            weights = weights.multiply(factors.take_axis(&experts, 0)?)?;
        }
        let outputs = self.pass(x, &experts)?;
        let mixed = outputs
            .multiply(weights.expand_dims(-1)?)?
            .sum_axis(-2, false)?
            .as_dtype(x.dtype())?;
        let Some(shared) = &self.shared else {
            return Ok(mixed);
        };
        let own = shared.mlp.forward(x)?;
        mixed.add(match &shared.gate {
            Some(gate) => ops::sigmoid(gate.forward(x)?)?.multiply(own)?,
            None => own,
        })
    }

    /// The experts of each token and their weights, `[1, tokens, n_used]` each.
    fn route(&self, x: &Array) -> MlxResult<(Array, Array)> {
        let ExpertShape {
            n_experts, n_used, ..
        } = self.shape;
        let scores = self.router.forward(x)?;
        let highest = |scores: &Array| -> MlxResult<(Array, Array)> {
            let order = ops::argpartition_axis(scores, -n_used, -1)?;
            let experts = slice_axis(&order, 2, n_experts - n_used, n_experts)?;
            let values = scores.take_along_axis(&experts, -1)?;
            Ok((experts, values))
        };
        match self.routing {
            Routing::SoftmaxThenTop { is_normalized } => {
                let (experts, weights) = highest(&ops::softmax_axis(&scores, -1, true)?)?;
                if !is_normalized {
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

    /// What each token's experts make of it: `[1, tokens, n_used, hidden_size]`.
    fn pass(&self, x: &Array, experts: &Array) -> MlxResult<Array> {
        let ExpertShape {
            hidden_size,
            n_used,
            ..
        } = self.shape;
        let n_tokens = x.dim(1);
        let n_rows = n_tokens * n_used;
        if n_rows < SORTED_ROWS {
            let x = x.reshape(&[1, n_tokens, 1, 1, hidden_size])?;
            return self.layers(&x, experts, false)?.squeeze_axes(&[-2]);
        }
        let experts = experts.flatten(None, None)?;
        let order = ops::argsort_axis(&experts, 0)?;
        let tokens = order.floor_divide(Array::from_int(n_used).as_dtype(order.dtype())?)?;
        let rows = x
            .reshape(&[n_tokens, 1, hidden_size])?
            .take_axis(&tokens, 0)?;
        let sorted = self.layers(&rows, &experts.take_axis(&order, 0)?, true)?;
        let back = ops::argsort_axis(&order, 0)?;
        sorted
            .take_axis(&back, 0)?
            .reshape(&[1, n_tokens, n_used, hidden_size])
    }

    fn layers(&self, x: &Array, experts: &Array, are_sorted: bool) -> MlxResult<Array> {
        let (gate, up) = self.gate_up.forward(x, experts, are_sorted)?;
        let activated = self.activation.gated(&gate, &up)?;
        self.down.forward(&activated, experts, are_sorted)
    }
}

/// The feed-forward half of a block.
pub(crate) enum Mlp {
    /// One layer for every token.
    Dense(GatedMlp),
    /// A mixture.
    Experts(Box<Experts>),
    /// Both beside each other, each with norms of its own (Gemma 4).
    Beside(Box<DenseBesideExperts>),
}

impl Mlp {
    /// `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        match self {
            Self::Dense(mlp) => mlp.forward(x),
            Self::Experts(experts) => experts.forward(x),
            Self::Beside(both) => both.forward(x),
        }
    }
}

impl From<GatedMlp> for Mlp {
    fn from(mlp: GatedMlp) -> Self {
        Self::Dense(mlp)
    }
}

impl From<DenseBesideExperts> for Mlp {
    fn from(both: DenseBesideExperts) -> Self {
        Self::Beside(Box::new(both))
    }
}

impl From<Experts> for Mlp {
    fn from(experts: Experts) -> Self {
        Self::Experts(Box::new(experts))
    }
}

#[cfg(test)]
mod tests;
