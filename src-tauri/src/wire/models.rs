//! Models as pages see them: installed models and models to download.
//!
//! Rule: a page computes nothing that a crate knows. Each row comes with its fit, speed and size.

use serde::Serialize;
use transom_library::{PairKind, Sampling, Speed, Tag};
use ts_rs::TS;

/// An installed model.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct ModelView {
    /// The id that commands and settings use.
    pub id: String,
    /// Display name: the catalog's name with the quantization, else the name of the folder or file.
    pub name: String,
    /// Where it comes from.
    pub origin: OriginView,
    /// It is in our models folder, so its files can be deleted.
    pub can_be_removed: bool,
    /// It is the selected model.
    pub is_chosen: bool,
    /// The id of its catalog entry.
    pub entry: Option<String>,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// The recommendations of its authors, if known.
    pub sampling: Option<Sampling>,
    /// Facts from its files; `None` if they cannot be used.
    pub facts: Option<FactsView>,
    /// Why its files cannot be used.
    pub problem: Option<ModelErrorView>,
    /// It makes embedding vectors and generates no text.
    pub is_embedder: bool,
    /// It is selected, but no longer installed.
    pub is_missing: bool,
}

/// Why a model cannot be used, found, added or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct ModelErrorView {
    /// The code of the sentence, such as `truncated`.
    pub code: String,
    /// The name of the file, folder or model.
    pub file: String,
    /// What else the sentence names, such as a version or an entry; may be empty.
    pub value: String,
    /// The whole error in English.
    pub detail: String,
}

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub enum OriginView {
    /// It is the small model that came with the app.
    Starter,
    /// It is in our models folder.
    Ours,
    /// The user added it by path. It can be removed from the list without deleting files.
    Added,
    /// Another program downloaded it. Its files stay there.
    Elsewhere {
        /// The program's name.
        app: String,
    },
}

/// Facts from a model's files.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct FactsView {
    /// Number of parameters.
    pub n_parameters: u64,
    /// The quantization of most weights: `4-bit`, `Q4_K`, ….
    pub quantization: String,
    /// `mlx`, `gguf`, or both.
    pub formats: Vec<String>,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// The maximum context length in tokens.
    pub max_context_length: Option<u64>,
    /// It has a chat template.
    pub has_chat_template: bool,
    /// Whether it reasons if the user does not choose; `None` if that can't be switched.
    pub default_thinking: Option<bool>,
}

/// An installed model that is better suited for a task than the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct ModelOffer {
    /// Its id.
    pub id: String,
    /// Its display name.
    pub name: String,
}

/// The memory that a model needs, by part, and whether it fits.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct FitView {
    /// Weights.
    pub weight_bytes: u64,
    /// KV cache at full context.
    pub kv_cache_bytes: u64,
    /// Working memory.
    pub headroom_bytes: u64,
    /// Draft model.
    pub draft_bytes: u64,
    /// Saved prefixes of earlier conversations.
    pub prefix_bytes: u64,
    /// Bytes that all models may use.
    pub budget_bytes: u64,
    /// Bytes of the budget that are used by models that would not be unloaded.
    pub taken_bytes: u64,
    /// The context length for these numbers.
    pub context_length: u64,
    /// The longest context that would fit; `None` if none does.
    pub context_that_fits: Option<u64>,
    /// The total fits.
    pub fits: bool,
    /// How well it fits.
    pub summary: FitSummary,
    /// The estimated speed, if known.
    pub speed: Option<Speed>,
    /// The working memory was corrected by measurements on this machine.
    pub is_measured: bool,
}

/// How well a model fits this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "fit", rename_all = "snake_case")]
pub enum FitSummary {
    /// It fits.
    Fits,
    /// It fits with a shorter context.
    Context {
        /// The context length in tokens.
        tokens: u64,
    },
    /// It would fit if other programs released memory.
    OthersClose {
        /// Bytes that must become free.
        bytes: u64,
    },
    /// It does not fit.
    TooLarge {
        /// Bytes that it needs.
        need_bytes: u64,
        /// Bytes that models may use.
        room_bytes: u64,
    },
}

/// The models that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct CatalogView {
    /// Smallest first within a family.
    pub entries: Vec<EntryView>,
    /// Recommendations for this machine.
    pub recommended: Vec<RecommendedView>,
    /// Two models that fit together on this machine.
    pub pair: Option<PairView>,
    /// The machine's memory in bytes.
    pub memory_bytes: u64,
    /// Bytes that models may use together.
    pub room_bytes: u64,
    /// Free bytes on the disk for downloads; `None` if the system does not report them.
    pub disk_free_bytes: Option<u64>,
    /// Bytes that the running downloads still need.
    pub disk_reserved_bytes: u64,
    /// The error in the user's own catalog, which is not used until it is fixed.
    pub error: Option<CatalogErrorView>,
    /// The path of the user's own catalog, which may not exist.
    pub user_file: String,
}

/// An error in the user's own catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct CatalogErrorView {
    /// The file.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// The code of the catalog crate, such as `missing_key`.
    pub code: String,
    /// The key with the error; may be empty.
    pub key: String,
    /// The details in English.
    pub detail: String,
}

/// A recommended model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct RecommendedView {
    /// What it is recommended for.
    pub purpose: Purpose,
    /// The entry's id.
    pub entry: String,
    /// The variant's key.
    pub variant: String,
}

/// What a model is recommended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Conversation.
    Chat,
    /// Programming.
    Code,
    /// Small and fast.
    Small,
}

/// A model that can be downloaded.
#[derive(Debug, Clone, PartialEq, Default, Serialize, TS)]
pub struct EntryView {
    /// The catalog's id, or the hub's `owner/name`.
    pub id: String,
    /// Display name.
    pub name: String,
    /// `Qwen3`, …; empty if unknown.
    pub family: String,
    /// Strengths and weaknesses; empty if unknown.
    pub description: String,
    /// SPDX id, or the license's own name; empty if unknown.
    pub license: String,
    /// What it is for.
    pub tags: Vec<Tag>,
    /// URL of a page with details.
    pub source: String,
    /// Number of parameters, if known.
    pub n_parameters: Option<u64>,
    /// Active parameters per token of a mixture of experts.
    pub n_active_parameters: Option<u64>,
    /// The maximum context length in tokens.
    pub context_length: Option<u64>,
    /// It is from the user's own catalog.
    pub is_users: bool,
    /// It was found on the hub and is not in the catalog.
    pub is_from_hub: bool,
    /// Recent downloads, if the hub reports them.
    pub n_downloads: Option<u64>,
    /// Its variants; empty until the hub was asked for them.
    pub variants: Vec<VariantView>,
    /// The index of the variant that suits this machine best.
    pub best: usize,
}

/// A variant of a model that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct VariantView {
    /// The key for installing it, and of its download.
    pub key: String,
    /// `mlx` or `gguf`.
    pub format: String,
    /// `4-bit`, `Q4_K_M`, ….
    pub quantization: String,
    /// The hub's `owner/name`.
    pub repository: String,
    /// Bytes to download; `None` until the hub was asked.
    pub size_bytes: Option<u64>,
    /// Bytes that must become free on the disk before the download; `None` if there is enough space
    /// or the size is unknown.
    pub disk_missing_bytes: Option<u64>,
    /// How well it fits, if known.
    pub fit: Option<FitSummary>,
    /// The estimated speed.
    pub speed: Option<Speed>,
    /// The id of the installed model, if it is installed.
    pub model: Option<String>,
}

/// Recommendations for a computer with this much memory.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct TierView {
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes that models may use together.
    pub room_bytes: u64,
    /// It is this computer. The others are Macs of which only the memory is known.
    pub is_this_computer: bool,
    /// For conversation; `None` if nothing fits, also below.
    pub chat: Option<PickView>,
    /// For programming.
    pub code: Option<PickView>,
    /// Small and fast.
    pub small: Option<PickView>,
    /// Two models that fit together.
    pub pair: Option<PairView>,
}

/// A recommended model, in the variant that suits the computer.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct PickView {
    /// The entry's id.
    pub entry: String,
    /// Display name.
    pub name: String,
    /// `4-bit`, `Q4_K_M`, ….
    pub quantization: String,
    /// Bytes of memory that it needs.
    pub need_bytes: u64,
    /// The estimated speed.
    pub speed: Option<Speed>,
}

/// Two models that fit together.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct PairView {
    /// The purpose of the second model.
    pub kind: PairKind,
    /// The model that writes responses.
    pub main: PickView,
    /// The other model.
    pub second: PickView,
    /// Bytes of memory that both need together.
    pub need_bytes: u64,
}
