//! What follows from the state, whatever happened: run after every event, until nothing changes.
//!
//! Rule: what is given back comes before what is begun, so nothing begins that must end at once.

use super::{Core, Effect, Model, Timestamp};
use crate::status::UnloadReason;

impl Core {
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.apply_pressure(now);
        self.apply_pause(now);
        self.enforce_budget(now);
        self.finish_load_requests(now);
        self.expire_blocked_requests(now);
        self.enforce_deadlines(now);
        self.cancel_unneeded_load(now);
        while self.serve_next(now) {}
        self.update_keep_awake();
        self.report_queue();
    }

    /// While a person pauses, nothing is loaded and nothing stays loaded but for a running answer,
    /// which is finished.
    fn apply_pause(&mut self, now: Timestamp) {
        if !self.governor.is_paused() {
            return;
        }
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if model.is_incoming() || model.is_ready() {
                self.begin_unload(index, UnloadReason::Paused, now);
            }
        }
    }

    /// While models take more than the budget, which a person may have lowered, the one that was not
    /// used for longest goes. Running answers and models that a person insisted on stay.
    fn enforce_budget(&mut self, now: Timestamp) {
        while self.committed_bytes() > self.budget.total_bytes {
            let Some(index) = self.least_recently_used(|model| !model.is_over_budget) else {
                return;
            };
            self.begin_unload(index, UnloadReason::MakeRoom, now);
        }
    }

    /// A load that nobody waits for any more is given up.
    fn cancel_unneeded_load(&mut self, now: Timestamp) {
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if model.is_incoming() && !self.is_needed(model) {
                self.begin_unload(index, UnloadReason::LoadEnded, now);
            }
        }
    }

    /// Does one thing for the first of the queue. Returns whether there may be more to do.
    fn serve_next(&mut self, now: Timestamp) -> bool {
        let Some(first) = self.queue.front() else {
            return false;
        };
        if self.n_running() > 0 || self.blocked_by().is_some() {
            return false;
        }
        // A load that began is brought to its end, also when the ask that began it was cancelled
        // and only one further back still wants it.
        if let Some(index) = self.models.iter().position(Model::is_incoming) {
            return self.make_room(index, now);
        }
        let spec = first.spec.clone();
        let is_ready = |model: &Model| model.is_ready() && model.serves(&spec);
        match self.models.iter().position(is_ready) {
            Some(index) => self.generate(index),
            None => self.start_worker(spec, now),
        }
        true
    }

    fn update_keep_awake(&mut self) {
        let works = |model: &Model| model.is_incoming() || model.job().is_some();
        let keeps_awake = self.models.iter().any(works);
        if keeps_awake != self.keeps_awake {
            self.keeps_awake = keeps_awake;
            self.effects.push(Effect::KeepAwake(keeps_awake));
        }
    }
}
