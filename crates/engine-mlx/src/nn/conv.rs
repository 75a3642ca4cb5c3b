//! The short causal convolution of a recurrent layer: each feature of a token becomes a weighted
//! sum over this token and the few tokens before it.

use mlx_rs::{Array, Dtype, ops};
use transom_engine::EngineError;

use crate::error::{Context, MlxResult};
use crate::ops::slice_axis;
use crate::weights::Loader;

/// A depthwise convolution: each feature has its own weights.
#[derive(Debug)]
pub(crate) struct CausalConv {
    /// `[features, width, 1]`, as MLX's kernel needs them.
    weight: Array,
    /// The weights of each token in the window, the oldest first: `[features]` each.
    taps: Vec<Array>,
    on_cpu: bool,
}

impl CausalConv {
    /// Loads the weights at `path` in the layout of MLX, `[features, width, 1]`, or in that of the
    /// authors, `[features, 1, width]`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        n_features: i32,
        width: i32,
    ) -> Result<Self, EngineError> {
        let name = format!("{path}.weight");
        let weight = if loader.shape(&name)?.last() == Some(&1) {
            loader.floats(&name, &[n_features, width, 1])?
        } else {
            let weight = loader.floats(&name, &[n_features, 1, width])?;
            weight.swap_axes(1, 2).during(path)?
        };
        let on_cpu = loader.compute().is_cpu();
        Self::new(weight, on_cpu).during(path)
    }

    fn new(weight: Array, on_cpu: bool) -> MlxResult<Self> {
        let weight = weight.contiguous()?;
        let (n_features, width) = (weight.dim(0), weight.dim(1));
        let taps = (0..width)
            .map(|tap| {
                let tap = slice_axis(&weight, 1, tap, tap + 1)?;
                tap.reshape(&[n_features])?.contiguous()
            })
            .collect::<MlxResult<Vec<_>>>()?;
        mlx_rs::transforms::eval(taps.iter().chain([&weight]))?;
        Ok(Self {
            weight,
            taps,
            on_cpu,
        })
    }

    /// Returns the number of earlier tokens in the sum of a token.
    pub(crate) fn n_before(&self) -> i32 {
        self.taps.len() as i32 - 1
    }

    /// Returns the type of the weights.
    pub(crate) fn dtype(&self) -> Dtype {
        self.weight.dtype()
    }

    /// Maps `[sequences, n_before + tokens, features]` to the sums of all but the first `n_before`
    /// tokens, `[sequences, tokens, features]`.
    ///
    /// On a CPU, MLX's kernel takes three to five times as long as the plain sum.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        if !self.on_cpu {
            return ops::conv1d(x, &self.weight, 1, 0, 1, self.weight.dim(0));
        }
        let n_tokens = x.dim(1) - self.n_before();
        let mut sum: Option<Array> = None;
        for (start, tap) in self.taps.iter().enumerate() {
            let start = start as i32;
            let term = slice_axis(x, 1, start, start + n_tokens)?.multiply(tap)?;
            sum = Some(match sum {
                Some(sum) => sum.add(term)?,
                None => term,
            });
        }
        sum.ok_or_else(|| mlx_rs::error::Exception::custom("a convolution of no tokens"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_sum_equals_the_kernel() {
        let wave = |n: i32| (0..n).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>();
        let weight = Array::from_slice(&wave(6 * 4), &[6, 4, 1]);
        // Two sequences.
        let x = Array::from_slice(&wave(2 * 9 * 6), &[2, 9, 6]);
        let forward = |on_cpu| {
            let conv = CausalConv::new(weight.clone(), on_cpu).expect("weights");
            let sums = conv.forward(&x).and_then(|sums| sums.contiguous());
            sums.expect("MLX")
        };
        let (plain, kernel) = (forward(true), forward(false));
        assert_eq!(plain.shape(), [2, 6, 6]);
        for (a, b) in plain.as_slice::<f32>().iter().zip(kernel.as_slice::<f32>()) {
            assert!((a - b).abs() < 1e-5, "{a} against {b}");
        }
    }
}
