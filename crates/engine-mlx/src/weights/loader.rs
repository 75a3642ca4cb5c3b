//! Named tensors into layers, in the form that the device computes with.
//!
//! An architecture asks for layers by path and size; the loader checks every shape against the
//! configuration, reads the tensor, converts it, and counts it as progress.

use mlx_rs::{Array, Dtype, ops};
use transom_engine::{EngineError, JobControl, LoadProgress};

use super::files::{Tensor, WeightFiles};
use crate::config::{Quantization, QuantizationConfig, bad};
use crate::device::Compute;
use crate::error::{Context, MlxResult};
use crate::nn::{Embedding, Linear, LinearGroup, Matrix};
use crate::ops::Packed;

/// How the caller follows and ends a load.
pub(crate) struct LoadContext<'a> {
    pub(crate) control: &'a JobControl,
    pub(crate) on_progress: &'a mut dyn FnMut(LoadProgress),
}

/// Builds layers from weight files.
pub(crate) struct Loader<'a> {
    files: &'a WeightFiles,
    quantization: Option<&'a QuantizationConfig>,
    compute: Compute,
    context: LoadContext<'a>,
    progress: LoadProgress,
}

impl<'a> Loader<'a> {
    /// A loader of `files`, stored as `quantization` says, for `compute`.
    pub(crate) fn new(
        files: &'a WeightFiles,
        quantization: Option<&'a QuantizationConfig>,
        compute: Compute,
        context: LoadContext<'a>,
    ) -> Self {
        let progress = LoadProgress {
            done_bytes: 0,
            total_bytes: files.total_bytes(),
        };
        (context.on_progress)(progress);
        Self {
            files,
            quantization,
            compute,
            context,
            progress,
        }
    }

    /// How the layers will be computed.
    pub(crate) fn compute(&self) -> Compute {
        self.compute
    }

    /// Whether the files hold a tensor of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    /// A matrix `[n_out, n_in]` with its bias, if it has one.
    pub(crate) fn linear(
        &mut self,
        path: &str,
        n_in: i32,
        n_out: i32,
    ) -> Result<Linear, EngineError> {
        let matrix = self.matrix(path, n_in, n_out)?;
        let bias_name = format!("{path}.bias");
        let bias = if self.contains(&bias_name) {
            Some(self.vector(&bias_name, n_out)?)
        } else {
            None
        };
        Ok(Linear::new(matrix, bias))
    }

    /// Several matrices applied to the same input, in one product where that costs no extra memory:
    /// on devices that copy the weights in any case, but not where they are used in place (Metal).
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
        let group = LinearGroup::new(linears, n_outs, self.compute.copies_weights())
            .during(&format!("joining {}", paths.join(", ")))?;
        Ok(group)
    }

    /// A table `[vocab_size, hidden_size]`.
    pub(crate) fn embedding(
        &mut self,
        path: &str,
        vocab_size: i32,
        hidden_size: i32,
    ) -> Result<Embedding, EngineError> {
        Ok(Embedding::new(self.matrix(
            path,
            hidden_size,
            vocab_size,
        )?))
    }

    /// A vector of `size` elements, such as a norm's weight or a bias.
    pub(crate) fn vector(&mut self, name: &str, size: i32) -> Result<Array, EngineError> {
        self.array(name, &[size], Kind::Floats)
    }

    /// The sizes of a tensor's axes, as its file says.
    pub(crate) fn shape(&self, name: &str) -> Result<&'a [i32], EngineError> {
        Ok(self.files.get(name)?.shape())
    }

    /// A tensor of numbers with this shape.
    pub(crate) fn floats(&mut self, name: &str, shape: &[i32]) -> Result<Array, EngineError> {
        self.array(name, shape, Kind::Floats)
    }

    fn matrix(&mut self, path: &str, n_in: i32, n_out: i32) -> Result<Matrix, EngineError> {
        self.matrix_from(&Source::one(path), n_in, n_out)
    }

    /// The matrix that lies in `source`, or a stack of matrices.
    pub(super) fn matrix_from(
        &mut self,
        source: &Source,
        n_in: i32,
        n_out: i32,
    ) -> Result<Matrix, EngineError> {
        let path = source.first();
        let is_quantized = self.contains(&format!("{path}.scales"));
        let quantization = self.quantization.and_then(|config| config.of(path));
        match quantization {
            Some(quantization) if is_quantized => {
                self.quantized_matrix(source, n_in, n_out, quantization)
            }
            _ if is_quantized => Err(bad(
                self.files.folder(),
                format!("{path} is quantised, but config.json does not say how"),
            )),
            // Layers that mlx-lm leaves unquantised (their sizes do not divide) have no scales.
            _ => {
                // Some authors' stacks of experts are named without `.weight`.
                let suffix = if self.contains(path) { "" } else { ".weight" };
                let weight = self.part(source, suffix, &[n_out, n_in], Kind::Floats)?;
                Ok(Matrix::Dense(weight))
            }
        }
    }

    fn quantized_matrix(
        &mut self,
        source: &Source,
        n_in: i32,
        n_out: i32,
        quantization: Quantization,
    ) -> Result<Matrix, EngineError> {
        let path = source.first();
        let Quantization {
            group_size,
            bits,
            mode,
        } = quantization;
        if n_in % group_size != 0 || n_in % 32 != 0 {
            return Err(bad(
                self.files.folder(),
                format!("{path}: {n_in} inputs cannot be split into groups of {group_size}"),
            ));
        }
        if self.contains(&format!("{path}.global_scale")) {
            return Err(bad(
                self.files.folder(),
                format!("{path} has a global scale, which is not supported"),
            ));
        }
        // `bits` bits an element, packed into 32-bit words; a group of 32 fills whole words.
        let words = [n_out, n_in / 32 * bits];
        let groups = [n_out, n_in / group_size];
        let packed = self.part(source, ".weight", &words, Kind::Words)?;
        let (scales, biases) = if mode.is_affine() {
            (
                self.part(source, ".scales", &groups, Kind::Floats)?,
                Some(self.part(source, ".biases", &groups, Kind::Floats)?),
            )
        } else {
            (self.part(source, ".scales", &groups, Kind::Bytes)?, None)
        };
        if self.compute == Compute::CpuDense {
            let stored = Packed {
                words: &packed,
                scales: &scales,
                biases: biases.as_ref(),
                quantization,
            };
            let dense = stored.dequantized().and_then(|dense| self.float(dense));
            let dense = dense.during(path)?;
            dense.eval().during(path)?;
            return Ok(Matrix::Dense(dense));
        }
        Ok(Matrix::Quantized {
            packed,
            scales,
            biases,
            quantization,
        })
    }

    /// One part of a matrix of this shape, or those of a stack of them.
    pub(super) fn part(
        &mut self,
        source: &Source,
        suffix: &str,
        shape: &[i32],
        kind: Kind,
    ) -> Result<Array, EngineError> {
        let stacked;
        let shape = match source {
            Source::Stack { n_experts, .. } => {
                stacked = [&[*n_experts], shape].concat();
                &stacked
            }
            _ => shape,
        };
        match source {
            Source::One(path) | Source::Stack { path, .. } => {
                self.array(&format!("{path}{suffix}"), shape, kind)
            }
            Source::Each(paths) => {
                let parts = paths
                    .iter()
                    .map(|path| self.array(&format!("{path}{suffix}"), shape, kind))
                    .collect::<Result<Vec<_>, _>>()?;
                let stack = ops::stack(&parts, 0).during(source.first())?;
                // Done now, so that the parts can be freed before the next layer's are read.
                stack.eval().during(source.first())?;
                Ok(stack)
            }
        }
    }

    /// The tensor of this name, checked and read.
    fn array(&mut self, name: &str, shape: &[i32], kind: Kind) -> Result<Array, EngineError> {
        let tensor = self.tensor(name, shape)?;
        let dtype = tensor.dtype();
        let is_right = match kind {
            Kind::Floats => is_float(dtype),
            Kind::Words => dtype == Dtype::Uint32,
            Kind::Bytes => dtype == Dtype::Uint8,
        };
        if !is_right {
            return Err(bad(
                tensor.path(),
                format!(
                    "tensor {name} holds {dtype:?}, but must hold {}",
                    kind.describe()
                ),
            ));
        }
        let array = self.read(tensor)?;
        let array = match kind {
            Kind::Floats => self.float(array).during(name)?,
            Kind::Words | Kind::Bytes => array,
        };
        self.count(tensor, &array)?;
        Ok(array)
    }

    fn read(&self, tensor: &Tensor) -> Result<Array, EngineError> {
        tensor.to_array(!self.compute.copies_weights())
    }

    /// Floats as the device wants them: f32 on a CPU, as stored elsewhere.
    fn float(&self, array: Array) -> MlxResult<Array> {
        if self.compute.is_cpu() && array.dtype() != Dtype::Float32 {
            array.as_dtype(Dtype::Float32)
        } else {
            Ok(array)
        }
    }

    fn tensor(&self, name: &str, shape: &[i32]) -> Result<&'a Tensor, EngineError> {
        let tensor = self.files.get(name)?;
        if tensor.shape() == shape {
            return Ok(tensor);
        }
        Err(bad(
            tensor.path(),
            format!(
                "tensor {name} has the shape {:?}, but config.json asks for {shape:?}",
                tensor.shape()
            ),
        ))
    }

    /// Puts `array` in place where it was converted, and reports its source as done. An array that
    /// is used as stored stays lazy: its pages are read when first needed.
    fn count(&mut self, source: &Tensor, array: &Array) -> Result<(), EngineError> {
        if self.context.control.is_stopped() {
            return Err(EngineError::Canceled);
        }
        if self.compute.is_cpu() {
            array.eval().during("reading weights")?;
        }
        self.progress.done_bytes += source.n_bytes();
        (self.context.on_progress)(self.progress);
        Ok(())
    }
}

/// Where the parts of a matrix lie.
#[derive(Debug)]
pub(super) enum Source {
    /// `path.weight` and so on.
    One(String),
    /// As [`Source::One`], a matrix an expert in one tensor.
    Stack { path: String, n_experts: i32 },
    /// A path an expert, of which there is at least one.
    Each(Vec<String>),
}

impl Source {
    /// The matrix at `path`.
    fn one(path: &str) -> Self {
        Self::One(path.to_owned())
    }

    /// The path, or that of the first expert: for messages, and for what is said once for all.
    pub(super) fn first(&self) -> &str {
        match self {
            Self::One(path) | Self::Stack { path, .. } => path,
            Self::Each(paths) => paths.first().map_or("", String::as_str),
        }
    }
}

/// What a tensor must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Numbers of 16 or 32 bits.
    Floats,
    /// Packed weights.
    Words,
    /// Scales of 8 bits.
    Bytes,
}

impl Kind {
    fn describe(self) -> &'static str {
        match self {
            Self::Floats => "floats",
            Self::Words => "quantised weights, packed as 32-bit integers",
            Self::Bytes => "scales of 8 bits",
        }
    }
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16)
}
