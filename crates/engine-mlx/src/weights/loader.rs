//! Builds layers from tensors, in the form that the device computes with.
//!
//! An architecture requests layers by path and size. The loader compares the shape of each tensor
//! with the configuration, reads and converts the tensor, and reports progress.

use mlx_rs::{Array, Dtype, ops};
use transom_engine::{EngineError, JobControl, LoadProgress};

use super::files::{Tensor, WeightFiles};
use crate::config::{Quantization, QuantizationConfig};
use crate::device::Compute;
use crate::error::{Context, MlxResult};
use crate::linear::{Linear, LinearGroup, Matrix};
use crate::ops::QuantizedMatrix;

pub(crate) struct Loader<'a> {
    files: &'a WeightFiles,
    quantization: Option<&'a QuantizationConfig>,
    compute: Compute,
    control: &'a JobControl,
    on_progress: &'a mut dyn FnMut(LoadProgress),
    progress: LoadProgress,
}

impl<'a> Loader<'a> {
    /// Returns a loader of `files`, which are quantized as in `quantization`, for `compute`.
    pub(crate) fn new(
        files: &'a WeightFiles,
        quantization: Option<&'a QuantizationConfig>,
        compute: Compute,
        control: &'a JobControl,
        on_progress: &'a mut dyn FnMut(LoadProgress),
    ) -> Self {
        let progress = LoadProgress {
            done_bytes: 0,
            total_bytes: files.total_bytes(),
        };
        on_progress(progress);
        Self {
            files,
            quantization,
            compute,
            control,
            on_progress,
            progress,
        }
    }

    pub(crate) fn compute(&self) -> Compute {
        self.compute
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    /// Loads a matrix `[n_out, n_in]` and its bias, if it has one.
    pub(crate) fn linear(
        &mut self,
        path: &str,
        n_in: i32,
        n_out: i32,
    ) -> Result<Linear, EngineError> {
        let matrix = self.matrix(path, n_in, n_out)?;
        let bias_name = format!("{path}.bias");
        let has_bias = self.contains(&bias_name);
        let bias = has_bias.then(|| self.vector(&bias_name, n_out));
        Ok(Linear::new(matrix, bias.transpose()?))
    }

    /// Loads matrices for the same input, fused if that needs no more memory: on devices that copy
    /// the weights anyway, and not where weights are used in place (Metal).
    pub(crate) fn linear_group(
        &mut self,
        paths: &[String],
        n_in: i32,
        n_outs: &[i32],
    ) -> Result<LinearGroup, EngineError> {
        let linears = paths
            .iter()
            .zip(n_outs)
            .map(|(path, &n_out)| self.linear(path, n_in, n_out))
            .collect::<Result<Vec<_>, _>>()?;
        LinearGroup::new(linears, self.compute.copies_weights())
            .during(&format!("fusing {}", paths.join(", ")))
    }

    /// Loads a vector of `size` floats, such as the weight of a norm or a bias.
    pub(crate) fn vector(&mut self, name: &str, size: i32) -> Result<Array, EngineError> {
        self.floats(name, &[size])
    }

    fn bad(&self, reason: String) -> EngineError {
        EngineError::bad_file(self.files.folder(), reason)
    }

    pub(crate) fn shape(&self, name: &str) -> Result<&'a [i32], EngineError> {
        Ok(&self.files.get(name)?.shape)
    }

    pub(crate) fn floats(&mut self, name: &str, shape: &[i32]) -> Result<Array, EngineError> {
        self.array(name, shape, ElementKind::Floats)
    }

    /// Loads a matrix `[n_out, n_in]`, such as an embedding table.
    pub(crate) fn matrix(
        &mut self,
        path: &str,
        n_in: i32,
        n_out: i32,
    ) -> Result<Matrix, EngineError> {
        self.matrix_from(&TensorSource::One(path.to_owned()), n_in, n_out)
    }

    /// Loads the matrix, or the stack of matrices, at `source`.
    pub(super) fn matrix_from(
        &mut self,
        source: &TensorSource,
        n_in: i32,
        n_out: i32,
    ) -> Result<Matrix, EngineError> {
        let path = source.first();
        let is_quantized = self.contains(&format!("{path}.scales"));
        let quantization = self.quantization.and_then(|config| config.for_layer(path));
        match quantization {
            Some(quantization) if is_quantized => {
                self.quantized_matrix(source, n_in, n_out, quantization)
            }
            _ if is_quantized => Err(self.bad(format!(
                "{path} is quantized, but config.json does not say how"
            ))),
            // Layers that mlx-lm does not quantize, because of their size, have no scales.
            _ => {
                // The names of some stacks of experts do not end in `.weight`.
                let suffix = if self.contains(path) { "" } else { ".weight" };
                let weight = self.part(source, suffix, &[n_out, n_in], ElementKind::Floats)?;
                Ok(Matrix::Dense(weight))
            }
        }
    }

    fn quantized_matrix(
        &mut self,
        source: &TensorSource,
        n_in: i32,
        n_out: i32,
        quantization: Quantization,
    ) -> Result<Matrix, EngineError> {
        let path = source.first();
        let group_size = quantization.group_size;
        if n_in % group_size != 0 || n_in % 32 != 0 {
            return Err(self.bad(format!(
                "{path}: {n_in} inputs cannot be split into groups of {group_size}"
            )));
        }
        if self.contains(&format!("{path}.global_scale")) {
            return Err(self.bad(format!("{path} has a global scale, which is not supported")));
        }
        // `bits` bits per element, packed into 32-bit words; 32 elements fill whole words.
        let words = [n_out, n_in / 32 * quantization.bits];
        let groups = [n_out, n_in / group_size];
        let packed = self.part(source, ".weight", &words, ElementKind::Words)?;
        let is_affine = quantization.mode.is_affine();
        let kind = match is_affine {
            true => ElementKind::Floats,
            false => ElementKind::Bytes,
        };
        let scales = self.part(source, ".scales", &groups, kind)?;
        let biases = is_affine.then(|| self.part(source, ".biases", &groups, kind));
        let stored = QuantizedMatrix {
            words: packed,
            scales,
            biases: biases.transpose()?,
            quantization,
        };
        if self.compute != Compute::CpuDense {
            return Ok(Matrix::Quantized(stored));
        }
        let dense = stored
            .dequantized()
            .and_then(|dense| self.to_compute_dtype(dense));
        let dense = dense.during(path)?;
        dense.eval().during(path)?;
        Ok(Matrix::Dense(dense))
    }

    /// Loads one part of a matrix, which has this shape, or of each matrix of a stack.
    pub(super) fn part(
        &mut self,
        source: &TensorSource,
        suffix: &str,
        shape: &[i32],
        kind: ElementKind,
    ) -> Result<Array, EngineError> {
        match source {
            TensorSource::One(path) => self.array(&format!("{path}{suffix}"), shape, kind),
            TensorSource::Stack { path, n_experts } => {
                let shape = [&[*n_experts], shape].concat();
                self.array(&format!("{path}{suffix}"), &shape, kind)
            }
            TensorSource::Each(paths) => {
                let parts = paths
                    .iter()
                    .map(|path| self.array(&format!("{path}{suffix}"), shape, kind))
                    .collect::<Result<Vec<_>, _>>()?;
                let stack = ops::stack(&parts, 0).during(source.first())?;
                // Evaluated now, so that the parts can be freed before the next layer is read.
                stack.eval().during(source.first())?;
                Ok(stack)
            }
        }
    }

    /// Checks and reads the tensor with this name.
    fn array(
        &mut self,
        name: &str,
        shape: &[i32],
        kind: ElementKind,
    ) -> Result<Array, EngineError> {
        let tensor = self.files.get(name)?;
        let (found, dtype) = (&tensor.shape, tensor.dtype);
        if found != shape {
            let reason = format!(
                "tensor {name} has the shape {found:?}, but config.json asks for {shape:?}"
            );
            return Err(EngineError::bad_file(tensor.path(), reason));
        }
        let is_right = match kind {
            ElementKind::Floats => is_float(dtype),
            ElementKind::Words => dtype == Dtype::Uint32,
            ElementKind::Bytes => dtype == Dtype::Uint8,
        };
        if !is_right {
            let expected = kind.describe();
            let reason = format!("tensor {name} holds {dtype:?}, but must hold {expected}");
            return Err(EngineError::bad_file(tensor.path(), reason));
        }
        let array = tensor.to_array(!self.compute.copies_weights())?;
        let array = match kind {
            ElementKind::Floats => self.to_compute_dtype(array).during(name)?,
            ElementKind::Words | ElementKind::Bytes => array,
        };
        self.report_progress(tensor, &array)?;
        Ok(array)
    }

    /// Converts floats to the type that the device computes with: f32 on a CPU, else as stored.
    fn to_compute_dtype(&self, array: Array) -> MlxResult<Array> {
        if self.compute.is_cpu() && array.dtype() != Dtype::Float32 {
            array.as_dtype(Dtype::Float32)
        } else {
            Ok(array)
        }
    }

    /// Evaluates `array` if it was converted, and reports its source as done. An array that is used
    /// as stored stays lazy: its pages are read on first use.
    fn report_progress(&mut self, source: &Tensor, array: &Array) -> Result<(), EngineError> {
        if self.control.is_stopped() {
            return Err(EngineError::Canceled);
        }
        if self.compute.is_cpu() {
            array.eval().during("reading weights")?;
        }
        self.progress.done_bytes += source.n_bytes();
        (self.on_progress)(self.progress);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) enum TensorSource {
    /// `path.weight`, `path.scales` and so on.
    One(String),
    /// The same names, with the matrices of all experts in one tensor.
    Stack { path: String, n_experts: i32 },
    /// One path per expert, of which there is at least one.
    Each(Vec<String>),
}

impl TensorSource {
    /// Returns the path, or that of the first expert, for messages and for properties that all
    /// share.
    pub(super) fn first(&self) -> &str {
        match self {
            Self::One(path) | Self::Stack { path, .. } => path,
            Self::Each(paths) => paths.first().map_or("", String::as_str),
        }
    }
}

/// The elements that a tensor must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
    /// Floats of 16 or 32 bits.
    Floats,
    Words,
    Bytes,
}

impl ElementKind {
    fn describe(self) -> &'static str {
        match self {
            Self::Floats => "floats",
            Self::Words => "quantized weights, packed as 32-bit integers",
            Self::Bytes => "scales of 8 bits",
        }
    }
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16)
}
