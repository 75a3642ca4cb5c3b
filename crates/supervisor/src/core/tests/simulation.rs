//! The core with a world round it: workers that answer what they were told, in any order, late,
//! or not at all; people; and a machine. Every step checks the rules that must always hold.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::Hasher as _;

use transom_engine::{EngineError, FinishReason, Fit, GenerationParams, Prompt, Stats};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{JobSummary, Request};
use transom_signals::{MemoryPressure, SystemSignals};

use super::world::{self, World};
use crate::answer::AnswerEvent;
use crate::core::{Conversation, Core, Effect, Event, Now, WorkerEvent, WorkerId};
use crate::request::{Ask, AskId, Unload, WhenHeld, Work};

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    AskChat,
    AskEmbed,
    AskOther,
    AskTwo,
    AskLean,
    AskLong,
    AskSmall,
    LoadChat,
    CancelOldest,
    CancelNewest,
    Wait,
    Calm,
    Warning,
    Critical,
    AnswerOldest,
    AnswerNewest,
    RefuseNewest,
    CrashOldest,
    CrashNewest,
    UnloadAll,
    Pause,
    Resume,
    Quit,
}

/// What happens to models of one form.
pub(super) const MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskEmbed,
    Move::AskOther,
    Move::LoadChat,
    Move::CancelOldest,
    Move::CancelNewest,
    Move::Wait,
    Move::Calm,
    Move::Warning,
    Move::Critical,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::CrashOldest,
    Move::CrashNewest,
    Move::UnloadAll,
    Move::Quit,
];

/// What happens to a model of two forms, of which one or both may be refused, and to one that fits
/// only with a small KV cache.
pub(super) const FORM_MOVES: &[Move] = &[
    Move::AskTwo,
    Move::AskLean,
    Move::CancelOldest,
    Move::Wait,
    Move::Calm,
    Move::Warning,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::RefuseNewest,
    Move::CrashNewest,
    Move::UnloadAll,
];

/// What happens round a pause.
pub(super) const PAUSE_MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskOther,
    Move::LoadChat,
    Move::CancelOldest,
    Move::Wait,
    Move::Calm,
    Move::Critical,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::CrashNewest,
    Move::Pause,
    Move::Resume,
];

/// What happens to one model that is asked for with several settings, beside another.
pub(super) const SETTING_MOVES: &[Move] = &[
    Move::AskChat,
    Move::AskLong,
    Move::AskSmall,
    Move::AskOther,
    Move::LoadChat,
    Move::CancelOldest,
    Move::Wait,
    Move::AnswerOldest,
    Move::AnswerNewest,
    Move::CrashNewest,
];

/// A worker as the world knows it.
#[derive(Debug, Clone, Default)]
struct Scripted {
    /// What it will say next, in order.
    words: VecDeque<WorkerEvent>,
    job: Option<AskId>,
    has_memory: bool,
    is_loaded: bool,
    is_released: bool,
    is_killed: bool,
}

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
            fit: Fit::Whole,
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
        let speaks = |(_, scripted): &(&WorkerId, &mut Scripted)| !scripted.words.is_empty();
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
            matches!(
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

    fn step(&mut self, event: Event) {
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
                !is_wanted_gone || !matches!(effect, Effect::Unload(_, Conversation::Kept)),
                "a conversation is kept that shall go"
            );
        }
        let tick = self.core.step(Event::Tick, self.now);
        assert_eq!(tick, [], "a tick is harmless");
        let deadline = self.core.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline passed");
    }

    fn note_word(&mut self, worker: WorkerId, word: &WorkerEvent) {
        let scripted = self.workers.get_mut(&worker).expect("it is there");
        match word {
            WorkerEvent::Loaded { .. } => scripted.is_loaded = true,
            WorkerEvent::JobEnded(..) => scripted.job = None,
            WorkerEvent::Gone(_) => {
                self.workers.remove(&worker);
            }
            WorkerEvent::Measured(_)
            | WorkerEvent::LoadProgress(_)
            | WorkerEvent::LoadFailed(_)
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
                scripted.job = Some(*ask);
                scripted.words.push_back(word);
            }
            Effect::Stop(worker, None, _) => {
                let scripted = self.commanded(*worker);
                scripted.words.clear();
                let word = WorkerEvent::LoadFailed(EngineError::Cancelled);
                scripted.words.push_back(word);
            }
            Effect::Stop(worker, Some(ask), reason) => {
                let word = self.ended(*worker, *ask, *reason);
                let scripted = self.commanded(*worker);
                assert_eq!(scripted.job, Some(*ask), "only a running job is stopped");
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
                scripted.words = VecDeque::from([WorkerEvent::Gone(died())]);
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

    /// No model is loaded beside itself.
    fn check_alone(&self, worker: WorkerId) {
        let path = self.world.path(worker);
        let mut others = self.workers.iter();
        let is_twin = |(other, scripted): (&WorkerId, &Scripted)| {
            *other != worker && scripted.has_memory && self.world.path(*other) == path
        };
        assert!(!others.any(is_twin), "{path:?} is loaded twice");
    }

    fn check_budget(&self) {
        let holding = self
            .workers
            .iter()
            .filter(|(_, scripted)| scripted.has_memory);
        let bytes: u64 = holding
            .map(|(worker, _)| self.world.need(*worker).total_bytes())
            .sum();
        assert!(bytes <= 6 * world::GB, "{bytes} bytes are above the budget");
    }

    fn ended(&self, worker: WorkerId, ask: AskId, reason: FinishReason) -> WorkerEvent {
        let summary = JobSummary {
            reason,
            stats: Stats::default(),
            memory: self.world.memory(worker),
        };
        WorkerEvent::JobEnded(ask, Ok(summary))
    }

    /// The machine is quiet, nobody pauses, workers answer, time passes: everybody gets an end and every model
    /// goes. `settled` are states that are known to come to that.
    pub(super) fn settle(mut self, settled: &mut HashSet<u64>) {
        let mut passed = Vec::new();
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
            if !self.apply(Move::AnswerOldest) && !self.apply(Move::Wait) {
                assert_eq!(self.open, [], "somebody waits for ever: {:#?}", self.core);
                assert!(self.workers.is_empty(), "a model sticks: {:#?}", self.core);
                settled.extend(passed);
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.core);
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
