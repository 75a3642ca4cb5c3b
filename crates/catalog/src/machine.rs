//! A machine, real or made up, and its memory budget.

mod bandwidth;

use serde::Serialize;
use transom_fit::{Budget, usual_working_set};

pub use bandwidth::{Bandwidth, BandwidthBasis};

use crate::facts::Format;

/// The properties of a machine on which memory needs and speeds depend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes that a GPU with unified memory can use without slowing down; `None` without such a GPU,
    /// where the CPU computes.
    pub working_set_bytes: Option<u64>,
    /// Class of that GPU.
    pub gpu_class: GpuClass,
    /// Memory bandwidth, if known.
    pub bandwidth: Option<Bandwidth>,
}

impl Machine {
    /// Returns a Mac with this much memory, of which nothing else is known.
    pub fn with_memory(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            working_set_bytes: Some(usual_working_set(memory_bytes)),
            gpu_class: GpuClass::Base,
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
            gpu_class: GpuClass::of_chip(chip_name),
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
        self.gpu().is_some()
    }

    /// Returns the class of the GPU with unified memory; `None` if the engines compute on the CPU.
    pub fn gpu(&self) -> Option<GpuClass> {
        self.working_set_bytes.map(|_| self.gpu_class)
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

/// The class of an Apple GPU. Each is about twice as fast as the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuClass {
    /// Such as M4; also unknown chips.
    Base,
    /// Such as M4 Pro.
    Pro,
    /// Such as M4 Max.
    Max,
    /// Such as M3 Ultra.
    Ultra,
}

impl GpuClass {
    /// Returns the class of the chip with this full name, such as `Apple M4 Max`.
    pub fn of_chip(name: &str) -> Self {
        let name = name
            .strip_prefix("Apple M")
            .and_then(|name| name.split_once(' '));
        match name {
            Some((_, "Pro")) => Self::Pro,
            Some((_, "Max")) => Self::Max,
            Some((_, "Ultra")) => Self::Ultra,
            _ => Self::Base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_name_of_a_chip_says_the_class_of_its_gpu() {
        for (name, class) in [
            ("Apple M1", GpuClass::Base),
            ("Apple M3 Pro", GpuClass::Pro),
            ("Apple M4 Max", GpuClass::Max),
            ("Apple M10 Ultra", GpuClass::Ultra),
            ("Apple A18 Pro", GpuClass::Base),
            ("AMD Max", GpuClass::Base),
            ("", GpuClass::Base),
        ] {
            let on = |working_set_bytes| Machine::new(16 * GIB, working_set_bytes, name, None);
            assert_eq!(on(Some(11 * GIB)).gpu(), Some(class), "{name}");
            assert_eq!(on(None).gpu(), None, "{name}");
        }
    }
}
