//! Products with quantised matrices in every mode that MLX stores weights in.
//!
//! mlx-rs offers the affine mode only. A stored matrix is packed words, scales, and in the affine
//! mode biases; the caller has checked that their shapes belong together.

use mlx_rs::Array;

use super::{checked, stream};
use crate::config::Quantization;
use crate::error::MlxResult;

/// The parts of a quantised matrix, or of a stack of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'a> {
    /// `[…, n_out, n_in / 32 * bits]`, 32-bit words.
    pub(crate) words: &'a Array,
    /// `[…, n_out, n_in / group_size]`.
    pub(crate) scales: &'a Array,
    /// As `scales`; the affine mode has them, the others do not.
    pub(crate) biases: Option<&'a Array>,
    /// How they are stored.
    pub(crate) quantization: Quantization,
}

impl Packed<'_> {
    /// `x @ self.T`: `[…, n_in]` to `[…, n_out]`.
    pub(crate) fn product(self, x: &Array) -> MlxResult<Array> {
        let stream = stream();
        // SAFETY: every handle outlives the call, which counts its own references to them.
        let (status, handle) = unsafe {
            let mut handle = mlx_sys::mlx_array_new();
            let status = mlx_sys::mlx_quantized_matmul(
                &mut handle,
                x.as_ptr(),
                self.words.as_ptr(),
                self.scales.as_ptr(),
                optional(self.biases),
                true,
                some(self.quantization.group_size),
                some(self.quantization.bits),
                self.quantization.mode.name().as_ptr(),
                stream.as_ptr(),
            );
            (status, handle)
        };
        self.checked(status, handle, "quantized_matmul", Some(x))
    }

    /// `x[i] @ self[indices[i]].T` of a stack `[n_experts, n_out, n_in]`: `x` is `[…, 1, n_in]`, and
    /// its leading axes broadcast with those of `indices`. `are_sorted` promises that `indices`
    /// rise.
    pub(crate) fn gathered_product(
        self,
        x: &Array,
        indices: &Array,
        are_sorted: bool,
    ) -> MlxResult<Array> {
        let stream = stream();
        // SAFETY: as for `product`.
        let (status, handle) = unsafe {
            let mut handle = mlx_sys::mlx_array_new();
            let status = mlx_sys::mlx_gather_qmm(
                &mut handle,
                x.as_ptr(),
                self.words.as_ptr(),
                self.scales.as_ptr(),
                optional(self.biases),
                optional(None),
                indices.as_ptr(),
                true,
                some(self.quantization.group_size),
                some(self.quantization.bits),
                self.quantization.mode.name().as_ptr(),
                are_sorted,
                stream.as_ptr(),
            );
            (status, handle)
        };
        self.checked(status, handle, "gather_qmm", Some(x))
    }

    /// The numbers, in the type of the scales; of modes whose scales are bytes, in bf16.
    pub(crate) fn dequantized(self) -> MlxResult<Array> {
        let stream = stream();
        // SAFETY: as for `product`.
        let (status, handle) = unsafe {
            let mut handle = mlx_sys::mlx_array_new();
            let status = mlx_sys::mlx_dequantize(
                &mut handle,
                self.words.as_ptr(),
                self.scales.as_ptr(),
                optional(self.biases),
                some(self.quantization.group_size),
                some(self.quantization.bits),
                self.quantization.mode.name().as_ptr(),
                optional(None),
                mlx_sys::mlx_optional_dtype {
                    value: mlx_sys::mlx_dtype__MLX_FLOAT32,
                    has_value: false,
                },
                stream.as_ptr(),
            );
            (status, handle)
        };
        self.checked(status, handle, "dequantize", None)
    }

    fn checked(
        self,
        status: i32,
        handle: mlx_sys::mlx_array,
        name: &str,
        x: Option<&Array>,
    ) -> MlxResult<Array> {
        let Quantization {
            bits, group_size, ..
        } = self.quantization;
        let name = || format!("{name} ({bits}-bit, group {group_size})");
        let parts = [Some(self.words), Some(self.scales), self.biases];
        let inputs: Vec<&Array> = [x].into_iter().chain(parts).flatten().collect();
        checked(status, handle, name, &inputs)
    }
}

fn some(value: i32) -> mlx_sys::mlx_optional_int {
    mlx_sys::mlx_optional_int {
        value,
        has_value: true,
    }
}

/// An absent array is a null handle.
fn optional(array: Option<&Array>) -> mlx_sys::mlx_array {
    match array {
        Some(array) => array.as_ptr(),
        // SAFETY: the call allocates nothing, so that nobody has to free what it gives.
        None => unsafe { mlx_sys::mlx_array_new() },
    }
}
