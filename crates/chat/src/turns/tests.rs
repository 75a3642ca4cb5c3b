//! Turns with a scripted model on a paused clock, a store in memory, and a page that assembles what
//! it is told.

mod asking;
mod boards;
mod endings;
mod following;
mod saving;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::Prompt;
use transom_engine_host::wire::{Command, Request};
use transom_engine_host::{Worker, Workers};
use transom_signals::{ScriptedSignals, SystemSignals};
use transom_store::Message;
use transom_supervisor::test_support::{ScriptedWorkers, WorkerScript, spec, supervisor};
use transom_supervisor::{Supervisor, Tuning};

use super::*;
use crate::block::{Block, Change};
use crate::update::{AnswerStats, EndingView, Section, Snapshot, Stage, Update};

/// Workers of a script whose requests are remembered.
#[derive(Clone)]
struct Overheard {
    workers: ScriptedWorkers,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Workers for Overheard {
    fn start(&self) -> Worker {
        let inner = self.workers.start();
        let (commands, mut heard) = mpsc::unbounded_channel();
        let requests = self.requests.clone();
        tokio::spawn(async move {
            while let Some(command) = heard.recv().await {
                if let Command::Generate { request, .. } = &command {
                    requests.lock().unwrap().push((**request).clone());
                }
                if inner.commands.send(command).is_err() {
                    return;
                }
            }
        });
        Worker {
            commands,
            reports: inner.reports,
            kill: inner.kill,
        }
    }
}

/// A disk that can be full, and that remembers when it was written to.
struct Flaky {
    store: Store,
    is_full: AtomicBool,
    n_refused: Mutex<usize>,
    appended: Mutex<Vec<(Instant, String)>>,
}

impl Flaky {
    fn check(&self) -> Result<(), StoreError> {
        if !self.is_full.load(Ordering::SeqCst) {
            return Ok(());
        }
        *self.n_refused.lock().unwrap() += 1;
        Err(StoreError::Full {
            path: "conversations".into(),
        })
    }
}

impl Disk for Flaky {
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

/// Everything round a conversation.
struct World {
    turns: Turns,
    store: Store,
    disk: Arc<Flaky>,
    signals: ScriptedSignals,
    supervisor: Supervisor,
    handles: watch::Sender<Handle>,
    requests: Arc<Mutex<Vec<Request>>>,
    heard: Arc<Mutex<Vec<Happening>>>,
}

impl World {
    fn new(script: WorkerScript) -> Self {
        Self::with(ScriptedWorkers::all(script), Tuning::default())
    }

    fn with(workers: ScriptedWorkers, tuning: Tuning) -> Self {
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let workers = Overheard {
            workers,
            requests: requests.clone(),
        };
        let signals = ScriptedSignals::default();
        let supervisor = supervisor(workers, signals.clone(), tuning);
        let (handles, current) = watch::channel(supervisor.handle());
        let store = Store::in_memory().unwrap();
        let disk = Arc::new(Flaky {
            store: store.clone(),
            is_full: AtomicBool::new(false),
            n_refused: Mutex::default(),
            appended: Mutex::default(),
        });
        let heard = Arc::<Mutex<Vec<Happening>>>::default();
        let hears = heard.clone();
        let turns = Turns::with_disk(
            current,
            store.clone(),
            disk.clone(),
            Box::new(|| Timestamp(1)),
            Arc::new(move |happening| hears.lock().unwrap().push(happening)),
        );
        Self {
            turns,
            store,
            disk,
            signals,
            supervisor,
            handles,
            requests,
            heard,
        }
    }

    async fn ask(&self, text: &str) -> Begun {
        let begun = self.turns.ask(None, text, "", asking()).await;
        begun.expect("the question is accepted")
    }

    async fn ask_in(&self, conversation: ConversationId, text: &str) -> Begun {
        let begun = self.turns.ask(Some(conversation), text, "", asking()).await;
        begun.expect("the question is accepted")
    }

    fn message(&self, id: MessageId) -> Message {
        self.store.message(id).unwrap()
    }

    /// What the model was shown last, as `user: …` lines.
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

fn asking() -> Asking {
    Asking {
        model: spec("chat"),
        settings: ModelSettings::default(),
        insist: false,
    }
}

/// A script that says `text` word by word.
fn saying(text: &str, token_interval: Duration) -> WorkerScript {
    WorkerScript {
        tokens: text.split_inclusive(' ').map(str::to_owned).collect(),
        token_interval,
        ..WorkerScript::default()
    }
}

/// A script that never comes to an end by itself.
fn endless() -> WorkerScript {
    saying(
        &"word word word word.\n\n".repeat(25_000),
        Duration::from_millis(20),
    )
}

/// A window that draws what it is told, by the rules of [`Block`].
#[derive(Default)]
struct Page {
    snapshot: Option<Snapshot>,
    reasoning: Vec<Block>,
    blocks: Vec<Block>,
    stages: Vec<Stage>,
    text: String,
    ending: Option<EndingView>,
    stats: Option<AnswerStats>,
    n_texts: usize,
}

impl Page {
    fn take(&mut self, update: Update) {
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
                stats,
            } => {
                self.text = text;
                self.ending = Some(ending);
                self.stats = stats;
            }
        }
        assert!(self.snapshot.is_some(), "news before the snapshot");
    }

    /// Follows to the end.
    async fn read(updates: &mut Updates) -> Self {
        let mut page = Self::default();
        page.read_on(updates).await;
        page
    }

    async fn read_on(&mut self, updates: &mut Updates) {
        while let Some(update) = next(updates).await {
            self.take(update);
        }
        assert!(self.ending.is_some(), "an answer stopped without its end");
    }

    /// Follows until `is_it`.
    async fn read_until(&mut self, updates: &mut Updates, is_it: impl Fn(&Self) -> bool) {
        while !is_it(self) {
            let update = next(updates).await;
            self.take(update.expect("the answer ended before that"));
        }
    }
}

/// What a page that follows makes of its blocks.
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

/// The next update, within an hour of the paused clock.
async fn next(updates: &mut Updates) -> Option<Update> {
    let next = timeout(Duration::from_secs(3600), updates.next()).await;
    next.expect("an update within the hour")
}

/// Follows an answer from now to its end.
async fn finish(world: &World, answer: MessageId) -> Page {
    Page::read(&mut world.turns.follow(answer)).await
}

/// Lets the paused clock run on, past everything that is due until then.
async fn pass(time: Duration) {
    sleep_until(Instant::now() + time).await;
}

fn is_writing(page: &Page) -> bool {
    page.n_texts > 0
}

/// The machine as `signals` say, once the supervisor acts on it.
async fn set(world: &World, signals: SystemSignals) {
    world.signals.set(signals);
    let mut status = world.supervisor.handle().status();
    let acted = status.wait_for(|status| status.signals == signals).await;
    drop(acted.expect("the supervisor lives"));
}
