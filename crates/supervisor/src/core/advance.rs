//! Everything that follows from the state alone. Runs after every event, until nothing changes.
//!
//! Rule: memory is freed before new work starts, so nothing starts that would have to end at once.

use super::{Core, Effect, Model};
use crate::status::UnloadReason;

impl Core {
    pub(super) fn advance(&mut self) {
        self.apply_pressure();
        self.apply_pause();
        self.enforce_budget();
        self.finish_load_requests();
        self.expire_blocked_requests();
        self.expire_requests();
        self.enforce_deadlines();
        self.cancel_unneeded_load();
        while self.serve_next() {}
        self.update_keep_awake();
        self.report_queue();
    }

    /// While paused, unloads every model except one that is generating, which finishes first.
    fn apply_pause(&mut self) {
        if !self.governor.is_paused() {
            return;
        }
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if model.is_incoming() || model.is_ready() {
                self.begin_unload(index, UnloadReason::Paused);
            }
        }
    }

    /// While models exceed the budget, which the user may have lowered, unloads the least recently
    /// used one. Running responses and models loaded over budget on the user's request stay.
    fn enforce_budget(&mut self) {
        while self.committed_bytes() > self.budget.total_bytes {
            let Some(index) = self.least_recently_used(|model| !model.is_over_budget) else {
                return;
            };
            self.begin_unload(index, UnloadReason::MakeRoom);
        }
    }

    /// Ends a load if no queued request needs the model any more.
    fn cancel_unneeded_load(&mut self) {
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if model.is_incoming() && !self.is_needed(model) {
                self.begin_unload(index, UnloadReason::LoadEnded);
            }
        }
    }

    /// Takes one step towards serving the next request in the queue. Returns true if there may be
    /// more to do.
    fn serve_next(&mut self) -> bool {
        if self.queue.is_empty() || self.blocked_by().is_some() {
            return false;
        }
        if self.n_running() > 0 {
            return self.serve_beside();
        }
        // A load that has started is completed, even if the request that started it was canceled
        // and only a later one needs the model.
        if let Some(index) = self.models.iter().position(Model::is_incoming) {
            return self.make_room(index);
        }
        let position = self.next_position();
        let spec = self.queue[position].spec.clone();
        let is_ready = |model: &Model| model.is_ready() && model.serves(&spec);
        match self.models.iter().position(is_ready) {
            Some(index) => self.generate(index, position),
            None if self.switch_at().is_some() => return false,
            None => self.start_worker(spec),
        }
        true
    }

    fn update_keep_awake(&mut self) {
        let works = |model: &Model| model.is_incoming() || model.running().is_some();
        let keeps_awake = self.models.iter().any(works) || self.switch_at().is_some();
        if keeps_awake != self.keeps_awake {
            self.keeps_awake = keeps_awake;
            self.effects.push(Effect::KeepAwake(keeps_awake));
        }
    }
}
