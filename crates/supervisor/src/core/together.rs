//! Which requests start beside running ones.
//!
//! Several responses of one model are generated in turns, so that nobody waits for the whole response of
//! somebody else. Rule: nothing has to be unloaded or given up for a further response, and none starts
//! while the governor wants less work. A response that must be reproducible runs alone. Programs leave
//! the place of one response, and the memory for it, to a person.

use super::Core;
use super::model::{JobKind, Model, Running};
use super::queue::PendingRequest;
use crate::request::Class;

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
        let n_places = self.tuning.parallel_requests;
        let n_left_free = usize::from(pending.class == Class::Background);
        model.serves(&pending.spec)
            && running.takes_another()
            && running.jobs.len() < n_places
            // A request of a program does not slow down the response that a person waits for.
            && running.jobs.iter().all(|job| pending.class <= job.class)
            && match kind {
                JobKind::Count => true,
                JobKind::Response => {
                    self.governor.allows_parallel()
                        && running.jobs.len() + n_left_free < n_places
                        && self.has_room_for_responses(model, 1 + n_left_free)
                }
                JobKind::Reproducible | JobKind::Embedding => false,
            }
    }

    /// Returns true if the budget has room for `n` more KV caches of `model`, beside everything that is
    /// loaded.
    fn has_room_for_responses(&self, model: &Model, n: usize) -> bool {
        let further = model.need.map(|need| need.further_response_bytes());
        further.is_some_and(|bytes| {
            let bytes = bytes.saturating_mul(n as u64);
            self.committed_bytes().saturating_add(bytes) <= self.budget_bytes()
        })
    }
}

impl Running {
    /// Returns true if another job may start beside these.
    fn takes_another(&self) -> bool {
        let is_shared = |kind| matches!(kind, JobKind::Response | JobKind::Count);
        self.then_unload.is_none()
            && !self.then_trims
            && self.finish_by.is_none()
            && self.jobs.iter().all(|job| is_shared(job.kind))
    }
}
