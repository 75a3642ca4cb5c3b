//! Models in a window's terms: those that are there, and those that can be had.
//!
//! Rule: nothing is computed on a page that a room below knows. A verdict, a speed and a size come
//! with every line.

use serde::Serialize;
use ts_rs::TS;

use super::PairView;

/// A model that is there.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct ModelView {
    /// Its path: the name by which commands and settings know it.
    pub id: String,
    /// Name for people: its entry's with how it is packed, else its folder's or file's.
    pub name: String,
    /// Where it is from.
    pub origin: OriginView,
    /// It came with the app, and is small.
    pub is_starter: bool,
    /// It was added by path; it can be forgotten without deleting anything.
    pub is_added: bool,
    /// It lies in our models folder, so that its files can be deleted.
    pub can_be_removed: bool,
    /// It is the one that is asked.
    pub is_chosen: bool,
    /// Id of the entry of the catalogue that it is.
    pub entry: Option<String>,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// What its authors recommend; `None` where nobody knows.
    pub sampling: Option<SamplingView>,
    /// What its files say; `None` when they cannot be used.
    pub facts: Option<FactsView>,
    /// Why they cannot be used.
    pub problem: Option<String>,
}

/// Where a model is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "origin", rename_all = "snake_case")]
pub enum OriginView {
    /// It came with the app.
    Starter,
    /// It lies in our models folder.
    Ours,
    /// The user added it by path.
    Added,
    /// Another program fetched it; it is used where it lies.
    Elsewhere {
        /// The program's name.
        app: String,
    },
}

/// What a model's files say.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct FactsView {
    /// `qwen3`, ….
    pub architecture: String,
    /// Parameters.
    pub n_parameters: u64,
    /// How most weights are packed: `4-bit`, `Q4_K`, ….
    pub quantisation: String,
    /// `mlx`, `gguf`, or both.
    pub formats: Vec<String>,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Tokens that it was made to attend to.
    pub max_context_length: Option<u32>,
    /// It can chat.
    pub has_chat_template: bool,
}

/// What authors recommend for drawing the next token; what they leave open is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, TS)]
pub struct SamplingView {
    /// 0 to 2.
    pub temperature: Option<f32>,
    /// Above 0, to 1.
    pub top_p: Option<f32>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// 1 changes nothing.
    pub repetition_penalty: Option<f32>,
}

/// Whether a model fits, by parts.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct FitView {
    /// Weights.
    pub weight_bytes: u64,
    /// Keys and values with the context full.
    pub kv_cache_bytes: u64,
    /// Working memory beside them.
    pub headroom_bytes: u64,
    /// A smaller model that guesses ahead for it.
    pub draft_bytes: u64,
    /// What is kept of earlier conversations.
    pub prefix_bytes: u64,
    /// What models may use together.
    pub budget_bytes: u64,
    /// Of it, used by others that would not make room.
    pub taken_bytes: u64,
    /// The context that these are for.
    pub context_length: u32,
    /// The longest context that would fit; `None` if none does.
    pub context_that_fits: Option<u32>,
    /// All of it fits.
    pub fits: bool,
    /// How well.
    pub verdict: VerdictView,
    /// How fast it answers; `None` where that cannot be told.
    pub speed: Option<SpeedView>,
    /// The working memory was corrected by what was measured here.
    pub is_measured: bool,
}

/// How well a model fits this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum VerdictView {
    /// It fits.
    Fits,
    /// It fits with a shorter context.
    Context {
        /// Tokens of it.
        tokens: u32,
    },
    /// It would fit if other programs gave memory back.
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

/// Tokens a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, TS)]
pub struct SpeedView {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// Measured here, and not predicted.
    pub is_measured: bool,
}

/// The models that can be had.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct CatalogueView {
    /// Smallest first within a family.
    pub entries: Vec<EntryView>,
    /// What to take on this machine.
    pub recommended: Vec<RecommendedView>,
    /// Two that fit side by side on it.
    pub pair: Option<PairView>,
    /// The machine's memory.
    pub memory_bytes: u64,
    /// Of it, what models may use together.
    pub room_bytes: u64,
    /// Bytes free where downloads go; `None` where the system does not tell.
    pub disk_free_bytes: Option<u64>,
    /// Of these, what downloads under way are going to take.
    pub disk_coming_bytes: u64,
    /// Why the user's own list is not in force as it is now.
    pub mistake: Option<MistakeView>,
    /// Where the user's own list is, or would be.
    pub user_file: String,
}

/// A mistake in the user's list of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct MistakeView {
    /// The file.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// In English.
    pub reason: String,
}

/// A model to take on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct RecommendedView {
    /// For what.
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
    /// Talking.
    Chat,
    /// Writing programs.
    Code,
    /// Being quick and small.
    Small,
}

/// A model that can be had.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct EntryView {
    /// What people type: the catalogue's id, or the hub's `owner/name`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// `Qwen3`, …; empty where nobody said.
    pub family: String,
    /// What it is good for, and what not; empty where nobody said.
    pub description: String,
    /// SPDX, or the licence's own name; empty where nobody said.
    pub licence: String,
    /// What it is for.
    pub tags: Vec<TagView>,
    /// The page that says more.
    pub source: String,
    /// Parameters; `None` where nobody said.
    pub n_parameters: Option<u64>,
    /// Of a mixture of experts, those that a token uses.
    pub n_active_parameters: Option<u64>,
    /// Tokens that it was made to attend to.
    pub context_length: Option<u32>,
    /// It is from the user's own list.
    pub is_users: bool,
    /// It was found on the hub, and is in no list.
    pub is_from_hub: bool,
    /// How often it was fetched lately, where the hub says so.
    pub n_fetched: Option<u64>,
    /// Its forms; empty until the hub was asked for them.
    pub variants: Vec<VariantView>,
    /// Which of them suits this machine best.
    pub best: u32,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum TagView {
    /// Talking.
    Chat,
    /// Writing programs.
    Code,
    /// Thinking before it answers.
    Reasoning,
    /// Finding texts that mean the same; it cannot talk.
    Embedding,
}

/// A form of a model that can be had.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct VariantView {
    /// By which it is installed, and by which its download is known.
    pub key: String,
    /// `mlx` or `gguf`.
    pub format: String,
    /// `4-bit`, `Q4_K_M`, ….
    pub packing: String,
    /// The hub's `owner/name`.
    pub repository: String,
    /// Bytes to fetch; `None` until the hub was asked.
    pub size_bytes: Option<u64>,
    /// Bytes that must become free on the disk before it can be fetched; `None` where there is room
    /// for it, as far as anybody knows.
    pub disk_missing_bytes: Option<u64>,
    /// How well it fits; `None` where nobody knows what it needs.
    pub verdict: Option<VerdictView>,
    /// How fast it would answer.
    pub speed: Option<SpeedView>,
    /// The model that it is, if it is there already.
    pub model: Option<String>,
}
