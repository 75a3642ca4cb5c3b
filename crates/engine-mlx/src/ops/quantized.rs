//! Products with quantized matrices in all of MLX's modes, of which mlx-rs offers only the affine
//! one.
//!
//! A matrix consists of packed words, scales, and in the affine mode biases. The loader checks that
//! their shapes fit together.

use mlx_rs::Array;

use super::operation;
use crate::config::Quantization;
use crate::error::MlxResult;

#[derive(Debug)]
pub(crate) struct QuantizedMatrix {
    /// `[…, n_out, n_in / 32 * bits]` of 32-bit words.
    pub(crate) words: Array,
    /// `[…, n_out, n_in / group_size]`.
    pub(crate) scales: Array,
    /// As `scales`; only in the affine mode.
    pub(crate) biases: Option<Array>,
    pub(crate) quantization: Quantization,
}

impl QuantizedMatrix {
    /// Returns `x @ self.T`: `[…, n_in]` to `[…, n_out]`.
    pub(crate) fn product(&self, x: &Array) -> MlxResult<Array> {
        // SAFETY: every handle is valid during the call, which counts its own references.
        self.operation("quantized_matmul", Some(x), |result, stream| unsafe {
            mlx_sys::mlx_quantized_matmul(
                result,
                x.as_ptr(),
                self.words.as_ptr(),
                self.scales.as_ptr(),
                optional(self.biases.as_ref()),
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
        &self,
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
                optional(self.biases.as_ref()),
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

    /// Returns the rows with these indices.
    pub(crate) fn rows(&self, indices: &Array) -> MlxResult<Self> {
        let take = |part: &Array| part.take_axis(indices, 0);
        Ok(Self {
            words: take(&self.words)?,
            scales: take(&self.scales)?,
            biases: self.biases.as_ref().map(take).transpose()?,
            quantization: self.quantization,
        })
    }

    /// Returns the dequantized elements: in the type of the scales, or in bf16 if the scales are
    /// bytes.
    pub(crate) fn dequantized(&self) -> MlxResult<Array> {
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
                optional(self.biases.as_ref()),
                some(self.quantization.group_size),
                some(self.quantization.bits),
                self.quantization.mode.name().as_ptr(),
                optional(None),
                as_scales,
                stream,
            )
        })
    }

    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        [&self.words, &self.scales].into_iter().chain(&self.biases)
    }

    fn operation(
        &self,
        name: &str,
        x: Option<&Array>,
        call: impl FnOnce(*mut mlx_sys::mlx_array, mlx_sys::mlx_stream) -> i32,
    ) -> MlxResult<Array> {
        let Quantization {
            bits, group_size, ..
        } = self.quantization;
        let name = || format!("{name} ({bits}-bit, group {group_size})");
        let inputs: Vec<&Array> = x.into_iter().chain(self.arrays()).collect();
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
