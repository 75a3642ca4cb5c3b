//! The recurrent layer of the hybrid Qwen models, a gated delta net (Yang, Kautz and Hatamizadeh
//! 2024): queries, keys and values pass through a short convolution, and the gated delta rule
//! (`delta_rule.rs`) replaces attention. The layer caches the last inputs of the convolution and
//! the state of the delta rule.

use mlx_rs::{Array, Dtype, ops};
use transom_engine::EngineError;

use super::conv::CausalConv;
use super::delta_rule::{DeltaRule, Inputs, Sizes};
use super::{CachedLayer, RmsNorm, Step};
use crate::error::{Context, MlxResult};
use crate::kv_cache::{LayerCache, StateCache};
use crate::linear::{Linear, LinearGroup};
use crate::ops::{parts, slice_axis};
use crate::weights::Loader;

/// Added to the squared length of queries and keys, so that it is never zero.
const LENGTH_EPSILON: f32 = 1e-6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GatedDeltaShape {
    /// Features of the hidden state.
    pub(crate) hidden_size: i32,
    pub(crate) n_key_heads: i32,
    /// Heads of values, a multiple of `n_key_heads`.
    pub(crate) n_value_heads: i32,
    /// Features per query or key head.
    pub(crate) key_dim: i32,
    /// Features per value head.
    pub(crate) value_dim: i32,
    /// Width of the convolution in tokens.
    pub(crate) conv_width: i32,
}

impl GatedDeltaShape {
    fn n_keys(&self) -> i32 {
        self.n_key_heads * self.key_dim
    }

    fn n_values(&self) -> i32 {
        self.n_value_heads * self.value_dim
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            n_key_heads: self.n_key_heads,
            n_groups: self.n_value_heads / self.n_key_heads,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
        }
    }

    /// Features that pass through the convolution: queries, keys and values.
    fn n_convolved(&self) -> i32 {
        2 * self.n_keys() + self.n_values()
    }
}

/// The layout of the input projections in the checkpoint.
#[derive(Debug)]
enum Projections {
    /// One matrix for queries, keys, values and gates, one for betas and decays. In both, the rows
    /// of a key head and of its value heads are together (Qwen3-Next).
    ByHead { qkvz: Linear, ba: Linear },
    /// One matrix for queries, keys and values, and one for each of the others (Qwen3.5).
    ByKind(LinearGroup),
}

pub(crate) struct GatedDeltaNet {
    shape: GatedDeltaShape,
    projections: Projections,
    conv: CausalConv,
    delta_rule: DeltaRule,
    /// Scales queries to the length `1 / sqrt(key_dim)`, and keys to the length 1.
    query_norm: RmsNorm,
    key_norm: RmsNorm,
    /// `-exp(A_log)`, `[n_value_heads]`.
    decay_rates: Array,
    decay_bias: Array,
    norm: RmsNorm,
    output: Linear,
}

impl GatedDeltaNet {
    /// Loads the layer at `path`; mlx-lm and the authors use the same names.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        shape: GatedDeltaShape,
        epsilon: f32,
    ) -> Result<Self, EngineError> {
        let hidden_size = shape.hidden_size;
        let name = |name: &str| format!("{path}.{name}");
        let qkvz = name("in_proj_qkvz");
        let projections = if loader.contains(&format!("{qkvz}.weight")) {
            Projections::ByHead {
                qkvz: loader.linear(&qkvz, hidden_size, shape.n_convolved() + shape.n_values())?,
                ba: loader.linear(&name("in_proj_ba"), hidden_size, 2 * shape.n_value_heads)?,
            }
        } else {
            let paths = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"].map(name);
            let n_outs = Self::n_outs(&shape);
            Projections::ByKind(loader.linear_group(&paths, hidden_size, &n_outs)?)
        };
        let conv = CausalConv::load(
            loader,
            &name("conv1d"),
            shape.n_convolved(),
            shape.conv_width,
        )?;
        let full = |loader: &mut Loader<'_>, name: &str, size: i32| -> Result<Array, EngineError> {
            let vector = loader.vector(name, size)?;
            vector.as_dtype(Dtype::Float32).during(name)
        };
        let decay_rates = full(loader, &name("A_log"), shape.n_value_heads)?;
        let decay_rates = decay_rates.exp().and_then(|rates| rates.negative());
        let decay_rates = decay_rates.during(path)?;
        let decay_bias = full(loader, &name("dt_bias"), shape.n_value_heads)?;
        let weight = full(loader, &name("norm.weight"), shape.value_dim)?;
        mlx_rs::transforms::eval([&decay_rates, &decay_bias, &weight]).during(path)?;
        let size = shape.key_dim as f32;
        // The mean of squares is their sum divided by `key_dim`.
        let norm = |length: f32| -> Result<RmsNorm, EngineError> {
            let length = Array::from_f32(length / size.sqrt());
            let weight = ops::broadcast_to(&length, &[shape.key_dim]);
            let weight = weight.and_then(|weight| weight.contiguous()).during(path)?;
            weight.eval().during(path)?;
            Ok(RmsNorm::new(weight, LENGTH_EPSILON / size))
        };
        let delta_rule = DeltaRule::new(loader.compute(), shape.sizes(), conv.dtype());
        Ok(Self {
            shape,
            projections,
            conv,
            delta_rule,
            query_norm: norm(size.sqrt().recip())?,
            key_norm: norm(1.0)?,
            decay_rates,
            decay_bias,
            norm: RmsNorm::new(weight, epsilon),
            output: loader.linear(&name("out_proj"), shape.n_values(), hidden_size)?,
        })
    }

    fn n_outs(shape: &GatedDeltaShape) -> [i32; 4] {
        let n_heads = shape.n_value_heads;
        [shape.n_convolved(), shape.n_values(), n_heads, n_heads]
    }

    /// Returns queries, keys and values side by side, gates, betas and decays, `[1, tokens, features]`
    /// each.
    fn project(&self, x: &Array) -> MlxResult<[Array; 4]> {
        let shape = &self.shape;
        let key_dim = shape.key_dim;
        match &self.projections {
            Projections::ByKind(group) => {
                group.forward_parts(&Self::n_outs(shape), |linear| linear.forward(x))
            }
            Projections::ByHead { qkvz, ba } => {
                let n_tokens = x.dim(1);
                let n_groups = shape.n_value_heads / shape.n_key_heads;
                let values = n_groups * shape.value_dim;
                let by_head = |x: Array| x.reshape(&[1, n_tokens, shape.n_key_heads, -1]);
                let (qkvz, ba) = (by_head(qkvz.forward(x)?)?, by_head(ba.forward(x)?)?);
                let part = |x: &Array, start: i32, size: i32| {
                    slice_axis(x, 3, start, start + size)?.reshape(&[1, n_tokens, -1])
                };
                let queries = part(&qkvz, 0, key_dim)?;
                let keys = part(&qkvz, key_dim, key_dim)?;
                let qkv = [queries, keys, part(&qkvz, 2 * key_dim, values)?];
                Ok([
                    ops::concatenate(&qkv, -1)?,
                    part(&qkvz, 2 * key_dim + values, values)?,
                    part(&ba, 0, n_groups)?,
                    part(&ba, n_groups, n_groups)?,
                ])
            }
        }
    }

    /// Returns the inputs of the delta rule, from convolved queries, keys and values
    /// `[1, tokens, n_convolved]`.
    fn inputs(&self, qkv: &Array, betas: &Array, decays: &Array) -> MlxResult<Inputs> {
        let shape = &self.shape;
        let (key_dim, n_value_heads) = (shape.key_dim, shape.n_value_heads);
        let n_tokens = qkv.dim(1);
        let n_keys = shape.n_keys();
        let part = |x: &Array, start: i32, n_heads: i32, size: i32| {
            slice_axis(x, 2, start, start + n_heads * size)?.reshape(&[n_tokens, n_heads, size])
        };
        let heads = shape.n_key_heads;
        let queries_keys = slice_axis(qkv, 2, 0, 2 * n_keys)?.as_dtype(Dtype::Float32)?;
        let queries = part(&queries_keys, 0, heads, key_dim)?;
        let keys = part(&queries_keys, n_keys, heads, key_dim)?;
        let decays = decays
            .as_dtype(Dtype::Float32)?
            .add(&self.decay_bias)?
            .reshape(&[n_tokens, n_value_heads])?;
        let softplus = ops::logaddexp(&decays, Array::from_f32(0.0))?;
        Ok(Inputs {
            queries: self.query_norm.forward(&queries)?,
            keys: self.key_norm.forward(&keys)?,
            values: part(qkv, 2 * n_keys, n_value_heads, shape.value_dim)?,
            log_decays: softplus.multiply(&self.decay_rates)?,
            betas: ops::sigmoid(betas.as_dtype(Dtype::Float32)?)?
                .reshape(&[n_tokens, n_value_heads])?,
        })
    }
}

impl CachedLayer for GatedDeltaNet {
    fn forward(
        &self,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
    ) -> MlxResult<Array> {
        let shape = &self.shape;
        let (n_sequences, n_tokens) = (step.n_sequences(), step.n_tokens);
        let n_rows = n_sequences * n_tokens;
        let [qkv, gates, betas, decays] = self.project(x)?;

        let (n_before, n_convolved) = (self.conv.n_before(), shape.n_convolved());
        let (mut before, mut states) = (Vec::new(), Vec::new());
        for cache in &mut *caches {
            if let Some([last, state]) = cache.state_mut()?.get() {
                before.push(last.clone());
                states.push(Some(state.clone()));
            } else {
                let zeros = ops::zeros_dtype(&[1, n_before, n_convolved], qkv.dtype())?;
                before.push(zeros);
                states.push(None);
            }
        }
        let qkv = qkv.reshape(&[n_sequences, n_tokens, n_convolved])?;
        let padded = ops::concatenate(&[ops::concatenate(&before, 0)?, qkv], 1)?;
        let convolved = self.conv.forward(&padded)?;
        let activated = convolved.multiply(ops::sigmoid(&convolved)?)?;

        let activated = activated.reshape(&[1, n_rows, n_convolved])?;
        let inputs = self.inputs(&activated, &betas, &decays)?;
        let (out, states) = self.delta_rule.compute(&inputs, &states)?;
        let padded = parts(&padded, n_sequences);
        for ((cache, padded), state) in caches.iter_mut().zip(padded).zip(states) {
            // A copy, because a slice would keep all tokens in memory.
            let last = slice_axis(&padded?, 1, n_tokens, n_tokens + n_before)?.contiguous()?;
            cache.state_mut()?.put(n_tokens, vec![last, state]);
        }

        let gates = gates.as_dtype(Dtype::Float32)?.reshape(&[
            n_rows,
            shape.n_value_heads,
            shape.value_dim,
        ])?;
        let gates = gates.multiply(ops::sigmoid(&gates)?)?;
        let out = self.norm.forward(&out)?.multiply(gates)?;
        let out = out
            .reshape(&[1, n_rows, shape.n_value_heads * shape.value_dim])?
            .as_dtype(x.dtype())?;
        self.output.forward(&out)
    }

    fn new_cache(&self) -> LayerCache {
        LayerCache::State(StateCache::default())
    }
}
