//! Grouped-query attention (Ainslie et al. 2023) over a KV cache, with the options of the supported
//! models: sliding windows, attention sinks, head norms, gates, layers without position embedding.

use mlx_rs::{Array, fast, ops};
use transom_engine::EngineError;

use super::{AttentionShape, CachedLayer, Norms, QueryScale, Sdpa, Step};
use crate::error::{Context, MlxResult};
use crate::kv_cache::{LayerCache, append_to_each};
use crate::linear::{Linear, LinearGroup};
use crate::ops::slice_axis;
use crate::weights::Loader;

/// The options of an attention layer. The default is Llama's attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionOptions {
    /// Tokens that a token attends to, itself included; `None` for all.
    pub(crate) window: Option<i32>,
    /// Index of the rotary embedding in the model; `None` for a layer without position embedding.
    pub(crate) rope: Option<usize>,
    /// Scale of queries by their position.
    pub(crate) query_scale: Option<QueryScale>,
    /// Factor of the products of queries and keys, in place of `1 / sqrt(head_dim)`.
    pub(crate) scale: Option<f32>,
    /// Whether each head's queries and keys are normalized before they are rotated (Qwen3, Gemma3).
    pub(crate) has_head_norms: bool,
    /// Whether every head has an attention sink: one more logit, which has no value (Xiao et al.
    /// 2023; gpt-oss).
    pub(crate) has_sinks: bool,
    /// Whether the output passes a gate, which `q_proj` computes together with each head's query
    /// (Qwen3-Next).
    pub(crate) is_gated: bool,
}

impl Default for AttentionOptions {
    fn default() -> Self {
        Self {
            window: None,
            rope: Some(0),
            query_scale: None,
            scale: None,
            has_head_norms: false,
            has_sinks: false,
            is_gated: false,
        }
    }
}

#[derive(Debug)]
struct HeadNorm {
    /// `[n_heads + n_kv_heads, 1, head_dim]`: queries first.
    weight: Array,
    epsilon: f32,
}

#[derive(Debug)]
pub(crate) struct Attention {
    options: AttentionOptions,
    qkv: LinearGroup,
    output: Linear,
    head_norm: Option<HeadNorm>,
    sdpa: Sdpa,
}

impl Attention {
    /// Loads the layer at `path` with the tensors `q_proj`, `k_proj`, `v_proj` (or `qkv_proj`, which
    /// contains all three) and `o_proj`, and those that `options` needs: `q_norm`, `k_norm`, `sinks`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
        options: AttentionOptions,
        norms: Norms,
    ) -> Result<Self, EngineError> {
        let n_attended = shape.n_heads * shape.head_dim;
        let n_queries = if options.is_gated {
            2 * n_attended
        } else {
            n_attended
        };
        let n_keys = shape.n_kv_heads * shape.head_dim;
        let fused = format!("{path}.qkv_proj");
        let qkv = if loader.contains(&format!("{fused}.weight")) {
            LinearGroup::Fused(loader.linear(&fused, shape.hidden_size, n_queries + 2 * n_keys)?)
        } else {
            let paths = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
            loader.linear_group(&paths, shape.hidden_size, &[n_queries, n_keys, n_keys])?
        };
        let output = loader.linear(&format!("{path}.o_proj"), n_attended, shape.hidden_size)?;
        let head_norm = if options.has_head_norms {
            Some(HeadNorm::load(loader, path, shape, norms)?)
        } else {
            None
        };
        let mut sdpa = Sdpa::new(shape, loader.compute().is_cpu());
        if options.has_sinks {
            let sinks = loader.vector(&format!("{path}.sinks"), shape.n_heads)?;
            sinks.eval().during(path)?;
            sdpa.sinks = Some(sinks);
        }
        if let Some(scale) = options.scale {
            sdpa.scale = scale;
        }
        Ok(Self {
            options,
            qkv,
            output,
            head_norm,
            sdpa,
        })
    }

    /// Returns queries, keys and values side by side, `[sequences, tokens, heads, head_dim]`, and the
    /// gates `[1, all tokens, features]`.
    fn project(&self, x: &Array, step: &Step<'_>) -> MlxResult<(Array, Option<Array>)> {
        let shape = self.sdpa.shape;
        let (n_heads, head_dim) = (shape.n_heads, shape.head_dim);
        let by_head = |x: &Array, n_heads: i32, size: i32| {
            x.reshape(&[step.n_sequences(), step.n_tokens, n_heads, size])
        };
        let all = self.qkv.forward(x)?;
        if !self.options.is_gated {
            let all = by_head(&all, n_heads + 2 * shape.n_kv_heads, head_dim)?;
            return Ok((all, None));
        }
        let n_features = n_heads * head_dim;
        let pairs = slice_axis(&all, 2, 0, 2 * n_features)?;
        let pairs = by_head(&pairs, n_heads, 2 * head_dim)?;
        let queries = slice_axis(&pairs, 3, 0, head_dim)?;
        let gates = slice_axis(&pairs, 3, head_dim, 2 * head_dim)?;
        let rest = slice_axis(&all, 2, 2 * n_features, all.dim(2))?;
        let rest = by_head(&rest, 2 * shape.n_kv_heads, head_dim)?;
        Ok((
            ops::concatenate(&[&queries, &rest], 2)?,
            Some(gates.reshape(&[1, x.dim(1), n_features])?),
        ))
    }

    /// Returns queries, keys and values, `[sequences, heads, tokens, head_dim]` each, and the gates.
    fn queries_keys_values(
        &self,
        x: &Array,
        step: &Step<'_>,
    ) -> MlxResult<([Array; 3], Option<Array>)> {
        let (n_heads, n_kv_heads) = (self.sdpa.shape.n_heads, self.sdpa.shape.n_kv_heads);
        let n_rotated = n_heads + n_kv_heads;
        // Queries and keys stay in one array until they are rotated, which halves the operations.
        let (all, gates) = self.project(x, step)?;
        let all = all.transpose_axes(&[0, 2, 1, 3])?;
        let mut rotated = slice_axis(&all, 1, 0, n_rotated)?;
        let values = slice_axis(&all, 1, n_rotated, n_rotated + n_kv_heads)?;
        if let Some(norm) = &self.head_norm {
            rotated = fast::rms_norm(&rotated, None, norm.epsilon)?.multiply(&norm.weight)?;
        }
        if let Some(rope) = self.options.rope {
            rotated = step.rotate(rope, &rotated)?;
        }
        let mut queries = slice_axis(&rotated, 1, 0, n_heads)?;
        if let Some(scale) = self.options.query_scale {
            queries = scale.apply(queries, step)?;
        }
        let keys = slice_axis(&rotated, 1, n_heads, n_rotated)?;
        Ok(([queries, keys, values], gates))
    }
}

impl HeadNorm {
    fn load(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
        norms: Norms,
    ) -> Result<Self, EngineError> {
        let head_dim = shape.head_dim;
        let queries = norms.load_weight(loader, &format!("{path}.q_norm"), head_dim)?;
        let keys = norms.load_weight(loader, &format!("{path}.k_norm"), head_dim)?;
        let rows = |weight: &Array, n: i32| ops::broadcast_to(weight, &[n, 1, head_dim]);
        let weight = rows(&queries, shape.n_heads)
            .and_then(|queries| ops::concatenate(&[queries, rows(&keys, shape.n_kv_heads)?], 0))
            .during(path)?;
        weight.eval().during(path)?;
        Ok(Self {
            weight,
            epsilon: norms.epsilon,
        })
    }
}

impl CachedLayer for Attention {
    fn forward(
        &self,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
    ) -> MlxResult<Array> {
        let ([queries, keys, values], gates) = self.queries_keys_values(x, step)?;
        let seen = append_to_each(caches, &keys, &values)?;
        let mask = step.mask(self.options.window);
        let attended = self.sdpa.forward(&queries, &seen, mask)?;
        let attended = match gates {
            Some(gates) => attended.multiply(ops::sigmoid(gates)?)?,
            None => attended,
        };
        self.output.forward(&attended)
    }

    fn new_cache(&self) -> LayerCache {
        LayerCache::for_attention(self.options.window)
    }
}
