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
#[cfg(test)]
mod tests;
mod unload;
mod worker;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use transom_engine::{
    EngineError, FinishReason, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo, ModelSource,
    Trim,
};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{JobSummary, LoadFootprint, Request, UnloadFootprint};
use transom_signals::{Hardware, MemoryPressure, SystemSignals};

use crate::answer::AnswerEvent;
use crate::budget::Budget;
use crate::governor::{Governor, Tuning};
use crate::request::{Ask, AskError, AskId, ModelSpec, Unload};
use crate::status::{UnloadReason, UnloadRecord};

use model::{Model, Phase};
use queue::Waiting;

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
pub struct Core {
    hardware: Hardware,
    tuning: Tuning,
    governor: Governor,
    budget: Budget,
    /// Every model that has a process.
    models: Vec<Model>,
    /// Asks that have not begun, oldest first.
    queue: Queue,
    /// Since when asks wait for the machine to allow work.
    held_since: Option<Now>,
    /// The pressure for which caches were trimmed last.
    trimmed_for: MemoryPressure,
    next_worker: u64,
    keeps_awake: bool,
    is_quitting: bool,
    last_unload: Option<UnloadRecord>,
    last_error: Option<String>,
}

impl Core {
    /// Nothing is loaded, nothing is asked.
    pub fn new(hardware: &Hardware, tuning: Tuning) -> Self {
        Self {
            governor: Governor::new(hardware, &tuning),
            budget: Budget::for_machine(hardware, &tuning),
            hardware: hardware.clone(),
            tuning,
            models: Vec::new(),
            queue: Queue::default(),
            held_since: None,
            trimmed_for: MemoryPressure::Normal,
            next_worker: 1,
            keeps_awake: false,
            is_quitting: false,
            last_unload: None,
            last_error: None,
        }
    }

    /// Takes in what happened at `now`, and returns what to do, in order.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.governor.tick(now);
        match event {
            Event::Ask(id, ask) => self.take_ask(id, ask, &mut effects),
            Event::Cancel(id) => self.cancel(id, &mut effects),
            Event::Unload(which) => self.unload_by_hand(&which, now, &mut effects),
            Event::Tune(tuning) => {
                self.governor.tune(&tuning);
                self.budget = Budget::for_machine(&self.hardware, &tuning);
                self.tuning = tuning;
            }
            Event::Signals(signals) => self.governor.observe(signals, now),
            Event::Worker(worker, event) => self.hear(worker, event, now, &mut effects),
            Event::Tick => {}
            Event::Quit => self.is_quitting = true,
        }
        self.advance(now, &mut effects);
        effects
    }

    /// Whether the program may end: it was told to quit, and nothing is left.
    pub fn is_done(&self) -> bool {
        self.is_quitting && self.models.is_empty() && self.queue.is_empty()
    }

    fn take_ask(&mut self, id: AskId, ask: Box<Ask>, effects: &mut Vec<Effect>) {
        let refusal = if self.is_quitting {
            Some(AskError::Quitting)
        } else if ask.model.variants.is_empty() {
            let source = EngineError::NotFound {
                path: ask.model.name.clone().into(),
                what: "model".to_owned(),
                hint: "no form of it is known".to_owned(),
            };
            Some(AskError::Engine { source })
        } else if self.queue.len() >= self.tuning.queue_limit {
            Some(AskError::Busy {
                waiting: self.queue.len(),
            })
        } else {
            match self.governor.allowance().held {
                Some(because) if ask.when_held == WhenHeld::Refuse => Some(AskError::Held {
                    because,
                    retry_after: self.tuning.longest_hold,
                }),
                _ => None,
            }
        };
        if let Some(info) = self.loaded(&ask.model)
            && ask.work == Work::Load
        {
            let outcome = Outcome::Loaded { info };
            effects.push(Effect::Tell(id, AnswerEvent::Ended { outcome }));
        } else if let Some(error) = refusal {
            effects.push(failed(id, error));
        } else {
            self.queue.push(id, ask);
        }
    }

    fn cancel(&mut self, id: AskId, effects: &mut Vec<Effect>) {
        if self.queue.remove(id) {
            let outcome = Outcome::Finished {
                reason: FinishReason::Cancelled,
                stats: Default::default(),
            };
            effects.push(Effect::Tell(id, AnswerEvent::Ended { outcome }));
        } else if let Some(model) = self.models.iter_mut().find(|model| model.runs(id)) {
            model.stop_job(FinishReason::Cancelled, effects);
        }
    }

    /// What a model is, if it is loaded and stays.
    fn loaded(&self, spec: &ModelSpec) -> Option<Box<ModelInfo>> {
        let model = self.models.iter().find(|model| model.spec == *spec)?;
        match model.phase {
            Phase::Ready | Phase::Generating { .. } => model.info.clone(),
            Phase::Measuring
            | Phase::WaitingForRoom
            | Phase::Loading { .. }
            | Phase::Unloading { .. } => None,
        }
    }

    /// A person wants the memory back now: asks for the model that wait are refused, and a running
    /// answer is ended.
    fn unload_by_hand(&mut self, which: &Unload, now: Now, effects: &mut Vec<Effect>) {
        let is_meant = |spec: &ModelSpec| match which {
            Unload::All => true,
            Unload::Named(name) => spec.name == *name,
        };
        for id in self.queue.take(|queued| is_meant(&queued.ask.model)) {
            effects.push(failed(id, AskError::Unloaded));
        }
        for model in self.models.iter_mut() {
            if is_meant(&model.spec) {
                model.unload(UnloadReason::Asked, now, &self.tuning, effects);
            }
        }
    }
}

/// The end of an ask that has no result.
fn failed(id: AskId, error: AskError) -> Effect {
    let outcome = Outcome::Failed { error };
    Effect::Tell(id, AnswerEvent::Ended { outcome })
}

#[cfg(test)]
mod tests;
