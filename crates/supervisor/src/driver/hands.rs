//! What the driver holds and the core only names: workers, open answers, saved states, the wish to
//! stay awake.
//!
//! Rule: an effect about somebody who is gone does nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use transom_engine::TokenEvent;
use transom_engine_host::wire::{Command, JobId, Request};
use transom_engine_host::{KillSwitch, Worker, WorkerReport, Workers};

use super::saved_states::SavedStates;
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
    saved_states: SavedStates,
    stay_awake: StayAwake,
    awake: Option<Box<dyn Send>>,
}

/// A worker whose process is not known to be gone.
struct Held {
    /// `None` once it was let go.
    commands: Option<mpsc::UnboundedSender<NextCommand>>,
    kill: KillSwitch,
    /// What it was last told to answer.
    job: Option<AskId>,
}

/// A command on its way to a worker.
enum NextCommand {
    Ready(Command),
    /// It depends on what files are; this reads them and may block.
    AfterReading(Box<dyn FnOnce() -> Command + Send>),
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
            saved_states: SavedStates::new(),
            stay_awake,
            awake: None,
        }
    }

    /// From now on states are saved in this folder, which is prepared for them.
    pub(super) fn save_states_in(&mut self, folder: PathBuf) {
        self.saved_states.save_in(folder);
    }

    /// Runs `work` after all effects so far on saved states.
    pub(super) fn after_saved_states(&self, work: impl FnOnce() + Send + 'static) {
        self.saved_states.then(work);
    }

    /// Returns when no saved state is left.
    pub(super) async fn close(self) {
        self.saved_states.close().await;
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
        self.saved_states.settle(worker);
    }

    /// Does what the core decided.
    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Start(worker) => self.start(worker),
            Effect::Measure(worker, source, limits) => {
                self.tell(worker, Command::Measure { source, limits });
            }
            Effect::Load(worker, id, source, limits) => {
                let file = self.saved_states.place(worker, &id);
                self.tell_after(worker, move || Command::Load {
                    state: file.and_then(|file| file.locate(&source, &limits)),
                    source,
                    limits,
                });
            }
            Effect::Generate(worker, ask, request) => self.generate(worker, ask, request),
            Effect::Stop(worker, ask, reason) => {
                let job = ask.map(|ask| JobId(ask.0));
                self.tell(worker, Command::Stop { job, reason });
            }
            Effect::Trim(worker, trim) => self.tell(worker, Command::Trim { trim }),
            Effect::Unload(worker, conversation) => {
                let saving = match conversation {
                    Conversation::Kept { bytes } => {
                        let file = self.saved_states.begin_saving(worker);
                        file.map(|file| (file, bytes))
                    }
                    Conversation::Forgotten => None,
                };
                self.tell_after(worker, move || Command::Unload {
                    state: saving.and_then(|(file, bytes)| file.with_room_for(bytes)),
                });
            }
            Effect::Forget(which) => self.saved_states.forget(&which),
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
        let (to_worker, next_commands) = mpsc::unbounded_channel();
        tokio::spawn(pass_commands(next_commands, commands));
        let held = Held {
            commands: Some(to_worker),
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
        self.send(worker, NextCommand::Ready(command));
    }

    /// As [`Hands::tell`], with a command that depends on what files are.
    fn tell_after(&self, worker: WorkerId, read: impl FnOnce() -> Command + Send + 'static) {
        self.send(worker, NextCommand::AfterReading(Box::new(read)));
    }

    fn send(&self, worker: WorkerId, command: NextCommand) {
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

/// Passes commands on in order. A disk that does not answer holds up only the worker that needs it,
/// which can still be killed.
async fn pass_commands(
    mut next_commands: mpsc::UnboundedReceiver<NextCommand>,
    commands: mpsc::UnboundedSender<Command>,
) {
    while let Some(next) = next_commands.recv().await {
        let command = match next {
            NextCommand::Ready(command) => command,
            NextCommand::AfterReading(read) => match spawn_blocking(read).await {
                Ok(command) => command,
                // Without its command the worker is of no use; it ends when nobody can tell it more.
                Err(error) => return tracing::error!(%error, "a command was lost"),
            },
        };
        if commands.send(command).is_err() {
            return;
        }
    }
}
