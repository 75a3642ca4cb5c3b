//! The engines under test: their models, and where they are meant to differ.
//!
//! Rule: a difference between engines stands here with its reason, and the case then holds the
//! engine to what was declared. Nothing is skipped.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::{damage, files};

/// Whether an engine does what the contract leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declared {
    /// It does.
    Does,
    /// It does not, and why.
    DoesNot(&'static str),
}

impl Declared {
    pub(crate) fn does(self) -> bool {
        self == Self::Does
    }
}

/// One engine, with models that it can run.
pub(crate) struct Subject {
    /// The suite's program's word for it.
    pub(crate) word: &'static str,
    /// Its own name.
    pub(crate) engine: &'static str,
    /// Two layers of random weights, a token for each byte, 4,096 tokens of context.
    pub(crate) tiny: PathBuf,
    /// The folder that `tiny` is, or was made of.
    pub(crate) tiny_folder: PathBuf,
    /// The starter model, which speaks, computed as exactly as the engine can: what is compared
    /// must not hang on how a step rounds.
    pub(crate) starter: PathBuf,
    /// The starter model as it ships.
    pub(crate) shipped: PathBuf,
    /// A sound model of the other engine.
    pub(crate) foreign: PathBuf,
    /// Makes a model for this engine of a folder in the layout of `tiny_folder`, in a folder.
    pub(crate) make: fn(folder: &Path, to: &Path) -> PathBuf,
    /// Makes a model of each family that it runs, in a folder.
    pub(crate) families: fn(&Path) -> Vec<PathBuf>,
    /// Makes models that cannot be loaded, in a folder.
    pub(crate) damaged: fn(&Path) -> Vec<damage::Damaged>,
    /// Makes models whose parts are sound and contradict each other, in a folder.
    pub(crate) contradictory: fn(&Path) -> Vec<damage::Damaged>,
    /// Ends its process over some of these, rather than refuse them.
    pub(crate) asserts: Declared,
    /// Forgets the older half of a full context and goes on.
    pub(crate) shifts_context: Declared,
    /// Guesses tokens ahead.
    pub(crate) speculates: Declared,
    /// Writes a conversation to a file and takes it up again.
    pub(crate) keeps_state: Declared,
    /// Keeps keys and values in fewer bytes when asked to.
    pub(crate) has_small_kv_cache: Declared,
    /// Tokens of a shared prefix that are computed again.
    pub(crate) reuse_slack: usize,
    /// Bytes that the engine counts in its peak, though no model needs them: where it has no count
    /// of its own, the process's is taken, with the program itself in it.
    pub(crate) beside_bytes: u64,
}

pub(crate) static MLX: LazyLock<Subject> = LazyLock::new(|| {
    let models = files::models();
    Subject {
        word: "mlx",
        engine: "mlx",
        tiny: models.tiny_folder.clone(),
        tiny_folder: models.tiny_folder.clone(),
        starter: files::starter_folder(),
        shipped: files::starter_folder(),
        foreign: models.tiny_gguf.clone(),
        make: files::as_folder,
        families: files::every_family_folder,
        damaged: damage::damaged_folders,
        contradictory: damage::contradictory_folders,
        asserts: Declared::DoesNot("everything is checked here before MLX sees it"),
        shifts_context: Declared::DoesNot("its cache has no room to move positions in"),
        speculates: Declared::DoesNot("only llama.cpp checks several tokens in one cheap step"),
        keeps_state: Declared::Does,
        has_small_kv_cache: Declared::DoesNot("its cache has one element type"),
        reuse_slack: 0,
        beside_bytes: 0,
    }
});

pub(crate) static LLAMA: LazyLock<Subject> = LazyLock::new(|| {
    let models = files::models();
    Subject {
        word: "llama",
        engine: "llama.cpp",
        tiny: models.tiny_gguf.clone(),
        tiny_folder: models.tiny_folder.clone(),
        starter: models.starter_gguf.clone(),
        shipped: models.shipped_gguf.clone(),
        foreign: models.tiny_folder.clone(),
        make: files::as_gguf,
        families: files::family_ggufs,
        damaged: damage::damaged_ggufs,
        contradictory: damage::contradictory_ggufs,
        asserts: Declared::Does,
        shifts_context: Declared::Does,
        speculates: Declared::Does,
        keeps_state: Declared::Does,
        has_small_kv_cache: Declared::Does,
        reuse_slack: 0,
        beside_bytes: 48 << 20,
    }
});
