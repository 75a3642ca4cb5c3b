//! The device that MLX computes on, and how weights are stored and multiplied there.

mod gpu;
pub(crate) mod metallib;

use mlx_rs::{Device, DeviceType};
use transom_catalog::ModelFacts;
use transom_catalog::fit::mlx;

use crate::error::MlxResult;
use crate::ops::KernelLanguage;
use gpu::GpuInfo;

/// How weights are stored in memory and multiplied.
///
/// Measured with MLX 0.32 on an x86-64 CPU: quantized products reach about 1 GFLOP/s in f32, a
/// tenth of that in bf16 and a fiftieth in f16, while dense f32 products through OpenBLAS reach 30
/// to 40. So a CPU always computes in f32, and with dense weights if the dequantized weights fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compute {
    /// Apple GPU: weights stay as stored, in the mapped pages of their file.
    Metal(GpuInfo),
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
        Ok(match gpu_language()? {
            Some(KernelLanguage::Metal) => Self::Metal(GpuInfo::read()?),
            Some(KernelLanguage::Cuda) => Self::Cuda,
            None if mlx::fits_dense(facts, dense_limit_bytes) => Self::CpuDense,
            None => Self::CpuQuantized,
        })
    }

    /// Returns the language of the GPU's kernels; `None` on a CPU.
    pub(crate) fn kernel_language(self) -> Option<KernelLanguage> {
        match self {
            Self::Metal(_) => Some(KernelLanguage::Metal),
            Self::Cuda => Some(KernelLanguage::Cuda),
            Self::CpuDense | Self::CpuQuantized => None,
        }
    }

    /// Returns the storage of the weights, for the estimate of the memory need.
    pub(crate) fn weights(self) -> mlx::Weights {
        match self {
            Self::Metal(_) | Self::Cuda => mlx::Weights::AsStored,
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
        !matches!(self, Self::Metal(_))
    }

    /// Returns the tokens per prefill step of the model with these facts. The number does not depend
    /// on the measured speed, because other chunks round differently, and the same prompt must get the
    /// same response.
    pub(crate) fn prefill_chunk(self, facts: &ModelFacts) -> usize {
        let gpu = match self {
            Self::Cuda => return 2048,
            Self::Metal(gpu) => Some(gpu.class),
            Self::CpuDense | Self::CpuQuantized => None,
        };
        mlx::prefill_chunk(facts, gpu) as usize
    }

    /// Returns the numbers of tokens per step that speculative decoding may verify for a model with
    /// these facts, the smallest first; none where every token costs about a step. Which of them
    /// pay is measured.
    pub(crate) fn step_widths(self, facts: &ModelFacts) -> Vec<usize> {
        match self {
            Self::Metal(gpu) => metal_step_widths(gpu.generation, attention_group(facts)),
            Self::Cuda => vec![2, 4, 8],
            Self::CpuDense | Self::CpuQuantized => vec![2, 4, 8, mlx::MAX_STEP_WIDTH as usize],
        }
    }

    /// Returns how many tokens of forced text a step reads at most. MLX's quantized product for a few
    /// rows takes longer on CUDA than as many steps.
    pub(crate) fn forced_step(self) -> usize {
        match self {
            Self::Cuda => 1,
            Self::Metal(_) | Self::CpuDense | Self::CpuQuantized => usize::MAX,
        }
    }

    /// Returns the bytes that may be wired while a response runs; 0 where nothing can be wired.
    pub(crate) fn wired_limit(self) -> usize {
        match self {
            Self::Metal(gpu) => gpu.working_set_bytes,
            Self::Cuda | Self::CpuDense | Self::CpuQuantized => 0,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Metal(_) => "as stored, on the Apple GPU (Metal)",
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

/// Returns the largest number of query heads that share a key-value head.
fn attention_group(facts: &ModelFacts) -> u64 {
    let n_kv_heads = facts.n_kv_heads.iter().copied().filter(|&n| n > 0).min();
    facts.n_heads.unwrap_or(1) / n_kv_heads.unwrap_or(1)
}

/// Returns the widths for an Apple GPU of this generation (13 in the M1, 15 in the M3).
///
/// MLX 0.32 has a product of quantized weights with a few rows that reads the weights once
/// (`qmv_wide`), for affine quantization only from generation 15 on; older GPUs read them once per
/// row. Its attention for few queries takes at most 8 tokens, and 32 query heads per key-value head
/// over all of them (`sdpa_vector`).
fn metal_step_widths(generation: Option<u32>, attention_group: u64) -> Vec<usize> {
    if generation.is_none_or(|generation| generation < 15) {
        return Vec::new();
    }
    let widths = [2_usize, 4, 8].into_iter();
    let fitting = widths.filter(|&width| width as u64 * attention_group <= 32);
    fitting.collect()
}

/// Returns the language of the kernels of MLX's default device; `None` if that is the CPU.
pub(crate) fn gpu_language() -> MlxResult<Option<KernelLanguage>> {
    Ok(match Device::try_default()?.get_type()? {
        DeviceType::Gpu if is_metal() => Some(KernelLanguage::Metal),
        DeviceType::Gpu => Some(KernelLanguage::Cuda),
        DeviceType::Cpu => None,
    })
}

#[expect(unsafe_code, reason = "calls into mlx-c")]
fn is_metal() -> bool {
    let mut available = false;
    // SAFETY: the call writes one bool.
    let status = unsafe { mlx_sys::mlx_metal_is_available(&mut available) };
    status == 0 && available
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metal_verifies_widths_that_its_kernels_take_at_once() {
        for (generation, group, expected) in [
            (Some(15), 1, vec![2, 4, 8]),
            (Some(16), 4, vec![2, 4, 8]),
            (Some(16), 5, vec![2, 4]),
            (Some(17), 8, vec![2, 4]),
            (Some(15), 16, vec![2]),
            (Some(15), 24, vec![]),
            (Some(14), 4, vec![]),
            (Some(13), 1, vec![]),
            (None, 1, vec![]),
        ] {
            let widths = metal_step_widths(generation, group);
            assert_eq!(widths, expected, "{generation:?}, {group}");
        }
    }

    #[test]
    fn the_largest_attention_group_counts() {
        let mut facts = ModelFacts {
            n_heads: Some(16),
            n_kv_heads: vec![8, 0, 2],
            ..facts()
        };
        assert_eq!(attention_group(&facts), 8);
        facts.n_kv_heads.clear();
        assert_eq!(attention_group(&facts), 16);
    }

    fn facts() -> ModelFacts {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        crate::memory::facts(&root.join("assets/starter")).expect("the starter is complete")
    }
}
