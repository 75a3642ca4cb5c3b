//! What follows from the state, whatever happened: run after every event, until nothing changes.
//!
//! Rule: what is given back comes before what is begun, so nothing begins that must end at once.

use super::{Core, Effect, Model, Now};
use crate::status::UnloadReason;

impl Core {
    pub(super) fn advance(&mut self, now: Now) {
        self.obey_pressure(now);
        self.obey_pause(now);
        self.obey_budget(now);
        self.answer_loads(now);
        self.hold(now);
        self.obey_deadlines(now);
        self.end_unwanted_load(now);
        while self.serve(now) {}
        self.keep_awake();
        self.tell_queue();
    }

    /// While a person pauses, nothing is loaded and nothing stays loaded but for a running answer,
    /// which is finished.
    fn obey_pause(&mut self, now: Now) {
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
    fn obey_budget(&mut self, now: Now) {
        while self.staying_bytes() > self.budget.total_bytes {
            let Some(index) = self.least_recently_used(|model| !model.is_over_budget) else {
                return;
            };
            self.begin_unload(index, UnloadReason::MakeRoom, now);
        }
    }

    /// A load that nobody waits for any more is given up.
    fn end_unwanted_load(&mut self, now: Now) {
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if model.is_incoming() && !self.is_wanted(model) {
                self.begin_unload(index, UnloadReason::LoadEnded, now);
            }
        }
    }

    /// Does one thing for the first of the queue. Returns whether there may be more to do.
    fn serve(&mut self, now: Now) -> bool {
        let Some(first) = self.queue.front() else {
            return false;
        };
        if self.n_running() > 0 || self.held().is_some() {
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
            None => self.start(spec, now),
        }
        true
    }

    fn keep_awake(&mut self) {
        let works = |model: &Model| model.is_incoming() || model.job().is_some();
        let keeps_awake = self.models.iter().any(works);
        if keeps_awake != self.keeps_awake {
            self.keeps_awake = keeps_awake;
            self.effects.push(Effect::KeepAwake(keeps_awake));
        }
    }
}
