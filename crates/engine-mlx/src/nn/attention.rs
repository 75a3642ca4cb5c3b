//! Grouped-query attention (Ainslie et al. 2023) over a KV cache.

use mlx_rs::fast::ScaledDotProductAttentionMask as Mask;
use mlx_rs::{Array, fast, ops};
use transom_engine::EngineError;

use super::{Linear, LinearGroup, Rope, Rotation};
use crate::error::MlxResult;
use crate::kv_cache::FullKvCache;
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

/// Normalises each head's queries and keys before they are rotated (Qwen3).
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
    shape: AttentionShape,
    on_cpu: bool,
}

impl Attention {
    /// The layer at `path`, with the names `q_proj`, `k_proj`, `v_proj` and `o_proj`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
    ) -> Result<Self, EngineError> {
        let n_queries = shape.n_heads * shape.head_dim;
        let n_keys = shape.n_kv_heads * shape.head_dim;
        let qkv = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
        Ok(Self {
            qkv: loader.linear_group(&qkv, shape.hidden_size, &[n_queries, n_keys, n_keys])?,
            output: loader.linear(&format!("{path}.o_proj"), n_queries, shape.hidden_size)?,
            norm: None,
            shape,
            on_cpu: loader.compute().is_cpu(),
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
        } = self.shape;
        let rows = |weight: &Array, n: i32| ops::broadcast_to(weight, &[n, 1, head_dim]);
        let weight = ops::concatenate(&[rows(queries, n_heads)?, rows(keys, n_kv_heads)?], 0)?;
        weight.eval()?;
        self.norm = Some(HeadNorm { weight, epsilon });
        Ok(self)
    }

    /// `[1, tokens, hidden_size]` to the same shape; keys and values are appended to `cache`.
    pub(crate) fn forward(
        &self,
        x: &Array,
        rope: &Rope,
        rotation: &Rotation,
        mask: Option<&Array>,
        cache: &mut FullKvCache,
    ) -> MlxResult<Array> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.shape;
        let n_tokens = x.dim(1);
        let n_rotated = n_heads + n_kv_heads;
        // Queries and keys stay in one array until they are rotated: half the operations.
        let all = self
            .qkv
            .forward(x)?
            .reshape(&[1, n_tokens, n_rotated + n_kv_heads, head_dim])?
            .transpose_axes(&[0, 2, 1, 3])?;
        let mut rotated = slice_axis(&all, 1, 0, n_rotated)?;
        let values = slice_axis(&all, 1, n_rotated, n_rotated + n_kv_heads)?;
        if let Some(norm) = &self.norm {
            rotated = fast::rms_norm(&rotated, None, norm.epsilon)?.multiply(&norm.weight)?;
        }
        let rotated = rope.rotate(&rotated, rotation)?;
        let queries = slice_axis(&rotated, 1, 0, n_heads)?;
        let keys = slice_axis(&rotated, 1, n_heads, n_rotated)?;
        let (keys, values) = cache.append(&keys, &values)?;
        let scale = (head_dim as f32).sqrt().recip();
        let attended = if self.on_cpu {
            self.attend_on_cpu(&queries, &keys, &values, scale, mask)?
        } else if n_tokens > 1 {
            fast::scaled_dot_product_attention(
                &queries,
                &keys,
                &values,
                scale,
                Some(Mask::Causal),
                None,
            )?
        } else {
            fast::scaled_dot_product_attention(&queries, &keys, &values, scale, None, None)?
        };
        let attended =
            attended
                .transpose_axes(&[0, 2, 1, 3])?
                .reshape(&[1, n_tokens, n_heads * head_dim])?;
        self.output.forward(&attended)
    }

    /// MLX's own attention falls back to some ten operations on a CPU, one product a query head.
    /// Here the heads that share keys are rows of one product.
    fn attend_on_cpu(
        &self,
        queries: &Array,
        keys: &Array,
        values: &Array,
        scale: f32,
        mask: Option<&Array>,
    ) -> MlxResult<Array> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.shape;
        let n_tokens = queries.dim(2);
        let group = n_heads / n_kv_heads;
        let rows = group * n_tokens;
        let queries = queries
            .multiply(Array::from_f32(scale))?
            .reshape(&[1, n_kv_heads, rows, head_dim])?;
        let mut scores = queries.matmul(keys.transpose_axes(&[0, 1, 3, 2])?)?;
        if let Some(mask) = mask {
            let n_keys = keys.dim(2);
            scores = scores
                .reshape(&[n_kv_heads, group, n_tokens, n_keys])?
                .add(mask)?
                .reshape(&[1, n_kv_heads, rows, n_keys])?;
        }
        ops::softmax_axis(&scores, -1, true)?
            .matmul(values)?
            .reshape(&[1, n_heads, n_tokens, head_dim])
    }
}
