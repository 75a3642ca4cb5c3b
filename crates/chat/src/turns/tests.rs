//! Turns with a scripted model, a paused clock, a store in memory, and a page that applies updates.

mod dropping;
mod endings;
mod following;
mod live_answers;
mod panics;
mod requests;
mod saving;
mod summaries;
mod titles;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::{Prompt, Section};
use transom_engine_host::wire::{Command, Request};
use transom_engine_host::{Worker, Workers};
use transom_signals::{ScriptedSignals, SystemSignals};
use transom_store::Message;
use transom_supervisor::test_support::{ScriptedWorkers, WorkerScript, spec, supervisor};
use transom_supervisor::{Supervisor, Tuning};

use super::*;
use crate::block::{Block, Change};
use crate::routing::{Route, Routes};
use crate::update::{AnswerStats, EndingView, Snapshot, Stage, Update};

/// Scripted workers that record their requests.
#[derive(Clone)]
struct RecordingWorkers {
    workers: ScriptedWorkers,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Workers for RecordingWorkers {
    fn start(&self) -> Worker {
        let worker = self.workers.start();
        let (commands, mut received) = mpsc::unbounded_channel();
        let requests = self.requests.clone();
        tokio::spawn(async move {
            while let Some(command) = received.recv().await {
                if let Command::Generate { request, .. } = &command {
                    requests.lock().unwrap().push((**request).clone());
                }
                if worker.commands.send(command).is_err() {
                    return;
                }
            }
        });
        Worker {
            commands,
            reports: worker.reports,
            kill: worker.kill,
        }
    }
}

/// A disk that can be full and records its writes.
struct FlakyStorage {
    store: Store,
    is_full: AtomicBool,
    n_refused: Mutex<usize>,
    appended: Mutex<Vec<(Instant, String)>>,
}

impl FlakyStorage {
    fn check(&self) -> Result<(), StoreError> {
        if !self.is_full.load(Ordering::SeqCst) {
            return Ok(());
        }
        *self.n_refused.lock().unwrap() += 1;
        Err(StoreError::File {
            kind: StoreErrorKind::Full,
            path: "conversations".into(),
            reason: "no space left".to_owned(),
        })
    }
}

impl AnswerStorage for FlakyStorage {
    fn append(&self, id: MessageId, reasoning: &str, text: &str) -> Result<(), StoreError> {
        self.check()?;
        let written = (Instant::now(), text.to_owned());
        self.appended.lock().unwrap().push(written);
        self.store.append(id, reasoning, text)
    }

    fn finish(
        &self,
        id: MessageId,
        ending: Ending,
        stats: Option<String>,
    ) -> Result<(), StoreError> {
        self.check()?;
        self.store.finish(id, ending, stats)
    }
}

/// Everything around a conversation.
struct TestSetup {
    turns: Turns,
    store: Store,
    storage: Arc<FlakyStorage>,
    signals: ScriptedSignals,
    supervisor: Supervisor,
    handles: watch::Sender<Handle>,
    requests: Arc<Mutex<Vec<Request>>>,
    events: Arc<Mutex<Vec<TurnEvent>>>,
}

impl TestSetup {
    fn new(script: WorkerScript) -> Self {
        Self::with(ScriptedWorkers::all(script), Tuning::default())
    }

    fn with(workers: ScriptedWorkers, tuning: Tuning) -> Self {
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let workers = RecordingWorkers {
            workers,
            requests: requests.clone(),
        };
        let signals = ScriptedSignals::default();
        let supervisor = supervisor(workers, signals.clone(), tuning);
        let (handles, current) = watch::channel(supervisor.handle());
        let store = Store::in_memory().unwrap();
        let storage = Arc::new(FlakyStorage {
            store: store.clone(),
            is_full: AtomicBool::new(false),
            n_refused: Mutex::default(),
            appended: Mutex::default(),
        });
        let events = Arc::<Mutex<Vec<TurnEvent>>>::default();
        let recorded = events.clone();
        let turns = Turns::with_storage(
            current,
            store.clone(),
            storage.clone(),
            Box::new(|| Timestamp(1)),
            Arc::new(move |event| recorded.lock().unwrap().push(event)),
        );
        Self {
            turns,
            store,
            storage,
            signals,
            supervisor,
            handles,
            requests,
            events,
        }
    }

    async fn ask(&self, text: &str) -> StartedTurn {
        let started = self.turns.ask(None, text, "", options()).await;
        started.expect("the question is accepted")
    }

    async fn ask_in(&self, conversation: ConversationId, text: &str) -> StartedTurn {
        let started = self
            .turns
            .ask(Some(conversation), text, "", options())
            .await;
        started.expect("the question is accepted")
    }

    fn message(&self, id: MessageId) -> Message {
        self.store.message(id).unwrap()
    }

    /// Returns the messages of the last prompt, as `user: …` lines.
    fn last_prompt(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let Prompt::Chat(chat) = &requests.last().expect("the model was asked").prompt else {
            panic!("a conversation is asked as one");
        };
        let lines = chat.messages.iter();
        lines
            .map(|turn| format!("{}: {}", turn.role.as_str(), turn.content))
            .collect()
    }
}

fn options() -> TurnOptions {
    TurnOptions {
        model: spec("chat"),
        settings: ModelSettings::default(),
        conversation: ConversationSettings::default(),
        over_budget: false,
        is_private: false,
        routing: Routing::Off,
        routes: Routes::default(),
        contained_tokens: 0,
    }
}

/// A script that writes `text` word by word.
fn script_of(text: &str, token_interval: Duration) -> WorkerScript {
    WorkerScript {
        tokens: text.split_inclusive(' ').map(str::to_owned).collect(),
        token_interval,
        ..WorkerScript::default()
    }
}

/// A script that never ends by itself.
fn endless() -> WorkerScript {
    script_of(
        &"word word word word.\n\n".repeat(25_000),
        Duration::from_millis(20),
    )
}

/// A window that applies updates by the rules of [`Block`].
#[derive(Default)]
struct Page {
    snapshot: Option<Snapshot>,
    reasoning: Vec<Block>,
    blocks: Vec<Block>,
    stages: Vec<Stage>,
    text: String,
    ending: Option<EndingView>,
    model: Option<String>,
    stats: Option<AnswerStats>,
    n_texts: usize,
}

impl Page {
    fn apply_update(&mut self, update: Update) {
        assert!(self.ending.is_none(), "{update:?} after the end");
        match update {
            Update::Snapshot { snapshot } => {
                assert!(self.snapshot.is_none(), "a second snapshot");
                self.reasoning.clone_from(&snapshot.message.reasoning);
                self.blocks.clone_from(&snapshot.message.blocks);
                self.stages.push(snapshot.stage.clone());
                self.snapshot = Some(*snapshot);
            }
            Update::Stage { stage } => self.stages.push(stage),
            Update::Text {
                section, change, ..
            } => {
                self.n_texts += 1;
                match section {
                    Section::Reasoning => apply(&mut self.reasoning, change),
                    Section::Answer => apply(&mut self.blocks, change),
                }
            }
            Update::Ended {
                text,
                ending,
                model,
                stats,
            } => {
                self.text = text;
                self.model = model;
                self.ending = Some(ending);
                self.stats = stats.map(|stats| *stats);
            }
        }
        assert!(self.snapshot.is_some(), "an update before the snapshot");
    }

    /// Follows to the end.
    async fn read(updates: &mut Updates) -> Self {
        let mut page = Self::default();
        page.read_on(updates).await;
        page
    }

    async fn read_on(&mut self, updates: &mut Updates) {
        while let Some(update) = next(updates).await {
            self.apply_update(update);
        }
        assert!(self.ending.is_some(), "an answer stopped without its end");
    }

    /// Follows until `is_it` returns true.
    async fn read_until(&mut self, updates: &mut Updates, is_it: impl Fn(&Self) -> bool) {
        while !is_it(self) {
            let update = next(updates).await;
            self.apply_update(update.expect("the answer ended before that"));
        }
    }
}

/// Applies `change` as a page does.
fn apply(blocks: &mut Vec<Block>, change: Change) {
    blocks.truncate(change.n_blocks as usize);
    for (index, block) in change.blocks {
        match blocks.get_mut(index as usize) {
            Some(known) => *known = block,
            None => blocks.push(block),
        }
    }
    assert_eq!(blocks.len(), change.n_blocks as usize);
}

/// Returns the next update within an hour of the paused clock.
async fn next(updates: &mut Updates) -> Option<Update> {
    let next = timeout(Duration::from_secs(3600), updates.next()).await;
    next.expect("an update within the hour")
}

/// Follows a response from now to its end.
async fn finish(setup: &TestSetup, answer: MessageId) -> Page {
    Page::read(&mut setup.turns.follow(answer)).await
}

/// Advances the paused clock.
async fn pass(time: Duration) {
    sleep_until(Instant::now() + time).await;
}

fn is_writing(page: &Page) -> bool {
    page.n_texts > 0
}

/// Sets the signals and waits until the supervisor has them.
async fn set(setup: &TestSetup, signals: SystemSignals) {
    setup.signals.set(signals);
    let mut status = setup.supervisor.handle().status();
    let acted = status.wait_for(|status| status.signals == signals).await;
    drop(acted.expect("the supervisor lives"));
}
