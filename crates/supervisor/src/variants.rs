//! The order in which the variants of a model are tried on this machine.
//!
//! MLX runs a folder of safetensors, llama.cpp a GGUF file. With a GPU, MLX is the faster of the
//! two. Without one it is more than ten times slower than llama.cpp, so the GGUF file is tried
//! first. Rule: the order depends only on the paths and the hardware, and variants of the same kind
//! keep their order.

use transom_engine::ModelSource;
use transom_files::has_extension;
use transom_signals::Hardware;

/// Returns `variants` in the order in which they are tried on a machine with this `hardware`.
pub fn in_order(mut variants: Vec<ModelSource>, hardware: &Hardware) -> Vec<ModelSource> {
    let goes_last = match mlx_has_gpu(hardware) {
        true => is_gguf,
        false => |source: &ModelSource| !is_gguf(source),
    };
    variants.sort_by_key(goes_last);
    variants
}

/// Returns true if MLX uses a GPU on this machine. That is the case on Apple silicon, the only
/// hardware that reports a working set, because its GPU shares the memory. The MLX build that we
/// ship for other systems uses the CPU only, whatever graphics card there is.
pub fn mlx_has_gpu(hardware: &Hardware) -> bool {
    hardware.working_set_bytes.is_some()
}

fn is_gguf(source: &ModelSource) -> bool {
    has_extension(&source.path, "gguf")
}

/// Returns true if one engine runs both.
pub(crate) fn are_of_same_kind(one: &ModelSource, other: &ModelSource) -> bool {
    is_gguf(one) == is_gguf(other)
}

/// Returns true if both lists contain the same variants, in any order.
pub(crate) fn are_same(one: &[ModelSource], other: &[ModelSource]) -> bool {
    one == other || sorted(one) == sorted(other)
}

fn sorted(variants: &[ModelSource]) -> Vec<&ModelSource> {
    let mut variants: Vec<&ModelSource> = variants.iter().collect();
    variants.sort_by(|a, b| a.path.cmp(&b.path));
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(paths: &str, working_set_bytes: Option<u64>) -> String {
        let source = |path: &str| ModelSource { path: path.into() };
        let hardware = Hardware {
            chip_name: "test".to_owned(),
            memory_bytes: 16 << 30,
            n_performance_cores: 4,
            n_cores: 8,
            working_set_bytes,
            working_set_is_estimated: false,
        };
        let variants = in_order(paths.split(' ').map(source).collect(), &hardware);
        let paths = variants.iter().map(|source| source.path.to_string_lossy());
        paths.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn folders_are_tried_first_if_mlx_has_a_gpu_and_files_otherwise() {
        for given in ["m/m.gguf m", "m m/m.gguf"] {
            assert_eq!(ordered(given, Some(11 << 30)), "m m/m.gguf");
            assert_eq!(ordered(given, None), "m/m.gguf m");
        }
    }

    #[test]
    fn variants_of_one_kind_keep_their_order() {
        let given = "b.gguf d a.GGUF c e.safetensors";
        assert_eq!(ordered(given, Some(1)), "d c e.safetensors b.gguf a.GGUF");
        assert_eq!(ordered(given, None), "b.gguf a.GGUF d c e.safetensors");
    }
}
