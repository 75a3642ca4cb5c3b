//! The user's settings. Every field has a default, which applies if the field is absent or `null`.
//!
//! Changes are JSON merge patches (RFC 7396), so one command changes any field, and unknown fields
//! of a newer version stay in the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) mod conversation;
mod fields;
mod stored;

pub use conversation::{ConversationSettings, Overflow};
pub(crate) use stored::issues;

/// All settings of the user.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Settings {
    /// Settings of the app itself.
    pub general: General,
    /// What the app may use of the computer.
    pub behavior: Behavior,
    /// The local API for other programs.
    pub local_api: LocalApi,
    /// The id of the current model; `None` for the starter, until the user chooses another one.
    pub model: Option<String>,
    /// Settings of single models, by id.
    pub models: BTreeMap<String, ModelSettings>,
    /// Where older versions stored the paths of added models. The app moves them to a file in the
    /// data folder that every program reads, and empties this list.
    pub added_models: Vec<PathBuf>,
    /// The ids of recently used models, newest first.
    pub recent_models: Vec<String>,
    /// Saved prompts; `None` for the built-in ones.
    pub prompts: Option<Vec<SavedPrompt>>,
    /// Named settings for conversations.
    pub assistants: Vec<Assistant>,
    /// Changes of routes, by the name of the route, such as `translate`.
    pub routes: BTreeMap<String, RouteChanges>,
    /// The names of routes for which the user did not take another model that was offered. None is offered for
    /// them again.
    pub declined_offers: Vec<String>,
}

/// Settings of the app itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct General {
    /// The shortcut of the quick prompt, such as `Alt+Space`; `None` for the system's default,
    /// empty for none.
    pub hotkey: Option<String>,
    /// Start the app at login.
    pub launch_at_login: bool,
    /// Show the app in the Dock.
    pub show_in_dock: bool,
    /// Open the chat as an ordinary window, not under the menu-bar icon.
    pub chat_in_window: bool,
    /// Keep the chat window open when another window gets the focus.
    pub pin_chat: bool,
    /// Keep the quick prompt open when another window gets the focus.
    pub pin_prompt: bool,
    /// The size of pages in percent; `None` for 100.
    pub zoom: Option<u16>,
    /// Light, dark, or like the system.
    pub appearance: Appearance,
    /// The BCP 47 tag of a language; `None` for the system's language.
    pub language: Option<String>,
    /// Send every message as plain chat, and never choose a route such as `translate`.
    pub routing_off: bool,
    /// Ask the server for a newer version at every start and once a day.
    pub check_for_updates: bool,
    /// Whether the welcome was shown.
    pub was_welcomed: bool,
}

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Appearance {
    /// Like the system.
    #[default]
    System,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

/// What the app may use of the computer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Behavior {
    /// Seconds without use after which a model is unloaded; `None` depends on the computer and its
    /// power supply.
    pub idle_unload_seconds: Option<u32>,
    /// Keep the model loaded while memory allows.
    pub keep_loaded: bool,
    /// The memory budget of all models, in bytes; `None` depends on the computer.
    #[cfg_attr(feature = "bindings", ts(type = "number | null"))]
    pub memory_budget_bytes: Option<u64>,
}

/// The local API for other programs, served by the app.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct LocalApi {
    /// The app serves it.
    pub is_on: bool,
    /// The port; `None` for the default one.
    pub port: Option<u16>,
    /// A second port, for programs that expect Ollama there; `None` for none.
    pub ollama_port: Option<u16>,
    /// Origins whose web pages may use it, such as `https://chat.example.org`. Pages of this computer
    /// always may.
    pub allowed_origins: Vec<String>,
}

/// Settings of one model. `None` means what the model's authors recommend, or what fits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct ModelSettings {
    /// The context length in tokens.
    pub context_length: Option<u32>,
    /// The precision of the KV cache.
    pub kv_cache: KvCache,
    /// The maximum number of tokens in a response.
    pub max_tokens: Option<u32>,
    /// 0 to 2.
    pub temperature: Option<f32>,
    /// Above 0, up to 1.
    pub top_p: Option<f32>,
    /// 0 turns it off.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// Above 0, up to 10; 1 turns it off.
    pub repetition_penalty: Option<f32>,
    /// The same seed gives the same response.
    pub seed: Option<u32>,
    /// Instructions at the start of every conversation.
    pub system_prompt: Option<String>,
    /// Whether models that can reason do so; `None` lets the model decide.
    pub thinking: Option<bool>,
}

/// The precision of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum KvCache {
    /// Fastest on this computer, smaller when memory is short.
    #[default]
    Automatic,
    /// 16 bits.
    Full,
    /// 8 bits: about half the memory. With MLX, only in parked and saved conversations.
    Small,
}

/// What the user changed about a route. `None` means its built-in value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct RouteChanges {
    /// Its messages are plain chat.
    pub is_off: bool,
    /// Instructions for the model; empty for none.
    pub instructions: Option<String>,
    /// 0 to 2.
    pub temperature: Option<f32>,
    /// Whether models that can reason do so.
    pub thinking: Option<RouteThinking>,
    /// The share of the context that is kept free for the response; 0 to 0.25.
    pub reserve: Option<f32>,
    /// The share of the context for earlier messages, if the message has a text of its own; 0 to 1,
    /// where 1 stands for all of them.
    pub history: Option<f32>,
    /// The share of the context that attached text may take at most; 0.1 to 1, where 1 stands for as much as
    /// the context holds.
    pub attached: Option<f32>,
}

/// Whether models that can reason do so on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RouteThinking {
    /// They do.
    On,
    /// They don't.
    Off,
    /// As without a route.
    Model,
}

/// A prompt that the user saved, called with `/name`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct SavedPrompt {
    /// One word of at most 100 bytes, without the slash.
    pub name: String,
    /// The text. `{text}` stands for the attachment, or for the text after the name.
    pub text: String,
}

/// Settings of a conversation under a name, which the user applies to a conversation. Unlike a saved
/// prompt, which is the text of one message, they count for all of its responses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Assistant {
    /// At most 100 characters.
    pub name: String,
    /// The settings.
    pub settings: ConversationSettings,
}
