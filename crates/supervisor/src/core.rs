//! The core makes every decision about models and has no side effects.
//!
//! [`Core::step`] takes an event and the time, and returns the effects to carry out. It reads no
//! clock, uses no channel and cannot fail. Time advances through [`Event::Tick`] at
//! [`Core::next_deadline`]. Deadlines are part of the state, so a timer can never be stale.
//!
//! Rule: an accepted request ends exactly once. A model's memory counts against the budget from
//! before its load until its process is gone.

mod advance;
mod crashes;
mod job;
mod load;
mod model;
mod pressure;
mod queue;
mod schedule;
mod snapshot;
mod stuck;
#[cfg(test)]
mod tests;
mod together;
mod unload;
mod worker;

use std::collections::VecDeque;
use std::time::Duration;

use transom_engine::{ConversationId, Limits, ModelSource};
use transom_engine_host::WorkerReport;
use transom_engine_host::wire::Command;
use transom_fit::Budget;
use transom_signals::{Hardware, MemoryPressure, SystemSignals};

use crate::budget;
use crate::governor::{Governor, Tuning};
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::ResponseEvent;
use crate::saving::Forgotten;
use crate::status::{UnloadReason, UnloadRecord};

use crashes::CrashCounter;
use model::{Model, Phase};
use queue::PendingRequest;

/// Maximum number of bytes of all saved states together. A larger state is not saved.
pub(crate) const MAX_SAVED_STATE_BYTES: u64 = 4 << 30;

/// Time since the supervisor started, on a monotonic clock.
pub type Timestamp = Duration;

/// Id of a worker. Ids are never reused, and a worker loads at most one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

/// An input of the core.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A program submits a request.
    Request(RequestId, Box<ModelRequest>),
    /// A program cancels a request. Ids of ended requests are ignored.
    Cancel(RequestId),
    /// The user unloads models.
    Unload(ModelSelector),
    /// Settings changed.
    SetTuning(Tuning),
    /// The user pauses all models, or resumes.
    SetPaused(bool),
    /// The user deletes this conversation, or all.
    ForgetConversations(Option<ConversationId>),
    /// The system reports new signals.
    Signals(SystemSignals),
    /// A worker reports something. Reports of workers that are gone are ignored.
    Worker(WorkerId, WorkerReport),
    /// [`Core::next_deadline`] is reached. Allowed at any time.
    Tick,
    /// The program ends: refuse new requests, end running ones, unload all models.
    Quit,
}

/// An action for the driver. Effects are executed in order. None can fail: failures are reported as
/// events.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start a worker.
    Start(WorkerId),
    /// Send a command that does not concern saved states.
    Send(WorkerId, Command),
    /// Load this variant of the model with the given id, which finds its saved KV caches.
    Load(WorkerId, String, ModelSource, Limits),
    /// Save the KV caches of the loaded model, which take this number of bytes.
    Save(WorkerId, u64),
    /// Drop the model and report the memory freed. With a number of bytes, save its KV caches before,
    /// which take so many; without, they are lost.
    Unload(WorkerId, Option<u64>),
    /// Delete saved KV caches, including those being saved now.
    DeleteSavedStates(Forgotten),
    /// Send no more commands; the worker then exits by itself and [`WorkerReport::Exited`] follows.
    Release(WorkerId),
    /// Kill the worker; [`WorkerReport::Exited`] follows.
    Kill(WorkerId),
    /// Send an event to the requester. No event follows [`ResponseEvent::Ended`].
    Respond(RequestId, ResponseEvent),
    /// Keep the machine awake, or let it sleep again.
    KeepAwake(bool),
}

/// The state of all models and requests. See the module documentation.
#[derive(Debug, Clone)]
pub struct Core {
    /// The time of the current or last step.
    now: Timestamp,
    tuning: Tuning,
    hardware: Hardware,
    governor: Governor,
    budget: Budget,
    /// Every model that has a worker. If it is empty, no memory is in use.
    models: Vec<Model>,
    queue: VecDeque<PendingRequest>,
    /// The last turn that was served, of each [`crate::request::Class`].
    served_turns: [u64; 2],
    /// Average time of recent jobs.
    job_time: Duration,
    crashes: CrashCounter,
    workers_started: u64,
    /// The memory pressure at which models were last trimmed.
    trimmed_at: MemoryPressure,
    keeps_awake: bool,
    is_quitting: bool,
    last_unload: Option<(WorkerId, UnloadRecord)>,
    last_error: Option<String>,
    /// Effects of the current step; empty between steps.
    effects: Vec<Effect>,
}

impl Core {
    /// Creates a core without models and requests.
    pub fn new(hardware: &Hardware, tuning: Tuning) -> Self {
        Self {
            now: Timestamp::ZERO,
            governor: Governor::new(hardware, &tuning),
            budget: budget::of_machine(hardware, &tuning),
            hardware: hardware.clone(),
            tuning,
            models: Vec::new(),
            queue: VecDeque::new(),
            served_turns: [0; 2],
            job_time: schedule::FIRST_JOB_TIME,
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

    /// Handles `event` at the time `now`, which must not go back, and returns the effects in order.
    pub fn step(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.governor.tick(now);
        match event {
            Event::Request(id, request) => self.enqueue(id, *request),
            Event::Cancel(id) => self.cancel(id),
            Event::Unload(which) => self.unload_selected(&which),
            Event::SetTuning(tuning) => self.set_tuning(tuning),
            Event::SetPaused(is_paused) => self.governor.set_paused(is_paused),
            Event::ForgetConversations(id) => self.forget_conversations(id),
            Event::Signals(signals) => self.governor.observe(signals, now),
            Event::Worker(worker, report) => self.handle_report(worker, report),
            Event::Tick => {}
            Event::Quit => self.quit(),
        }
        self.advance();
        std::mem::take(&mut self.effects)
    }

    /// Returns when [`Event::Tick`] is due, which is later than the `now` of the last step; `None`
    /// if the passing of time changes nothing.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let of_models = self.models.iter().filter_map(|model| self.deadline(model));
        let of_queue = self
            .queue
            .iter()
            .filter_map(|pending| self.expires_at(pending));
        of_models
            .chain(of_queue)
            .chain(self.switch_at())
            .chain(self.governor.next_deadline())
            .min()
    }

    /// Returns true if everything has ended after [`Event::Quit`], except processes that cannot be
    /// killed.
    pub fn is_done(&self) -> bool {
        self.is_quitting && self.queue.is_empty() && self.models.iter().all(Model::is_stuck)
    }

    /// Returns true if a model is loaded, loading or unloading.
    pub fn has_models(&self) -> bool {
        !self.models.is_empty()
    }

    fn deadline(&self, model: &Model) -> Option<Timestamp> {
        match &model.phase {
            Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. } => None,
            Phase::Ready => self.idle_at(model),
            Phase::Generating(running) => running.deadline(),
            Phase::Unloading(unloading) => unloading.deadline(),
        }
    }

    /// Applies new settings. They never end a running response.
    fn set_tuning(&mut self, tuning: Tuning) {
        self.governor.set_tuning(&tuning);
        self.budget = budget::of_machine(&self.hardware, &tuning);
        self.tuning = tuning;
    }

    fn quit(&mut self) {
        self.is_quitting = true;
        self.fail_queued(|_| true, &RequestError::Quitting);
        for index in 0..self.models.len() {
            self.stop_and_unload(index, UnloadReason::Quit);
            self.shorten_stop(index);
        }
    }
}
