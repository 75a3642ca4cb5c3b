//! The queue: who waits, what they are told, and how they end before they begin.
//!
//! Rule: whoever leaves the queue without becoming a job is told its end in the same step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use transom_engine::{EngineError, FinishReason, LoadProgress, Stats};

use super::{Core, Effect, Now, Phase};
use crate::answer::{AnswerEvent, Outcome};
use crate::governor::Because;
use crate::request::{Ask, AskError, AskId, ModelSpec, WhenHeld, Work};
use crate::variants;

/// An ask that waits. The first of the queue may have its model loading.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) id: AskId,
    pub(super) spec: Arc<ModelSpec>,
    pub(super) work: Work,
    pub(super) over_budget: bool,
    /// Loads of its model that memory pressure ended.
    pub(super) n_sheds: u8,
    when_held: WhenHeld,
    held_since: Option<Now>,
    told: Told,
}

/// What an ask was told last, so that nothing is told twice.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Nothing,
    Queued(usize, Option<Because>),
    Loading(Option<LoadProgress>),
}

impl Core {
    pub(super) fn accept(&mut self, id: AskId, ask: Ask) {
        if let Err(error) = self.admit(&ask) {
            return self.end(id, Outcome::Failed { error });
        }
        let spec = self.shared(ask.model);
        self.queue.push_back(Waiting {
            id,
            spec,
            work: ask.work,
            over_budget: ask.over_budget,
            n_sheds: 0,
            when_held: ask.when_held,
            held_since: None,
            told: Told::Nothing,
        });
    }

    fn admit(&self, ask: &Ask) -> Result<(), AskError> {
        if self.is_quitting {
            return Err(AskError::Quitting);
        }
        if ask.model.variants.is_empty() {
            return Err(AskError::Engine {
                source: EngineError::InvalidParameter {
                    name: "variants".into(),
                    value: "an empty list".to_owned(),
                    expected: "at least one file or folder".into(),
                },
            });
        }
        // Whoever only wants a model that is there does not wait.
        if ask.work == Work::Load && self.loaded(&ask.model).is_some() {
            return Ok(());
        }
        // One is being served and does not wait.
        let waiting = (self.queue.len() + self.n_running()).saturating_sub(1);
        let is_first = self.queue.is_empty() && self.n_running() == 0;
        if !is_first && waiting >= self.tuning.queue_limit {
            return Err(AskError::Busy { waiting });
        }
        Ok(())
    }

    /// The spec as others hold it already, so that equal specs are one allocation; else with its
    /// variants in the order in which they are tried.
    fn shared(&self, spec: ModelSpec) -> Arc<ModelSpec> {
        let of_models = self.models.iter().map(|model| &model.spec);
        let of_queue = self.queue.iter().map(|waiting| &waiting.spec);
        let known = of_models.chain(of_queue).find(|known| ***known == spec);
        known.cloned().unwrap_or_else(|| {
            let variants = variants::in_order(spec.variants, &self.hardware);
            Arc::new(ModelSpec { variants, ..spec })
        })
    }

    pub(super) fn cancel(&mut self, id: AskId, now: Now) {
        if let Some(index) = self.queue.iter().position(|waiting| waiting.id == id) {
            self.queue.remove(index);
            let (reason, stats) = (FinishReason::Canceled, Stats::default());
            return self.end(id, Outcome::Finished { reason, stats });
        }
        let runs = |model: &super::Model| model.job().is_some_and(|job| job.ask == id);
        if let Some(index) = self.models.iter().position(runs) {
            self.stop_job(index, FinishReason::Canceled, now);
        }
    }

    /// Ends those waiting asks that `which` picks.
    pub(super) fn fail_queued(&mut self, which: impl Fn(&Waiting) -> bool, error: &AskError) {
        let (failed, kept): (VecDeque<_>, _) = self.queue.drain(..).partition(which);
        self.queue = kept;
        for waiting in failed {
            let error = error.clone();
            self.end(waiting.id, Outcome::Failed { error });
        }
    }

    /// Keeps the time of those whom the machine holds back, and ends those who waited too long.
    pub(super) fn hold(&mut self, now: Now) {
        let Some(because) = self.held() else {
            for waiting in &mut self.queue {
                waiting.held_since = None;
            }
            return;
        };
        // Of the machine people do not know how long it lasts; a pause is their own to end.
        let has_limit = because != Because::Paused;
        for waiting in &mut self.queue {
            let since = waiting.held_since.unwrap_or(now);
            waiting.held_since = has_limit.then_some(since);
        }
        let retry_after = self.tuning.longest_hold.max(Duration::from_secs(1));
        let error = AskError::Held {
            because,
            retry_after,
        };
        let longest = self.tuning.longest_hold;
        self.fail_queued(|waiting| waiting.waited_enough(longest, now), &error);
    }

    pub(super) fn held_until(&self, waiting: &Waiting) -> Option<Now> {
        Some(waiting.held_since? + self.tuning.longest_hold)
    }

    /// Why no ask may begin now.
    pub(super) fn held(&self) -> Option<Because> {
        self.governor.allowance().held
    }

    /// Ends the asks that only wanted a model loaded which is loaded.
    pub(super) fn answer_loads(&mut self, now: Now) {
        let mut index = 0;
        while let Some(waiting) = self.queue.get(index) {
            let loaded = self
                .loaded(&waiting.spec)
                .filter(|_| waiting.work == Work::Load);
            let Some(model) = loaded else {
                index += 1;
                continue;
            };
            let id = waiting.id;
            self.queue.remove(index);
            self.models[model].used_at = now;
            self.models[model].finished_something = true;
            self.strikes.clear(&self.models[model].spec);
            if let Some(info) = self.models[model].info.clone() {
                self.end(id, Outcome::Loaded { info });
            }
        }
    }

    fn loaded(&self, spec: &ModelSpec) -> Option<usize> {
        let is_it = |model: &super::Model| model.is_loaded() && model.serves(spec);
        self.models.iter().position(is_it)
    }

    /// Tells every waiting ask what changed for it.
    pub(super) fn tell_queue(&mut self) {
        let n_before = self.n_running();
        let held = self.held();
        for index in 0..self.queue.len() {
            let waiting = &self.queue[index];
            let is_served = index + n_before == 0 && held.is_none();
            let news = match self.models.iter().find(|model| model.is_incoming()) {
                Some(model) if is_served && model.serves(&waiting.spec) => {
                    Told::Loading(match model.phase {
                        Phase::Loading { progress } => progress,
                        Phase::Measuring
                        | Phase::WaitingForRoom { .. }
                        | Phase::Ready
                        | Phase::Generating(_)
                        | Phase::Unloading(_) => None,
                    })
                }
                Some(_) | None => Told::Queued(index + n_before, held),
            };
            if news != waiting.told {
                let event = news.event();
                self.effects.push(Effect::Tell(waiting.id, event));
                self.queue[index].told = news;
            }
        }
    }

    pub(super) fn end(&mut self, id: AskId, outcome: Outcome) {
        let event = AnswerEvent::Ended { outcome };
        self.effects.push(Effect::Tell(id, event));
    }
}

impl Waiting {
    fn waited_enough(&self, longest: Duration, now: Now) -> bool {
        match self.when_held {
            WhenHeld::Refuse => true,
            WhenHeld::Wait => self.held_since.is_some_and(|since| since + longest <= now),
        }
    }
}

impl Told {
    fn event(&self) -> AnswerEvent {
        match self {
            Self::Nothing => AnswerEvent::Loading { progress: None },
            Self::Queued(position, held) => AnswerEvent::Queued {
                position: *position,
                held: *held,
            },
            Self::Loading(progress) => AnswerEvent::Loading {
                progress: *progress,
            },
        }
    }
}
