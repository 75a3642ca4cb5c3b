//! Which requests start beside running ones.
//!
//! Several responses of one model are generated in turns, so that nobody waits for the whole response of
//! somebody else. Rule: nothing has to be unloaded or given up for a further response, and none starts
//! while the governor wants less work. A response that must be reproducible runs alone.

use super::Core;
use super::model::{JobKind, Model, Running};
use super::queue::PendingRequest;

impl Core {
    /// Starts the next request that may run beside the running ones. Returns true if there was one.
    pub(super) fn serve_beside(&mut self) -> bool {
        let runs = |model: &Model| model.running().is_some();
        let Some(index) = self.models.iter().position(runs) else {
            return false;
        };
        let may_start = |pending: &PendingRequest| self.may_start_beside(index, pending);
        let Some(position) = self.first_to_serve(may_start) else {
            return false;
        };
        self.generate(index, position);
        true
    }

    fn may_start_beside(&self, index: usize, pending: &PendingRequest) -> bool {
        let model = &self.models[index];
        let Some(running) = model.running() else {
            return false;
        };
        let kind = JobKind::of(&pending.work);
        model.serves(&pending.spec)
            && running.takes_another()
            && running.jobs.len() < self.tuning.parallel_requests
            // A request of a program does not slow down the response that a person waits for.
            && running.jobs.iter().all(|job| pending.class <= job.class)
            && match kind {
                JobKind::Count => true,
                JobKind::Response => {
                    self.governor.allows_parallel() && self.has_room_for_response(model)
                }
                JobKind::Reproducible | JobKind::Embedding => false,
            }
    }

    /// Returns true if the budget has room for another KV cache of `model`, beside everything that is
    /// loaded.
    fn has_room_for_response(&self, model: &Model) -> bool {
        let further = model.need.map(|need| need.further_response_bytes());
        further.is_some_and(|bytes| {
            self.committed_bytes().saturating_add(bytes) <= self.budget_bytes()
        })
    }
}

impl Running {
    /// Returns true if another job may start beside these.
    fn takes_another(&self) -> bool {
        let is_shared = |kind| matches!(kind, JobKind::Response | JobKind::Count);
        self.then_unload.is_none()
            && self.finish_by.is_none()
            && self.jobs.iter().all(|job| is_shared(job.kind))
    }
}
