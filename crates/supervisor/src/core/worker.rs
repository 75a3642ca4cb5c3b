//! Events of workers: what each means in each phase.
//!
//! Rule: an event that is impossible in a phase means that the worker is broken; it is killed and
//! the error is reported. An event that may be late, because it crossed one of our commands, is
//! ignored.

use transom_engine::{MemoryUse, ModelInfo, Trim};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::LoadFootprint;

use super::model::UnloadStep;
use super::{Core, Effect, Phase, WorkerEvent, WorkerId};
use crate::request::RequestError;
use crate::response::Outcome;
use crate::status::UnloadReason;

use Phase as P;
use WorkerEvent as E;

impl Core {
    pub(super) fn handle_worker_event(&mut self, worker: WorkerId, event: WorkerEvent) {
        let is_it = |model: &super::Model| model.worker == worker;
        let Some(index) = self.models.iter().position(is_it) else {
            return;
        };
        let event_name = name_of(&event);
        let model = &mut self.models[index];
        match (&mut model.phase, event) {
            (P::Measuring, E::Measured(Ok(need))) => {
                let need = match model.source() {
                    Some(source) => model.spec.corrected(&source.path, need),
                    None => need,
                };
                model.need = Some(need);
                model.phase = P::WaitingForRoom { need };
            }
            (P::Measuring, E::Measured(Err(error))) => self.load_failed(index, error),
            (P::Loading { progress }, E::LoadProgress(update)) => *progress = Some(update),
            (
                P::Loading { .. },
                E::Loaded {
                    info,
                    memory,
                    footprint,
                    restored_tokens,
                },
            ) => {
                model.restored_tokens = restored_tokens;
                self.load_succeeded(index, info, memory, footprint);
            }
            (P::Loading { .. }, E::LoadFailed(error)) => self.load_failed(index, error),
            (P::Generating(job), E::JobEnded(request_id, result))
                if job.request_id == request_id =>
            {
                self.job_ended(index, request_id, result);
            }
            (P::Ready | P::Generating(_), E::Trimmed { memory, .. }) => model.memory = Some(memory),
            (P::Ready | P::Generating(_), E::Broken(error)) => self.model_broke(index, error),
            (P::Ready | P::Generating(_), E::Footprint(bytes)) => model.set_process_bytes(bytes),
            (_, E::Stuck { process_id, end }) => self.process_stuck(index, process_id, end),
            (P::Unloading(unloading), event) => {
                let step = unloading.step;
                self.handle_unloading_event(index, step, event);
            }
            (_, E::Gone(end)) => self.worker_died(index, end),
            _ => self.protocol_violation(index, event_name),
        }
    }

    fn handle_unloading_event(&mut self, index: usize, step: UnloadStep, event: WorkerEvent) {
        use UnloadStep as S;
        let event_name = name_of(&event);
        match (step, event) {
            (_, E::Gone(end)) => self.process_gone(index, &end),
            (S::StoppingLoad, E::Loaded { footprint, .. }) => {
                self.models[index].footprint = footprint;
                self.unload_after_load(index);
            }
            (S::StoppingLoad, E::LoadFailed(_)) => self.release(index, UnloadReason::LoadEnded),
            (S::Freeing, E::Unloaded(footprint)) => self.model_freed(index, footprint),
            // Late: progress of a load that is stopping, a trim, a measurement that is no longer
            // needed. `Stuck` is handled for every step in `handle_worker_event`.
            (S::Killed | S::Stuck { .. }, _)
            | (_, E::Stuck { .. })
            | (S::StoppingLoad, E::LoadProgress(_) | E::Footprint(_))
            | (S::Freeing | S::Exiting, E::Trimmed { .. } | E::Broken(_) | E::Footprint(_))
            | (S::Exiting, E::Measured(_)) => {}
            _ => self.protocol_violation(index, event_name),
        }
    }

    fn load_succeeded(
        &mut self,
        index: usize,
        info: Box<ModelInfo>,
        memory: MemoryUse,
        footprint: Option<LoadFootprint>,
    ) {
        let model = &mut self.models[index];
        model.phase = P::Ready;
        model.info = Some(info);
        model.memory = Some(memory);
        model.footprint = footprint;
        model.load_time = model
            .load_started
            .map(|began| self.now.saturating_sub(began));
        model.last_used = self.now;
        if std::mem::take(&mut model.clears_cache_when_loaded) {
            let trim = Effect::Trim(model.worker, Trim::Everything);
            self.effects.push(trim);
        }
    }

    /// Handles a worker that ended without being told to. Its job fails; queued requests get a new
    /// worker.
    fn worker_died(&mut self, index: usize, end: WorkerEnd) {
        self.fail_job_of_dead_worker(index, end);
        self.models.remove(index);
    }

    /// Fails the job of a worker that ended without being told to, and records the crash.
    pub(super) fn fail_job_of_dead_worker(&mut self, index: usize, end: WorkerEnd) {
        let during = self.models[index].activity().to_owned();
        let error = RequestError::WorkerGone { end, during };
        self.fail_job(index, &error);
        self.record_crash(index, &error);
    }

    /// Handles an impossible event: kills the worker and fails its job.
    fn protocol_violation(&mut self, index: usize, event_name: &'static str) {
        let model = &self.models[index];
        let during = model.activity().to_owned();
        let was_unloading = model.is_unloading();
        let reason = format!("`{event_name}`");
        let end = WorkerEnd::Protocol { reason };
        let error = RequestError::WorkerGone { end, during };
        self.fail_job(index, &error);
        self.last_error = Some(format!("{}: {error}", self.models[index].spec.name));
        if !was_unloading {
            self.record_crash(index, &error);
        }
        self.kill(index, UnloadReason::Fault);
    }

    pub(super) fn fail_job(&mut self, index: usize, error: &RequestError) {
        if let Some(job) = self.models[index].job() {
            let (request_id, error) = (job.request_id, error.clone());
            self.end_request(request_id, Outcome::Failed { error });
        }
    }

    /// Records that a worker failed. If two workers in a row fail without completing any work, the
    /// queued requests for the model fail instead of starting a third.
    pub(super) fn record_crash(&mut self, index: usize, error: &RequestError) {
        let model = &self.models[index];
        let spec = model.spec.clone();
        self.last_error = Some(format!("{}: {error}", spec.name));
        if !model.has_completed_work && self.crashes.record(&spec, self.now) {
            self.fail_queued(|pending| pending.spec == spec, error);
        }
    }
}

/// Returns the name of the event, for the error message about a protocol violation.
fn name_of(event: &WorkerEvent) -> &'static str {
    match event {
        E::Measured(_) => "measured",
        E::LoadProgress(_) => "load progress",
        E::Loaded { .. } => "loaded",
        E::LoadFailed(_) => "load failed",
        E::JobEnded(..) => "job ended",
        E::Trimmed { .. } => "trimmed",
        E::Broken(_) => "broken",
        E::Footprint(_) => "footprint",
        E::Unloaded(_) => "unloaded",
        E::Stuck { .. } => "stuck",
        E::Gone(_) => "gone",
    }
}
