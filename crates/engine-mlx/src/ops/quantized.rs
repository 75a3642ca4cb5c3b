//! Products with quantized matrices in all of MLX's modes, of which mlx-rs offers only the affine
//! one.
//!
//! A matrix consists of packed words, scales, and in the affine mode biases. The caller must have
//! checked that their shapes fit together.

use mlx_rs::Array;

use super::operation;
use crate::config::Quantization;
use crate::error::MlxResult;

/// The parts of a quantized matrix, or of a stack of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'a> {
    /// `[…, n_out, n_in / 32 * bits]` of 32-bit words.
    pub(crate) words: &'a Array,
    /// `[…, n_out, n_in / group_size]`.
    pub(crate) scales: &'a Array,
    /// As `scales`; only in the affine mode.
    pub(crate) biases: Option<&'a Array>,
    /// How the matrix is stored.
    pub(crate) quantization: Quantization,
}

impl Packed<'_> {
    /// Returns `x @ self.T`: `[…, n_in]` to `[…, n_out]`.
    pub(crate) fn product(self, x: &Array) -> MlxResult<Array> {
        // SAFETY: every handle is valid during the call, which counts its own references.
        self.operation("quantized_matmul", Some(x), |result, stream| unsafe {
            mlx_sys::mlx_quantized_matmul(
                result,
                x.as_ptr(),
                self.words.as_ptr(),
                self.scales.as_ptr(),
                optional(self.biases),
                true,
                some(self.quantization.group_size),
                some(self.quantization.bits),
                self.quantization.mode.name().as_ptr(),
                stream,
            )
        })
    }

    /// Returns `x[i] @ self[indices[i]].T` of a stack `[n_experts, n_out, n_in]`. `x` is
    /// `[…, 1, n_in]`; its leading axes broadcast with those of `indices`, which are in ascending
    /// order if `are_sorted`.
    pub(crate) fn gathered_product(
        self,
        x: &Array,
        indices: &Array,
        are_sorted: bool,
    ) -> MlxResult<Array> {
        // SAFETY: as for `product`.
        self.operation("gather_qmm", Some(x), |result, stream| unsafe {
            mlx_sys::mlx_gather_qmm(
                result,
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
                stream,
            )
        })
    }

    /// Returns the dequantized elements: in the type of the scales, or in bf16 if the scales are
    /// bytes.
    pub(crate) fn dequantized(self) -> MlxResult<Array> {
        let as_scales = mlx_sys::mlx_optional_dtype {
            value: mlx_sys::mlx_dtype__MLX_FLOAT32,
            has_value: false,
        };
        // SAFETY: as for `product`.
        self.operation("dequantize", None, |result, stream| unsafe {
            mlx_sys::mlx_dequantize(
                result,
                self.words.as_ptr(),
                self.scales.as_ptr(),
                optional(self.biases),
                some(self.quantization.group_size),
                some(self.quantization.bits),
                self.quantization.mode.name().as_ptr(),
                optional(None),
                as_scales,
                stream,
            )
        })
    }

    fn operation(
        self,
        name: &str,
        x: Option<&Array>,
        call: impl FnOnce(*mut mlx_sys::mlx_array, mlx_sys::mlx_stream) -> i32,
    ) -> MlxResult<Array> {
        let Quantization {
            bits, group_size, ..
        } = self.quantization;
        let name = || format!("{name} ({bits}-bit, group {group_size})");
        let parts = [Some(self.words), Some(self.scales), self.biases];
        let inputs: Vec<&Array> = [x].into_iter().chain(parts).flatten().collect();
        operation(&inputs, name, call)
    }
}

fn some(value: i32) -> mlx_sys::mlx_optional_int {
    mlx_sys::mlx_optional_int {
        value,
        has_value: true,
    }
}

/// Returns the handle; a null handle if there is no array.
fn optional(array: Option<&Array>) -> mlx_sys::mlx_array {
    match array {
        Some(array) => array.as_ptr(),
        // SAFETY: the call allocates nothing, so nothing has to free the result.
        None => unsafe { mlx_sys::mlx_array_new() },
    }
}
