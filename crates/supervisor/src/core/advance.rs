//! After every event: what follows from the state and the time, until nothing more does.
//!
//! Rule: whatever an event handler leaves undone is found here from the state alone, so nothing
//! depends on the order in which events came.

use transom_engine::{FinishReason, Fit};
use transom_engine_host::wire::Request;

use super::model::Phase;
use super::{Core, Effect, Model, Now, WorkerId, failed};
use crate::answer::AnswerEvent;
use crate::request::{AskError, Work};
use crate::status::UnloadReason;

impl Core {
    /// When [`super::Event::Tick`] is due: the earliest moment at which time alone changes
    /// something.
    pub fn next_deadline(&self) -> Option<Now> {
        let models = self.models.iter().filter_map(|model| self.deadline(model));
        let hold = self
            .held_since
            .map(|since| since + self.tuning.longest_hold);
        models
            .chain(hold)
            .chain(self.governor.next_deadline())
            .min()
    }

    fn deadline(&self, model: &Model) -> Option<Now> {
        match &model.phase {
            Phase::Measuring | Phase::WaitingForRoom | Phase::Loading { .. } => None,
            Phase::Ready => self.idle_deadline(model),
            Phase::Generating {
                finish_by, stop, ..
            } => finish_by.filter(|_| stop.is_none()),
            Phase::Unloading(unloading) => unloading.deadline,
        }
    }

    /// When a model that nobody asks for is unloaded.
    pub(super) fn idle_deadline(&self, model: &Model) -> Option<Now> {
        let wait = self.governor.allowance().idle_unload?;
        (!self.queue.wants(&model.spec)).then(|| model.last_used.saturating_add(wait))
    }

    pub(super) fn advance(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.is_quitting {
            self.leave(now, effects);
        }
        self.obey_the_machine(now, effects);
        self.keep_deadlines(now, effects);
        self.expire_held_asks(now, effects);
        self.give_up_unwanted_loads(now, effects);
        self.begin_next(now, effects);
        self.keep_awake(effects);
        self.tell_the_queue(effects);
    }

    fn leave(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for id in self.queue.take(|_| true) {
            effects.push(failed(id, AskError::Quitting));
        }
        for model in &mut self.models {
            model.unload(UnloadReason::Quit, now, &self.tuning, effects);
        }
    }

    fn keep_deadlines(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for index in 0..self.models.len() {
            let due = self.deadline(&self.models[index]);
            if due.is_none_or(|due| now < due) {
                continue;
            }
            let model = &mut self.models[index];
            match model.phase {
                Phase::Ready => model.unload(UnloadReason::Idle, now, &self.tuning, effects),
                Phase::Generating { .. } => model.stop_job(FinishReason::Shed, effects),
                Phase::Unloading(_) => model.kill(UnloadReason::Asked, now, effects),
                Phase::Measuring | Phase::WaitingForRoom | Phase::Loading { .. } => {}
            }
        }
    }

    /// Asks wait for the machine only so long.
    fn expire_held_asks(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let held = self.governor.allowance().held;
        let Some(because) = held.filter(|_| !self.queue.is_empty()) else {
            self.held_since = None;
            return;
        };
        let since = *self.held_since.get_or_insert(now);
        if now < since + self.tuning.longest_hold {
            return;
        }
        self.held_since = None;
        for id in self.queue.take(|_| true) {
            let error = AskError::Held {
                because,
                retry_after: self.tuning.longest_hold,
            };
            effects.push(failed(id, error));
        }
    }

    fn give_up_unwanted_loads(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for model in &mut self.models {
            if model.is_loading() && !self.queue.wants(&model.spec) {
                model.unload(UnloadReason::LoadEnded, now, &self.tuning, effects);
            }
        }
    }

    /// One job runs at a time, and the oldest ask is next.
    fn begin_next(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_busy = self
            .models
            .iter()
            .any(|model| matches!(model.phase, Phase::Generating { .. }));
        if is_busy || self.governor.allowance().held.is_some() {
            return;
        }
        let Some(head) = self.queue.head() else { return };
        let found = self
            .models
            .iter()
            .position(|model| model.spec == head.ask.model);
        match found.map(|index| (index, &self.models[index].phase)) {
            None => self.start_worker(now, effects),
            Some((index, Phase::WaitingForRoom)) => self.make_room(index, now, effects),
            Some((index, Phase::Ready)) => self.generate(index, now, effects),
            // Its turn comes when the load or unload is over.
            Some((
                _,
                Phase::Measuring
                | Phase::Loading { .. }
                | Phase::Generating { .. }
                | Phase::Unloading(_),
            )) => {}
        }
    }

    fn start_worker(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(head) = self.queue.head() else { return };
        let worker = WorkerId(self.next_worker);
        self.next_worker += 1;
        let model = Model {
            worker,
            spec: head.ask.model.clone(),
            variant: 0,
            is_over_budget: false,
            phase: Phase::Measuring,
            need: None,
            info: None,
            memory: None,
            footprint: None,
            load_began: now,
            load_ended: None,
            last_used: now,
            n_answered: 0,
        };
        effects.push(Effect::Start(worker));
        self.measure(&model, effects);
        self.models.push(model);
    }

    fn generate(&mut self, index: usize, now: Now, effects: &mut Vec<Effect>) {
        let Some(head) = self.queue.pop() else { return };
        let model = &mut self.models[index];
        model.last_used = now;
        let request = match head.ask.work {
            Work::Generate(request) => request,
            // Ended when the model was loaded, or at once.
            Work::Load => return,
        };
        model.phase = Phase::Generating {
            ask: head.id,
            stop: None,
            finish_by: None,
            then: None,
        };
        let worker = model.worker;
        let request = Box::new(self.restrained(*request));
        effects.push(Effect::Generate(worker, head.id, request));
    }

    /// The request, within what the machine allows now.
    fn restrained(&self, mut request: Request) -> Request {
        let allowance = self.governor.allowance();
        let params = &mut request.params;
        params.max_tokens = least(params.max_tokens, allowance.max_tokens);
        params.prefill_chunk = least(params.prefill_chunk, allowance.prefill_chunk);
        if let Fit::DropOldest { affordable, .. } = &mut request.fit {
            *affordable = least(*affordable, allowance.context_length);
        }
        request
    }

    fn keep_awake(&mut self, effects: &mut Vec<Effect>) {
        let is_wanted = self.models.iter().any(|model| match model.phase {
            Phase::Measuring
            | Phase::WaitingForRoom
            | Phase::Loading { .. }
            | Phase::Generating { .. } => true,
            Phase::Ready | Phase::Unloading(_) => false,
        });
        if is_wanted != self.keeps_awake {
            self.keeps_awake = is_wanted;
            effects.push(Effect::KeepAwake(is_wanted));
        }
    }

    fn tell_the_queue(&mut self, effects: &mut Vec<Effect>) {
        let is_busy = self
            .models
            .iter()
            .any(|model| matches!(model.phase, Phase::Generating { .. }));
        let held = self.governor.allowance().held.map(|held| held.to_string());
        let models = &self.models;
        let news = |place: usize, queued: &super::queue::Queued| {
            let model = models.iter().find(|model| model.spec == queued.ask.model);
            let is_next = place == 0 && !is_busy && held.is_none();
            match model.map(|model| &model.phase) {
                Some(Phase::Loading { progress }) if is_next => AnswerEvent::Loading {
                    progress: *progress,
                },
                Some(Phase::Measuring | Phase::WaitingForRoom) if is_next => {
                    AnswerEvent::Loading { progress: None }
                }
                _ => AnswerEvent::Queued {
                    position: place + usize::from(is_busy),
                    held: held.clone(),
                },
            }
        };
        self.queue.tell(news, effects);
    }
}

/// The lesser of two limits, of which either may be missing.
fn least(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
