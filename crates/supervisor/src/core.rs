//! The closed core: every decision about models, and no deed.
//!
//! [`Core::step`] takes an event and the time, and returns what to do. It reads no clock, holds no
//! channel and cannot fail. Time passes through [`Event::Tick`] at [`Core::next_deadline`]:
//! deadlines are part of the state, so there is no timer that could be stale.
//!
//! Rule: an accepted ask ends exactly once, and a model's memory counts against the budget from
//! before its load until its process is gone.

use std::time::Duration;

use transom_engine::{
    EngineError, FinishReason, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo, ModelSource,
    Stats, Trim,
};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{JobSummary, LoadFootprint, Request, UnloadFootprint};
use transom_signals::SystemSignals;

use crate::answer::{AnswerEvent, Outcome};
use crate::governor::Tuning;
use crate::request::{Ask, AskId, Unload};

/// Time since the supervisor began, on a clock that never goes back.
pub type Now = Duration;

/// Names a worker. Each has at most one model in its life, and a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A shell wants something.
    Ask(AskId, Box<Ask>),
    /// A shell no longer wants it. Ids that are over are ignored.
    Cancel(AskId),
    /// A person wants memory back.
    Unload(Unload),
    /// Settings changed.
    Tune(Tuning),
    /// The machine said something.
    Signals(SystemSignals),
    /// A worker said something.
    Worker(WorkerId, WorkerEvent),
    /// [`Core::next_deadline`] came. Harmless at any time.
    Tick,
    /// The program ends: refuse what comes, end what runs, unload everything.
    Quit,
}

/// What a worker said. Events of workers that are gone are ignored.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerEvent {
    /// What its model would need.
    Measured(Result<MemoryNeed, EngineError>),
    /// The load goes on.
    LoadProgress(LoadProgress),
    /// The model is ready.
    Loaded {
        /// What it is.
        info: Box<ModelInfo>,
        /// What it uses.
        memory: MemoryUse,
        /// The process around the load.
        footprint: Option<LoadFootprint>,
    },
    /// There is no model.
    LoadFailed(EngineError),
    /// A job is over and settled.
    JobEnded(AskId, Result<JobSummary, EngineError>),
    /// Memory was given back.
    Trimmed {
        /// How much.
        bytes: u64,
        /// What is used now.
        memory: MemoryUse,
    },
    /// The model is dropped.
    Unloaded(Option<UnloadFootprint>),
    /// The process is gone and reaped.
    Gone(WorkerEnd),
}

/// What to do. In order, and none of them can fail: failures come back as events.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start a worker.
    Start(WorkerId),
    /// Have it read what the model would need.
    Measure(WorkerId, ModelSource, Limits),
    /// Have it load.
    Load(WorkerId, ModelSource, Limits),
    /// Have it answer.
    Generate(WorkerId, AskId, Box<Request>),
    /// Have it end its load (`None`) or job early.
    Stop(WorkerId, Option<AskId>, FinishReason),
    /// Have it give back what can be rebuilt.
    Trim(WorkerId, Trim),
    /// Have it drop its model and say what came back.
    Unload(WorkerId),
    /// Let it go: no more commands; it ends by itself and [`WorkerEvent::Gone`] follows.
    Release(WorkerId),
    /// Kill it; [`WorkerEvent::Gone`] follows.
    Kill(WorkerId),
    /// Tell the shell. After [`AnswerEvent::Ended`] the ask is never mentioned again.
    Tell(AskId, AnswerEvent),
    /// Keep the machine awake, or let it sleep again.
    KeepAwake(bool),
}

/// The state of everything. See the head of this file.
#[derive(Debug, Clone)]
pub struct Core {}
