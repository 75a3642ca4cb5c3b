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
        let tensor = self.float_tensor(name, &[size])?.clone();
        let array = self.read(&tensor)?;
        let array = self.float(array).during(name)?;
        self.count(&[&tensor], &[&array])?;
        Ok(array)
    }

    fn matrix(&mut self, path: &str, n_in: i32, n_out: i32) -> Result<Matrix, EngineError> {
        let is_quantized = self.contains(&format!("{path}.scales"));
        let quantization = self.quantization.and_then(|config| config.of(path));
        match quantization {
            Some(quantization) if is_quantized => {
                self.quantized_matrix(path, n_in, n_out, quantization)
            }
            _ if is_quantized => Err(bad(
                self.files.folder(),
                format!("{path} is quantised, but config.json does not say how"),
            )),
            // Layers that mlx-lm leaves unquantised (their sizes do not divide) have no scales.
            _ => {
                let name = format!("{path}.weight");
                let tensor = self.float_tensor(&name, &[n_out, n_in])?.clone();
                let weight = self.read(&tensor)?;
                let weight = self.float(weight).during(&name)?;
                self.count(&[&tensor], &[&weight])?;
                Ok(Matrix::Dense(weight))
            }
        }
    }

    fn quantized_matrix(
        &mut self,
        path: &str,
        n_in: i32,
        n_out: i32,
        quantization: Quantization,
    ) -> Result<Matrix, EngineError> {
        let Quantization { group_size, bits } = quantization;
        if n_in % group_size != 0 {
            return Err(bad(
                self.files.folder(),
                format!("{path}: {n_in} inputs cannot be split into groups of {group_size}"),
            ));
        }
        // `bits` bits an element, packed into 32-bit words; a group of 32 fills whole words.
        let packed = [n_out, n_in / 32 * bits];
        let groups = [n_out, n_in / group_size];
        let weight_name = format!("{path}.weight");
        let weight = self.tensor(&weight_name, &packed)?.clone();
        if weight.dtype() != Dtype::Uint32 {
            return Err(bad(
                weight.path(),
                format!("tensor {weight_name} is quantised, but not packed as 32-bit integers"),
            ));
        }
        let scales = self
            .float_tensor(&format!("{path}.scales"), &groups)?
            .clone();
        let biases = self
            .float_tensor(&format!("{path}.biases"), &groups)?
            .clone();
        let packed = self.read(&weight)?;
        let (scale, bias) = (self.read(&scales)?, self.read(&biases)?);
        let scale = self.float(scale).during(path)?;
        let bias = self.float(bias).during(path)?;
        let sources = [&weight, &scales, &biases];
        if self.compute == Compute::CpuDense {
            let dense = ops::dequantize(&packed, &scale, &bias, group_size, bits).during(path)?;
            self.count(&sources, &[&dense])?;
            return Ok(Matrix::Dense(dense));
        }
        self.count(&sources, &[&packed, &scale, &bias])?;
        Ok(Matrix::Quantized {
            packed,
            scales: scale,
            biases: bias,
            quantization,
        })
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

    fn float_tensor(&self, name: &str, shape: &[i32]) -> Result<&'a Tensor, EngineError> {
        let tensor = self.tensor(name, shape)?;
        match tensor.dtype() {
            Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16 => Ok(tensor),
            other => Err(bad(
                tensor.path(),
                format!("tensor {name} holds {other:?}, but must hold floats"),
            )),
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

    /// Puts `arrays` in place where they were converted, and reports their sources as done. Arrays
    /// that are used as stored stay lazy: their pages are read when first needed.
    fn count(&mut self, sources: &[&Tensor], arrays: &[&Array]) -> Result<(), EngineError> {
        if self.context.control.is_stopped() {
            return Err(EngineError::Cancelled);
        }
        if self.compute.is_cpu() {
            mlx_rs::transforms::eval(arrays.iter().copied()).during("reading weights")?;
        }
        self.progress.done_bytes += sources.iter().map(|tensor| tensor.n_bytes()).sum::<u64>();
        (self.context.on_progress)(self.progress);
        Ok(())
    }
}
