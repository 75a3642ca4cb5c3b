//! Jobs: how an answer begins, is stopped, and ends.
//!
//! Rule: one job runs at a time over all models, and its model stays until it has settled.

use transom_engine::{EngineError, FinishReason, Fit};
use transom_engine_host::wire::{JobSummary, Request};

use super::model::Job;
use super::{Core, Effect, Now, Phase};
use crate::answer::Outcome;
use crate::governor::Allowance;
use crate::request::{AskError, AskId, Work};

impl Core {
    /// Jobs that run: 0 or 1.
    pub(super) fn n_running(&self) -> usize {
        let running = self.models.iter().filter(|model| model.job().is_some());
        running.count()
    }

    /// The first of the queue gets its answer from the ready model `index`.
    pub(super) fn generate(&mut self, index: usize) {
        let Some(waiting) = self.queue.pop_front() else {
            return;
        };
        let Work::Generate(request) = waiting.work else {
            // Asks that only load are answered before the queue is served.
            self.queue.push_front(waiting);
            return;
        };
        let request = within(self.governor.allowance(), request);
        let model = &mut self.models[index];
        model.phase = Phase::Generating(Job::new(waiting.id));
        let effect = Effect::Generate(model.worker, waiting.id, request);
        self.effects.push(effect);
    }

    /// Has the job of `index`, if there is one, end early. The first reason stands.
    pub(super) fn stop_job(&mut self, index: usize, reason: FinishReason) {
        let model = &mut self.models[index];
        let Phase::Generating(job) = &mut model.phase else {
            return;
        };
        if job.stop.is_none() {
            job.stop = Some(reason);
            let effect = Effect::Stop(model.worker, Some(job.ask), reason);
            self.effects.push(effect);
        }
    }

    /// The job of `index` has settled.
    pub(super) fn job_ended(
        &mut self,
        index: usize,
        ask: AskId,
        result: Result<JobSummary, EngineError>,
        now: Now,
    ) {
        let model = &mut self.models[index];
        let then_unload = model.job().and_then(|job| job.then_unload);
        model.phase = Phase::Ready;
        model.used_at = now;
        model.finished_something = true;
        let outcome = match result {
            Ok(summary) => {
                model.n_answered += 1;
                model.memory = Some(summary.memory);
                Outcome::Finished {
                    reason: summary.reason,
                    stats: summary.stats,
                }
            }
            Err(source) => {
                self.last_error = Some(format!("{}: {source}", model.spec.name));
                Outcome::Failed {
                    error: AskError::Engine { source },
                }
            }
        };
        self.end(ask, outcome);
        if let Some(why) = then_unload {
            self.begin_unload(index, why, now);
        }
    }
}

/// The request as the machine allows it now.
fn within(allowance: &Allowance, mut request: Box<Request>) -> Box<Request> {
    let params = &mut request.params;
    params.max_tokens = least(params.max_tokens, allowance.max_tokens);
    params.prefill_chunk = least(params.prefill_chunk, allowance.prefill_chunk);
    params.speculate &= allowance.speculation;
    request.fit = match request.fit {
        Fit::Whole => Fit::Whole,
        Fit::DropOldest { room, affordable } => Fit::DropOldest {
            room,
            affordable: least(affordable, allowance.context_length),
        },
    };
    request
}

fn least(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}
