//! The delta rule as one kernel on a GPU. Metal and CUDA share its body, `kernel.h`.

#![expect(unsafe_code, reason = "runs a kernel")]

use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};

use super::{Inputs, Sizes};
use crate::error::MlxResult;
use crate::ops::{GpuKernel, KernelLanguage, KernelLaunch, KernelSource, parts};

/// What the body needs, in each language: text before the kernel, and at its start.
const METAL_HEADER: &str = "
#include <metal_math>
#include <metal_simdgroup>
inline float from_lane(float x, int distance) { return metal::simd_shuffle_xor(x, ushort(distance)); }
inline float exponential(float x) { return metal::exp(x); }
";
const METAL_PLACE: &str = "
const int lane = thread_position_in_threadgroup.x;
const int column = thread_position_in_grid.y;
const int head = thread_position_in_grid.z;
";
const CUDA_HEADER: &str = "
inline __device__ float from_lane(float x, int distance) { return __shfl_xor_sync(~0u, x, distance); }
inline __device__ float exponential(float x) { return expf(x); }
";
const CUDA_PLACE: &str = "
const int lane = threadIdx.x;
const int column = blockIdx.y * blockDim.y + threadIdx.y;
const int head = blockIdx.z;
";

/// Threads that share a column of the state. Of 4, 8, 16 and 32, this was the fastest on an H200 with one
/// token as with 2,048 (`benches/delta_rule.rs`).
const LANES: i32 = 16;

/// Threads that run in lockstep on every GPU, and can read each other's registers.
const SIMD_WIDTH: i32 = 32;

/// Threads per group.
const GROUP: i32 = 128;

/// Elements of the state that a thread can keep in registers.
const MAX_PER_THREAD: i32 = 32;

/// The kernel for layers of these sizes.
#[derive(Debug)]
pub(super) struct Kernel {
    kernel: GpuKernel,
    sizes: Sizes,
    lanes: i32,
}

impl Kernel {
    /// Returns the kernel, which MLX compiles when it is first run; `None` if it does not support the
    /// sizes.
    pub(super) fn new(language: KernelLanguage, sizes: Sizes) -> MlxResult<Option<Self>> {
        Self::with_lanes(language, sizes, LANES)
    }

    /// Returns the kernel in which so many threads share a column of the state.
    pub(super) fn with_lanes(
        language: KernelLanguage,
        sizes: Sizes,
        lanes: i32,
    ) -> MlxResult<Option<Self>> {
        if columns_per_group(sizes, lanes).is_none() {
            return Ok(None);
        }
        let (header, place) = match language {
            KernelLanguage::Metal => (METAL_HEADER, METAL_PLACE),
            KernelLanguage::Cuda => (CUDA_HEADER, CUDA_PLACE),
        };
        let source = KernelSource {
            name: "transom_delta_rule",
            inputs: &["queries", "keys", "values", "log_decays", "betas", "state"],
            outputs: &["out", "new_state"],
            header,
            body: &[place, &body()].concat(),
        };
        let kernel = GpuKernel::new(language, &source)?;
        Ok(Some(Self {
            kernel,
            sizes,
            lanes,
        }))
    }

    /// See [`super::DeltaRule::compute`].
    pub(super) fn compute(
        &self,
        inputs: &Inputs,
        states: &[Array],
    ) -> MlxResult<(Array, Vec<Array>)> {
        if let [state] = states {
            let (out, state) = self.run(inputs, state)?;
            return Ok((out, vec![state]));
        }
        let n_sequences = states.len() as i32;
        let of_each = |all| parts(all, n_sequences);
        let inputs = of_each(&inputs.queries)
            .zip(of_each(&inputs.keys))
            .zip(of_each(&inputs.values))
            .zip(of_each(&inputs.log_decays))
            .zip(of_each(&inputs.betas));
        let (mut outs, mut new_states) = (Vec::new(), Vec::new());
        for (((((queries, keys), values), log_decays), betas), state) in inputs.zip(states) {
            let inputs = Inputs {
                queries: queries?,
                keys: keys?,
                values: values?,
                log_decays: log_decays?,
                betas: betas?,
            };
            let (out, state) = self.run(&inputs, state)?;
            outs.push(out);
            new_states.push(state);
        }
        Ok((ops::concatenate(&outs, 0)?, new_states))
    }

    /// Computes the tokens of one sequence.
    fn run(&self, inputs: &Inputs, state: &Array) -> MlxResult<(Array, Array)> {
        let Sizes {
            n_key_heads,
            n_groups,
            key_dim,
            value_dim,
        } = self.sizes;
        let (n_tokens, n_heads) = (inputs.n_tokens(), self.sizes.n_heads());
        let by_key = [n_tokens, n_key_heads, key_dim];
        let by_value = [n_tokens, n_heads, value_dim];
        let state_shape = self.sizes.state();
        let arrays: [(&Array, &[i32]); 6] = [
            (&inputs.queries, &by_key),
            (&inputs.keys, &by_key),
            (&inputs.values, &by_value),
            (&inputs.log_decays, &by_value[..2]),
            (&inputs.betas, &by_value[..2]),
            (state, &state_shape),
        ];
        for (array, expected) in arrays {
            if array.shape() != expected {
                let found = array.shape();
                let reason = format!("the delta rule got {found:?} instead of {expected:?}");
                return Err(Exception::custom(reason));
            }
        }
        let columns = columns_per_group(self.sizes, self.lanes).unwrap_or(1);
        let launch = KernelLaunch {
            numbers: &[
                (c"KEY_HEADS", n_key_heads),
                (c"GROUPS", n_groups),
                (c"KEY_DIM", key_dim),
                (c"VALUE_DIM", value_dim),
                (c"LANES", self.lanes),
            ],
            outputs: &[&by_value, &state_shape],
            grid: [self.lanes, value_dim, n_heads],
            group: [self.lanes, columns, 1],
        };
        let arrays = arrays.map(|(array, _)| array);
        // SAFETY: the arrays have the shapes that the body reads (checked above), and `new` has checked
        // that the threads fit the sizes. Each column of each head has its own `lanes` threads, of which
        // each writes other elements of the new state, and the first the output of each token.
        let outputs = unsafe { self.kernel.run(&arrays, &launch) }?;
        <[Array; 2]>::try_from(outputs)
            .map(|[out, state]| (out, state))
            .map_err(|_| Exception::custom("the kernel of the delta rule has other outputs"))
    }
}

/// Returns the text of the body without comments, because MLX copies it for each run.
fn body() -> String {
    let lines = include_str!("kernel.h").lines();
    let lines = lines.filter(|line| !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns how many columns of the state a group of threads computes; `None` if the kernel does not
/// support the sizes: threads share columns and groups evenly, and offsets in the state fit 32 bits.
fn columns_per_group(sizes: Sizes, lanes: i32) -> Option<i32> {
    let size: i64 = sizes.state().iter().map(|&size| i64::from(size)).product();
    let fits = sizes.key_dim % lanes == 0
        && sizes.key_dim / lanes <= MAX_PER_THREAD
        && size <= i64::from(i32::MAX);
    let mut columns = GROUP / lanes;
    while columns > 1 && sizes.value_dim % columns != 0 {
        columns /= 2;
    }
    (fits && columns * lanes % SIMD_WIDTH == 0).then_some(columns)
}

#[cfg(test)]
mod tests;
