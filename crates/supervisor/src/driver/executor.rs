//! Executes the core's effects. Owns the workers, open responses, saved states and the guard that
//! keeps the machine awake.
//!
//! Rule: an effect for a worker or request that is gone does nothing.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use transom_engine_host::wire::{Command, JobId};
use transom_engine_host::{KillSwitch, Worker, WorkerReport, Workers};

use super::saved_states::SavedStates;
use crate::core::{Effect, WorkerId};
use crate::request::RequestId;
use crate::response::{self, ResponseEvent, ResponseWriter};

/// Keeps the machine awake until the result is dropped.
pub(super) type KeepAwakeFn = Box<dyn Fn() -> Box<dyn Send> + Send>;

pub(super) struct Executor {
    factory: Arc<dyn Workers>,
    report: mpsc::Sender<(WorkerId, WorkerReport)>,
    workers: HashMap<WorkerId, WorkerHandle>,
    responses: HashMap<RequestId, ResponseWriter>,
    pub(super) saved_states: SavedStates,
    begin_keep_awake: KeepAwakeFn,
    keep_awake: Option<Box<dyn Send>>,
}

/// A worker whose process may still exist.
struct WorkerHandle {
    /// `None` after the worker was released.
    commands: Option<mpsc::UnboundedSender<NextCommand>>,
    kill: KillSwitch,
    /// The jobs that it was told to run and that may not have ended.
    jobs: Vec<JobId>,
}

/// A command on its way to a worker.
enum NextCommand {
    Ready(Command),
    /// Depends on the contents of files; the function reads them and may block.
    AfterReading(Box<dyn FnOnce() -> Command + Send>),
}

impl Executor {
    pub(super) fn new(
        factory: Arc<dyn Workers>,
        report: mpsc::Sender<(WorkerId, WorkerReport)>,
        keep_awake: KeepAwakeFn,
    ) -> Self {
        Self {
            factory,
            report,
            workers: HashMap::new(),
            responses: HashMap::new(),
            saved_states: SavedStates::new(),
            begin_keep_awake: keep_awake,
            keep_awake: None,
        }
    }

    /// Returns when all saved states are deleted, or cannot be deleted in time.
    pub(super) async fn close(self) {
        self.saved_states.close().await;
    }

    pub(super) fn add_response(&mut self, writer: ResponseWriter) {
        self.responses.insert(writer.id(), writer);
    }

    /// Sends text, vectors and progress of a job to its reader.
    pub(super) fn forward(&mut self, worker: WorkerId, job: JobId, event: ResponseEvent) {
        // Events of a job that is not the worker's own are ignored.
        let handle = self.workers.get(&worker);
        let is_own_job = handle.is_some_and(|handle| handle.jobs.contains(&job));
        let writer = self.responses.get(&RequestId(job.0));
        if let Some(writer) = writer.filter(|_| is_own_job) {
            writer.write(event);
        }
    }

    pub(super) fn remove_worker(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        self.saved_states.worker_gone(worker);
    }

    pub(super) fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Start(worker) => self.start(worker),
            Effect::Send(worker, command) => {
                if let Command::Generate { job, .. }
                | Command::Embed { job, .. }
                | Command::Tokenize { job, .. } = &command
                    && let Some(handle) = self.workers.get_mut(&worker)
                {
                    let is_open = |job: &JobId| self.responses.contains_key(&RequestId(job.0));
                    handle.jobs.retain(is_open);
                    handle.jobs.push(*job);
                }
                self.queue_command(worker, NextCommand::Ready(command));
            }
            Effect::Load(worker, id, source, limits) => {
                let states = self.saved_states.add_worker(worker, &id);
                self.send_after_reading(worker, move || Command::Load {
                    saved: states.and_then(|states| states.for_load(&source, &limits)),
                    source,
                    limits,
                });
            }
            Effect::Unload(worker, saved_bytes) => {
                let make_room =
                    saved_bytes.and_then(|bytes| self.saved_states.begin_saving(worker, bytes));
                self.send_after_reading(worker, move || Command::Unload {
                    save: make_room.and_then(|make_room| make_room()),
                });
            }
            Effect::Save(worker, bytes) => {
                if let Some(make_room) = self.saved_states.begin_saving(worker, bytes) {
                    self.send_after_reading(worker, move || Command::Save {
                        max_bytes: make_room().unwrap_or(0),
                    });
                }
            }
            Effect::DeleteSavedStates(which) => self.saved_states.forget(which),
            Effect::Release(worker) => {
                if let Some(handle) = self.workers.get_mut(&worker) {
                    handle.commands = None;
                }
            }
            Effect::Kill(worker) => {
                if let Some(handle) = self.workers.get(&worker) {
                    handle.kill.kill();
                }
            }
            Effect::Respond(id, event) => response::respond(&mut self.responses, id, event),
            Effect::KeepAwake(true) => self.keep_awake = Some((self.begin_keep_awake)()),
            Effect::KeepAwake(false) => self.keep_awake = None,
        }
    }

    fn start(&mut self, worker: WorkerId) {
        let Worker {
            commands,
            mut reports,
            kill,
        } = self.factory.start();
        let (to_worker, next_commands) = mpsc::unbounded_channel();
        tokio::spawn(forward_commands(next_commands, commands));
        let handle = WorkerHandle {
            commands: Some(to_worker),
            kill,
            jobs: Vec::new(),
        };
        self.workers.insert(worker, handle);
        let report = self.report.clone();
        // Ends with the worker, or with the driver.
        tokio::spawn(async move {
            while let Some(worker_report) = reports.recv().await {
                if report.send((worker, worker_report)).await.is_err() {
                    break;
                }
            }
        });
    }

    /// Sends a command that depends on the contents of files.
    fn send_after_reading(
        &self,
        worker: WorkerId,
        read: impl FnOnce() -> Command + Send + 'static,
    ) {
        self.queue_command(worker, NextCommand::AfterReading(Box::new(read)));
    }

    fn queue_command(&self, worker: WorkerId, command: NextCommand) {
        let handle = self.workers.get(&worker);
        if let Some(commands) = handle.and_then(|handle| handle.commands.as_ref()) {
            // A worker that is gone reports its end.
            let _ = commands.send(command);
        }
    }
}

/// Forwards commands in order. A disk that hangs blocks only the worker that needs it, which can
/// still be killed.
async fn forward_commands(
    mut next_commands: mpsc::UnboundedReceiver<NextCommand>,
    commands: mpsc::UnboundedSender<Command>,
) {
    while let Some(next) = next_commands.recv().await {
        let command = match next {
            NextCommand::Ready(command) => command,
            NextCommand::AfterReading(read) => match spawn_blocking(read).await {
                Ok(command) => command,
                // A worker without its command is useless; dropping its commands ends it.
                Err(error) => return tracing::error!(%error, "a command was lost"),
            },
        };
        if commands.send(command).is_err() {
            return;
        }
    }
}
