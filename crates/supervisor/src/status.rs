//! Snapshots of the supervisor's state. Programs subscribe to them and display them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::{LoadProgress, MemoryNeed, MemoryUse, ModelInfo, serde_seconds};
use transom_signals::SystemSignals;

use crate::governor::{LimitReason, Restrictions};
use crate::request::{Class, ClientId, ModelRole, PassedOver, RequestId};

/// The supervisor's state at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Increases with every change, so that readers can order snapshots.
    pub revision: u64,
    /// Process id of the supervisor.
    pub process_id: u32,
    /// Every model that uses memory or is being loaded.
    pub models: Vec<ModelStatus>,
    /// The running request, if one is running.
    #[serde(default)]
    pub running: Vec<RequestStatus>,
    /// Queued requests, in the order in which they are served.
    pub queue: Vec<RequestStatus>,
    /// Bytes that models may use together.
    pub budget_bytes: u64,
    /// Bytes of the budget in use.
    pub in_use_bytes: u64,
    /// The latest system signals.
    pub signals: SystemSignals,
    /// The limits that follow from the signals.
    pub restrictions: Restrictions,
    /// The user paused all models: requests stay queued and models are unloaded until the user
    /// resumes. Not saved when the supervisor ends.
    #[serde(default)]
    pub is_paused: bool,
    /// The last unload and the memory that it freed.
    pub last_unload: Option<UnloadRecord>,
    /// The last error, for people.
    pub last_error: Option<String>,
    /// The machine is kept awake for a running response.
    pub keeps_awake: bool,
}

impl Status {
    /// Returns true if a response is being generated.
    pub fn is_answering(&self) -> bool {
        let mut models = self.models.iter();
        models.any(|model| matches!(model.phase, PhaseStatus::Generating { .. }))
    }
}

/// The status of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// Its id, as in [`crate::ModelSpec::id`].
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Its purpose.
    pub role: ModelRole,
    /// What it is doing.
    pub phase: PhaseStatus,
    /// Information about the model; known once loaded.
    pub info: Option<ModelInfo>,
    /// Its estimated memory need; known once its files were read.
    pub need: Option<MemoryNeed>,
    /// Memory in use as the engine reports it, by part.
    pub memory: Option<MemoryUse>,
    /// Growth of its process since before the load, in bytes; measured after the load and after
    /// each response and trim.
    pub footprint_bytes: Option<u64>,
    /// How long the load took.
    #[serde(rename = "load_time_seconds", with = "serde_seconds::option")]
    pub load_time: Option<Duration>,
    /// Variants that were tried before the current one, and why they do not run.
    pub passed_over: Vec<PassedOver>,
    /// Tokens of the saved conversation that was used last when the model was loaded; 0 if none was
    /// saved.
    pub saved_tokens: usize,
    /// Requests completed since the load.
    pub n_answered: u64,
    /// Time from the moment of the snapshot until the model is unloaded if it stays idle.
    #[serde(rename = "unloads_in_seconds", with = "serde_seconds::option")]
    pub unloads_in: Option<Duration>,
}

/// What a model is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum PhaseStatus {
    /// Its files are read to estimate its memory need.
    Measuring,
    /// Other models are being unloaded first.
    WaitingForRoom,
    /// Its weights are read.
    Loading {
        /// Progress of the load, once reported.
        progress: Option<LoadProgress>,
    },
    /// Loaded and idle.
    Ready,
    /// Generating a response, or several.
    Generating {
        /// Id of the request that started first.
        request_id: RequestId,
        /// All of them were told to end early.
        is_stopping: bool,
    },
    /// Its memory is being freed.
    Unloading {
        /// The reason.
        why: UnloadReason,
    },
}

/// Why a model is unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum UnloadReason {
    /// It was idle for too long.
    Idle,
    /// Another model needs its memory.
    MakeRoom,
    /// It is reloaded with other settings.
    Replaced,
    /// The user paused all models.
    Paused,
    /// Memory pressure requires it.
    Pressure {
        /// The signal that requires it.
        reason: LimitReason,
    },
    /// The user requested it.
    Requested,
    /// Its load was canceled or failed.
    LoadEnded,
    /// Its engine failed, or its process did not follow the protocol.
    Fault,
    /// The supervisor is shutting down.
    Quit,
}

/// A queued or running request. Contains nothing of its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestStatus {
    /// Its id.
    pub request_id: RequestId,
    /// Name of the model that it needs.
    pub model: String,
    /// Who asks.
    #[serde(default)]
    pub client: ClientId,
    /// Its rank in the queue.
    #[serde(default)]
    pub class: Class,
    /// What is done for it. A change of its numbers alone is published once a second.
    #[serde(default)]
    pub state: RequestState,
}

/// What is done for a request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RequestState {
    /// It waits for its turn, or for its model to be loaded.
    #[default]
    Queued,
    /// Its prompt is processed.
    Prefill {
        /// Tokens processed.
        done: usize,
        /// Tokens in total; 0 if not known yet.
        total: usize,
    },
    /// Its response is generated.
    Generating {
        /// Tokens generated.
        tokens: usize,
        /// Mean tokens per second since the first one; `None` before the second one.
        tokens_per_second: Option<f64>,
    },
    /// It was told to end early.
    Stopping,
}

/// A completed unload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnloadRecord {
    /// Name of the model.
    pub name: String,
    /// The reason.
    pub why: UnloadReason,
    /// Bytes held before the unload: the growth of the process since before the load, or the
    /// engine's own count if that is larger; `None` if the system does not report footprints.
    pub held_bytes: Option<u64>,
    /// Of `held_bytes`, the bytes freed by dropping the model; the rest was freed when the process
    /// ended.
    pub freed_bytes: Option<u64>,
    /// The process did not free its memory in time, or crashed, and was killed.
    pub by_force: bool,
    /// Time from the decision until the process had ended.
    #[serde(rename = "took_seconds", with = "serde_seconds")]
    pub took: Duration,
}
