//! Jobs: how generating a response, embedding texts or counting tokens starts, is stopped, and
//! ends.
//!
//! Rule: only one job runs at a time over all models, and its model stays loaded until the job has
//! ended. If a job does not end in time after a stop, its process is killed.

use transom_engine::{EngineError, FinishReason, Truncation};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{Command, JobId, JobSummary, Request};

use super::model::{Job, Stop};
use super::{Core, Effect, Phase};
use crate::governor::Restrictions;
use crate::request::{RequestError, RequestId, Work};
use crate::response::Outcome;
use crate::status::UnloadReason;

impl Core {
    /// Returns the number of running jobs: 0 or 1.
    pub(super) fn n_running(&self) -> usize {
        let running = self.models.iter().filter(|model| model.job().is_some());
        running.count()
    }

    /// Starts the request at `position` in the queue on the ready model `index`.
    pub(super) fn generate(&mut self, index: usize, position: usize) {
        let Some(pending) = self.queue.remove(position) else {
            return;
        };
        let job = JobId(pending.id.0);
        let model = &mut self.models[index];
        let command = match pending.work {
            Work::Generate(request) => {
                let request = apply_limits(self.governor.restrictions(), request);
                model.use_conversation(request.params.conversation);
                if model.has_switched && !model.can_park() {
                    self.save_now(index);
                }
                self.models[index].has_private_cache |= request.params.is_private;
                Command::Generate { job, request }
            }
            Work::Embed(inputs) => Command::Embed { job, inputs },
            Work::CountTokens(prompt) => Command::Count { job, prompt },
            Work::Tokenize(input) => Command::Tokenize { job, input },
            Work::Load => {
                // Load requests are finished before the queue is served.
                self.queue.insert(position, pending);
                return;
            }
        };
        let served = &mut self.served_turns[pending.class as usize];
        *served = pending.turn.max(*served);
        for overtaken in self.queue.range_mut(..position) {
            overtaken.n_overtakes = overtaken.n_overtakes.saturating_add(1);
        }
        let model = &mut self.models[index];
        model.keep_alive = pending.keep_alive;
        model.last_user = Some((pending.client.clone(), pending.class));
        let running = Job::new(pending.id, pending.client, pending.class, self.now);
        model.phase = Phase::Generating(running);
        self.effects.push(Effect::Send(model.worker, command));
    }

    /// Stops the job of `index`, if it has one. The first reason is kept. If the memory is needed,
    /// the shorter deadline of an unload applies.
    pub(super) fn stop_job(&mut self, index: usize, reason: FinishReason) {
        let end_by = self.now + self.tuning.stop_timeout;
        let model = &mut self.models[index];
        let Phase::Generating(job) = &mut model.phase else {
            return;
        };
        if job.stop.is_none() {
            let since = self.now;
            job.stop = Some(Stop { since, end_by });
            let job = Some(JobId(job.request_id.0));
            let effect = Effect::Send(model.worker, Command::Stop { job, reason });
            self.effects.push(effect);
        }
        if reason == FinishReason::Shed {
            self.shorten_stop(index);
        }
    }

    /// Shortens the deadline of a stopped job of `index` to that of an unload.
    pub(super) fn shorten_stop(&mut self, index: usize) {
        let by = self.now + self.tuning.unload_timeout;
        if let Phase::Generating(job) = &mut self.models[index].phase
            && let Some(stop) = &mut job.stop
        {
            stop.end_by = stop.end_by.min(by);
        }
    }

    /// Kills the worker of `index`, whose job did not end after a stop. The queue continues.
    pub(super) fn kill_job(&mut self, index: usize) {
        let model = &self.models[index];
        let Some(job) = model.job() else {
            return;
        };
        let why = job.then_unload.unwrap_or(UnloadReason::Fault);
        let since = job.stop.as_ref().map_or(self.now, |stop| stop.since);
        let seconds = self.now.saturating_sub(since).as_secs();
        let gone = RequestError::WorkerGone {
            end: WorkerEnd::Unresponsive { seconds },
            during: model.activity().to_owned(),
        };
        self.last_error = Some(format!("{}: {gone}", model.spec.name));
        let error = match why {
            UnloadReason::Quit => RequestError::Quitting,
            _ => gone,
        };
        self.fail_job(index, &error);
        self.kill(index, why);
    }

    /// Handles that the model of `index` is unusable: unloads it after its job has ended.
    pub(super) fn model_broke(&mut self, index: usize, source: EngineError) {
        self.models[index].is_broken = true;
        self.record_crash(index, &RequestError::Engine { source });
        match &mut self.models[index].phase {
            Phase::Generating(job) => {
                job.then_unload.get_or_insert(UnloadReason::Fault);
            }
            _ => self.begin_unload(index, UnloadReason::Fault),
        }
    }

    pub(super) fn job_ended(
        &mut self,
        index: usize,
        request_id: RequestId,
        result: Result<JobSummary, EngineError>,
    ) {
        let model = &mut self.models[index];
        let then_unload = model.job().and_then(|job| job.then_unload);
        let time = model.job().map(|job| self.now.saturating_sub(job.since));
        model.phase = Phase::Ready;
        model.last_used = self.now;
        if !model.is_broken {
            model.has_completed_work = true;
            self.crashes.clear(&model.spec);
        }
        let outcome = match result {
            Ok(summary) => {
                model.n_answered += 1;
                model.memory = Some(summary.memory);
                Outcome::Finished {
                    reason: summary.reason,
                    stats: summary.stats,
                }
            }
            Err(mut source) => {
                if model.is_broken {
                    source = with_advice(source);
                } else {
                    let reason = without_prompt(&source);
                    self.last_error = Some(format!("{}: {reason}", model.spec.name));
                }
                let error = RequestError::Engine { source };
                Outcome::Failed { error }
            }
        };
        self.end_request(request_id, outcome);
        self.record_job_time(time.unwrap_or_default());
        match then_unload {
            Some(why) => self.begin_unload(index, why),
            None => self.save_after_switch(index),
        }
    }
}

/// Adds advice for the user to the error that made a model unusable.
fn with_advice(error: EngineError) -> EngineError {
    match error {
        EngineError::Backend { during, message } => EngineError::Backend {
            during,
            message: format!("{message}; the model is unloaded; ask again to reload it"),
        },
        other => other,
    }
}

/// Returns `error` as text for the status, which everybody can read. The message of a template may
/// quote the conversation, and that of a constraint its schema; they are left out.
fn without_prompt(error: &EngineError) -> String {
    match error {
        EngineError::Template { .. } => "the chat template refused the conversation".to_owned(),
        EngineError::InvalidConstraint { .. } => "the response can't be constrained".to_owned(),
        EngineError::ConstraintFailed { .. } => {
            "a response ended before it matched its constraint".to_owned()
        }
        EngineError::NotFound { .. }
        | EngineError::BadFile { .. }
        | EngineError::Unsupported { .. }
        | EngineError::EmptyPrompt
        | EngineError::PromptTooLong { .. }
        | EngineError::InvalidParameter { .. }
        | EngineError::OutOfMemory { .. }
        | EngineError::Canceled
        | EngineError::Backend { .. } => error.to_string(),
    }
}

fn apply_limits(restrictions: &Restrictions, mut request: Box<Request>) -> Box<Request> {
    let params = &mut request.params;
    params.max_tokens = min_limit(params.max_tokens, restrictions.max_tokens);
    params.prefill_chunk = min_limit(params.prefill_chunk, restrictions.prefill_chunk);
    params.speculate &= restrictions.speculation;
    if let Truncation::DropOldest { context_limit, .. } = &mut request.truncation {
        *context_limit = min_limit(*context_limit, restrictions.context_length);
    }
    request
}

fn min_limit(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}
