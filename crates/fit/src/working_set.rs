//! The share of unified memory that a GPU can use.

/// With up to this much memory, macOS lets a GPU use two thirds of it, with more, three quarters.
///
/// Source: `MTLDevice.recommendedMaxWorkingSetSize` as llama.cpp prints it: 10,922 MiB of 16 GB and
/// 21,845 MiB of 32 GB (<https://github.com/ggml-org/llama.cpp/pull/2011>), 49,152 MiB of 64 GB
/// (<https://github.com/ggml-org/llama.cpp/issues/1870>). Newer systems allow more on large machines,
/// 107 GiB of 128 GB, so the value is a lower bound.
const MAX_MEMORY_FOR_TWO_THIRDS: u64 = 36 << 30;

/// Returns the bytes that the GPU of a Mac with `memory_bytes` of memory can usually keep in use
/// without slowing down. Metal's own value, where there is one, takes precedence.
pub fn usual_working_set(memory_bytes: u64) -> u64 {
    match memory_bytes <= MAX_MEMORY_FOR_TWO_THIRDS {
        true => memory_bytes / 3 * 2,
        false => memory_bytes / 4 * 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_machines_give_a_larger_share_to_their_gpu() {
        for (memory, working_set) in [(18, 12), (36, 24), (48, 36), (64, 48), (128, 96)] {
            assert_eq!(
                usual_working_set(memory << 30),
                working_set << 30,
                "{memory} GB"
            );
        }
    }
}
