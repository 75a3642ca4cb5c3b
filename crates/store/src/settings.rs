//! What the user chose. Every field has a default, and one that is absent or `null` means it.
//!
//! Changes come as a JSON merge patch (RFC 7396), so that one command serves every field and an
//! unknown field of a newer version stays in the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod fields;
mod stored;

pub use fields::SettingIssue;
pub(crate) use stored::issues;

/// Everything that the user chose.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Settings {
    /// The app itself.
    pub general: General,
    /// What it may take of the machine.
    pub behaviour: Behaviour,
    /// Id of the model to ask (a path); `None`: the starter, until another is chosen.
    pub model: Option<String>,
    /// Choices for single models, by id.
    pub models: BTreeMap<String, ModelSettings>,
    /// Where older versions kept the paths that the user added. The app moves them to a file of the
    /// data folder that every program reads, and empties this.
    pub added_models: Vec<PathBuf>,
    /// Ids of the models last used, latest first.
    pub recent_models: Vec<String>,
    /// Reusable prompts; `None`: the built-in ones.
    pub prompts: Option<Vec<SavedPrompt>>,
}

/// The app itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct General {
    /// Shortcut of the quick prompt, such as `Alt+Space`; `None`: the system's default, empty: none.
    pub hotkey: Option<String>,
    /// Start with the session.
    pub launch_at_login: bool,
    /// Show an icon in the Dock.
    pub show_in_dock: bool,
    /// Keep the chat window open when another window is used.
    pub pin_chat: bool,
    /// Light, dark, or as the system.
    pub appearance: Appearance,
    /// BCP 47 tag of one of the languages; `None`: as the system.
    pub language: Option<String>,
    /// The welcome was seen.
    pub was_welcomed: bool,
}

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Appearance {
    /// As the system.
    #[default]
    System,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

impl Default for General {
    fn default() -> Self {
        Self {
            hotkey: None,
            launch_at_login: false,
            show_in_dock: false,
            pin_chat: false,
            appearance: Appearance::System,
            language: None,
            was_welcomed: false,
        }
    }
}

/// What the app may take of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Behaviour {
    /// Seconds without use after which a model is unloaded; `None`: by machine and power.
    pub idle_unload_seconds: Option<u32>,
    /// Keep the model loaded while memory allows.
    pub keep_loaded: bool,
    /// Bytes that models may use together; `None`: by machine.
    #[cfg_attr(feature = "bindings", ts(type = "number | null"))]
    pub memory_budget_bytes: Option<u64>,
}

/// Choices for one model. `None` everywhere: what the model's authors recommend, or what fits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct ModelSettings {
    /// Tokens of context.
    pub context_length: Option<u32>,
    /// How keys and values are kept.
    pub kv_cache: KvCache,
    /// Most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// 0 to 2.
    pub temperature: Option<f32>,
    /// Above 0, to 1.
    pub top_p: Option<f32>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// Above 0, to 10; 1 changes nothing.
    pub repetition_penalty: Option<f32>,
    /// Same seed, same answer.
    pub seed: Option<u32>,
    /// Instructions at the start of every conversation.
    pub system_prompt: Option<String>,
    /// Whether models that can reason first do so; `None` leaves it to the model.
    pub thinking: Option<bool>,
}

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum KvCache {
    /// Fastest on this machine, smaller when memory is short.
    #[default]
    Automatic,
    /// In 16 bits, whatever it takes.
    Full,
    /// In 8 bits: about half the memory.
    Small,
}

/// A prompt that the user keeps, called with `/name`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct SavedPrompt {
    /// One word of at most 100 bytes, without the slash.
    pub name: String,
    /// Text in which `{text}` stands for what was taken along or typed after the name.
    pub text: String,
}
