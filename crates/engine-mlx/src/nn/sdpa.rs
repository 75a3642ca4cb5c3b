//! Scaled dot-product attention, with masks and attention sinks.

use mlx_rs::fast::{ScaledDotProductAttentionMask as Mask, scaled_dot_product_attention};
use mlx_rs::{Array, ops};

use super::AttentionMask;
use crate::error::MlxResult;
use crate::ops::{parts, slice_axis};

#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionShape {
    /// Features of the hidden state.
    pub(crate) hidden_size: i32,
    pub(crate) n_heads: i32,
    /// Key and value heads; divides `n_heads`.
    pub(crate) n_kv_heads: i32,
    /// Features per head.
    pub(crate) head_dim: i32,
}

#[derive(Debug)]
pub(crate) struct Sdpa {
    pub(crate) shape: AttentionShape,
    /// Factor of the products of queries and keys.
    pub(crate) scale: f32,
    /// One more logit per head, `[n_heads]`, that has no value.
    pub(crate) sinks: Option<Array>,
    pub(crate) on_cpu: bool,
}

impl Sdpa {
    /// Returns an attention whose scale is `1 / sqrt(head_dim)`.
    pub(crate) fn new(shape: AttentionShape, on_cpu: bool) -> Self {
        Self {
            shape,
            scale: (shape.head_dim as f32).sqrt().recip(),
            sinks: None,
            on_cpu,
        }
    }

    /// Maps queries `[sequences, n_heads, tokens, head_dim]`, and the keys and values `[1, n_kv_heads,
    /// keys, head_dim]` of each sequence, to `[1, all tokens, n_heads * head_dim]`.
    pub(crate) fn forward(
        &self,
        queries: &Array,
        seen: &[(Array, Array)],
        mask: Option<&AttentionMask>,
    ) -> MlxResult<Array> {
        let queries = parts(queries, seen.len() as i32);
        let attended = queries
            .zip(seen)
            .map(|(queries, (keys, values))| self.attend(&queries?, keys, values, mask));
        ops::concatenate(&attended.collect::<MlxResult<Vec<_>>>()?, 1)
    }

    /// Returns the outputs of one sequence, `[1, tokens, n_heads * head_dim]`.
    fn attend(
        &self,
        queries: &Array,
        keys: &Array,
        values: &Array,
        mask: Option<&AttentionMask>,
    ) -> MlxResult<Array> {
        let attended = if self.on_cpu {
            self.forward_on_cpu(queries, keys, values, mask)?
        } else {
            let mask = mask.map(|mask| match mask {
                AttentionMask::Causal => Mask::Causal,
                AttentionMask::Additive(mask) | AttentionMask::Boolean(mask) => Mask::Array(mask),
            });
            let sinks = self.sinks.as_ref();
            scaled_dot_product_attention(queries, keys, values, self.scale, mask, sinks)?
        };
        let n_features = self.shape.n_heads * self.shape.head_dim;
        attended
            .transpose_axes(&[0, 2, 1, 3])?
            .reshape(&[1, queries.dim(2), n_features])
    }

    /// On a CPU, MLX's own attention consists of about ten operations with one product per query
    /// head. Here the query heads that share keys are rows of one product.
    fn forward_on_cpu(
        &self,
        queries: &Array,
        keys: &Array,
        values: &Array,
        mask: Option<&AttentionMask>,
    ) -> MlxResult<Array> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.shape;
        let (n_tokens, n_keys) = (queries.dim(2), keys.dim(2));
        let group = n_heads / n_kv_heads;
        let rows = group * n_tokens;
        let queries = queries
            .multiply(Array::from_f32(self.scale))?
            .reshape(&[1, n_kv_heads, rows, head_dim])?;
        let mut scores = queries.matmul(keys.transpose_axes(&[0, 1, 3, 2])?)?;
        if let Some(AttentionMask::Additive(mask)) = mask {
            scores = scores
                .reshape(&[n_kv_heads, group, n_tokens, n_keys])?
                .add(mask)?
                .reshape(&[1, n_kv_heads, rows, n_keys])?;
        }
        let weights = match &self.sinks {
            None => ops::softmax_axis(&scores, -1, true)?,
            Some(sinks) => {
                // The sink is one more key without a value.
                let sinks = ops::broadcast_to(
                    sinks.reshape(&[n_kv_heads, group, 1, 1])?,
                    &[n_kv_heads, group, n_tokens, 1],
                )?;
                let sinks = sinks.reshape(&[1, n_kv_heads, rows, 1])?;
                let all = ops::softmax_axis(&ops::concatenate(&[&scores, &sinks], -1)?, -1, true)?;
                slice_axis(&all, 3, 0, n_keys)?
            }
        };
        weights
            .matmul(values)?
            .reshape(&[1, n_heads, n_tokens, head_dim])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::Step;

    fn array(seed: f32, shape: &[i32]) -> Array {
        let n_elements: i32 = shape.iter().product();
        let values: Vec<f32> = (0..n_elements)
            .map(|i| (i as f32 * seed).sin() * 1.5)
            .collect();
        Array::from_slice(&values, shape)
    }

    #[test]
    fn each_sequence_attends_to_its_own_keys() {
        let shape = AttentionShape {
            hidden_size: 8,
            n_heads: 4,
            n_kv_heads: 2,
            head_dim: 8,
        };
        let queries = array(0.37, &[3, 4, 1, 8]);
        let seen = [5, 1, 9].map(|n_keys| {
            let seed = 0.2 + n_keys as f32 / 100.0;
            let keys = array(seed, &[1, 2, n_keys, 8]);
            (keys, array(seed + 0.3, &[1, 2, n_keys, 8]))
        });
        for on_cpu in [true, false] {
            let mut sdpa = Sdpa::new(shape, on_cpu);
            sdpa.sinks = Some(array(0.7, &[4]));
            let all = sdpa.forward(&queries, &seen, None).expect("MLX");
            assert_eq!(all.shape(), [1, 3, 32]);
            for (index, queries) in (0..).zip(parts(&queries, 3)) {
                let own = std::slice::from_ref(&seen[index as usize]);
                let alone = sdpa.forward(&queries.expect("MLX"), own, None);
                let of_all = slice_axis(&all, 1, index, index + 1).expect("MLX");
                let difference = of_all.subtract(alone.expect("MLX")).and_then(|d| d.abs());
                let difference = difference.and_then(|d| d.max(None)).expect("MLX");
                assert!(difference.item_exact::<f32>() < 1e-6, "{index}, {on_cpu}");
            }
        }
    }

    /// MLX's own attention, which the engine uses on GPUs, runs on the CPU here.
    #[test]
    fn the_cpu_path_agrees_with_mlx_for_all_windows_and_sinks() {
        let shape = AttentionShape {
            hidden_size: 8,
            n_heads: 4,
            n_kv_heads: 2,
            head_dim: 8,
        };
        for (offset, n_tokens) in [(0, 1), (0, 5), (9, 4), (9, 1)] {
            for window in [None, Some(3), Some(50)] {
                for sinks in [None, Some(array(0.7, &[4]))] {
                    let n_before = offset.min(window.unwrap_or(i32::MAX) - 1);
                    let n_keys = n_before + n_tokens;
                    let queries = array(0.37, &[1, 4, n_tokens, 8]);
                    let keys = array(0.23, &[1, 2, n_keys, 8]);
                    let values = array(0.51, &[1, 2, n_keys, 8]);
                    let outputs = [true, false].map(|on_cpu| {
                        let step =
                            Step::new(&[], &[window], vec![offset], n_tokens, on_cpu).expect("MLX");
                        let mut sdpa = Sdpa::new(shape, on_cpu);
                        sdpa.sinks = sinks.clone();
                        let mask = step.mask(window);
                        let seen = [(keys.clone(), values.clone())];
                        sdpa.forward(&queries, &seen, mask).expect("MLX")
                    });
                    let [own, mlx] = outputs;
                    let difference = own.subtract(&mlx).and_then(|d| d.abs());
                    let difference = difference.and_then(|d| d.max(None)).expect("MLX");
                    let difference = difference.item_exact::<f32>();
                    assert!(
                        difference < 1e-5,
                        "{n_tokens} tokens at {offset}, window {window:?}: {difference}"
                    );
                }
            }
        }
    }
}
