//! The closed core: every decision about models, and no deed.
//!
//! [`Core::step`] takes an event and the time, and returns what to do. It reads no clock, holds no
//! channel and cannot fail. Time passes through [`Event::Tick`] at [`Core::next_deadline`]:
//! deadlines are part of the state, so there is no timer that could be stale.
//!
//! Rule: an accepted ask ends exactly once, and a model's memory counts against the budget from
//! before its load until its process is gone.

mod advance;
mod job;
mod load;
mod model;
mod pressure;
mod queue;
mod snapshot;
mod strikes;
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

use crate::answer::AnswerEvent;
use crate::budget;
use crate::governor::{Governor, Tuning};
use crate::request::{Ask, AskError, AskId, Unload};
use crate::status::{UnloadReason, UnloadRecord};

use model::{Model, Phase};
use queue::Waiting;
use strikes::Strikes;

/// Bytes that kept conversations may take on disk together; a single one that takes more is not
/// kept.
pub(crate) const MOST_KEPT_BYTES: u64 = 4 << 30;

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
    /// A person pauses everything, or lets it go on.
    Pause(bool),
    /// Nothing may be left of any conversation.
    ForgetConversations,
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
        /// Tokens of an earlier conversation that were taken up.
        restored_tokens: usize,
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
    Generate(WorkerId, AskId, Box<Request>),
    /// Have it end its load (`None`) or job early.
    Stop(WorkerId, Option<AskId>, FinishReason),
    /// Have it give back what can be rebuilt.
    Trim(WorkerId, Trim),
    /// Have it drop its model and say what came back.
    Unload(WorkerId, Conversation),
    /// Remove what was kept of the conversations with these models, and what is just being kept.
    Forget(Unload),
    /// Let it go: no more commands; it ends by itself and [`WorkerEvent::Gone`] follows.
    Release(WorkerId),
    /// Kill it; [`WorkerEvent::Gone`] follows.
    Kill(WorkerId),
    /// Tell the shell. After [`AnswerEvent::Ended`] the ask is never mentioned again.
    Tell(AskId, AnswerEvent),
    /// Keep the machine awake, or let it sleep again.
    KeepAwake(bool),
}

/// What becomes of the conversation of a model that is unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversation {
    /// It is kept on disk for when the model is loaded again.
    Kept {
        /// What it takes there.
        bytes: u64,
    },
    /// It goes with the model.
    Forgotten,
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
    queue: VecDeque<Waiting>,
    strikes: Strikes,
    workers_started: u64,
    /// The memory pressure that models were last trimmed for.
    trimmed_for: MemoryPressure,
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
            strikes: Strikes::default(),
            workers_started: 0,
            trimmed_for: MemoryPressure::Normal,
            keeps_awake: false,
            is_quitting: false,
            last_unload: None,
            last_error: None,
            effects: Vec::new(),
        }
    }

    /// Takes what happened at `now` and returns what to do, in order. `now` never goes back.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        self.governor.tick(now);
        match event {
            Event::Ask(id, ask) => self.accept(id, *ask),
            Event::Cancel(id) => self.cancel(id, now),
            Event::Unload(which) => self.unload_by_hand(&which, now),
            Event::Tune(tuning) => self.tune(tuning),
            Event::Pause(is_paused) => self.governor.pause(is_paused),
            Event::ForgetConversations => self.forget_conversations(),
            Event::Signals(signals) => self.governor.observe(signals, now),
            Event::Worker(worker, event) => self.hear(worker, event, now),
            Event::Tick => {}
            Event::Quit => self.quit(now),
        }
        self.advance(now);
        std::mem::take(&mut self.effects)
    }

    /// When [`Event::Tick`] is due; `None` while time alone changes nothing. Later than the `now`
    /// of the last step.
    pub fn next_deadline(&self) -> Option<Now> {
        let of_models = self.models.iter().filter_map(|model| self.deadline(model));
        let of_queue = self.queue.iter().filter_map(|ask| self.held_until(ask));
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

    fn deadline(&self, model: &Model) -> Option<Now> {
        match &model.phase {
            Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. } => None,
            Phase::Ready => self.idle_at(model),
            Phase::Generating(job) => job.deadline(),
            Phase::Unloading(unloading) => unloading.deadline(),
        }
    }

    /// New settings. They never end a running answer.
    fn tune(&mut self, tuning: Tuning) {
        self.governor.tune(&tuning);
        self.budget = budget::of_machine(&self.hardware, &tuning);
        self.tuning = tuning;
    }

    fn quit(&mut self, now: Now) {
        self.is_quitting = true;
        self.effects.push(Effect::Forget(Unload::All));
        self.fail_queued(|_| true, &AskError::Quitting);
        for index in 0..self.models.len() {
            self.end_model(index, UnloadReason::Quit, now);
            self.hurry_stop(index, now);
        }
    }
}
