//! The core in a simulated environment: workers that reply in any order, late, or not at all;
//! processes that cannot be killed; users; and system signals. Every step checks the invariants.

mod actions;
mod faults;
mod invariants;
mod worker;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use transom_engine::{EngineError, FinishReason, GenerationParams, Prompt, Stats, Truncation};
use transom_engine_host::WorkerEnd;
use transom_engine_host::WorkerReport::{self, Message};
use transom_engine_host::wire::{Command, JobId, JobSummary, Report, Request};
use transom_signals::{MemoryPressure, SystemSignals};

use super::models::{self, TestModels};
use crate::core::{Core, Effect, Event, Timestamp, WorkerId};
use crate::governor::Tuning;
use crate::request::{ClientId, ModelRequest, ModelSelector, RequestId, Work};
use crate::response::ResponseEvent;
pub(super) use actions::{
    ACTIONS, Action, FAULT_ACTIONS, PARALLEL_ACTIONS, PAUSE_ACTIONS, SETTING_ACTIONS,
    VARIANT_ACTIONS,
};
use worker::SimulatedWorker;

/// How memory pressure reacts to a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryCondition {
    /// There is no pressure.
    Plenty,
    /// Memory is critically short during each load, and recovers when the load has ended.
    Short,
}

/// Time after which the watchdog kills a silent worker.
const WATCHDOG: Duration = Duration::from_secs(125);

/// Every request ends within this time, whatever workers do.
const MAX_WAIT: Duration = Duration::from_secs(20 * 60);

/// A hash of a state. Hashing millions of states takes long without an optimized hash function.
pub(super) type Key = [u8; 32];

#[derive(Debug, Clone)]
pub(super) struct Simulation {
    core: Core,
    now: Timestamp,
    models: TestModels,
    workers: BTreeMap<WorkerId, SimulatedWorker>,
    /// Requests that have not ended.
    open: Vec<RequestId>,
    n_requests: u64,
    is_quitting: bool,
    is_paused: bool,
    tuning: Tuning,
    pressure: MemoryPressure,
}

impl Default for Simulation {
    fn default() -> Self {
        Self::with_parallel(1)
    }
}

impl Simulation {
    /// Creates one in which this number of requests may run at the same time.
    pub(super) fn with_parallel(parallel_requests: usize) -> Self {
        let tuning = Tuning {
            parallel_requests,
            ..models::tuning()
        };
        Self {
            core: Core::new(&models::hardware(), tuning.clone()),
            now: Timestamp::ZERO,
            models: TestModels::default(),
            workers: BTreeMap::new(),
            open: Vec::new(),
            n_requests: 0,
            is_quitting: false,
            is_paused: false,
            tuning,
            pressure: MemoryPressure::Normal,
        }
    }

    /// Applies `step`. Returns false if it is not possible.
    pub(super) fn apply(&mut self, step: Action) -> bool {
        let event = match step {
            Action::RequestChat => self.request("chat", false),
            Action::RequestEmbed => self.request("embed", false),
            Action::RequestOther => self.request("other", false),
            Action::RequestTwo => self.request("two", false),
            Action::RequestLean => self.request("lean", false),
            Action::RequestTalker => self.request("talker", false),
            Action::RequestLong => self.request("chat/20000", false),
            Action::RequestSmall => self.request("chat/small", false),
            Action::LoadChat => self.request("chat", true),
            Action::CancelOldest => self.open.first().map(|&id| Event::Cancel(id)),
            Action::CancelNewest => self.open.last().map(|&id| Event::Cancel(id)),
            Action::Wait => self.core.next_deadline().map(|deadline| {
                self.now = deadline;
                Event::Tick
            }),
            Action::NoPressure => Some(signals(MemoryPressure::Normal)),
            Action::Warning => Some(signals(MemoryPressure::Warning)),
            Action::Critical => Some(signals(MemoryPressure::Critical)),
            Action::AdvanceOldest => self.next_event(false),
            Action::AdvanceNewest => self.next_event(true),
            Action::EndNewestJob => self.end_newest_job(),
            Action::RejectNewest => self.reject_newest(),
            Action::CrashOldest => crash(self.workers.keys().next()),
            Action::CrashNewest => crash(self.workers.keys().next_back()),
            Action::BreakNewest => self.break_newest(),
            Action::SilenceNewest => return self.silence_newest(false),
            Action::MakeNewestUnkillable => return self.silence_newest(true),
            Action::LowerBudget => Some(Event::SetTuning(Tuning {
                memory_budget_bytes: Some(3 * models::GB),
                ..self.tuning.clone()
            })),
            Action::Forget => Some(Event::ForgetConversations(None)),
            Action::UnloadAll => Some(Event::Unload(ModelSelector::All)),
            Action::Pause => Some(Event::SetPaused(true)),
            Action::Resume => Some(Event::SetPaused(false)),
            Action::Quit => Some(Event::Quit),
        };
        if let Some(event) = event {
            self.step(event);
            return true;
        }
        false
    }

    fn request(&mut self, model: &str, is_load: bool) -> Option<Event> {
        self.n_requests += 1;
        let id = RequestId(self.n_requests);
        self.open.push(id);
        let generate = Request {
            prompt: Prompt::Text(String::new()),
            truncation: Truncation::Disabled,
            params: GenerationParams::default(),
        };
        let work = match is_load {
            true => Work::Load,
            false => Work::Generate(Box::new(generate)),
        };
        let request = ModelRequest::new(ClientId::app(), models::spec(model), work);
        Some(Event::Request(id, Box::new(request)))
    }

    /// Takes the next event of the oldest or newest worker that has one.
    fn next_event(&mut self, newest: bool) -> Option<Event> {
        let is_responsive = |(_, state): &(&WorkerId, &mut SimulatedWorker)| {
            !state.is_silent && !state.pending_events.is_empty()
        };
        let mut workers = self.workers.iter_mut().filter(is_responsive);
        let (worker, state) = match newest {
            true => workers.next_back(),
            false => workers.next(),
        }?;
        let event = state.pending_events.pop_front()?;
        Some(Event::Worker(*worker, event))
    }

    /// Takes the last event of a worker, if that is the end of a job.
    fn end_newest_job(&mut self) -> Option<Event> {
        let is_end = |event: &mut WorkerReport| matches!(event, Message(Report::JobEnded { .. }));
        let mut workers = self
            .workers
            .iter_mut()
            .filter(|(_, state)| !state.is_silent);
        workers.find_map(|(worker, state)| {
            let event = state.pending_events.pop_back_if(is_end)?;
            Some(Event::Worker(*worker, event))
        })
    }

    fn step(&mut self, event: Event) {
        if let Event::SetTuning(tuning) = &event {
            self.tuning = tuning.clone();
        }
        if let Event::Signals(signals) = &event {
            self.pressure = signals.memory;
        }
        self.is_quitting |= matches!(event, Event::Quit);
        if let Event::SetPaused(is_paused) = event {
            self.is_paused = is_paused;
        }
        let must_not_save = matches!(event, Event::Unload(_));
        if let Event::Worker(worker, event) = &event {
            self.record_event(*worker, event);
        }
        for effect in self.core.step(event, self.now) {
            self.models.record(&effect);
            self.apply_effect(&effect);
            let begins = matches!(
                effect,
                Effect::Start(_) | Effect::Load(..) | Effect::Send(_, Command::Generate { .. })
            );
            assert!(!begins || !self.is_paused, "{effect:?} in a pause");
            assert!(
                !must_not_save || !matches!(effect, Effect::Unload(_, Some(_))),
                "a state is saved that must be deleted"
            );
        }
        let tick = self.core.step(Event::Tick, self.now);
        assert_eq!(tick, [], "a tick is harmless");
        let deadline = self.core.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline passed");
        self.check_idle();
    }

    fn record_event(&mut self, worker: WorkerId, event: &WorkerReport) {
        let state = self.workers.get_mut(&worker).expect("it is there");
        match event {
            Message(Report::Loaded { .. }) => {
                state.is_loaded = true;
                state.is_stopped = false;
            }
            Message(Report::JobEnded { job, .. }) => {
                state.jobs.retain(|running| running != job);
                state.stopped_jobs.retain(|stopped| stopped != job);
                state.trims_after_jobs &= !state.jobs.is_empty();
            }
            WorkerReport::Stuck { .. } => state.is_stuck = true,
            Message(Report::LoadFailed { .. }) => state.is_stopped = false,
            WorkerReport::Exited(_) => {
                self.workers.remove(&worker);
            }
            Message(_) => {}
        }
    }

    /// Applies an effect to the environment, and checks that it is allowed.
    fn apply_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Start(worker) => {
                let before = self.workers.insert(*worker, SimulatedWorker::default());
                assert!(before.is_none(), "worker ids are unique");
            }
            Effect::Send(worker, Command::Measure { .. }) => {
                let result = Ok(self.models.need(*worker));
                let event = Message(Report::Measured { result });
                self.commandable_worker(*worker)
                    .pending_events
                    .push_back(event);
            }
            Effect::Load(worker, ..) => {
                let event = self.models.loaded(*worker, 0);
                self.check_alone(*worker);
                let state = self.commandable_worker(*worker);
                state.has_memory = true;
                state.pending_events.push_back(event);
                self.check_budget();
            }
            Effect::Send(worker, Command::Generate { job, .. }) => {
                self.check_beside(*worker);
                let event = self.ended(*worker, *job, FinishReason::Stop);
                let most = self.tuning.parallel_requests;
                let state = self.commandable_worker(*worker);
                assert!(state.is_loaded, "only a loaded model generates");
                assert!(!state.is_broken, "a broken model does not generate");
                assert!(!state.trims_after_jobs, "a job waits for a trim");
                state.jobs.push(*job);
                state.pending_events.push_back(event);
                let n_jobs = state.jobs.len();
                assert!(n_jobs <= most, "{n_jobs} jobs");
                if n_jobs > 1 {
                    let pressure = self.pressure;
                    assert_eq!(pressure, MemoryPressure::Normal, "one at a time");
                    self.check_budget();
                }
            }
            Effect::Send(worker, Command::Stop { job: None, .. }) => {
                let state = self.commandable_worker(*worker);
                state.is_stopped = true;
                state.pending_events.clear();
                let error = EngineError::Canceled;
                let event = Message(Report::LoadFailed { error });
                state.pending_events.push_back(event);
            }
            Effect::Send(
                worker,
                Command::Stop {
                    job: Some(job),
                    reason,
                },
            ) => {
                let event = self.ended(*worker, *job, *reason);
                let state = self.commandable_worker(*worker);
                assert!(state.jobs.contains(job), "only a running job is stopped");
                if state.is_broken {
                    return;
                }
                state.stopped_jobs.push(*job);
                let is_end = |event: &WorkerReport| matches!(event, Message(Report::JobEnded { job: ended, .. }) if ended == job);
                state.pending_events.retain(|event| !is_end(event));
                state.pending_events.push_back(event);
            }
            Effect::Send(worker, Command::Trim { .. } | Command::Forget { .. }) => {
                let memory = self.models.memory(*worker);
                let event = Message(Report::Trimmed { bytes: 1, memory });
                let state = self.commandable_worker(*worker);
                state.trims_after_jobs = !state.jobs.is_empty();
                state.pending_events.push_back(event);
            }
            Effect::Unload(worker, _) => {
                let state = self.commandable_worker(*worker);
                assert_eq!(state.jobs, [], "no model is dropped in a job");
                state.is_freeing = true;
                let event = Message(Report::Unloaded { footprint: None });
                state.pending_events.push_back(event);
            }
            Effect::Release(worker) => {
                let state = self.commandable_worker(*worker);
                assert_eq!(
                    state.jobs,
                    [],
                    "no worker is released before its jobs ended"
                );
                state.is_released = true;
                let event = WorkerReport::Exited(WorkerEnd::Requested);
                state.pending_events.push_back(event);
            }
            Effect::Kill(worker) => {
                let state = self.workers.get_mut(worker).expect("it is there");
                assert!(!state.is_killed, "no worker is killed twice");
                state.is_silent = false;
                state.kill();
                state.stopped_jobs.clear();
                state.pending_events = VecDeque::from([state.end_event(died())]);
            }
            Effect::Respond(request_id, event) => {
                let index = self.open.iter().position(|open| open == request_id);
                let index = index.expect("no event follows the end of a request");
                if let ResponseEvent::Ended { .. } = event {
                    self.open.remove(index);
                }
            }
            Effect::Send(_, command) => panic!("the core sends no {command:?}"),
            Effect::Save(worker, _) => {
                let state = self.commandable_worker(*worker);
                assert_eq!(state.jobs, [], "nothing is saved in a job");
            }
            Effect::DeleteSavedStates(_) | Effect::KeepAwake(_) => {}
        }
    }

    /// Returns a worker that may still receive commands.
    fn commandable_worker(&mut self, worker: WorkerId) -> &mut SimulatedWorker {
        let state = self.workers.get_mut(&worker).expect("it is there");
        assert!(!state.is_released && !state.is_killed, "no more commands");
        state
    }

    fn ended(&self, worker: WorkerId, job: JobId, reason: FinishReason) -> WorkerReport {
        let summary = JobSummary {
            reason,
            stats: Stats::default(),
            memory: self.models.memory(worker),
        };
        let result = Ok(summary);
        Message(Report::JobEnded { job, result })
    }

    /// Resumes, lets workers reply or be killed, and advances time. Every request must end in time,
    /// and every model be unloaded whose process can be killed. `known_to_settle` are known states.
    pub(super) fn settle(mut self, machine: MemoryCondition, known_to_settle: &mut HashSet<Key>) {
        let mut passed = Vec::new();
        let began = self.now;
        self.step(signals(MemoryPressure::Normal));
        if self.is_paused {
            self.step(Event::SetPaused(false));
        }
        for _ in 0..200 {
            let key = self.key();
            if known_to_settle.contains(&key) {
                known_to_settle.extend(passed);
                return;
            }
            passed.push(key);
            let is_late = self.now > began + MAX_WAIT && !self.open.is_empty();
            assert!(!is_late, "a request waits too long: {:#?}", self.core);
            if machine == MemoryCondition::Short && self.update_pressure() {
                continue;
            }
            if !self.apply(Action::AdvanceOldest)
                && !self.apply(Action::Wait)
                && !self.fire_watchdog()
            {
                assert_eq!(self.open, [], "a request waits forever: {:#?}", self.core);
                let is_left = self.workers.values().all(|worker| worker.is_stuck);
                assert!(is_left, "a model stays loaded: {:#?}", self.core);
                assert!(
                    !self.is_quitting || self.core.is_done(),
                    "the core is not done"
                );
                known_to_settle.extend(passed);
                return;
            }
        }
        panic!("it does not settle: {:#?}", self.core);
    }

    /// Updates the memory pressure while memory is short. Returns true if it changed.
    fn update_pressure(&mut self) -> bool {
        let loads = |worker: &SimulatedWorker| {
            worker.has_memory && !worker.is_loaded && !worker.is_stopped && !worker.is_ending()
        };
        let pressure = match self.workers.values().any(loads) {
            true => MemoryPressure::Critical,
            false => MemoryPressure::Normal,
        };
        if pressure == self.pressure {
            return false;
        }
        self.step(signals(pressure));
        true
    }

    /// Returns a key that is equal for equal states, whatever led to them.
    pub(super) fn key(&self) -> Key {
        let state = format!("{:?}{:?}{:?}", self.core, self.now, self.workers);
        Sha256::digest(state).into()
    }
}

fn signals(memory: MemoryPressure) -> Event {
    Event::Signals(SystemSignals {
        memory,
        ..SystemSignals::default()
    })
}

fn crash(worker: Option<&WorkerId>) -> Option<Event> {
    Some(Event::Worker(*worker?, WorkerReport::Exited(died())))
}

fn died() -> WorkerEnd {
    WorkerEnd::Died {
        how: "killed by signal 9 (SIGKILL)".to_owned(),
        stderr_tail: String::new(),
    }
}
