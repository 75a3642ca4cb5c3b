//! Which requests start beside running ones.
//!
//! Several responses of one model are generated in turns, so that nobody waits for the whole response of
//! somebody else. An embedding model works beside another model if both are loaded: a program that
//! searches asks both in turn. Rule: nothing has to be unloaded or given up for a further response, and
//! none starts while the governor wants less work. A response that must be reproducible is the only one of
//! its model. Programs leave the place of one response, and the memory for it, to a person.

use super::Core;
use super::model::{JobKind, Model, Phase, Running};
use super::queue::PendingRequest;
use crate::request::{Class, ModelRole};

impl Core {
    /// Starts the next request that may run beside the running ones. Returns true if there was one.
    pub(super) fn serve_beside(&mut self) -> bool {
        let model_for = |pending: &PendingRequest| {
            let mut models = 0..self.models.len();
            models.find(|&index| self.may_start_beside(index, pending))
        };
        let Some(position) = self.first_to_serve(|pending| model_for(pending).is_some()) else {
            return false;
        };
        let Some(index) = model_for(&self.queue[position]) else {
            return false;
        };
        self.generate(index, position);
        true
    }

    fn may_start_beside(&self, index: usize, pending: &PendingRequest) -> bool {
        let model = &self.models[index];
        // A request of a program does not slow down the response that a person waits for.
        let mut running = self.models.iter().flat_map(Model::jobs);
        let is_important = running.all(|job| pending.class <= job.class);
        is_important
            && model.serves(&pending.spec)
            && match &model.phase {
                Phase::Generating(running) => self.may_join(model, running, pending),
                Phase::Ready => self.may_work_beside(model),
                _ => false,
            }
    }

    /// Returns true if the request may start beside the `running` ones of the same model.
    fn may_join(&self, model: &Model, running: &Running, pending: &PendingRequest) -> bool {
        let n_places = self.tuning.parallel_requests;
        let n_left_free = usize::from(pending.class == Class::Background);
        running.takes_another()
            && running.jobs.len() < n_places
            && match JobKind::of(&pending.work) {
                JobKind::Count => true,
                JobKind::Response => {
                    self.governor.allows_parallel()
                        && running.jobs.len() + n_left_free < n_places
                        && self.has_room_for_responses(model, 1 + n_left_free)
                }
                JobKind::Reproducible | JobKind::Embedding => false,
            }
    }

    /// Returns true if the idle `model` may work beside the models that do: it is the embedding model
    /// among them, or they are.
    fn may_work_beside(&self, model: &Model) -> bool {
        let embeds = |model: &Model| model.spec.role == ModelRole::Embedder;
        let mut working = self.models.iter().filter(|other| !other.jobs().is_empty());
        self.tuning.parallel_requests > 1
            && self.governor.allows_parallel()
            && working.all(|other| embeds(other) != embeds(model))
    }

    /// Returns true if the budget has room for `n` more KV caches of `model`, beside everything that is
    /// loaded or has not returned its memory yet.
    fn has_room_for_responses(&self, model: &Model, n: usize) -> bool {
        let further = model.need.map(|need| need.further_response_bytes());
        let held = |model: &Model| model.reserved_bytes().max(model.failed_load_bytes);
        let in_use = self.models.iter().map(held).fold(0, u64::saturating_add);
        further.is_some_and(|bytes| {
            let bytes = bytes.saturating_mul(n as u64);
            in_use.saturating_add(bytes) <= self.budget_bytes()
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
