//! A simulated worker that replies to its commands, or hangs.

use std::collections::VecDeque;

use transom_engine_host::WorkerEnd;

use crate::core::WorkerEvent;
use crate::request::RequestId;

/// The state of a worker.
#[derive(Debug, Clone, Default)]
pub(super) struct SimulatedWorker {
    /// Its next events, in order.
    pub(super) pending_events: VecDeque<WorkerEvent>,
    pub(super) job: Option<RequestId>,
    pub(super) has_memory: bool,
    pub(super) is_loaded: bool,
    /// It was told to end its load or job, and has not done so.
    pub(super) is_stopped: bool,
    /// It was told to drop its model.
    pub(super) is_freeing: bool,
    pub(super) is_released: bool,
    pub(super) is_killed: bool,
    /// It sends nothing until it is killed.
    pub(super) is_silent: bool,
    /// A kill does not end it.
    pub(super) cannot_be_killed: bool,
    pub(super) is_stuck: bool,
    pub(super) is_broken: bool,
}

impl SimulatedWorker {
    /// Returns true if it was told to end in any way.
    pub(super) fn is_ending(&self) -> bool {
        let ends_load = self.is_stopped && !self.is_loaded;
        ends_load || self.is_freeing || self.is_released || self.is_killed
    }

    /// Returns the event that follows when its process is killed.
    pub(super) fn end_event(&self, end: WorkerEnd) -> WorkerEvent {
        match self.cannot_be_killed {
            false => WorkerEvent::Gone(end),
            true => WorkerEvent::Stuck {
                process_id: 4711,
                end,
            },
        }
    }
}
