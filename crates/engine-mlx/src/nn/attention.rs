//! Grouped-query attention (Ainslie et al. 2023) over a KV cache, in the variants of the models that
//! this engine runs: windows, sinks, normalised heads, layers without positions.

use mlx_rs::{Array, fast, ops};
use transom_engine::EngineError;

use super::{Heads, Linear, LinearGroup, Mixer, QueryScale, Step};
use crate::error::{Context, MlxResult};
use crate::kv_cache::LayerCache;
use crate::ops::slice_axis;
use crate::weights::Loader;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionShape {
    /// Features of the hidden state.
    pub(crate) hidden_size: i32,
    /// Query heads.
    pub(crate) n_heads: i32,
    /// Key and value heads; divides `n_heads`.
    pub(crate) n_kv_heads: i32,
    /// Features a head.
    pub(crate) head_dim: i32,
}

/// Normalises each head's queries and keys before they are rotated (Qwen3, Gemma3).
#[derive(Debug)]
struct HeadNorm {
    /// `[n_heads + n_kv_heads, 1, head_dim]`: queries first.
    weight: Array,
    epsilon: f32,
}

/// An attention layer.
#[derive(Debug)]
pub(crate) struct Attention {
    qkv: LinearGroup,
    output: Linear,
    norm: Option<HeadNorm>,
    /// Whether the query projection also gives what each head's output is gated by.
    is_gated: bool,
    heads: Heads,
    window: Option<i32>,
    /// Which of the model's rotary embeddings turns queries and keys; `None` leaves them without a
    /// position.
    rope: Option<usize>,
    query_scale: Option<QueryScale>,
}

impl Attention {
    /// The layer at `path`, with the names `q_proj`, `k_proj`, `v_proj` and `o_proj`, or with the
    /// first three in one as `qkv_proj`. It sees everything and uses the model's first rope.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
    ) -> Result<Self, EngineError> {
        Self::load_any(loader, path, shape, false)
    }

    /// As [`Attention::load`], but what each head gives passes a gate, which `q_proj` computes
    /// together with the head's query (Qwen3-Next).
    pub(crate) fn load_gated(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
    ) -> Result<Self, EngineError> {
        Self::load_any(loader, path, shape, true)
    }

    fn load_any(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
        is_gated: bool,
    ) -> Result<Self, EngineError> {
        let n_attended = shape.n_heads * shape.head_dim;
        let n_queries = if is_gated { 2 * n_attended } else { n_attended };
        let n_keys = shape.n_kv_heads * shape.head_dim;
        let fused = format!("{path}.qkv_proj");
        let qkv = if loader.contains(&format!("{fused}.weight")) {
            LinearGroup::Joined(loader.linear(&fused, shape.hidden_size, n_queries + 2 * n_keys)?)
        } else {
            let paths = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
            loader.linear_group(&paths, shape.hidden_size, &[n_queries, n_keys, n_keys])?
        };
        let output = loader.linear(&format!("{path}.o_proj"), n_attended, shape.hidden_size)?;
        Ok(Self {
            qkv,
            output,
            norm: None,
            is_gated,
            heads: Heads::new(shape, loader.compute().is_cpu()),
            window: None,
            rope: Some(0),
            query_scale: None,
        })
    }

    /// Normalises queries and keys with weights `[head_dim]` each.
    pub(crate) fn with_head_norm(
        mut self,
        queries: &Array,
        keys: &Array,
        epsilon: f32,
    ) -> MlxResult<Self> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.heads.shape;
        let rows = |weight: &Array, n: i32| ops::broadcast_to(weight, &[n, 1, head_dim]);
        let weight = ops::concatenate(&[rows(queries, n_heads)?, rows(keys, n_kv_heads)?], 0)?;
        weight.eval()?;
        self.norm = Some(HeadNorm { weight, epsilon });
        Ok(self)
    }

    /// Gives every head something to look at that is not there: a logit a head, `[n_heads]`, beside
    /// those of the keys (Xiao et al. 2023; gpt-oss).
    pub(crate) fn with_sinks(
        mut self,
        loader: &mut Loader<'_>,
        path: &str,
    ) -> Result<Self, EngineError> {
        let sinks = loader.vector(&format!("{path}.sinks"), self.heads.shape.n_heads)?;
        sinks.eval().during(path)?;
        self.heads.sinks = Some(sinks);
        Ok(self)
    }

    /// Lets queries grow with their place.
    #[must_use]
    pub(crate) fn with_query_scale(mut self, scale: QueryScale) -> Self {
        self.query_scale = Some(scale);
        self
    }

    /// Lets each token see only the last `window` tokens, itself included.
    #[must_use]
    pub(crate) fn with_window(mut self, window: Option<i32>) -> Self {
        self.window = window;
        self
    }

    /// Turns queries and keys by the model's rotary embedding of this number, or by none.
    #[must_use]
    pub(crate) fn with_rope(mut self, rope: Option<usize>) -> Self {
        self.rope = rope;
        self
    }

    /// Multiplies the products of queries and keys by `scale` in place of `1 / sqrt(head_dim)`.
    #[must_use]
    pub(crate) fn with_scale(mut self, scale: f32) -> Self {
        self.heads.scale = scale;
        self
    }

    /// Queries, keys and values of `x`, `[1, tokens, heads, head_dim]` in this order, and the gates
    /// `[1, tokens, features]`.
    fn project(&self, x: &Array) -> MlxResult<(Array, Option<Array>)> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.heads.shape;
        let n_tokens = x.dim(1);
        let all = self.qkv.forward(x)?;
        if !self.is_gated {
            let all = all.reshape(&[1, n_tokens, n_heads + 2 * n_kv_heads, head_dim])?;
            return Ok((all, None));
        }
        let n_features = n_heads * head_dim;
        let pairs = slice_axis(&all, 2, 0, 2 * n_features)?;
        let pairs = pairs.reshape(&[1, n_tokens, n_heads, 2 * head_dim])?;
        let queries = slice_axis(&pairs, 3, 0, head_dim)?;
        let gates = slice_axis(&pairs, 3, head_dim, 2 * head_dim)?;
        let rest = slice_axis(&all, 2, 2 * n_features, all.dim(2))?;
        let rest = rest.reshape(&[1, n_tokens, 2 * n_kv_heads, head_dim])?;
        Ok((
            ops::concatenate(&[&queries, &rest], 2)?,
            Some(gates.reshape(&[1, n_tokens, n_features])?),
        ))
    }

    /// `[1, heads, tokens, head_dim]` each: what of `x` asks, and what later tokens may look at; and
    /// the gates.
    fn queries_keys_values(
        &self,
        x: &Array,
        step: &Step<'_>,
    ) -> MlxResult<([Array; 3], Option<Array>)> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            ..
        } = self.heads.shape;
        let n_rotated = n_heads + n_kv_heads;
        // Queries and keys stay in one array until they are rotated: half the operations.
        let (all, gates) = self.project(x)?;
        let all = all.transpose_axes(&[0, 2, 1, 3])?;
        let mut rotated = slice_axis(&all, 1, 0, n_rotated)?;
        let values = slice_axis(&all, 1, n_rotated, n_rotated + n_kv_heads)?;
        if let Some(norm) = &self.norm {
            rotated = fast::rms_norm(&rotated, None, norm.epsilon)?.multiply(&norm.weight)?;
        }
        if let Some(rope) = self.rope {
            rotated = step.rotate(rope, &rotated)?;
        }
        let mut queries = slice_axis(&rotated, 1, 0, n_heads)?;
        if let Some(scale) = self.query_scale {
            queries = scale.apply(queries, step)?;
        }
        let keys = slice_axis(&rotated, 1, n_heads, n_rotated)?;
        Ok(([queries, keys, values], gates))
    }
}

impl Mixer for Attention {
    fn forward(&self, x: &Array, step: &Step<'_>, cache: &mut LayerCache) -> MlxResult<Array> {
        let ([queries, keys, values], gates) = self.queries_keys_values(x, step)?;
        let (keys, values) = cache.append(&keys, &values)?;
        let mask = step.mask(self.window);
        let attended = self.heads.attend(&queries, &keys, &values, mask)?;
        match gates {
            Some(gates) => self
                .output
                .forward(&attended.multiply(ops::sigmoid(gates)?)?),
            None => self.output.forward(&attended),
        }
    }

    fn new_cache(&self) -> LayerCache {
        LayerCache::of_attention(self.window)
    }

    fn window(&self) -> Option<i32> {
        self.window
    }
}
