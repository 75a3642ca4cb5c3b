//! A machine, real or made up, and what models may use of it.
//!
//! Rule: the budget is the supervisor's, figure for figure; it stands here as well because rooms that
//! decide before a load do not know the supervisor. The conformance suite holds both side by side.

use serde::Serialize;

use super::Bandwidth;
use crate::facts::Format;
use crate::fit;

const GIB: u64 = 1 << 30;

/// Of the GPU's working set, what other programs' windows need.
const WORKING_SET_RESERVE_BYTES: u64 = GIB / 2;

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

/// What models may use together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The least of the bounds.
    pub total_bytes: u64,
    /// What it follows from.
    pub bounds: Vec<Bound>,
}

/// One of the bounds of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Of what.
    pub kind: BoundKind,
    /// How much there is.
    pub of_bytes: u64,
    /// How much of it is left to the system and other programs.
    pub kept_bytes: u64,
}

/// What bounds a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundKind {
    /// The memory.
    Memory,
    /// What the GPU keeps in use without slowing down.
    WorkingSet,
    /// What somebody set.
    Setting,
}

impl Bound {
    /// What it leaves to models.
    pub fn bytes(&self) -> u64 {
        self.of_bytes.saturating_sub(self.kept_bytes)
    }
}

impl Budget {
    /// The budget of `machine`; `setting` is what somebody set, in place of the defaults.
    pub fn of(machine: &Machine, setting: Option<u64>) -> Self {
        let memory = machine.memory_bytes;
        let of_memory = |kept_bytes| Bound {
            kind: BoundKind::Memory,
            of_bytes: memory,
            kept_bytes,
        };
        let bounds: Vec<Bound> = match setting {
            Some(of_bytes) => vec![
                Bound {
                    kind: BoundKind::Setting,
                    of_bytes,
                    kept_bytes: 0,
                },
                of_memory(least_headroom_bytes(memory)),
            ],
            None => {
                let of_gpu = machine.working_set_bytes.map(|of_bytes| Bound {
                    kind: BoundKind::WorkingSet,
                    of_bytes,
                    kept_bytes: WORKING_SET_RESERVE_BYTES,
                });
                let of_memory = of_memory(headroom_bytes(memory));
                [of_memory].into_iter().chain(of_gpu).collect()
            }
        };
        let total_bytes = bounds.iter().map(Bound::bytes).min();
        Self {
            total_bytes: total_bytes.unwrap_or(0),
            bounds,
        }
    }
}

/// What the system and other programs keep in any case: 2 GB, or half of a very small memory.
fn least_headroom_bytes(memory_bytes: u64) -> u64 {
    (2 * GIB).min(memory_bytes / 2)
}

/// What the system and other programs keep by default: a quarter of the memory, within 2 and 4 GB.
fn headroom_bytes(memory_bytes: u64) -> u64 {
    let quarter = memory_bytes / 4;
    quarter.clamp(least_headroom_bytes(memory_bytes), 4 * GIB)
}
