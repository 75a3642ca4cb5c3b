//! The driver: waits for everything that can wake the supervisor, and executes every effect of the
//! core.
//!
//! Rule: the driver makes no decisions. The text of a response goes from the worker directly to the
//! response's writer; everything else goes through [`Core::step`], in the order of arrival.

mod executor;
mod progress;
mod publisher;
pub(crate) mod saved_states;
mod unload_waiters;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use transom_engine_host::wire::Report;
use transom_engine_host::{WorkerReport, Workers};
use transom_signals::{Hardware, KeepAwake, SignalSource, SystemSignals};

use crate::core::{Core, Event, Timestamp, WorkerId};
use crate::governor::Tuning;
use crate::handle::{Handle, HandleMessage, ShutdownReason};
use crate::request::{RequestError, RequestId};
use crate::response::ResponseEvent;
use crate::saving::Saving;
use crate::status::Status;

use executor::{Executor, KeepAwakeFn};
use progress::ProgressTracker;
use publisher::Publisher;
use unload_waiters::UnloadWaiters;

/// A supervisor that runs in this process.
///
/// If it is dropped, it runs until the last [`Handle`] is dropped and then quits.
#[derive(Debug)]
pub struct Supervisor {
    handle: Handle,
    saving: Saving,
}

impl Supervisor {
    /// Starts a supervisor. Must be called within a Tokio runtime, whose clock it uses. Worker
    /// processes are started only when needed. KV caches are not saved, unless the supervisor is
    /// started by [`crate::instance::open`], which has a folder for them.
    pub fn start(
        workers: Arc<dyn Workers>,
        signals: Arc<dyn SignalSource>,
        hardware: &Hardware,
        tuning: Tuning,
    ) -> Self {
        let keep_awake: KeepAwakeFn =
            Box::new(|| Box::new(KeepAwake::begin("a local model is generating")));
        Self::start_with(workers, signals, hardware, tuning, keep_awake)
    }

    /// Starts a supervisor like [`Supervisor::start`], with another function to keep the machine
    /// awake.
    pub(crate) fn start_with(
        workers: Arc<dyn Workers>,
        signals: Arc<dyn SignalSource>,
        hardware: &Hardware,
        tuning: Tuning,
        keep_awake: KeepAwakeFn,
    ) -> Self {
        let core = Core::new(hardware, tuning);
        let (publisher, status) = Publisher::new(core.status(Timestamp::ZERO));
        let (handle, messages, shutdown_reason) = Handle::new(status, RequestId(1));
        let (report, reports) = mpsc::channel(REPORT_CAPACITY);
        let driver = Driver {
            core,
            began: Instant::now(),
            messages,
            has_no_handles: false,
            signals: SignalListener::listen(signals),
            reports,
            executor: Executor::new(workers, report, keep_awake),
            unload_waiters: UnloadWaiters::default(),
            progress: ProgressTracker::default(),
            publisher,
            shutdown_reason,
        };
        tokio::spawn(driver.run());
        Self {
            handle,
            saving: Saving::default(),
        }
    }

    /// Saves KV caches in this way, from [`crate::instance::open`] on.
    #[must_use]
    pub fn with_saving(mut self, saving: impl Into<Saving>) -> Self {
        self.saving = saving.into();
        self
    }

    /// Returns a handle of this supervisor.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Saves KV caches in `folder` from now on. Only the user and this supervisor may access it.
    pub(crate) fn save_states_in(&self, folder: PathBuf) {
        // A driver that is gone saves nothing.
        let saving = self.saving.clone();
        let _ = self
            .handle
            .messages
            .send(HandleMessage::SaveStatesIn(folder, saving));
    }

    /// Quits: cancels running responses, fails queued requests with [`RequestError::Quitting`] and
    /// unloads every model. Starts when the future is awaited, which returns when every process has
    /// ended, except those that cannot be killed, and the saved KV caches that do not outlive it are
    /// gone.
    pub fn quit(&self) -> impl Future<Output = ()> + Send + use<> {
        let Handle {
            messages,
            mut status,
            ..
        } = self.handle();
        async move {
            // A driver that is gone has quit already.
            let _ = messages.send(HandleMessage::Quit);
            while status.changed().await.is_ok() {}
        }
    }
}

struct Driver {
    core: Core,
    began: Instant,
    messages: mpsc::UnboundedReceiver<HandleMessage>,
    has_no_handles: bool,
    signals: SignalListener,
    reports: mpsc::Receiver<(WorkerId, WorkerReport)>,
    executor: Executor,
    unload_waiters: UnloadWaiters,
    progress: ProgressTracker,
    publisher: Publisher,
    shutdown_reason: ShutdownReason,
}

/// The latest system signals and their source, which stops when it is dropped.
struct SignalListener {
    latest: watch::Receiver<Option<SystemSignals>>,
    source: Arc<dyn SignalSource>,
    /// The value last passed to the source.
    has_models: bool,
}

/// Capacity of the channel for worker reports. When it is full, workers wait and join their texts.
const REPORT_CAPACITY: usize = 64;

impl Driver {
    /// Runs until everything has ended after a quit, or after the last handle was dropped.
    async fn run(mut self) {
        while !self.core.is_done() {
            let wake_at = self.wake_at();
            tokio::select! {
                message = self.messages.recv(), if !self.has_no_handles => {
                    self.handle_message(message);
                }
                Ok(()) = self.signals.latest.changed() => self.handle_signals(),
                Some((worker, report)) = self.reports.recv() => self.handle_report(worker, report),
                () = sleep_until(wake_at.unwrap_or(self.began)), if wake_at.is_some() => {
                    self.step(Event::Tick);
                }
            }
        }
        self.refuse_remaining_messages();
        let Self {
            executor,
            publisher,
            ..
        } = self;
        executor.close().await;
        // Closes the status channel, which tells receivers that nothing is left.
        drop(publisher);
    }

    fn now(&self) -> Timestamp {
        self.began.elapsed()
    }

    fn wake_at(&self) -> Option<Instant> {
        let deadlines = self.core.next_deadline().into_iter();
        let next = deadlines.chain(self.publisher.due()).min()?;
        self.began.checked_add(next)
    }

    /// Publishes the status before it executes the effects, so that a reader of a response's end
    /// finds it in the status.
    fn step(&mut self, event: Event) {
        let now = self.now();
        let is_progress = matches!(
            event,
            Event::Worker(
                _,
                WorkerReport::Message(Report::LoadProgress { .. } | Report::Footprint { .. })
            )
        );
        let effects = self.core.step(event, now);
        if !is_progress || self.publisher.is_progress_due(now) {
            self.publish_status(now);
        }
        self.signals.set_has_models(self.core.has_models());
        for effect in effects {
            self.executor.execute(effect);
        }
    }

    fn publish_status(&mut self, now: Timestamp) -> Arc<Status> {
        let mut status = self.core.status(now);
        self.progress.fill(&mut status);
        self.publisher.publish(status, now)
    }

    fn handle_message(&mut self, message: Option<HandleMessage>) {
        match message {
            Some(HandleMessage::Submit(request, writer)) => {
                let id = writer.id();
                self.executor.add_response(writer);
                self.step(Event::Request(id, request));
            }
            Some(HandleMessage::Cancel(id)) => self.step(Event::Cancel(id)),
            Some(HandleMessage::Unload(which, reply)) => {
                let workers = self.core.workers_of(&which);
                self.step(Event::Unload(which));
                let saved_states = &self.executor.saved_states;
                self.unload_waiters.add(workers, reply, saved_states);
                self.fail_stuck_unloads();
            }
            Some(HandleMessage::SetTuning(tuning)) => self.step(Event::SetTuning(tuning)),
            Some(HandleMessage::SetPaused(is_paused)) => self.step(Event::SetPaused(is_paused)),
            Some(HandleMessage::GetStatus(reply)) => {
                let now = self.now();
                let status = self.publish_status(now);
                // The receiver may be gone.
                let _ = reply.send(status);
            }
            Some(HandleMessage::ForgetConversations(id)) => {
                self.step(Event::ForgetConversations(id));
            }
            Some(HandleMessage::SaveStatesIn(folder, saving)) => {
                self.executor.saved_states.save_in(folder, saving);
            }
            Some(HandleMessage::Quit) => self.quit(),
            None => {
                self.has_no_handles = true;
                self.quit();
            }
        }
    }

    fn quit(&mut self) {
        self.executor.saved_states.quit();
        self.step(Event::Quit);
    }

    fn handle_signals(&mut self) {
        let signals = *self.signals.latest.borrow_and_update();
        if let Some(signals) = signals {
            self.step(Event::Signals(signals));
        }
    }

    fn handle_report(&mut self, worker: WorkerId, report: WorkerReport) {
        match report {
            WorkerReport::Message(Report::Event { job, event }) => {
                let now = self.now();
                self.progress.record(job, &event, now);
                let event = ResponseEvent::Token { event };
                self.executor.forward(worker, job, event);
                if self.publisher.are_tokens_due(now) {
                    self.publish_status(now);
                }
            }
            WorkerReport::Message(Report::Embedded {
                job,
                n_tokens,
                vector,
            }) => {
                let event = ResponseEvent::Embedded { n_tokens, vector };
                self.executor.forward(worker, job, event);
            }
            // The supervisor's own signal source knows the level, which is the same for all
            // processes.
            WorkerReport::Message(Report::MemoryNotice) => self.signals.source.refresh(),
            WorkerReport::Message(Report::Saved { conversation }) => {
                self.executor.saved_states.saved(worker, conversation);
            }
            WorkerReport::Message(Report::SaveEnded) => {
                self.executor.saved_states.saving_ended(worker);
            }
            WorkerReport::Message(ref message) => {
                log_failure(worker, message);
                self.step(Event::Worker(worker, report));
            }
            WorkerReport::Stuck { .. } => {
                self.step(Event::Worker(worker, report));
                self.fail_stuck_unloads();
            }
            WorkerReport::Exited(_) => {
                self.executor.remove_worker(worker);
                self.step(Event::Worker(worker, report));
                let record = self.core.unload_record_of(worker);
                let saved_states = &self.executor.saved_states;
                self.unload_waiters
                    .worker_gone(worker, record, saved_states);
            }
        }
    }

    /// Fails the unload calls that wait for processes that cannot be killed.
    fn fail_stuck_unloads(&mut self) {
        for (worker, error) in self.core.stuck_workers() {
            self.unload_waiters.worker_stuck(worker, &error);
        }
    }

    /// Refuses messages that arrived too late.
    fn refuse_remaining_messages(&mut self) {
        let _ = self.shutdown_reason.set(RequestError::Quitting);
        self.messages.close();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                HandleMessage::Submit(_, writer) => writer.fail(RequestError::Quitting),
                HandleMessage::Unload(_, reply) => drop(reply.send(Err(RequestError::Quitting))),
                // Nobody waits for the others.
                _ => {}
            }
        }
    }
}

fn log_failure(worker: WorkerId, report: &Report) {
    let worker = worker.0;
    match report {
        Report::Measured { result: Err(error) } => {
            tracing::info!(worker, %error, "the model files cannot be used");
        }
        Report::LoadFailed { error } => tracing::info!(worker, %error, "the load failed"),
        Report::Broken { error } => tracing::warn!(worker, %error, "the model is broken"),
        _ => {}
    }
}

impl SignalListener {
    /// Listens to `source`, starting with its current value.
    fn listen(source: Arc<dyn SignalSource>) -> Self {
        let (sender, latest) = watch::channel(None);
        let sender = Arc::new(sender);
        let sender_of_source = sender.clone();
        source.watch(Box::new(move |signals| {
            sender_of_source.send_replace(Some(signals));
        }));
        let current = source.current();
        sender.send_if_modified(|latest| {
            // A value from the callback is newer.
            let is_first = latest.is_none();
            latest.get_or_insert(current);
            is_first
        });
        Self {
            latest,
            source,
            has_models: false,
        }
    }

    fn set_has_models(&mut self, has_models: bool) {
        if self.has_models != has_models {
            self.has_models = has_models;
            self.source.set_polling(has_models);
        }
    }
}

#[cfg(test)]
mod tests;
