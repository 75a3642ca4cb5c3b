//! The engines under test: their models, and the intended differences between them.
//!
//! Rule: every difference between engines is declared here with its reason, and cases check the
//! engine against the declaration. No case is skipped.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::{damage, models};

/// Whether an engine supports an optional feature of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// It is supported.
    Yes,
    /// It is not supported, for this reason.
    No(&'static str),
}

impl Support {
    pub(crate) fn is_supported(self) -> bool {
        self == Self::Yes
    }
}

/// An engine with models that it can run.
pub(crate) struct Subject {
    /// The argument of the engine process for this engine.
    pub(crate) argument: &'static str,
    /// The name of the engine.
    pub(crate) engine: &'static str,
    /// A model with two layers of random weights, one token per byte, and a context of 4,096
    /// tokens.
    pub(crate) tiny: PathBuf,
    /// The folder that `tiny` is, or from which it was converted.
    pub(crate) tiny_folder: PathBuf,
    /// The starter model, which generates real text, with the most exact computation of the engine,
    /// so that comparisons do not depend on rounding.
    pub(crate) starter: PathBuf,
    /// The starter model as shipped.
    pub(crate) shipped: PathBuf,
    /// A valid model of the other engine.
    pub(crate) unsupported_model: PathBuf,
    /// Converts a folder in the layout of `tiny_folder` to a model for this engine.
    pub(crate) convert: fn(folder: &Path, to: &Path) -> PathBuf,
    /// Creates a model of each supported family in a folder.
    pub(crate) families: fn(&Path) -> Vec<PathBuf>,
    /// Creates models that cannot be loaded in a folder.
    pub(crate) damaged: fn(&Path) -> Vec<damage::BrokenModel>,
    /// Creates models whose parts are valid but inconsistent in a folder.
    pub(crate) contradictory: fn(&Path) -> Vec<damage::BrokenModel>,
    /// Aborts its process on some of these instead of refusing them.
    pub(crate) may_abort: Support,
    /// Drops the older half of a full context and continues.
    pub(crate) shifts_context: Support,
    /// Saves the KV cache to a file and restores it.
    pub(crate) saves_state: Support,
    /// Has a smaller KV cache type.
    pub(crate) has_small_kv_cache: Support,
    /// The most tokens of a prefill step on a CPU.
    pub(crate) max_prefill: usize,
    /// Tokens at the end of a shared prefix that are computed again.
    pub(crate) reuse_slack: usize,
    /// Bytes in the reported peak that no model needs: an engine without its own count reports the
    /// peak of the process, which includes the program.
    pub(crate) extra_peak_bytes: u64,
}

pub(crate) static MLX: LazyLock<Subject> = LazyLock::new(|| {
    let models = models::shared_models();
    Subject {
        argument: "mlx",
        engine: "mlx",
        tiny: models.tiny_folder.clone(),
        tiny_folder: models.tiny_folder.clone(),
        starter: models::starter_folder(),
        shipped: models::starter_folder(),
        unsupported_model: models.tiny_gguf.clone(),
        convert: models::as_folder,
        families: models::every_family_folder,
        damaged: damage::damaged_folders,
        contradictory: damage::contradictory_folders,
        may_abort: Support::No("everything is checked before MLX gets it"),
        shifts_context: Support::No("its cache cannot move positions"),
        saves_state: Support::Yes,
        has_small_kv_cache: Support::No("its cache has one element type"),
        max_prefill: usize::MAX,
        reuse_slack: 0,
        extra_peak_bytes: 0,
    }
});

pub(crate) static LLAMA: LazyLock<Subject> = LazyLock::new(|| {
    let models = models::shared_models();
    Subject {
        argument: "llama",
        engine: "llama.cpp",
        tiny: models.tiny_gguf.clone(),
        tiny_folder: models.tiny_folder.clone(),
        starter: models.starter_gguf.clone(),
        shipped: models.shipped_gguf.clone(),
        unsupported_model: models.tiny_folder.clone(),
        convert: models::as_gguf,
        families: models::family_ggufs,
        damaged: damage::damaged_ggufs,
        contradictory: damage::contradictory_ggufs,
        may_abort: Support::Yes,
        shifts_context: Support::Yes,
        saves_state: Support::Yes,
        has_small_kv_cache: Support::Yes,
        max_prefill: transom_catalog::fit::llama::max_prefill(false) as usize,
        reuse_slack: 0,
        extra_peak_bytes: 48 << 20,
    }
});
