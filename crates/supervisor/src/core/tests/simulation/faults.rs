//! Faults of workers: refused files, engines that fail, and processes that hang.

use transom_engine::EngineError;
use transom_engine_host::WorkerEnd;
use transom_engine_host::WorkerReport::Message;
use transom_engine_host::wire::Report;

use super::worker::SimulatedWorker;
use super::{Event, Simulation, WATCHDOG};

impl Simulation {
    /// Makes the newest worker that measures or loads report that its files are unsupported.
    pub(super) fn reject_newest(&mut self) -> Option<Event> {
        let reads = |state: &SimulatedWorker| {
            !state.is_silent
                && matches!(
                    state.pending_events.front(),
                    Some(Message(Report::Measured { .. } | Report::Loaded { .. }))
                )
        };
        let mut workers = self.workers.iter_mut().rev();
        let (worker, state) = workers.find(|(_, state)| reads(state))?;
        let path = self.models.path(*worker);
        let error = EngineError::unsupported(path, Default::default(), "a new architecture");
        let refusal = match state.pending_events.pop_front()? {
            Message(Report::Loaded { .. }) => Message(Report::LoadFailed { error }),
            _ => Message(Report::Measured { result: Err(error) }),
        };
        Some(Event::Worker(*worker, refusal))
    }

    /// Makes the engine of the newest generating worker fail.
    pub(super) fn break_newest(&mut self) -> Option<Event> {
        let mut workers = self.workers.iter_mut().rev();
        let (worker, state) = workers.find(|(_, state)| {
            !state.is_silent
                && !state.is_broken
                && matches!(
                    state.pending_events.front(),
                    Some(Message(Report::JobEnded { .. }))
                )
        })?;
        let error = EngineError::Backend {
            during: "decoding".to_owned(),
            message: "the device is lost".to_owned(),
        };
        if let Some(Message(Report::JobEnded { result, .. })) = state.pending_events.front_mut() {
            *result = Err(error.clone());
        }
        state.is_broken = true;
        Some(Event::Worker(*worker, Message(Report::Broken { error })))
    }

    /// Makes the newest worker silent from now on.
    pub(super) fn silence_newest(&mut self, cannot_be_killed: bool) -> bool {
        let is_responsive = |state: &&mut SimulatedWorker| !state.is_silent && !state.is_killed;
        let Some(state) = self.workers.values_mut().rev().find(is_responsive) else {
            return false;
        };
        state.is_silent = true;
        state.cannot_be_killed = cannot_be_killed;
        true
    }

    /// Lets the watchdog kill a silent worker whose reply is due and that was not told to end.
    pub(super) fn fire_watchdog(&mut self) -> bool {
        let is_due = |state: &SimulatedWorker| state.is_silent && !state.pending_events.is_empty();
        let mut workers = self.workers.iter_mut();
        let Some((worker, state)) = workers.find(|(_, state)| is_due(state)) else {
            return false;
        };
        let waits = state.is_stopped || !state.stopped_jobs.is_empty() || state.is_ending();
        assert!(!waits, "a stop waits for the watchdog: {:#?}", self.core);
        state.is_silent = false;
        state.kill();
        let seconds = WATCHDOG.as_secs();
        let event = state.end_event(WorkerEnd::Unresponsive { seconds });
        state.pending_events.clear();
        let event = Event::Worker(*worker, event);
        self.now += WATCHDOG;
        self.step(event);
        true
    }
}
