//! What the driver holds and the core only names: workers, open answers, kept conversations, the
//! wish to stay awake.
//!
//! Rule: an effect about somebody who is gone does nothing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc;
use transom_engine::TokenEvent;
use transom_engine_host::wire::{Command, JobId, Request};
use transom_engine_host::{KillSwitch, Worker, WorkerReport, Workers};

use super::conversations::Conversations;
use crate::answer::{AnswerEvent, AnswerWriter};
use crate::core::{Conversation, Effect, WorkerId};
use crate::request::AskId;

/// Keeps the machine awake until the result is dropped.
pub(crate) type StayAwake = Box<dyn Fn() -> Box<dyn Send> + Send>;

/// See the head of this file.
pub(super) struct Hands {
    workers: Arc<dyn Workers>,
    report: mpsc::Sender<(WorkerId, WorkerReport)>,
    held: HashMap<WorkerId, Held>,
    answers: HashMap<AskId, AnswerWriter>,
    conversations: Conversations,
    stay_awake: StayAwake,
    awake: Option<Box<dyn Send>>,
}

/// A worker whose process is not known to be gone.
struct Held {
    /// `None` once it was let go.
    commands: Option<mpsc::UnboundedSender<Command>>,
    kill: KillSwitch,
    /// What it was last told to answer.
    job: Option<AskId>,
}

impl Hands {
    /// Empty hands. Workers are started by `workers`, and what they say goes to `report`.
    pub(super) fn new(
        workers: Arc<dyn Workers>,
        report: mpsc::Sender<(WorkerId, WorkerReport)>,
        stay_awake: StayAwake,
    ) -> Self {
        Self {
            workers,
            report,
            held: HashMap::new(),
            answers: HashMap::new(),
            conversations: Conversations::default(),
            stay_awake,
            awake: None,
        }
    }

    /// From now on conversations are kept in this folder.
    pub(super) fn keep_conversations_in(&mut self, data_folder: &Path) {
        self.conversations = Conversations::open(data_folder, SystemTime::now());
    }

    /// Takes the writing end of an ask, until its end is told.
    pub(super) fn open(&mut self, writer: AnswerWriter) {
        self.answers.insert(writer.id(), writer);
    }

    /// Hands text and progress of a job to its reader.
    pub(super) fn pass_on(&mut self, worker: WorkerId, ask: AskId, event: TokenEvent) {
        // What a worker says of a job that is not its own is not believed.
        let is_its = self
            .held
            .get(&worker)
            .is_some_and(|held| held.job == Some(ask));
        if let Some(writer) = self.answers.get(&ask).filter(|_| is_its) {
            writer.write(AnswerEvent::Token { event });
        }
    }

    /// The process of `worker` is gone.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.held.remove(&worker);
        self.conversations.settle(worker);
    }

    /// Does what the core decided.
    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Start(worker) => self.start(worker),
            Effect::Measure(worker, source, limits) => {
                self.tell(worker, Command::Measure { source, limits });
            }
            Effect::Load(worker, name, source, limits) => {
                let state = self.conversations.place(worker, &name, &source, &limits);
                self.tell(
                    worker,
                    Command::Load {
                        source,
                        limits,
                        state,
                    },
                );
            }
            Effect::Generate(worker, ask, request) => self.generate(worker, ask, request),
            Effect::Stop(worker, ask, reason) => {
                let job = ask.map(|ask| JobId(ask.0));
                self.tell(worker, Command::Stop { job, reason });
            }
            Effect::Trim(worker, trim) => self.tell(worker, Command::Trim { trim }),
            Effect::Unload(worker, conversation) => {
                let state = match conversation {
                    Conversation::Kept => self.conversations.place_of(worker),
                    Conversation::Forgotten => None,
                };
                self.tell(worker, Command::Unload { state });
            }
            Effect::Forget(which) => self.conversations.forget(&which),
            Effect::Release(worker) => {
                if let Some(held) = self.held.get_mut(&worker) {
                    held.commands = None;
                }
            }
            Effect::Kill(worker) => {
                if let Some(held) = self.held.get(&worker) {
                    held.kill.kill();
                }
            }
            Effect::Tell(ask, event) => self.answer(ask, event),
            Effect::KeepAwake(true) => self.awake = Some((self.stay_awake)()),
            Effect::KeepAwake(false) => self.awake = None,
        }
    }

    fn start(&mut self, worker: WorkerId) {
        let Worker {
            commands,
            mut reports,
            kill,
        } = self.workers.start();
        let held = Held {
            commands: Some(commands),
            kill,
            job: None,
        };
        self.held.insert(worker, held);
        let report = self.report.clone();
        // Ends with the worker, or with the driver.
        tokio::spawn(async move {
            while let Some(news) = reports.recv().await {
                if report.send((worker, news)).await.is_err() {
                    break;
                }
            }
        });
    }

    fn generate(&mut self, worker: WorkerId, ask: AskId, request: Box<Request>) {
        if let Some(held) = self.held.get_mut(&worker) {
            held.job = Some(ask);
        }
        let job = JobId(ask.0);
        self.tell(worker, Command::Generate { job, request });
    }

    fn tell(&self, worker: WorkerId, command: Command) {
        let held = self.held.get(&worker);
        if let Some(commands) = held.and_then(|held| held.commands.as_ref()) {
            // A worker that no longer listens reports its end.
            let _ = commands.send(command);
        }
    }

    fn answer(&mut self, ask: AskId, event: AnswerEvent) {
        if matches!(event, AnswerEvent::Ended { .. }) {
            if let Some(writer) = self.answers.remove(&ask) {
                writer.write(event);
            }
        } else if let Some(writer) = self.answers.get(&ask) {
            writer.write(event);
        }
    }
}
