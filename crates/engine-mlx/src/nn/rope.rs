//! Rotary position embedding (Su et al. 2021), in the half-split form of Llama.
//!
//! On a GPU, MLX's kernel computes it. On a CPU that call consists of about twenty operations, so
//! the cosines and sines of a step's positions are computed here once for all layers, which leaves
//! six operations per layer.

mod scaling;

use mlx_rs::{Array, fast, ops};

pub(crate) use scaling::{Llama3Scaling, LongScaling, RopeScaling, YarnScaling};

use crate::error::MlxResult;
use crate::ops::slice_axis;

/// The rotated features and their frequencies.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RopeConfig {
    /// Features per head; even.
    pub(crate) head_dim: i32,
    /// Features that are rotated, from the first on; even.
    pub(crate) n_rotated: i32,
    pub(crate) base: f32,
    /// How frequencies are scaled for long contexts.
    pub(crate) scaling: RopeScaling,
}

#[derive(Debug)]
pub(crate) struct Rope {
    head_dim: i32,
    /// Features that are rotated; the others stay as they are.
    n_rotated: i32,
    /// Radians per position for each pair of features: `[n_rotated / 2]`.
    frequencies: Vec<f64>,
    /// Their inverses, as MLX's kernel takes them: `[n_rotated / 2]`.
    wavelengths: Array,
    /// Factor of the rotated features.
    magnitude: f64,
    /// The factor of each feature for the kernel, `[head_dim]`; `None` if all are 1.
    magnitudes: Option<Array>,
    on_cpu: bool,
}

/// The rotation of one step's queries and keys, shared by all layers.
#[derive(Debug)]
pub(crate) enum Rotation {
    /// The position of the first token, for MLX's kernel.
    Kernel { offset: i32 },
    /// The same of each of several sequences, `[sequences]`.
    KernelOfEach { offsets: Array },
    /// Factors of the features and of their partners, `[sequences, 1, tokens, head_dim]` each.
    Tables { own: Array, partner: Array },
}

impl Rope {
    pub(crate) fn new(config: &RopeConfig, on_cpu: bool) -> Self {
        let (head_dim, n_rotated) = (config.head_dim, config.n_rotated);
        let scaling = &config.scaling;
        let frequencies = scaling.frequencies(n_rotated, f64::from(config.base));
        let wavelengths: Vec<f32> = frequencies.iter().map(|f| (1.0 / f) as f32).collect();
        let magnitude = scaling.magnitude();
        let magnitudes = (magnitude != 1.0).then(|| {
            let of = |feature| {
                if feature < n_rotated {
                    magnitude as f32
                } else {
                    1.0
                }
            };
            let values: Vec<f32> = (0..head_dim).map(of).collect();
            Array::from_slice(&values, &[head_dim])
        });
        Self {
            head_dim,
            n_rotated,
            wavelengths: Array::from_slice(&wavelengths, &[n_rotated / 2]),
            frequencies,
            magnitude,
            magnitudes,
            on_cpu,
        }
    }

    /// Returns all numbers that rotated keys depend on.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> {
        self.frequencies.iter().copied().chain([self.magnitude])
    }

    /// Returns the rotation of `n_tokens` tokens of each sequence, the first at its position in
    /// `offsets`.
    pub(crate) fn at(&self, offsets: &[i32], n_tokens: i32) -> Rotation {
        let n_sequences = offsets.len() as i32;
        if !self.on_cpu {
            return match *offsets {
                [offset] => Rotation::Kernel { offset },
                _ => Rotation::KernelOfEach {
                    offsets: Array::from_slice(offsets, &[n_sequences]),
                },
            };
        }
        let half = self.frequencies.len();
        let width = self.head_dim as usize;
        let size = offsets.len() * n_tokens as usize * width;
        let (mut own, mut partner) = (vec![1.0; size], vec![0.0; size]);
        let positions = offsets.iter().flat_map(|&start| start..start + n_tokens);
        for (token, position) in positions.enumerate() {
            let row = token * width;
            let position = f64::from(position);
            for (pair, frequency) in self.frequencies.iter().enumerate() {
                let (sin, cos) = (position * frequency).sin_cos();
                let (sin, cos) = (sin * self.magnitude, cos * self.magnitude);
                own[row + pair] = cos as f32;
                own[row + half + pair] = cos as f32;
                partner[row + pair] = -sin as f32;
                partner[row + half + pair] = sin as f32;
            }
        }
        let shape = [n_sequences, 1, n_tokens, self.head_dim];
        Rotation::Tables {
            own: Array::from_slice(&own, &shape),
            partner: Array::from_slice(&partner, &shape),
        }
    }

    /// Rotates `[sequences, heads, tokens, head_dim]`.
    pub(crate) fn rotate(&self, x: &Array, rotation: &Rotation) -> MlxResult<Array> {
        let scaled = || match &self.magnitudes {
            Some(magnitudes) => x.multiply(magnitudes.as_dtype(x.dtype())?),
            None => Ok(x.clone()),
        };
        let (n_rotated, wavelengths) = (self.n_rotated, &self.wavelengths);
        match rotation {
            Rotation::Kernel { offset } => {
                fast::rope(scaled()?, n_rotated, false, None, 1.0, *offset, wavelengths)
            }
            Rotation::KernelOfEach { offsets } => {
                fast::rope_dynamic(scaled()?, n_rotated, false, None, 1.0, offsets, wavelengths)
            }
            Rotation::Tables { own, partner } => {
                let half = n_rotated / 2;
                let part = |start, stop| slice_axis(x, 3, start, stop);
                let mut swapped = vec![part(half, n_rotated)?, part(0, half)?];
                if n_rotated < self.head_dim {
                    swapped.push(part(n_rotated, self.head_dim)?);
                }
                let swapped = ops::concatenate(&swapped, 3)?;
                x.multiply(own)?.add(swapped.multiply(partner)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::parts;

    fn scalings() -> Vec<RopeScaling> {
        vec![
            RopeScaling::None,
            RopeScaling::Linear { factor: 4.0 },
            RopeScaling::Llama3(Llama3Scaling {
                factor: 8.0,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_max_position_embeddings: 64.0,
            }),
            RopeScaling::Yarn(YarnScaling {
                original_max_position_embeddings: 64.0,
                ..YarnScaling::new(8.0)
            }),
            RopeScaling::Long(LongScaling {
                name: "long_factor",
                factors: vec![1.0, 1.5, 2.0, 4.0],
                magnitude: 1.2,
            }),
            RopeScaling::Proportional {
                fraction: 0.5,
                factor: 1.0,
            },
        ]
    }

    #[test]
    fn tables_and_the_kernel_rotate_alike() {
        let values: Vec<f32> = (0..3 * 5 * 8).map(|i| (i as f32 * 0.37).sin()).collect();
        let x = Array::from_slice(&values, &[1, 3, 5, 8]);
        for scaling in scalings() {
            for n_rotated in [8, 4] {
                let config = RopeConfig {
                    head_dim: 8,
                    n_rotated,
                    base: 10_000.0,
                    scaling: scaling.clone(),
                };
                let tables = Rope::new(&config, true);
                let kernel = Rope::new(&config, false);
                for offset in [0, 7, 1000] {
                    let a = tables.rotate(&x, &tables.at(&[offset], 5)).expect("tables");
                    let b = kernel.rotate(&x, &kernel.at(&[offset], 5)).expect("kernel");
                    let difference = distance(&a, &b);
                    assert!(difference < 2e-4, "{config:?} at {offset}: {difference}");
                }
            }
        }
    }

    fn distance(a: &Array, b: &Array) -> f32 {
        let difference = a.subtract(b).and_then(|d| d.abs());
        let difference = difference.and_then(|d| d.max(None));
        difference.expect("MLX").item_exact::<f32>()
    }

    #[test]
    fn each_sequence_is_rotated_by_its_own_position() {
        let values: Vec<f32> = (0..4 * 3 * 8).map(|i| (i as f32 * 0.37).sin()).collect();
        let x = Array::from_slice(&values, &[4, 3, 1, 8]);
        let offsets = [7, 0, 1000, 8];
        for scaling in scalings() {
            for (n_rotated, on_cpu) in [(8, true), (4, true), (8, false), (4, false)] {
                let config = RopeConfig {
                    head_dim: 8,
                    n_rotated,
                    base: 10_000.0,
                    scaling: scaling.clone(),
                };
                let rope = Rope::new(&config, on_cpu);
                let all = rope.rotate(&x, &rope.at(&offsets, 1)).expect("MLX");
                let (all, alone) = (parts(&all, 4), parts(&x, 4));
                for ((rotated, x), offset) in all.zip(alone).zip(offsets) {
                    let alone = rope.rotate(&x.expect("MLX"), &rope.at(&[offset], 1));
                    let difference = distance(&rotated.expect("MLX"), &alone.expect("MLX"));
                    assert!(difference < 1e-6, "{config:?} at {offset}: {difference}");
                }
            }
        }
    }
}
