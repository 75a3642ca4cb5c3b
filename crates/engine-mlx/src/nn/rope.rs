//! Rotary position embedding (Su et al. 2021), in the half-split form of Llama and its kin.
//!
//! On a GPU, MLX's kernel does it. On a CPU that call falls back to some twenty operations, so the
//! cosines and sines of a step's positions are computed once here and shared by all layers, which
//! leaves six.

use mlx_rs::{Array, fast, ops};
use serde::Deserialize;

use crate::error::MlxResult;
use crate::ops::slice_axis;

/// How frequencies are stretched to reach contexts beyond those trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RopeScaling {
    /// As trained.
    None,
    /// All positions divided by a factor (Chen et al. 2023).
    Linear { factor: f32 },
    /// Llama 3.1 and later: low frequencies divided by a factor, high ones kept, a smooth passage
    /// between (Llama reference implementation, `apply_scaling`).
    Llama3(Llama3Scaling),
}

/// Parameters of [`RopeScaling::Llama3`], with the names of `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Llama3Scaling {
    pub(crate) factor: f32,
    pub(crate) low_freq_factor: f32,
    pub(crate) high_freq_factor: f32,
    pub(crate) original_max_position_embeddings: f32,
}

/// The frequencies of a model.
#[derive(Debug)]
pub(crate) struct Rope {
    head_dim: i32,
    /// Radians a position, for each pair of features: `[head_dim / 2]`.
    frequencies: Vec<f64>,
    /// Their inverses, as MLX's kernel takes them: `[head_dim / 2]`.
    wavelengths: Array,
    on_cpu: bool,
}

/// What one step of the model needs to rotate queries and keys: made once, used by every layer.
#[derive(Debug)]
pub(crate) enum Rotation {
    /// MLX's kernel takes the position of the first token.
    Kernel { offset: i32 },
    /// Factors `[tokens, head_dim]` for the features and for their partners.
    Tables { own: Array, partner: Array },
}

impl Rope {
    /// Frequencies of heads of `head_dim` features with this base.
    pub(crate) fn new(head_dim: i32, base: f32, scaling: RopeScaling, on_cpu: bool) -> Self {
        let frequencies: Vec<f64> = (0..head_dim / 2)
            .map(|pair| {
                let exponent = f64::from(2 * pair) / f64::from(head_dim);
                scaled(f64::from(base).powf(-exponent), scaling)
            })
            .collect();
        let wavelengths: Vec<f32> = frequencies.iter().map(|f| (1.0 / f) as f32).collect();
        Self {
            head_dim,
            wavelengths: Array::from_slice(&wavelengths, &[head_dim / 2]),
            frequencies,
            on_cpu,
        }
    }

    /// The rotation of `n_tokens` tokens that begin at position `offset`.
    pub(crate) fn at(&self, offset: i32, n_tokens: i32) -> Rotation {
        if !self.on_cpu {
            return Rotation::Kernel { offset };
        }
        let half = self.frequencies.len();
        let size = n_tokens as usize * half * 2;
        let (mut own, mut partner) = (vec![0.0; size], vec![0.0; size]);
        for token in 0..n_tokens as usize {
            let row = token * half * 2;
            let position = f64::from(offset) + token as f64;
            for (pair, frequency) in self.frequencies.iter().enumerate() {
                let (sin, cos) = (position * frequency).sin_cos();
                own[row + pair] = cos as f32;
                own[row + half + pair] = cos as f32;
                partner[row + pair] = -sin as f32;
                partner[row + half + pair] = sin as f32;
            }
        }
        let shape = [n_tokens, self.head_dim];
        Rotation::Tables {
            own: Array::from_slice(&own, &shape),
            partner: Array::from_slice(&partner, &shape),
        }
    }

    /// Rotates `[1, heads, tokens, head_dim]`.
    pub(crate) fn rotate(&self, x: &Array, rotation: &Rotation) -> MlxResult<Array> {
        match rotation {
            Rotation::Kernel { offset } => fast::rope(
                x,
                self.head_dim,
                false,
                None,
                1.0,
                *offset,
                &self.wavelengths,
            ),
            Rotation::Tables { own, partner } => {
                let half = self.head_dim / 2;
                let swapped = ops::concatenate(
                    &[
                        slice_axis(x, 3, half, self.head_dim)?,
                        slice_axis(x, 3, 0, half)?,
                    ],
                    3,
                )?;
                x.multiply(own)?.add(swapped.multiply(partner)?)
            }
        }
    }
}

fn scaled(frequency: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / f64::from(factor),
        RopeScaling::Llama3(scaling) => {
            let factor = f64::from(scaling.factor);
            let low = f64::from(scaling.low_freq_factor);
            let high = f64::from(scaling.high_freq_factor);
            let trained = f64::from(scaling.original_max_position_embeddings);
            // Full turns that the pair makes over the trained context.
            let turns = trained * frequency / std::f64::consts::TAU;
            if turns < low {
                frequency / factor
            } else if turns > high {
                frequency
            } else {
                let smooth = (turns - low) / (high - low);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_kernel_rotate_alike() {
        let values: Vec<f32> = (0..3 * 5 * 8).map(|i| (i as f32 * 0.37).sin()).collect();
        let x = Array::from_slice(&values, &[1, 3, 5, 8]);
        let llama3 = RopeScaling::Llama3(Llama3Scaling {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 64.0,
        });
        for scaling in [
            RopeScaling::None,
            RopeScaling::Linear { factor: 4.0 },
            llama3,
        ] {
            let tables = Rope::new(8, 10_000.0, scaling, true);
            let kernel = Rope::new(8, 10_000.0, scaling, false);
            for offset in [0, 7, 1000] {
                let a = tables.rotate(&x, &tables.at(offset, 5)).expect("tables");
                let b = kernel.rotate(&x, &kernel.at(offset, 5)).expect("kernel");
                let difference = a
                    .subtract(&b)
                    .and_then(|d| d.abs())
                    .and_then(|d| d.max(None));
                let difference = difference.expect("MLX").item_exact::<f32>();
                assert!(difference < 2e-4, "{scaling:?} at {offset}: {difference}");
            }
        }
    }
}
