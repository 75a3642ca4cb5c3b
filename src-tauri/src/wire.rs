//! The types that pages receive, in addition to the types of other crates: the state of the machine
//! and of models. `ui/src/ipc/bindings.ts` is generated from them.
//!
//! Rule: no user-visible English, except error messages of engines and the system. Pages translate
//! codes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use transom_chat::SummaryView;
use transom_engine::{Route, RouteSettings};
use transom_signals::SystemSignals;
use transom_store::{
    Conversation, ConversationId, ConversationSettings, MessageHead, StoreErrorKind,
};
use transom_supervisor::governor::Limit;
use ts_rs::TS;

mod benchmarks;
mod command_error;
mod downloads;
mod files;
mod local_api;
mod models;
mod updates;

pub use benchmarks::{BenchmarkFormat, BenchmarkProgress, BenchmarkView, BenchmarksView};
pub use command_error::{CommandError, CommandResult};
pub use downloads::{DownloadChange, DownloadState, DownloadView, HubAccessView, HubErrorView};
pub use files::{DocumentView, DropKind, DropProblem, DropView, FileSource};
pub use local_api::{ApiClientView, ApiSetupView, ApiStateView, ApiWork, LocalApiView};
pub use models::{
    CatalogErrorView, CatalogView, EntryView, FactsView, FitSummary, FitView, ModelErrorView,
    ModelOffer, ModelView, OriginView, PairView, PickView, Purpose, RecommendedView, TierView,
    VariantView,
};
pub use updates::{OfferView, ReleaseNote, UpdateProblem, UpdateRefusal, UpdateStep, UpdatesView};

/// A conversation that was opened.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct OpenedConversation {
    /// The conversation.
    pub conversation: Conversation,
    /// Its settings.
    pub settings: ConversationSettings,
    /// The visible path, first message first.
    pub messages: Vec<MessageHead>,
    /// Summaries of the beginning of that path.
    pub summaries: Vec<SummaryView>,
}

/// The supervisor's status for pages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, TS)]
pub struct StatusView {
    /// The main state to show.
    pub activity: Activity,
    /// The loaded chat model, or the one that is loading.
    pub model: Option<LoadedView>,
    /// Bytes that all models may use now.
    pub budget_bytes: u64,
    /// Bytes of the budget that are in use.
    pub in_use_bytes: u64,
    /// Why no response starts at present.
    pub held: Option<LimitReason>,
    /// The user paused Transom.
    pub is_paused: bool,
    /// All active limits.
    pub limits: Vec<LimitView>,
    /// A smaller model is recommended now.
    pub offer_smaller_model: bool,
    /// The signals of the machine.
    pub machine: SystemSignals,
    /// The last model that was unloaded.
    pub last_unload: Option<UnloadView>,
    /// Queued requests.
    pub n_queued: usize,
    /// The request of another program that runs now, if there is one.
    pub background: Option<BackgroundView>,
    /// The supervisor belongs to another program, such as `transom chat` in a terminal.
    pub is_client: bool,
}

/// A request of another program, which came through the local API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct BackgroundView {
    /// The name of its key.
    pub client: String,
    /// Display name of the model.
    pub model: String,
}

/// The state that the menu-bar icon shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// No model is loaded, or a loaded model is idle.
    #[default]
    Idle,
    /// A model is loading.
    Loading,
    /// A response is being written.
    Answering,
    /// Requests are held because of heat, power, memory or a pause.
    Held,
}

/// A model in memory.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct LoadedView {
    /// Display name.
    pub name: String,
    /// 0 to 1 while loading; `None` before its size is known and after the load.
    pub load_fraction: Option<f32>,
    /// It is loaded.
    pub is_ready: bool,
    /// It is being unloaded.
    pub is_unloading: bool,
    /// Bytes that its process uses; `None` if the system does not report them.
    pub memory_bytes: Option<u64>,
    /// `mlx` or `llama`; `None` while it loads.
    pub engine: Option<String>,
    /// The context length in tokens that it was loaded with.
    pub context_length: Option<usize>,
    /// Seconds until the idle unload.
    pub unloads_in_seconds: Option<u64>,
}

/// An active limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, TS)]
pub struct LimitView {
    /// What is limited.
    pub limit: Limit,
    /// Why it is limited.
    pub reason: LimitReason,
}

/// The reason for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum LimitReason {
    /// Memory pressure is at the warning level.
    MemoryWarning,
    /// Memory pressure is critical.
    MemoryCritical,
    /// The machine is swapping.
    Thrashing,
    /// The thermal state is fair.
    HeatFair,
    /// The thermal state is serious.
    HeatSerious,
    /// The thermal state is critical.
    HeatCritical,
    /// Low Power Mode, or the equivalent on Linux.
    LowPower,
    /// The machine runs on battery.
    Battery,
    /// The machine has little memory.
    SmallMachine,
    /// A setting of the user.
    Setting,
    /// The user paused Transom.
    Paused,
}

/// A model that was unloaded.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct UnloadView {
    /// Display name.
    pub name: String,
    /// Bytes that it used.
    pub held_bytes: Option<u64>,
    /// It was unloaded because it was idle.
    pub was_idle: bool,
}

/// The state of a shortcut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "hotkey", rename_all = "snake_case")]
pub enum HotkeyView {
    /// It is registered.
    Registered {
        /// In the format of the settings; empty if switched off.
        shortcut: String,
    },
    /// Another program or the system uses it.
    Taken {
        /// In the format of the settings.
        shortcut: String,
    },
    /// It has no modifier, or it is not a shortcut.
    Unusable {
        /// As entered.
        shortcut: String,
    },
    /// This session has no global shortcuts, for example Wayland without a portal.
    Unavailable {
        /// The reason in English.
        reason: String,
    },
}

/// Selected or copied text to attach, and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct CapturedText {
    /// Where the text comes from.
    pub source: TextSource,
    /// The text; empty if there was none.
    pub text: String,
}

/// The source of a captured text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum TextSource {
    /// The selection in the last used program.
    Selection,
    /// The clipboard.
    Clipboard,
}

/// The program that the quick prompt was called from, as a place for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
pub struct TargetView {
    /// Text was selected there.
    pub has_selection: bool,
    /// Why no text can be inserted there; `None` if it can.
    pub problem: Option<TargetProblem>,
}

/// Why no text can be inserted into another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum TargetProblem {
    /// The quick prompt was not called from another program.
    NoProgram,
    /// Programs can't do this in a Wayland session.
    Wayland,
    /// The user has not allowed it, on a Mac under Accessibility.
    NotAllowed,
    /// The cursor is in a password field.
    Password,
}

/// Versions, paths and features that this session lacks.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct AboutView {
    /// The app's version.
    pub version: String,
    /// Software that the app contains, such as `MLX` and `llama.cpp`.
    pub dependencies: Vec<DependencyView>,
    /// The data folder.
    pub data_folder: String,
    /// `macOS 26.1`, `Debian 12`, ….
    pub system: String,
    /// The chip or processor.
    pub chip: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Features that this session lacks, by code: `tray`, `global_shortcut`, `selection`, ….
    pub missing: Vec<String>,
    /// The current shortcut.
    pub hotkey: HotkeyView,
    /// The default shortcut on this system.
    pub default_hotkey: String,
    /// `macos` or `linux`, for the names of keys.
    pub platform: String,
    /// The system's language tags, preferred first.
    pub languages: Vec<String>,
    /// The built-in values of the routes that the user can change.
    pub routes: Vec<(Route, RouteSettings)>,
}

/// A software component by others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct DependencyView {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// SPDX license.
    pub license: String,
}

/// The file format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// Readable text.
    Markdown,
    /// Everything, including branches.
    Json,
}

/// A window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// The chat, under the menu-bar icon or in an ordinary window.
    Chat,
    /// The quick prompt.
    Prompt,
    /// Settings.
    Settings,
}

impl Window {
    /// All windows.
    pub(crate) const ALL: [Self; 3] = [Self::Chat, Self::Prompt, Self::Settings];

    /// Returns its label in Tauri, which capabilities use.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Prompt => "prompt",
            Self::Settings => "settings",
        }
    }

    /// Returns the window with this label.
    pub(crate) fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.label() == label)
    }
}

/// A change of the zoom of all pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ZoomStep {
    /// One step larger.
    In,
    /// One step smaller.
    Out,
    /// The actual size.
    Reset,
}

/// An event that the app sends to pages.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AppEvent {
    /// The machine or a model changed.
    Status {
        /// The whole status.
        status: Box<StatusView>,
    },
    /// Settings changed.
    Settings {
        /// All settings.
        settings: Box<transom_store::Settings>,
    },
    /// Conversations were added, changed or deleted. Reload them.
    Conversations,
    /// A conversation was deleted and can no longer be restored.
    Deleted {
        /// The conversation.
        id: ConversationId,
    },
    /// All conversations were deleted. Pages also delete their drafts.
    HistoryCleared,
    /// Models were added or removed. Reload them.
    Models,
    /// The catalog changed, or which models fit. Reload it.
    Catalog,
    /// Progress of downloads, sent several times per second.
    Downloads {
        /// All downloads in order.
        downloads: Vec<DownloadView>,
    },
    /// Progress of a benchmark, sent every second.
    Benchmark {
        /// `None` after its end. Reload the results.
        running: Option<BenchmarkProgress>,
    },
    /// The state of updates of the app changed.
    Updates {
        /// All of it.
        updates: Box<UpdatesView>,
    },
    /// Files were dragged over a window or dropped on it.
    Drop {
        /// The window.
        window: Window,
        /// What happened.
        drop: DropView,
    },
    /// A document for the composer is being read, or was read.
    Document {
        /// A number of this document, which no other one has.
        file: u32,
        /// What happened.
        document: DocumentView,
    },
    /// The window was shown. The page focuses its composer and opens `conversation` if given.
    Shown {
        /// The window.
        window: Window,
        /// The conversation to open.
        conversation: Option<ConversationId>,
        /// The settings pane: `models`, `model`, `behavior`, `api`, `general` or `about`. `model:<id>`
        /// shows the settings of that model.
        pane: Option<String>,
    },
    /// The quick prompt was called from this program. Sent at each press of the shortcut.
    Target {
        /// The program.
        target: TargetView,
    },
    /// The user chose an item of the menu bar that does the same as these keys on the page.
    Shortcut {
        /// In the format of the page's shortcuts, such as `Mod+Shift+G`.
        keys: String,
    },
    /// The user chose the other form of the chat. Its page keeps what is unsaved, and shows the chat
    /// again with its conversation.
    ChatFormChanged,
    /// A deep link puts this text into the composer. The page never sends it.
    Compose {
        /// The text.
        text: String,
    },
    /// Something happened that belongs to no command, such as a lost shortcut.
    Notice {
        /// A code: `hotkey_taken`, `store_recovered`, ….
        code: String,
        /// Details in English; may be empty.
        detail: String,
        /// Values for the code's sentence: `conversations`, `damaged`, ….
        #[ts(type = "Record<string, unknown>")]
        values: Map<String, Value>,
    },
}

/// Returns the fields of a value as JSON.
pub(crate) fn fields_of(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

impl AppEvent {
    /// Creates the event that shows a window, with a settings pane or as it is.
    pub(crate) fn shown(window: Window, pane: Option<String>) -> Self {
        Self::Shown {
            window,
            conversation: None,
            pane,
        }
    }

    /// Creates a notice about an error of the store, which pages translate by its kind.
    pub(crate) fn store_notice(
        code: &str,
        kind: Option<StoreErrorKind>,
        detail: impl Into<String>,
    ) -> Self {
        let kind = kind.map(|kind| ("kind".to_owned(), serde_json::json!(kind)));
        Self::Notice {
            code: code.to_owned(),
            detail: detail.into(),
            values: kind.into_iter().collect(),
        }
    }

    /// Creates a notice without values.
    pub(crate) fn notice(code: &str, detail: impl Into<String>) -> Self {
        Self::Notice {
            code: code.to_owned(),
            detail: detail.into(),
            values: Map::new(),
        }
    }
}
