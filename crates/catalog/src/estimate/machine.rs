//! A machine, real or made up, and what models may use of it.

use serde::Serialize;
use transom_fit::Budget;

use super::Bandwidth;
use crate::facts::Format;
use crate::fit;

const GIB: u64 = 1 << 30;

/// Up to this much memory macOS lets a GPU keep two thirds of it in use, beyond that three quarters.
///
/// Seen in `MTLDevice.recommendedMaxWorkingSetSize` as llama.cpp prints it: 10,922 MiB of 16 GB and
/// 21,845 MiB of 32 GB (<https://github.com/ggml-org/llama.cpp/pull/2011>), 49,152 MiB of 64 GB
/// (<https://github.com/ggml-org/llama.cpp/issues/1870>). Newer systems give large machines more,
/// 107 GiB of 128 GB, so of a made-up machine this is the least.
const MOST_OF_TWO_THIRDS: u64 = 36 * GIB;

/// The machine, as far as estimates care.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes that a GPU which shares the memory keeps in use without slowing down; `None` without
    /// such a GPU, where the processor computes.
    pub working_set_bytes: Option<u64>,
    /// How fast memory delivers, where that is known.
    pub bandwidth: Option<Bandwidth>,
}

impl Machine {
    /// A Mac with so much memory, of which nothing else is known.
    pub fn with_memory(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            working_set_bytes: Some(working_set_bytes(memory_bytes)),
            bandwidth: Some(Bandwidth::of_memory(memory_bytes)),
        }
    }

    /// A machine by what is known of it: its memory, its GPU's working set if it has one that shares
    /// the memory, its chip's name, and how fast its memory was measured to deliver.
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
            // A processor reaches less than the GPU of the same chip, so what was measured with it
            // counts only where nothing was published.
            bandwidth: of_chip.or_else(|| measured_bytes_per_second.map(Bandwidth::measured)),
        }
    }

    /// What models may use together here; `setting` is what somebody set, in place of the defaults.
    pub fn budget(&self, setting: Option<u64>) -> Budget {
        Budget::new(self.memory_bytes, self.working_set_bytes, setting)
    }

    /// The form that goes first here: MLX where it has a GPU, else llama.cpp, which is many times
    /// faster on a processor.
    pub fn first_format(&self) -> Format {
        match self.working_set_bytes {
            Some(_) => Format::Safetensors,
            None => Format::Gguf,
        }
    }

    /// The same machine for the sums of [`crate::fit`].
    pub fn for_fit(&self) -> fit::Machine {
        fit::Machine {
            has_gpu: self.working_set_bytes.is_some(),
            memory_bytes: self.memory_bytes,
        }
    }
}

fn working_set_bytes(memory_bytes: u64) -> u64 {
    match memory_bytes <= MOST_OF_TWO_THIRDS {
        true => memory_bytes / 3 * 2,
        false => memory_bytes / 4 * 3,
    }
}
