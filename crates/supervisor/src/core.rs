//! The closed core: every decision about models, and no deed.
//!
//! [`Core::step`] takes an event and the time, and returns what to do. It reads no clock, holds no
//! channel and cannot fail. Time passes through [`Event::Tick`] at [`Core::next_deadline`]:
//! deadlines are part of the state, so there is no timer that could be stale.
//!
//! Rule: an accepted ask ends exactly once, and a model's memory counts against the budget from
//! before its load until its process is gone.

mod advance;
mod crashes;
mod job;
mod load;
mod model;
mod pressure;
mod queue;
mod snapshot;
mod stuck;
#[cfg(test)]
mod tests;
mod unload;
mod worker;

use std::collections::VecDeque;
use std::time::Duration;

use transom_engine::{
    EngineError, FinishReason, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo, ModelSource,
    Trim,
};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{JobSummary, LoadFootprint, Request, UnloadFootprint};
use transom_fit::Budget;
use transom_signals::{Hardware, MemoryPressure, SystemSignals};

use crate::budget;
use crate::governor::{Governor, Tuning};
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::ResponseEvent;
use crate::status::{UnloadReason, UnloadRecord};

use crashes::CrashCounter;
use model::{Model, Phase};
use queue::PendingRequest;

/// Bytes that kept conversations may take on disk together; a single one that takes more is not
/// kept.
pub(crate) const MAX_SAVED_STATE_BYTES: u64 = 4 << 30;

/// Time since the supervisor began, on a clock that never goes back.
pub type Timestamp = Duration;

/// Names a worker. Each has at most one model in its life, and a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A shell wants something.
    Request(RequestId, Box<ModelRequest>),
    /// A shell no longer wants it. Ids that are over are ignored.
    Cancel(RequestId),
    /// A person wants memory back.
    Unload(ModelSelector),
    /// Settings changed.
    SetTuning(Tuning),
    /// A person pauses everything, or lets it go on.
    SetPaused(bool),
    /// Nothing may be left of any conversation.
    ForgetConversations,
    /// The machine event_name something.
    Signals(SystemSignals),
    /// A worker event_name something.
    Worker(WorkerId, WorkerEvent),
    /// [`Core::next_deadline`] came. Harmless at any time.
    Tick,
    /// The program ends: refuse what comes, end what runs, unload everything.
    Quit,
}

/// What a worker event_name. Events of workers that are gone are ignored.
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
        /// Tokens of an earlier conversation that were taken up.
        restored_tokens: usize,
    },
    /// There is no model.
    LoadFailed(EngineError),
    /// A job is over and settled.
    JobEnded(RequestId, Result<JobSummary, EngineError>),
    /// Memory was given back.
    Trimmed {
        /// How much.
        bytes: u64,
        /// What is used now.
        memory: MemoryUse,
    },
    /// Its model cannot be used any more. If a job broke it, the end of that job follows.
    Broken(EngineError),
    /// Bytes that its process costs now.
    Footprint(u64),
    /// The model is dropped.
    Unloaded(Option<UnloadFootprint>),
    /// It was killed, but its process does not end.
    Stuck {
        /// Id of the process.
        process_id: u32,
        /// Why it was killed.
        end: WorkerEnd,
    },
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
    /// Have it load this form of the model with that id, and restore its saved state, if there is
    /// one.
    Load(WorkerId, String, ModelSource, Limits),
    /// Have it answer.
    Generate(WorkerId, RequestId, Box<Request>),
    /// Have it end its load (`None`) or job early.
    Stop(WorkerId, Option<RequestId>, FinishReason),
    /// Have it give back what can be rebuilt.
    Trim(WorkerId, Trim),
    /// Have it drop its model and say what came back.
    Unload(WorkerId, StateOnUnload),
    /// Remove what was kept of the conversations with these models, and what is just being kept.
    DeleteSavedStates(ModelSelector),
    /// Let it go: no more commands; it ends by itself and [`WorkerEvent::Gone`] follows.
    Release(WorkerId),
    /// Kill it; [`WorkerEvent::Gone`] follows.
    Kill(WorkerId),
    /// Tell the shell. After [`ResponseEvent::Ended`] the ask is never mentioned again.
    Respond(RequestId, ResponseEvent),
    /// Keep the machine awake, or let it sleep again.
    KeepAwake(bool),
}

/// What becomes of the conversation of a model that is unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOnUnload {
    /// It is kept on disk for when the model is loaded again.
    Save {
        /// What it takes there.
        bytes: u64,
    },
    /// It goes with the model.
    Discard,
}

/// The state of everything. See the head of this file.
#[derive(Debug, Clone)]
pub struct Core {
    tuning: Tuning,
    hardware: Hardware,
    governor: Governor,
    budget: Budget,
    /// Every model that has a worker. No entry: nothing is held.
    models: Vec<Model>,
    queue: VecDeque<PendingRequest>,
    crashes: CrashCounter,
    workers_started: u64,
    /// The memory pressure that models were last trimmed for.
    trimmed_at: MemoryPressure,
    keeps_awake: bool,
    is_quitting: bool,
    last_unload: Option<(WorkerId, UnloadRecord)>,
    last_error: Option<String>,
    /// What the running step has decided so far; empty between steps.
    effects: Vec<Effect>,
}

impl Core {
    /// Nothing loaded, nothing asked.
    pub fn new(hardware: &Hardware, tuning: Tuning) -> Self {
        Self {
            governor: Governor::new(hardware, &tuning),
            budget: budget::of_machine(hardware, &tuning),
            hardware: hardware.clone(),
            tuning,
            models: Vec::new(),
            queue: VecDeque::new(),
            crashes: CrashCounter::default(),
            workers_started: 0,
            trimmed_at: MemoryPressure::Normal,
            keeps_awake: false,
            is_quitting: false,
            last_unload: None,
            last_error: None,
            effects: Vec::new(),
        }
    }

    /// Takes what happened at `now` and returns what to do, in order. `now` never goes back.
    pub fn step(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        self.governor.tick(now);
        match event {
            Event::Request(id, request) => self.enqueue(id, *request),
            Event::Cancel(id) => self.cancel(id, now),
            Event::Unload(which) => self.unload_selected(&which, now),
            Event::SetTuning(tuning) => self.set_tuning(tuning),
            Event::SetPaused(is_paused) => self.governor.set_paused(is_paused),
            Event::ForgetConversations => self.forget_conversations(),
            Event::Signals(signals) => self.governor.observe(signals, now),
            Event::Worker(worker, event) => self.handle_worker_event(worker, event, now),
            Event::Tick => {}
            Event::Quit => self.quit(now),
        }
        self.advance(now);
        std::mem::take(&mut self.effects)
    }

    /// When [`Event::Tick`] is due; `None` while time alone changes nothing. Later than the `now`
    /// of the last step.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let of_models = self.models.iter().filter_map(|model| self.deadline(model));
        let of_queue = self
            .queue
            .iter()
            .filter_map(|pending| self.blocked_until(pending));
        of_models
            .chain(of_queue)
            .chain(self.governor.next_deadline())
            .min()
    }

    /// Whether everything ended after [`Event::Quit`], but for processes that cannot be ended.
    pub fn is_done(&self) -> bool {
        self.is_quitting && self.queue.is_empty() && self.models.iter().all(Model::is_stuck)
    }

    /// Whether a model is in memory, on its way in, or on its way out.
    pub fn has_models(&self) -> bool {
        !self.models.is_empty()
    }

    fn deadline(&self, model: &Model) -> Option<Timestamp> {
        match &model.phase {
            Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. } => None,
            Phase::Ready => self.idle_at(model),
            Phase::Generating(job) => job.deadline(),
            Phase::Unloading(unloading) => unloading.deadline(),
        }
    }

    /// New settings. They never end a running answer.
    fn set_tuning(&mut self, tuning: Tuning) {
        self.governor.set_tuning(&tuning);
        self.budget = budget::of_machine(&self.hardware, &tuning);
        self.tuning = tuning;
    }

    fn quit(&mut self, now: Timestamp) {
        self.is_quitting = true;
        self.effects
            .push(Effect::DeleteSavedStates(ModelSelector::All));
        self.fail_queued(|_| true, &RequestError::Quitting);
        for index in 0..self.models.len() {
            self.stop_and_unload(index, UnloadReason::Quit, now);
            self.shorten_stop(index, now);
        }
    }
}
