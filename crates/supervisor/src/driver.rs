//! The shell round the core: everything that can wake the supervisor on one screen, and every
//! effect carried out.
//!
//! Rule: it decides nothing. The text of answers goes past the core, from the worker to the
//! answer's writer; all else goes through [`Core::step`], in the order in which it came.

mod hands;
mod publisher;
pub(crate) mod saved_states;
mod unloads;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use transom_engine_host::wire::Report;
use transom_engine_host::{WorkerReport, Workers};
use transom_signals::{Hardware, KeepAwake, SignalSource, SystemSignals};

use crate::core::{Core, Event, Now, WorkerEvent, WorkerId};
use crate::governor::Tuning;
use crate::handle::{Farewell, Handle, Request};
use crate::request::{AskError, AskId};

use hands::Hands;
pub(crate) use hands::StayAwake;
use publisher::Publisher;
use unloads::Unloads;

/// Asks the system to stay awake for a running answer, as long as the result lives.
pub(crate) fn stay_awake() -> KeepAwake {
    KeepAwake::begin("a local model is answering")
}

/// See the head of this file.
pub(crate) struct Driver {
    core: Core,
    began: Instant,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Every handle is gone.
    is_deserted: bool,
    machine: Machine,
    reports: mpsc::Receiver<(WorkerId, WorkerReport)>,
    hands: Hands,
    unloads: Unloads,
    publisher: Publisher,
    farewell: Farewell,
}

/// What the machine says: the latest value, and the source, which stops when it is dropped.
struct Machine {
    latest: watch::Receiver<Option<SystemSignals>>,
    _sender: Arc<watch::Sender<Option<SystemSignals>>>,
    source: Arc<dyn SignalSource>,
    /// What the source was last told.
    is_watchful: bool,
}

/// How soon people must see what an event changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// At once.
    Now,
    /// Together with other progress.
    Progress,
}

/// Reports that wait for the driver. Beyond that workers wait, and join their texts.
const N_WAITING_REPORTS: usize = 64;

/// A supervisor that is yet to be run, and a handle of it.
pub(crate) fn prepare(
    workers: Arc<dyn Workers>,
    signals: Arc<dyn SignalSource>,
    hardware: &Hardware,
    tuning: Tuning,
    stay_awake: StayAwake,
) -> (Handle, Driver) {
    let core = Core::new(hardware, tuning);
    let (publisher, status) = Publisher::new(core.status(Now::ZERO));
    let (handle, requests, farewell) = Handle::new(status, AskId(1));
    let (report, reports) = mpsc::channel(N_WAITING_REPORTS);
    let driver = Driver {
        core,
        began: Instant::now(),
        requests,
        is_deserted: false,
        machine: Machine::listen(signals),
        reports,
        hands: Hands::new(workers, report, stay_awake),
        unloads: Unloads::default(),
        publisher,
        farewell,
    };
    (handle, driver)
}

impl Driver {
    /// Runs until everything ended after a quit, or after the last handle was dropped.
    pub(crate) async fn run(mut self) {
        while !self.core.is_done() {
            let wake_at = self.wake_at();
            tokio::select! {
                request = self.requests.recv(), if !self.is_deserted => self.obey(request),
                Ok(()) = self.machine.latest.changed() => self.hear_machine(),
                Some((worker, report)) = self.reports.recv() => self.hear(worker, report),
                () = sleep_until(wake_at.unwrap_or(self.began)), if wake_at.is_some() => {
                    self.step(Event::Tick, News::Now);
                }
            }
        }
        self.say_farewell();
        let Self {
            hands, publisher, ..
        } = self;
        hands.close().await;
        // Its watchers learn of the end when nothing is left.
        drop(publisher);
    }

    fn now(&self) -> Now {
        self.began.elapsed()
    }

    /// When the core or the status wants to be looked at again.
    fn wake_at(&self) -> Option<Instant> {
        let deadlines = self.core.next_deadline().into_iter();
        let next = deadlines.chain(self.publisher.due()).min()?;
        self.began.checked_add(next)
    }

    /// The status is published before anybody is told, so that whoever reads of an end finds it in
    /// the status.
    fn step(&mut self, event: Event, news: News) {
        let now = self.now();
        let effects = self.core.step(event, now);
        if self.publisher.is_due(news, now) {
            self.publisher.publish(self.core.status(now), now);
        }
        self.machine.set_watchful(self.core.has_models());
        for effect in effects {
            self.hands.carry_out(effect);
        }
    }

    fn obey(&mut self, request: Option<Request>) {
        match request {
            Some(Request::Ask(ask, writer)) => {
                let id = writer.id();
                self.hands.open(writer);
                self.step(Event::Ask(id, ask), News::Now);
            }
            Some(Request::Cancel(id)) => self.step(Event::Cancel(id), News::Now),
            Some(Request::Unload(which, reply)) => {
                let workers = self.core.workers_of(&which);
                self.step(Event::Unload(which), News::Now);
                self.unloads.wait_for(workers, reply, &self.hands);
                self.end_stuck_unloads();
            }
            Some(Request::Tune(tuning)) => self.step(Event::Tune(tuning), News::Now),
            Some(Request::Pause(is_paused)) => self.step(Event::Pause(is_paused), News::Now),
            Some(Request::Look(reply)) => {
                let now = self.now();
                let status = self.publisher.publish(self.core.status(now), now);
                // Whoever wanted to look may have gone.
                let _ = reply.send(status);
            }
            Some(Request::ForgetConversations) => {
                self.step(Event::ForgetConversations, News::Now);
            }
            Some(Request::SaveStatesIn(folder)) => self.hands.save_states_in(folder),
            Some(Request::Quit) => self.step(Event::Quit, News::Now),
            None => {
                self.is_deserted = true;
                self.step(Event::Quit, News::Now);
            }
        }
    }

    fn hear_machine(&mut self) {
        let signals = *self.machine.latest.borrow_and_update();
        if let Some(signals) = signals {
            self.step(Event::Signals(signals), News::Now);
        }
    }

    fn hear(&mut self, worker: WorkerId, report: WorkerReport) {
        let report = match report {
            WorkerReport::Said(report) => report,
            WorkerReport::Gone(end) => return self.see_off(worker, WorkerEvent::Gone(end)),
            WorkerReport::Stuck { process_id, end } => {
                let event = WorkerEvent::Stuck { process_id, end };
                self.step(Event::Worker(worker, event), News::Now);
                return self.end_stuck_unloads();
            }
        };
        let event = match report {
            Report::Event { job, event } => {
                return self.hands.pass_on(worker, AskId(job.0), event);
            }
            Report::Measured { result } => {
                if let Err(error) = &result {
                    tracing::info!(worker = worker.0, %error, "these files are not used");
                }
                WorkerEvent::Measured(result)
            }
            Report::LoadProgress { progress } => {
                let event = WorkerEvent::LoadProgress(progress);
                return self.step(Event::Worker(worker, event), News::Progress);
            }
            Report::Loaded {
                info,
                memory,
                footprint,
                restored_tokens,
            } => WorkerEvent::Loaded {
                info,
                memory,
                footprint,
                restored_tokens,
            },
            Report::LoadFailed { error } => {
                tracing::info!(worker = worker.0, %error, "the load failed");
                WorkerEvent::LoadFailed(error)
            }
            Report::JobEnded { job, result } => WorkerEvent::JobEnded(AskId(job.0), result),
            Report::Trimmed { bytes, memory } => WorkerEvent::Trimmed { bytes, memory },
            Report::Broken { error } => {
                tracing::warn!(worker = worker.0, %error, "the model is broken");
                WorkerEvent::Broken(error)
            }
            Report::Footprint { bytes } => {
                let event = WorkerEvent::Footprint(bytes);
                return self.step(Event::Worker(worker, event), News::Progress);
            }
            // The machine's own source knows the level, which is one for all processes.
            Report::MemoryNotice => return self.machine.source.look_again(),
            Report::Unloaded { footprint } => WorkerEvent::Unloaded(footprint),
            // They end at the parent's side of the wire.
            Report::Hello { .. } | Report::Pong { .. } => return,
        };
        self.step(Event::Worker(worker, event), News::Now);
    }

    fn see_off(&mut self, worker: WorkerId, end: WorkerEvent) {
        self.hands.forget(worker);
        self.step(Event::Worker(worker, end), News::Now);
        let record = self.core.unload_of(worker);
        self.unloads.is_gone(worker, record, &self.hands);
    }

    /// Nobody waits for processes that cannot be ended.
    fn end_stuck_unloads(&mut self) {
        for (worker, error) in self.core.stuck_workers() {
            self.unloads.is_stuck(worker, &error);
        }
    }

    /// Refuses what came too late.
    fn say_farewell(&mut self) {
        let _ = self.farewell.set(AskError::Quitting);
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Ask(_, writer) => writer.fail(AskError::Quitting),
                Request::Unload(_, reply) => drop(reply.send(Err(AskError::Quitting))),
                Request::Cancel(_)
                | Request::Tune(_)
                | Request::Pause(_)
                | Request::Look(_)
                | Request::ForgetConversations
                | Request::SaveStatesIn(_)
                | Request::Quit => {}
            }
        }
    }
}

impl Machine {
    /// Listens to `source`, whose present value is the first.
    fn listen(source: Arc<dyn SignalSource>) -> Self {
        let (sender, latest) = watch::channel(None);
        let sender = Arc::new(sender);
        let of_source = sender.clone();
        source.watch(Box::new(move |signals| {
            of_source.send_replace(Some(signals));
        }));
        let current = source.current();
        sender.send_if_modified(|latest| {
            // What was called back meanwhile is newer.
            let is_first = latest.is_none();
            latest.get_or_insert(current);
            is_first
        });
        Self {
            latest,
            _sender: sender,
            source,
            is_watchful: false,
        }
    }

    /// Tells the source whether a model is in memory.
    fn set_watchful(&mut self, is_watchful: bool) {
        if self.is_watchful != is_watchful {
            self.is_watchful = is_watchful;
            self.source.set_watchful(is_watchful);
        }
    }
}

#[cfg(test)]
mod tests;
