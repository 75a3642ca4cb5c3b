//! Invariants about memory, checked after every step.

use super::worker::SimulatedWorker;
use super::{Simulation, WorkerId};
use transom_signals::MemoryPressure;

impl Simulation {
    /// No model is loaded twice at the same time.
    pub(super) fn check_alone(&self, worker: WorkerId) {
        let path = self.models.path(worker);
        let mut others = self.workers.iter();
        let is_same = |(other, state): (&WorkerId, &SimulatedWorker)| {
            *other != worker
                && state.has_memory
                && !state.is_stuck
                && self.models.path(*other) == path
        };
        assert!(!others.any(is_same), "{path:?} is loaded twice");
    }

    /// Jobs run on one model at a time, or on one and an embedding model while memory is not short.
    pub(super) fn check_beside(&self, worker: WorkerId) {
        let embeds = |worker: WorkerId| self.models.path(worker).starts_with("embed");
        let others = self.workers.iter();
        let working = others.filter(|(other, state)| **other != worker && !state.jobs.is_empty());
        for (other, _) in working {
            assert_ne!(
                embeds(*other),
                embeds(worker),
                "jobs of one model at a time"
            );
            assert_eq!(self.pressure, MemoryPressure::Normal, "one at a time");
            assert!(self.tuning.parallel_requests > 1, "one at a time");
        }
    }

    fn budget_bytes(&self) -> u64 {
        self.tuning.memory_budget_bytes.expect("it is set")
    }

    /// Returns the bytes that a worker may use for its model and its jobs.
    fn bytes(&self, worker: WorkerId) -> u64 {
        let need = self.models.need(worker);
        let state = &self.workers[&worker];
        let n_further = (state.jobs.len() + state.n_killed_jobs).saturating_sub(1);
        need.total_bytes() + n_further as u64 * need.kv_cache_bytes
    }

    pub(super) fn check_budget(&self) {
        let holding = self.workers.iter().filter(|(_, state)| state.has_memory);
        let bytes: u64 = holding.map(|(worker, _)| self.bytes(*worker)).sum();
        assert!(
            bytes <= self.budget_bytes(),
            "{bytes} bytes are above the budget"
        );
    }

    /// While models exceed the budget, none is idle.
    pub(super) fn check_idle(&self) {
        let staying = self.workers.iter();
        let staying = staying.filter(|(_, worker)| worker.has_memory && !worker.is_ending());
        let bytes: u64 = staying.clone().map(|(id, _)| self.bytes(*id)).sum();
        let mut workers = staying.map(|(_, worker)| worker);
        let is_idle = |worker: &SimulatedWorker| worker.is_loaded && worker.jobs.is_empty();
        assert!(
            bytes <= self.budget_bytes() || !workers.any(is_idle),
            "{bytes} bytes are above the budget, and a model is idle"
        );
    }
}
