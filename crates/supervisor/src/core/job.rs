//! Jobs: how generating a response, embedding texts or counting tokens starts, is stopped, and
//! ends.
//!
//! Rule: jobs run on one model at a time, or on one and an embedding model, and a model stays loaded
//! until its jobs have ended. Which jobs run beside each other is in [`super::together`]. If a job does
//! not end in time after a stop, its process is killed.

use transom_engine::{EngineError, FinishReason, Truncation};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{Command, JobId, JobSummary, Request};
use transom_signals::MemoryPressure;

use super::model::{Job, JobKind, Running, Stop};
use super::{Core, Effect, Phase};
use crate::governor::Restrictions;
use crate::request::{RequestError, RequestId, Work};
use crate::response::Outcome;
use crate::status::UnloadReason;

/// How many times longer a canceled job may take to end while others go on. It ends after a step of one
/// of them, such as a part of a prompt on a busy CPU. The watchdog ends a process that hangs.
const STOP_BESIDE_OTHERS: u32 = 6;

impl Core {
    /// Returns the number of running jobs.
    pub(super) fn n_running(&self) -> usize {
        let running = self.models.iter().map(|model| model.jobs().len());
        running.sum()
    }

    /// Starts the request at `position` in the queue on model `index`, which is ready or takes another
    /// job.
    pub(super) fn generate(&mut self, index: usize, position: usize) {
        let Some(pending) = self.queue.remove(position) else {
            return;
        };
        let job = JobId(pending.id.0);
        let kind = JobKind::of(&pending.work);
        let model = &mut self.models[index];
        let command = match pending.work {
            Work::Generate(request) => {
                let request = apply_limits(self.governor.restrictions(), request);
                model.use_conversation(request.params.conversation);
                // A response beside others has a KV cache of its own, so it replaces none.
                if !model.generates() && model.has_switched && !model.can_park() {
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
        let job = Job {
            request_id: pending.id,
            client: pending.client,
            class: pending.class,
            kind,
            since: self.now,
            stop: None,
        };
        match &mut model.phase {
            Phase::Generating(running) => running.jobs.push(job),
            phase => *phase = Phase::Generating(Running::new(job)),
        }
        self.effects.push(Effect::Send(model.worker, command));
    }

    /// Stops those jobs of `index` that `which` selects. The first reason is kept. If the memory is
    /// needed, the shorter deadline of an unload applies.
    pub(super) fn stop_jobs(
        &mut self,
        index: usize,
        reason: FinishReason,
        which: impl Fn(&Job) -> bool,
    ) {
        let model = &mut self.models[index];
        let Phase::Generating(running) = &mut model.phase else {
            return;
        };
        let goes_on = |job: &Job| job.stop.is_none() && !which(job);
        let timeout = match running.jobs.iter().any(goes_on) {
            true => self.tuning.stop_timeout * STOP_BESIDE_OTHERS,
            false => self.tuning.stop_timeout,
        };
        let end_by = self.now + timeout;
        for job in running.jobs.iter_mut().filter(|job| which(job)) {
            if let Some(stop) = &mut job.stop {
                stop.end_by = stop.end_by.min(end_by);
                continue;
            }
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

    /// Shortens the deadlines of the stopped jobs of `index` to that of an unload.
    pub(super) fn shorten_stop(&mut self, index: usize) {
        let by = self.now + self.tuning.unload_timeout;
        if let Phase::Generating(running) = &mut self.models[index].phase {
            for stop in running.jobs.iter_mut().filter_map(|job| job.stop.as_mut()) {
                stop.end_by = stop.end_by.min(by);
            }
        }
    }

    /// Handles that a deadline of the jobs of `index` has passed: stops them, or kills the worker if a
    /// stopped one has not ended.
    pub(super) fn enforce_deadline_of_jobs(&mut self, index: usize) {
        let stops = self.models[index].jobs().iter();
        let mut stops = stops.filter_map(|job| job.stop.as_ref());
        match stops.find(|stop| stop.end_by <= self.now).cloned() {
            Some(missed) => self.kill_jobs(index, &missed),
            None => self.stop_jobs(index, FinishReason::Shed, |_| true),
        }
    }

    /// Kills the worker of `index`, one of whose jobs did not end after a stop. The queue continues.
    fn kill_jobs(&mut self, index: usize, missed: &Stop) {
        let model = &self.models[index];
        let Some(running) = model.running() else {
            return;
        };
        let why = running.then_unload.unwrap_or(UnloadReason::Fault);
        let seconds = self.now.saturating_sub(missed.since).as_secs();
        let gone = RequestError::WorkerGone {
            end: WorkerEnd::Unresponsive { seconds },
            during: "stopping".to_owned(),
        };
        self.last_error = Some(format!("{}: {gone}", model.spec.name));
        let error = match why {
            UnloadReason::Quit => RequestError::Quitting,
            _ => gone,
        };
        self.fail_jobs(index, &error);
        self.kill(index, why);
    }

    /// Handles that the model of `index` is unusable: unloads it after its jobs have ended.
    pub(super) fn model_broke(&mut self, index: usize, source: EngineError) {
        self.models[index].is_broken = true;
        self.record_crash(index, &RequestError::Engine { source });
        match &mut self.models[index].phase {
            Phase::Generating(running) => {
                running.then_unload.get_or_insert(UnloadReason::Fault);
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
        let Phase::Generating(running) = &mut model.phase else {
            return;
        };
        let ended = running
            .jobs
            .extract_if(.., |job| job.request_id == request_id);
        let time = ended.last().map(|job| self.now.saturating_sub(job.since));
        let is_last = running.jobs.is_empty();
        let then_unload = running.then_unload.filter(|_| is_last);
        if is_last {
            model.phase = Phase::Ready;
        }
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
            None if is_last => self.save_after_switch(index),
            None => {}
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
    params.read_ahead &= restrictions.speculation && restrictions.memory == MemoryPressure::Normal;
    if let Truncation::DropOldest { context_limit, .. } = &mut request.truncation {
        *context_limit = min_limit(*context_limit, restrictions.context_length);
    }
    request
}

fn min_limit(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}
