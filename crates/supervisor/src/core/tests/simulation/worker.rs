//! A simulated worker that replies to its commands, or hangs.

use std::collections::VecDeque;

use transom_engine_host::wire::JobId;
use transom_engine_host::{WorkerEnd, WorkerReport};

/// The state of a worker.
#[derive(Debug, Clone, Default)]
pub(super) struct SimulatedWorker {
    /// Its next events, in order.
    pub(super) pending_events: VecDeque<WorkerReport>,
    /// Those that run.
    pub(super) jobs: Vec<JobId>,
    /// Those of them that were told to end.
    pub(super) stopped_jobs: Vec<JobId>,
    pub(super) has_memory: bool,
    /// Number of jobs that it ran when it was killed. Their memory is in use until its process ends.
    pub(super) n_killed_jobs: usize,
    /// It was told to trim its KV caches after the jobs.
    pub(super) trims_after_jobs: bool,
    pub(super) is_loaded: bool,
    /// It was told to end its load, and has not done so.
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

    pub(super) fn kill(&mut self) {
        self.is_killed = true;
        self.n_killed_jobs = self.jobs.len();
        self.jobs.clear();
    }

    /// Returns the event that follows when its process is killed.
    pub(super) fn end_event(&self, end: WorkerEnd) -> WorkerReport {
        match self.cannot_be_killed {
            false => WorkerReport::Exited(end),
            true => WorkerReport::Stuck {
                process_id: 4711,
                end,
            },
        }
    }
}
