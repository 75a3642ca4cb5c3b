//! The local API as the settings window shows it.

use serde::Serialize;
use transom_server::RequestRecord;
use ts_rs::TS;

/// The local API.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct LocalApiView {
    /// Whether it listens, and where.
    pub state: ApiStateView,
    /// The programs that have a key or use the API now: keys oldest first, then others.
    pub clients: Vec<ApiClientView>,
    /// Why the keys can't be read, in English.
    pub keys_problem: Option<String>,
    /// The last requests, newest first.
    pub requests: Vec<RequestRecord>,
    /// Requests of all programs that may wait.
    pub max_queued: usize,
    /// Requests of one key that may wait.
    pub max_queued_per_key: usize,
}

/// Whether the local API listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ApiStateView {
    /// It is off.
    Off,
    /// It listens.
    Listening {
        /// The port.
        port: u16,
        /// The port for programs that expect Ollama.
        ollama_port: Option<u16>,
    },
    /// Another program uses the port.
    PortTaken {
        /// The port.
        port: u16,
        /// It is the port for programs that expect Ollama.
        is_ollama: bool,
    },
    /// `transom serve` in a terminal uses the port.
    AlreadyServed {
        /// The port.
        port: u16,
    },
    /// The system refused the port.
    Failed {
        /// The port.
        port: u16,
        /// The reason in English.
        reason: String,
    },
}

/// A program that may use the local API.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct ApiClientView {
    /// The name of its key.
    pub name: String,
    /// When the key was created, in milliseconds since 1970; `None` if it is not a stored key.
    pub created_at: Option<u64>,
    /// What it does now.
    pub work: Option<ApiWork>,
    /// Requests since the app serves.
    pub requests: u64,
    /// Tokens of prompts and responses since the app serves.
    pub tokens: u64,
    /// When its last request came, in milliseconds since 1970.
    pub last_used_at: Option<u64>,
}

/// What is done for a program.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum ApiWork {
    /// A request waits, or its model is loading.
    Queued {
        /// Display name of the model.
        model: String,
    },
    /// A prompt is processed.
    Prefill {
        /// Display name of the model.
        model: String,
    },
    /// A response is generated.
    Generating {
        /// Display name of the model.
        model: String,
        /// Tokens so far.
        tokens: usize,
    },
}

/// The lines that set up a program for the local API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct ApiSetupView {
    /// `curl`, `openai`, `zed`, ….
    pub program: String,
    /// The lines.
    pub lines: String,
}
