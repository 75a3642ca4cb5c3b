//! A snapshot of everything that a person may want to know. Shells subscribe to it and draw it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::{LoadProgress, MemoryNeed, MemoryUse, ModelInfo};
use transom_signals::SystemSignals;

use crate::governor::{Allowance, LimitReason};
use crate::request::{RequestId, Role};

/// The supervisor's state at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Raised with every change, so that a reader can tell two snapshots apart.
    pub revision: u64,
    /// Process id of the supervisor.
    pub process_id: u32,
    /// Every model that takes memory or is about to.
    pub models: Vec<ModelStatus>,
    /// Asks that wait, in order.
    pub queue: Vec<QueuedRequest>,
    /// Bytes that models may use together.
    pub budget_bytes: u64,
    /// Bytes of the budget that are taken.
    pub in_use_bytes: u64,
    /// What the machine said last.
    pub signals: SystemSignals,
    /// What it allows.
    pub allowance: Allowance,
    /// A person paused everything: asks wait, models go, until they let it go on. Not remembered
    /// when the supervisor ends.
    #[serde(default)]
    pub is_paused: bool,
    /// The last unload, and what came back.
    pub last_unload: Option<UnloadRecord>,
    /// The last failure, for people.
    pub last_error: Option<String>,
    /// The machine is kept awake for a running answer.
    pub keeps_awake: bool,
}

impl Status {
    /// Whether an answer is being written.
    pub fn is_answering(&self) -> bool {
        let mut models = self.models.iter();
        models.any(|model| matches!(model.phase, PhaseStatus::Generating { .. }))
    }
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// Its id, as in [`crate::ModelSpec::id`].
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it is doing.
    pub phase: PhaseStatus,
    /// What it is; known once loaded.
    pub info: Option<ModelInfo>,
    /// What it was estimated to need; known once its files were read.
    pub need: Option<MemoryNeed>,
    /// What its engine uses, by part.
    pub memory: Option<MemoryUse>,
    /// Growth of its process since before the load, in bytes; measured after the load and after each
    /// answer and trim.
    pub footprint_bytes: Option<u64>,
    /// How long its load took.
    #[serde(rename = "load_time_seconds", with = "transom_engine::seconds::option")]
    pub load_time: Option<Duration>,
    /// Forms of the model that were tried before the present one, and why they do not run.
    pub passed_over: Vec<PassedOver>,
    /// Tokens of an earlier conversation that were taken up when it was loaded.
    pub restored_tokens: usize,
    /// Asks answered since it was loaded.
    pub n_answered: u64,
    /// When it will be unloaded if nobody asks, from the moment of the snapshot.
    #[serde(
        rename = "unloads_in_seconds",
        with = "transom_engine::seconds::option"
    )]
    pub unloads_in: Option<Duration>,
}

/// A form of a model that does not run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Its folder or file.
    pub path: PathBuf,
    /// Why not, in the engine's words.
    pub reason: String,
}

/// What a model is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum PhaseStatus {
    /// Its files are read to learn what it needs.
    Measuring,
    /// Other models are being unloaded first.
    WaitingForRoom,
    /// Weights are read.
    Loading {
        /// How far.
        progress: Option<LoadProgress>,
    },
    /// It could answer at once.
    Ready,
    /// It answers.
    Generating {
        /// Which ask.
        #[serde(rename = "ask")]
        request_id: RequestId,
        /// It was asked to end early.
        is_stopping: bool,
    },
    /// Its memory is being given back.
    Unloading {
        /// Why.
        why: UnloadReason,
    },
}

/// Why a model is unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum UnloadReason {
    /// Nobody used it for a while.
    Idle,
    /// Another model needs its room.
    MakeRoom,
    /// It is loaded anew with other settings.
    Replaced,
    /// A person paused everything.
    Paused,
    /// The machine demands it.
    Pressure {
        /// What it said.
        #[serde(rename = "because")]
        reason: LimitReason,
    },
    /// A person asked for it.
    #[serde(rename = "asked")]
    Requested,
    /// Its load was given up.
    LoadEnded,
    /// Its engine failed, or its process did not obey.
    Fault,
    /// The program ends.
    Quit,
}

/// An ask that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedRequest {
    /// Its name.
    #[serde(rename = "ask")]
    pub request_id: RequestId,
    /// The model that it wants.
    pub model: String,
}

/// An unload that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnloadRecord {
    /// The model.
    pub name: String,
    /// Why.
    pub why: UnloadReason,
    /// What its process held before, beyond what it held before the load, or what the engine counted
    /// where that is more; `None` where the system does not tell.
    pub held_bytes: Option<u64>,
    /// Of that, what freeing the model gave back; the rest went with the process.
    pub freed_bytes: Option<u64>,
    /// It did not give its memory back in time, or died on the way, and was ended by force.
    pub by_force: bool,
    /// From the decision until the process was gone.
    #[serde(rename = "took_seconds", with = "transom_engine::seconds")]
    pub took: Duration,
}
