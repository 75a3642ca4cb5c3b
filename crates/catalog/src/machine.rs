//! A machine, real or made up, and its memory budget.

mod bandwidth;

use serde::Serialize;
use transom_fit::Budget;

pub use bandwidth::{Bandwidth, BandwidthBasis};

use crate::facts::Format;

const GIB: u64 = 1 << 30;

/// With up to this much memory, macOS lets a GPU use two thirds of it, with more, three quarters.
///
/// Source: `MTLDevice.recommendedMaxWorkingSetSize` as llama.cpp prints it: 10,922 MiB of 16 GB and
/// 21,845 MiB of 32 GB (<https://github.com/ggml-org/llama.cpp/pull/2011>), 49,152 MiB of 64 GB
/// (<https://github.com/ggml-org/llama.cpp/issues/1870>). Newer systems allow more on large machines,
/// 107 GiB of 128 GB, so the value for a made-up machine is a lower bound.
const MAX_MEMORY_FOR_TWO_THIRDS: u64 = 36 * GIB;

/// The properties of a machine on which memory needs and speeds depend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes that a GPU with unified memory can use without slowing down; `None` without such a GPU,
    /// where the CPU computes.
    pub working_set_bytes: Option<u64>,
    /// Memory bandwidth, if known.
    pub bandwidth: Option<Bandwidth>,
}

impl Machine {
    /// Returns a Mac with this much memory, of which nothing else is known.
    pub fn with_memory(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            working_set_bytes: Some(working_set_bytes(memory_bytes)),
            bandwidth: Some(Bandwidth::of_memory(memory_bytes)),
        }
    }

    /// Returns a machine by its memory, the working set of its GPU if that has unified memory, the name
    /// of its chip, and the measured memory bandwidth.
    pub fn new(
        memory_bytes: u64,
        working_set_bytes: Option<u64>,
        chip_name: &str,
        measured_bytes_per_second: Option<u64>,
    ) -> Self {
        let of_chip = Bandwidth::of_chip(chip_name);
        Self {
            memory_bytes,
            working_set_bytes,
            // A CPU reaches less than the GPU of the same chip, so a measurement counts only for
            // chips without a published bandwidth.
            bandwidth: of_chip.or_else(|| measured_bytes_per_second.map(Bandwidth::measured)),
        }
    }

    /// Returns the memory budget; `setting` is the user's own, which replaces the defaults.
    pub fn budget(&self, setting: Option<u64>) -> Budget {
        Budget::new(self.memory_bytes, self.working_set_bytes, setting)
    }

    /// Returns true if the engines compute on a GPU with unified memory, as on Apple silicon.
    pub fn has_gpu(&self) -> bool {
        self.working_set_bytes.is_some()
    }

    /// Returns the preferred format: safetensors (MLX) with a GPU, else GGUF, because llama.cpp is many
    /// times faster on a CPU.
    pub fn preferred_format(&self) -> Format {
        match self.has_gpu() {
            true => Format::Safetensors,
            false => Format::Gguf,
        }
    }
}

fn working_set_bytes(memory_bytes: u64) -> u64 {
    match memory_bytes <= MAX_MEMORY_FOR_TWO_THIRDS {
        true => memory_bytes / 3 * 2,
        false => memory_bytes / 4 * 3,
    }
}
