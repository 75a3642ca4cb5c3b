//! The core with a world round it: workers that answer what they were told, in any order, late,
//! or not at all; processes that cannot be killed; people; and a machine. Every step checks the rules
//! that must always hold.

mod moves;
mod rules;
mod worker;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::Hasher as _;
use std::time::Duration;

use transom_engine::{EngineError, FinishReason, GenerationParams, Prompt, Stats, Truncation};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{JobSummary, Request};
use transom_signals::{MemoryPressure, SystemSignals};

use super::world::{self, World};
use crate::answer::AnswerEvent;
use crate::core::{Conversation, Core, Effect, Event, Now, WorkerEvent, WorkerId};
use crate::governor::Tuning;
use crate::request::{Ask, AskId, Unload, WhenHeld, Work};
pub(super) use moves::{FAULT_MOVES, FORM_MOVES, MOVES, Move, PAUSE_MOVES, SETTING_MOVES};
use worker::Scripted;

/// How a machine takes it when a model is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    /// It is quiet.
    Roomy,
    /// Its memory is critically short during each load, and recovers when the load is given up.
    Tight,
}

/// How long a watchdog waits for a worker that says nothing.
const WATCHDOG: Duration = Duration::from_secs(125);

/// Within this time every ask ends, whatever workers do.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

#[derive(Debug, Clone)]
pub(super) struct Simulation {
    core: Core,
    now: Now,
    world: World,
    workers: BTreeMap<WorkerId, Scripted>,
    /// Asks without an end yet.
    open: Vec<AskId>,
    n_asks: u64,
    is_quitting: bool,
    is_paused: bool,
    budget_bytes: u64,
    pressure: MemoryPressure,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            core: Core::new(&world::hardware(), world::tuning()),
            now: Now::ZERO,
            world: World::default(),
            workers: BTreeMap::new(),
            open: Vec::new(),
            n_asks: 0,
            is_quitting: false,
            is_paused: false,
            budget_bytes: 6 * world::GB,
            pressure: MemoryPressure::Normal,
        }
    }
}

impl Simulation {
    /// Makes `step` happen. Returns false where it cannot.
    pub(super) fn apply(&mut self, step: Move) -> bool {
        let event = match step {
            Move::AskChat => self.ask("chat", false),
            Move::AskEmbed => self.ask("embed", false),
            Move::AskOther => self.ask("other", false),
            Move::AskTwo => self.ask("two", false),
            Move::AskLean => self.ask("lean", false),
            Move::AskLong => self.ask("chat/20000", false),
            Move::AskSmall => self.ask("chat/small", false),
            Move::LoadChat => self.ask("chat", true),
            Move::CancelOldest => self.open.first().map(|&ask| Event::Cancel(ask)),
            Move::CancelNewest => self.open.last().map(|&ask| Event::Cancel(ask)),
            Move::Wait => self.core.next_deadline().map(|deadline| {
                self.now = deadline;
                Event::Tick
            }),
            Move::Calm => Some(signals(MemoryPressure::Normal)),
            Move::Warning => Some(signals(MemoryPressure::Warning)),
            Move::Critical => Some(signals(MemoryPressure::Critical)),
            Move::AnswerOldest => self.word(false),
            Move::AnswerNewest => self.word(true),
            Move::RefuseNewest => self.refuse(),
            Move::CrashOldest => crash(self.workers.keys().next()),
            Move::CrashNewest => crash(self.workers.keys().next_back()),
            Move::BreakNewest => self.break_newest(),
            Move::HangNewest => return self.hush(false),
            Move::StickNewest => return self.hush(true),
            Move::LowerBudget => Some(Event::Tune(Tuning {
                memory_budget_bytes: Some(3 * world::GB),
                ..world::tuning()
            })),
            Move::UnloadAll => Some(Event::Unload(Unload::All)),
            Move::Pause => Some(Event::Pause(true)),
            Move::Resume => Some(Event::Pause(false)),
            Move::Quit => Some(Event::Quit),
        };
        if let Some(event) = event {
            self.step(event);
            return true;
        }
        false
    }

    fn ask(&mut self, model: &str, is_load: bool) -> Option<Event> {
        self.n_asks += 1;
        let id = AskId(self.n_asks);
        self.open.push(id);
        let request = Request {
            prompt: Prompt::Text(String::new()),
            fit: Truncation::Disabled,
            params: GenerationParams::default(),
        };
        let work = match is_load {
            true => Work::Load,
            false => Work::Generate(Box::new(request)),
        };
        let ask = Ask {
            model: world::spec(model),
            work,
            over_budget: false,
            when_held: WhenHeld::Wait,
        };
        Some(Event::Ask(id, Box::new(ask)))
    }

    /// The next word of the oldest or newest worker that has something to say.
    fn word(&mut self, newest: bool) -> Option<Event> {
        let speaks = |(_, scripted): &(&WorkerId, &mut Scripted)| {
            !scripted.is_silent && !scripted.words.is_empty()
        };
        let mut speakers = self.workers.iter_mut().filter(speaks);
        let (worker, scripted) = match newest {
            true => speakers.next_back(),
            false => speakers.next(),
        }?;
        let word = scripted.words.pop_front()?;
        Some(Event::Worker(*worker, word))
    }

    /// The newest worker that reads or loads files cannot use them.
    fn refuse(&mut self) -> Option<Event> {
        let reads = |scripted: &Scripted| {
            !scripted.is_silent
                && matches!(
                    scripted.words.front(),
                    Some(WorkerEvent::Measured(_) | WorkerEvent::Loaded { .. })
                )
        };
        let mut workers = self.workers.iter_mut().rev();
        let (worker, scripted) = workers.find(|(_, scripted)| reads(scripted))?;
        let error = EngineError::Unsupported {
            path: self.world.path(*worker),
            reason: "a new architecture".to_owned(),
        };
        let refusal = match scripted.words.pop_front()? {
            WorkerEvent::Loaded { .. } => WorkerEvent::LoadFailed(error),
            _ => WorkerEvent::Measured(Err(error)),
        };
        Some(Event::Worker(*worker, refusal))
    }

    /// The engine of the newest worker that answers fails.
    fn break_newest(&mut self) -> Option<Event> {
        let mut workers = self.workers.iter_mut().rev();
        let (worker, scripted) = workers.find(|(_, scripted)| {
            !scripted.is_silent
                && !scripted.is_broken
                && matches!(scripted.words.front(), Some(WorkerEvent::JobEnded(..)))
        })?;
        let error = EngineError::Backend {
            during: "decoding".to_owned(),
            message: "the device is lost".to_owned(),
        };
        if let Some(WorkerEvent::JobEnded(_, result)) = scripted.words.front_mut() {
            *result = Err(error.clone());
        }
        scripted.is_broken = true;
        Some(Event::Worker(*worker, WorkerEvent::Broken(error)))
    }

    /// The newest worker says nothing from now on.
    fn hush(&mut self, is_immortal: bool) -> bool {
        let speaks = |scripted: &&mut Scripted| !scripted.is_silent && !scripted.is_killed;
        let Some(scripted) = self.workers.values_mut().rev().find(speaks) else {
            return false;
        };
        scripted.is_silent = true;
        scripted.is_immortal = is_immortal;
        true
    }

    /// The watchdog of a worker from which something is due gives it up. Nobody who wants the worker
    /// to end may have to wait for that.
    fn bark(&mut self) -> bool {
        let is_due = |scripted: &Scripted| scripted.is_silent && !scripted.words.is_empty();
        let mut workers = self.workers.iter_mut();
        let Some((worker, scripted)) = workers.find(|(_, scripted)| is_due(scripted)) else {
            return false;
        };
        let waits = scripted.is_stopped || scripted.is_leaving();
        assert!(!waits, "a stop waits for the watchdog: {:#?}", self.core);
        scripted.is_silent = false;
        scripted.is_killed = true;
        scripted.job = None;
        let seconds = WATCHDOG.as_secs();
        let word = scripted.death(WorkerEnd::Unresponsive { seconds });
        scripted.words.clear();
        let event = Event::Worker(*worker, word);
        self.now += WATCHDOG;
        self.step(event);
        true
    }

    fn step(&mut self, event: Event) {
        if let Event::Tune(tuning) = &event {
            self.budget_bytes = tuning.memory_budget_bytes.expect("it is set");
        }
        if let Event::Signals(signals) = &event {
            self.pressure = signals.memory;
        }
        self.is_quitting |= matches!(event, Event::Quit);
        if let Event::Pause(is_paused) = event {
            self.is_paused = is_paused;
        }
        let is_wanted_gone = matches!(event, Event::Unload(_)) || self.is_quitting;
        if let Event::Worker(worker, word) = &event {
            self.note_word(*worker, word);
        }
        for effect in self.core.step(event, self.now) {
            self.world.note(&effect);
            self.obey(&effect);
            let begins = matches!(
                effect,
                Effect::Start(_) | Effect::Load(..) | Effect::Generate(..)
            );
            assert!(!begins || !self.is_paused, "{effect:?} in a pause");
            assert!(
                !is_wanted_gone || !matches!(effect, Effect::Unload(_, Conversation::Kept { .. })),
                "a conversation is kept that shall go"
            );
        }
        let tick = self.core.step(Event::Tick, self.now);
        assert_eq!(tick, [], "a tick is harmless");
        let deadline = self.core.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline passed");
        self.check_idle();
    }

    fn note_word(&mut self, worker: WorkerId, word: &WorkerEvent) {
        let scripted = self.workers.get_mut(&worker).expect("it is there");
        match word {
            WorkerEvent::Loaded { .. } => {
                scripted.is_loaded = true;
                scripted.is_stopped = false;
            }
            WorkerEvent::JobEnded(..) => {
                scripted.job = None;
                scripted.is_stopped = false;
            }
            WorkerEvent::Stuck { .. } => scripted.is_stuck = true,
            WorkerEvent::LoadFailed(_) => scripted.is_stopped = false,
            WorkerEvent::Gone(_) => {
                self.workers.remove(&worker);
            }
            WorkerEvent::Measured(_)
            | WorkerEvent::LoadProgress(_)
            | WorkerEvent::Broken(_)
            | WorkerEvent::Footprint(_)
            | WorkerEvent::Trimmed { .. }
            | WorkerEvent::Unloaded(_) => {}
        }
    }

    /// Does what the core says, as the world does it, and checks that it may be said.
    fn obey(&mut self, effect: &Effect) {
        match effect {
            Effect::Start(worker) => {
                let before = self.workers.insert(*worker, Scripted::default());
                assert!(before.is_none(), "a worker's number is its own");
            }
            Effect::Measure(worker, ..) => {
                let word = WorkerEvent::Measured(Ok(self.world.need(*worker)));
                self.commanded(*worker).words.push_back(word);
            }
            Effect::Load(worker, ..) => {
                let word = self.world.loaded(*worker, 0);
                self.check_alone(*worker);
                let scripted = self.commanded(*worker);
                scripted.has_memory = true;
                scripted.words.push_back(word);
                self.check_budget();
            }
            Effect::Generate(worker, ask, _) => {
                assert!(
                    self.workers.values().all(|w| w.job.is_none()),
                    "one job at a time"
                );
                let word = self.ended(*worker, *ask, FinishReason::Stop);
                let scripted = self.commanded(*worker);
                assert!(scripted.is_loaded, "only a loaded model answers");
                assert!(!scripted.is_broken, "a broken model answers nothing");
                scripted.job = Some(*ask);
                scripted.words.push_back(word);
            }
            Effect::Stop(worker, None, _) => {
                let scripted = self.commanded(*worker);
                scripted.is_stopped = true;
                scripted.words.clear();
                let word = WorkerEvent::LoadFailed(EngineError::Canceled);
                scripted.words.push_back(word);
            }
            Effect::Stop(worker, Some(ask), reason) => {
                let word = self.ended(*worker, *ask, *reason);
                let scripted = self.commanded(*worker);
                assert_eq!(scripted.job, Some(*ask), "only a running job is stopped");
                if scripted.is_broken {
                    return;
                }
                scripted.is_stopped = true;
                let is_end = |word: &WorkerEvent| matches!(word, WorkerEvent::JobEnded(..));
                scripted.words.retain(|word| !is_end(word));
                scripted.words.push_back(word);
            }
            Effect::Trim(worker, _) => {
                let memory = self.world.memory(*worker);
                let word = WorkerEvent::Trimmed { bytes: 1, memory };
                self.commanded(*worker).words.push_back(word);
            }
            Effect::Unload(worker, _) => {
                let scripted = self.commanded(*worker);
                assert_eq!(
                    scripted.job, None,
                    "nothing is freed before its job settled"
                );
                scripted.is_freeing = true;
                scripted.words.push_back(WorkerEvent::Unloaded(None));
            }
            Effect::Release(worker) => {
                let scripted = self.commanded(*worker);
                assert_eq!(
                    scripted.job, None,
                    "nobody is let go before its job settled"
                );
                scripted.is_released = true;
                let word = WorkerEvent::Gone(WorkerEnd::AsTold);
                scripted.words.push_back(word);
            }
            Effect::Kill(worker) => {
                let scripted = self.workers.get_mut(worker).expect("it is there");
                assert!(!scripted.is_killed, "nobody is killed twice");
                scripted.is_killed = true;
                scripted.is_silent = false;
                scripted.job = None;
                scripted.words = VecDeque::from([scripted.death(died())]);
            }
            Effect::Tell(ask, told) => {
                let index = self.open.iter().position(|open| open == ask);
                let index = index.expect("an ask that ended is not mentioned again");
                if let AnswerEvent::Ended { .. } = told {
                    self.open.remove(index);
                }
            }
            Effect::Forget(_) | Effect::KeepAwake(_) => {}
        }
    }

    /// A worker that may be told something.
    fn commanded(&mut self, worker: WorkerId) -> &mut Scripted {
        let scripted = self.workers.get_mut(&worker).expect("it is there");
        assert!(
            !scripted.is_released && !scripted.is_killed,
            "no more commands"
        );
        scripted
    }

    fn ended(&self, worker: WorkerId, ask: AskId, reason: FinishReason) -> WorkerEvent {
        let summary = JobSummary {
            reason,
            stats: Stats::default(),
            memory: self.world.memory(worker),
        };
        WorkerEvent::JobEnded(ask, Ok(summary))
    }

    /// Nobody pauses, workers answer or are given up, time passes: within a bound everybody gets an
    /// end and every model goes whose process can be ended. `settled` are states that are known to
    /// come to that.
    pub(super) fn settle(mut self, machine: Machine, settled: &mut HashSet<u64>) {
        let mut passed = Vec::new();
        let began = self.now;
        self.step(signals(MemoryPressure::Normal));
        if self.is_paused {
            self.step(Event::Pause(false));
        }
        for _ in 0..200 {
            let key = self.key();
            if settled.contains(&key) {
                settled.extend(passed);
                return;
            }
            passed.push(key);
            let is_late = self.now > began + PATIENCE && !self.open.is_empty();
            assert!(!is_late, "somebody waits for too long: {:#?}", self.core);
            if machine == Machine::Tight && self.follow_loads() {
                continue;
            }
            if !self.apply(Move::AnswerOldest) && !self.apply(Move::Wait) && !self.bark() {
                assert_eq!(self.open, [], "somebody waits for ever: {:#?}", self.core);
                let is_left = self.workers.values().all(|worker| worker.is_stuck);
                assert!(is_left, "a model sticks: {:#?}", self.core);
                assert!(!self.is_quitting || self.core.is_done(), "no end");
                settled.extend(passed);
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.core);
    }

    /// The memory of a tight machine. Returns whether it changed.
    fn follow_loads(&mut self) -> bool {
        let loads = |worker: &Scripted| {
            worker.has_memory && !worker.is_loaded && !worker.is_stopped && !worker.is_leaving()
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

    /// The same for equal states, whatever led to them.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = Hashed(DefaultHasher::new());
        let written = write!(hasher, "{:?}{:?}{:?}", self.core, self.now, self.workers);
        written.expect("hashing does not fail");
        hasher.0.finish()
    }
}

/// Hashes what is written, without keeping it.
struct Hashed(DefaultHasher);

impl std::fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

fn signals(memory: MemoryPressure) -> Event {
    Event::Signals(SystemSignals {
        memory,
        ..SystemSignals::default()
    })
}

fn crash(worker: Option<&WorkerId>) -> Option<Event> {
    Some(Event::Worker(*worker?, WorkerEvent::Gone(died())))
}

fn died() -> WorkerEnd {
    WorkerEnd::Died {
        how: "killed by signal 9 (SIGKILL)".to_owned(),
        last_words: String::new(),
    }
}
