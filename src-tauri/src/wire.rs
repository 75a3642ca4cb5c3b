//! What crosses to the pages, beside the rooms' own types: the state of the machine and the models
//! as a window needs it. `ui/src/ipc/bindings` is generated from here.
//!
//! Rule: no English for people in it, but reasons of engines and the system. Pages put codes into the
//! user's language.

use serde::{Deserialize, Serialize};
use transom_store::{Conversation, ConversationId, MessageHead};
use ts_rs::TS;

mod downloads;
mod models;
mod tiers;

pub use downloads::{DownloadChange, DownloadState, DownloadView, HubAccessView, TroubleView};
pub use models::{
    CatalogueView, EntryView, FactsView, FitView, MistakeView, ModelView, OriginView, Purpose,
    RecommendedView, SamplingView, SpeedView, TagView, VariantView, VerdictView,
};
pub use tiers::{PairKindView, PairView, PickView, TierView};

/// A conversation that was opened.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct Opened {
    /// It.
    pub conversation: Conversation,
    /// The path that is shown, first message first.
    pub messages: Vec<MessageHead>,
}

/// What the supervisor says, in a window's terms.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct StatusView {
    /// The one thing to show.
    pub activity: Activity,
    /// The loaded chat model, or the one that is loading.
    pub model: Option<LoadedView>,
    /// Bytes that models may use together now.
    pub budget_bytes: u64,
    /// Of these, taken.
    pub in_use_bytes: u64,
    /// Why no answer begins at present.
    pub held: Option<Because>,
    /// The user paused it.
    pub is_paused: bool,
    /// Every limit in force.
    pub restraints: Vec<RestraintView>,
    /// Least milliseconds between two repaints of a growing answer.
    pub repaint_ms: u32,
    /// A smaller model would do better now.
    pub offer_smaller_model: bool,
    /// What the machine says of itself now.
    pub machine: MachineView,
    /// The last model that went, and what came back.
    pub last_unload: Option<UnloadView>,
    /// Asks that wait.
    pub n_waiting: u32,
    /// The supervisor is another program's, such as a `transom chat` in a terminal.
    pub is_guest: bool,
}

/// What the tray icon shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// No model is loaded, or one is and waits.
    Idle,
    /// A model is being loaded.
    Loading,
    /// An answer is being written.
    Answering,
    /// Answers wait because of heat, power or memory, or because the user paused.
    Held,
}

/// A model in memory.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct LoadedView {
    /// Name for people.
    pub name: String,
    /// 0 to 1 while it is loaded; `None` before its size is known and when it is loaded.
    pub load_fraction: Option<f32>,
    /// It is loaded.
    pub is_ready: bool,
    /// It is being unloaded.
    pub is_leaving: bool,
    /// Bytes that its process takes; `None` where the system does not tell.
    pub memory_bytes: Option<u64>,
    /// `mlx` or `llama`; `None` while it loads.
    pub engine: Option<String>,
    /// Tokens of context that it was loaded with.
    pub context_length: Option<u32>,
    /// Seconds until it is unloaded if nobody asks.
    pub unloads_in_seconds: Option<u32>,
}

/// A limit in force.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, TS)]
pub struct RestraintView {
    /// What is limited.
    pub limit: Limit,
    /// Why.
    pub because: Because,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, TS)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// New answers wait.
    NewAnswers,
    /// Running answers were ended.
    RunningAnswers,
    /// Answers end after so many tokens.
    AnswerLength {
        /// Most tokens.
        tokens: u32,
    },
    /// Conversations are read back so far.
    Context {
        /// Most tokens.
        tokens: u32,
    },
    /// Prompts are read in smaller steps.
    PrefillStep {
        /// Most tokens.
        tokens: u32,
    },
    /// Nothing is guessed ahead.
    Speculation,
    /// Answers are repainted less often.
    Repaint {
        /// Least milliseconds between two.
        milliseconds: u32,
    },
    /// Unused models go sooner.
    IdleUnload {
        /// After so many seconds.
        seconds: u32,
    },
    /// A smaller model is advised.
    SmallerModel,
}

/// Why something is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// Memory is short.
    MemoryWarning,
    /// Memory is very short.
    MemoryCritical,
    /// The machine swaps.
    Thrashing,
    /// Warm.
    HeatFair,
    /// Hot.
    HeatSerious,
    /// Very hot.
    HeatCritical,
    /// Low Power Mode, or its like.
    LowPower,
    /// No mains power.
    Battery,
    /// The machine has little memory.
    SmallMachine,
    /// The user's setting.
    Setting,
    /// The user paused.
    Paused,
}

/// The machine's own signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
pub struct MachineView {
    /// `normal`, `warning`, `critical`.
    pub memory: Pressure,
    /// `nominal`, `fair`, `serious`, `critical`.
    pub heat: Heat,
    /// Low Power Mode, or its like.
    pub is_low_power: bool,
    /// No mains power.
    pub is_on_battery: bool,
    /// Swap grows.
    pub is_thrashing: bool,
}

/// Memory pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Pressure {
    /// Enough.
    Normal,
    /// Short.
    Warning,
    /// Very short.
    Critical,
}

/// Heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Heat {
    /// Cool.
    Nominal,
    /// Warm.
    Fair,
    /// Hot.
    Serious,
    /// Very hot.
    Critical,
}

/// A model that went.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct UnloadView {
    /// Name for people.
    pub name: String,
    /// Bytes that it held.
    pub held_bytes: Option<u64>,
    /// Nobody asked for it to go.
    pub was_idle: bool,
}

/// What a shortcut that was tried is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "hotkey", rename_all = "snake_case")]
pub enum HotkeyView {
    /// It works.
    Registered {
        /// As settings write it; empty if switched off.
        shortcut: String,
    },
    /// Another program or the system has it.
    Taken {
        /// As settings write it.
        shortcut: String,
    },
    /// It has no modifier, or is no shortcut.
    Unusable {
        /// As it was given.
        shortcut: String,
    },
    /// This session has no global shortcuts, as Wayland without a portal.
    Unavailable {
        /// The reason in English.
        reason: String,
    },
}

/// Text that may be taken along, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct TakenText {
    /// From where.
    pub source: TakenFrom,
    /// The text; empty if there was none.
    pub text: String,
}

/// Where a text is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum TakenFrom {
    /// What is selected in the program that was used last.
    Selection,
    /// The clipboard.
    Clipboard,
}

/// Versions, paths and what this computer lacks.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct AboutView {
    /// Of the app.
    pub version: String,
    /// Of what it is made of, such as `MLX`, `llama.cpp`.
    pub parts: Vec<PartView>,
    /// The data folder.
    pub data_folder: String,
    /// `macOS 26.1`, `Debian 12`, ….
    pub system: String,
    /// Chip or processor.
    pub chip: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// What this session cannot do, by code: `tray`, `global_shortcut`, `selection`, ….
    pub missing: Vec<String>,
    /// The shortcut that is in force.
    pub hotkey: HotkeyView,
    /// The system's default shortcut.
    pub default_hotkey: String,
    /// `macos` or `linux`: which keys to name.
    pub platform: String,
    /// Language tags of the system, first choice first.
    pub languages: Vec<String>,
}

/// A part that others wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct PartView {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// SPDX licence.
    pub licence: String,
}

/// How a conversation leaves or comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// For people.
    Markdown,
    /// Everything, also branches.
    Json,
}

/// A window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// The chat under the tray icon.
    Chat,
    /// The quick prompt.
    Prompt,
    /// Settings.
    Settings,
}

/// A command that could not be done.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    /// A value is not allowed.
    Invalid {
        /// Which.
        field: String,
        /// Why, in English.
        reason: String,
    },
    /// It is gone.
    NotFound,
    /// The disk refused.
    Storage {
        /// The reason, naming the file.
        reason: String,
    },
    /// A turn could not begin.
    Turn {
        /// Why.
        failure: transom_chat::Failure,
    },
    /// The hub, the network or the keychain refused.
    Hub {
        /// Why.
        trouble: TroubleView,
    },
    /// Anything else.
    Other {
        /// The reason in English.
        reason: String,
    },
}

/// What a dropped file is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum DropKind {
    /// A model, to be added.
    Model,
    /// A text, to be attached.
    Text,
    /// Nothing.
    Other,
}

/// Files over a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DropView {
    /// They are being dragged over it.
    Over {
        /// The name of the first.
        name: String,
        /// What it would be good for here.
        kind: DropKind,
    },
    /// They went elsewhere.
    Left,
    /// A model was dropped and is on the list now.
    Added {
        /// The model.
        id: String,
        /// Its name for people.
        name: String,
    },
    /// A text was dropped, for the composer.
    Attached {
        /// The file's name.
        name: String,
        /// All of it.
        text: String,
    },
    /// It was dropped and can't be used.
    Refused {
        /// Its name.
        name: String,
        /// The reason in English; empty where it simply is none.
        reason: String,
    },
}

/// Told to every page when it happens.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum News {
    /// The machine or a model changed.
    Status {
        /// All of it.
        status: Box<StatusView>,
    },
    /// Settings changed.
    Settings {
        /// All of them.
        settings: Box<transom_store::Settings>,
    },
    /// Conversations were added, changed or deleted: ask again.
    Conversations,
    /// All conversations were deleted: pages forget what they keep of them, drafts as well.
    HistoryCleared,
    /// Models were added or removed: ask again.
    Models,
    /// The list of models that can be had changed, or what fits: ask again.
    Catalogue,
    /// How far downloads are; told as they change, some times a second.
    Downloads {
        /// All of them, in their order.
        downloads: Vec<DownloadView>,
    },
    /// Something is being dragged over a window, or was dropped on it.
    Drop {
        /// Which window.
        window: Window,
        /// What of it.
        drop: DropView,
    },
    /// The window was shown: focus the composer; `conversation` is to be opened if given.
    Shown {
        /// Which window.
        window: Window,
        /// What to open.
        conversation: Option<ConversationId>,
        /// Which settings pane: `models`, `model`, `behaviour`, `general`, `about`.
        pane: Option<String>,
    },
    /// A deep link asks to put this into the composer (never to send it).
    Compose {
        /// The text.
        text: String,
    },
    /// Something went wrong that belongs to no command, such as a shortcut that was lost.
    Notice {
        /// A code: `hotkey_taken`, `store_recovered`, ….
        code: String,
        /// Detail in English; may be empty.
        detail: String,
        /// What the code's sentence is filled with: `conversations`, `damaged`, ….
        #[ts(type = "Record<string, unknown>")]
        values: serde_json::Map<String, serde_json::Value>,
    },
}

impl News {
    /// A notice whose sentence has nothing to fill in.
    pub(crate) fn notice(code: &str, detail: impl Into<String>) -> Self {
        Self::Notice {
            code: code.to_owned(),
            detail: detail.into(),
            values: serde_json::Map::new(),
        }
    }
}
