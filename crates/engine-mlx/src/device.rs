//! The device that MLX computes on, and how weights are stored and multiplied there.

use mlx_rs::{Device, DeviceType};
use transom_catalog::ModelFacts;
use transom_catalog::fit::mlx;

use crate::error::MlxResult;

/// How weights are stored in memory and multiplied.
///
/// Measured with MLX 0.32 on an x86-64 CPU: quantized products reach about 1 GFLOP/s in f32, a
/// tenth of that in bf16 and a fiftieth in f16, while dense f32 products through OpenBLAS reach 30
/// to 40. So a CPU always computes in f32, and with dense weights if the dequantized weights fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compute {
    /// Apple GPU: weights stay as stored, in the mapped pages of their file.
    Metal,
    /// NVIDIA GPU: weights stay as stored, copied to the device.
    Cuda,
    /// CPU: all weights are dequantized to dense f32 at load.
    CpuDense,
    /// CPU: weights stay quantized; scales and activations are f32.
    CpuQuantized,
}

impl Compute {
    /// Chooses for the model with these facts, if its dense f32 weights may take
    /// `dense_limit_bytes`.
    pub(crate) fn choose(facts: &ModelFacts, dense_limit_bytes: u64) -> MlxResult<Self> {
        Ok(match Device::try_default()?.get_type()? {
            DeviceType::Gpu if is_metal() => Self::Metal,
            DeviceType::Gpu => Self::Cuda,
            DeviceType::Cpu if mlx::fits_dense(facts, dense_limit_bytes) => Self::CpuDense,
            DeviceType::Cpu => Self::CpuQuantized,
        })
    }

    /// Returns the storage of the weights, for the estimate of the memory need.
    pub(crate) fn weights(self) -> mlx::Weights {
        match self {
            Self::Metal | Self::Cuda => mlx::Weights::AsStored,
            Self::CpuDense => mlx::Weights::Dense,
            Self::CpuQuantized => mlx::Weights::Packed,
        }
    }

    pub(crate) fn is_cpu(self) -> bool {
        matches!(self, Self::CpuDense | Self::CpuQuantized)
    }

    /// Returns true if loading copies the weights anyway, so that fusing matrices needs no more
    /// memory.
    pub(crate) fn copies_weights(self) -> bool {
        self != Self::Metal
    }

    /// Returns the tokens per prefill step: enough to use the whole device, and few enough to
    /// cancel within about a second. The number does not depend on the measured speed, because
    /// other chunks round differently, and the same prompt must get the same response.
    pub(crate) fn prefill_chunk(self) -> usize {
        match self {
            Self::Cuda => 2048,
            Self::Metal | Self::CpuDense | Self::CpuQuantized => mlx::PREFILL_CHUNK as usize,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Metal => "as stored, on the Apple GPU (Metal)",
            Self::Cuda => "as stored, on the NVIDIA GPU (CUDA)",
            Self::CpuDense => "dense f32, on the CPU",
            Self::CpuQuantized => "quantized weights and f32 activations, on the CPU",
        }
    }
}

/// Returns the bytes that dense f32 weights may take on this machine.
pub(crate) fn dense_limit_bytes() -> u64 {
    mlx::dense_limit_bytes(physical_memory_bytes())
}

#[expect(unsafe_code, reason = "sysconf has no safe form in libc")]
fn physical_memory_bytes() -> u64 {
    // SAFETY: sysconf takes a constant and has no other effect.
    let (pages, page_size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page_size).unwrap_or(0)
}

#[expect(unsafe_code, reason = "calls into mlx-c")]
fn is_metal() -> bool {
    let mut available = false;
    // SAFETY: the call writes one bool.
    let status = unsafe { mlx_sys::mlx_metal_is_available(&mut available) };
    status == 0 && available
}
