//! Reports of workers: what each means in each phase.
//!
//! Rule: a report that is impossible in a phase means that the worker is broken; it is killed and
//! the error is reported. A report that may be late, because it crossed one of our commands, is
//! ignored.

use transom_engine::{MemoryUse, ModelInfo};
use transom_engine_host::wire::{LoadFootprint, Report};
use transom_engine_host::{WorkerEnd, WorkerReport};

use super::model::UnloadStep;
use super::{Core, Effect, Phase, WorkerId};
use crate::request::{RequestError, RequestId};
use crate::response::Outcome;
use crate::status::UnloadReason;

use Phase as P;
use Report as R;

impl Core {
    pub(super) fn handle_report(&mut self, worker: WorkerId, report: WorkerReport) {
        let is_it = |model: &super::Model| model.worker == worker;
        let Some(index) = self.models.iter().position(is_it) else {
            return;
        };
        match report {
            WorkerReport::Message(report) => self.handle_message(index, report),
            WorkerReport::Stuck { process_id, end } => self.process_stuck(index, process_id, end),
            WorkerReport::Exited(end) if self.models[index].is_unloading() => {
                self.process_gone(index, &end);
            }
            // The process ended without being told to. Queued requests get a new worker.
            WorkerReport::Exited(end) => {
                self.fail_jobs_of_dead_worker(index, end);
                self.models.remove(index);
            }
        }
    }

    fn handle_message(&mut self, index: usize, report: Report) {
        let model = &mut self.models[index];
        match (&mut model.phase, report) {
            (P::Measuring, R::Measured { result: Ok(need) }) => {
                let need = match model.source() {
                    Some(source) => model.spec.corrected(&source.path, need),
                    None => need,
                };
                model.need = Some(need);
                model.phase = P::WaitingForRoom { need };
            }
            (P::Measuring, R::Measured { result: Err(error) })
            | (P::Loading { .. }, R::LoadFailed { error }) => self.load_failed(index, error),
            (P::Loading { progress }, R::LoadProgress { progress: update }) => {
                *progress = Some(update);
            }
            (
                P::Loading { .. },
                R::Loaded {
                    info,
                    memory,
                    footprint,
                    saved_tokens,
                },
            ) => {
                model.saved_tokens = saved_tokens;
                self.load_succeeded(index, info, memory, footprint);
            }
            (P::Generating(running), R::JobEnded { job, result })
                if running.has(RequestId(job.0)) =>
            {
                self.job_ended(index, RequestId(job.0), result);
            }
            (P::Ready | P::Generating(_), R::Trimmed { memory, .. }) => model.memory = Some(memory),
            // The reply to a command that was sent during a load.
            (P::Measuring | P::WaitingForRoom { .. } | P::Loading { .. }, R::Trimmed { .. }) => {}
            (P::Ready | P::Generating(_), R::Broken { error }) => self.model_broke(index, error),
            (P::Ready | P::Generating(_), R::Footprint { bytes, memory }) => {
                model.set_process_bytes(bytes);
                model.memory = Some(memory);
            }
            (P::Unloading(unloading), report) => {
                let step = unloading.step;
                self.handle_unloading_message(index, step, report);
            }
            (_, report) => self.protocol_violation(index, &report),
        }
    }

    fn handle_unloading_message(&mut self, index: usize, step: UnloadStep, report: Report) {
        use UnloadStep as S;
        match (step, report) {
            (S::StoppingLoad, R::Loaded { footprint, .. }) => {
                let model = &mut self.models[index];
                model.footprint = footprint;
                self.effects.push(Effect::Unload(model.worker, None));
                self.set_unload_step(index, UnloadReason::LoadEnded, UnloadStep::Freeing);
            }
            (S::StoppingLoad, R::LoadFailed { .. }) => self.release(index, UnloadReason::LoadEnded),
            (S::Freeing, R::Unloaded { footprint }) => self.model_freed(index, footprint),
            // Late: progress of a load that is stopping, a trim, a measurement that is no longer
            // needed.
            (S::Killed | S::Stuck { .. }, _)
            | (S::StoppingLoad, R::LoadProgress { .. } | R::Footprint { .. } | R::Trimmed { .. })
            | (
                S::Freeing | S::Exiting,
                R::Trimmed { .. } | R::Broken { .. } | R::Footprint { .. },
            )
            | (S::Exiting, R::Measured { .. }) => {}
            (_, report) => self.protocol_violation(index, &report),
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
    }

    /// Fails the jobs of a worker that ended without being told to, and records the crash.
    pub(super) fn fail_jobs_of_dead_worker(&mut self, index: usize, end: WorkerEnd) {
        let during = self.models[index].activity().to_owned();
        let error = RequestError::WorkerGone { end, during };
        self.fail_jobs(index, &error);
        self.record_crash(index, &error);
    }

    /// Handles an impossible report: kills the worker and fails its jobs.
    fn protocol_violation(&mut self, index: usize, report: &Report) {
        let model = &self.models[index];
        let during = model.activity().to_owned();
        let was_unloading = model.is_unloading();
        let reason = format!("`{}`", name_of(report));
        let end = WorkerEnd::Protocol { reason };
        let error = RequestError::WorkerGone { end, during };
        self.fail_jobs(index, &error);
        self.last_error = Some(format!("{}: {error}", self.models[index].spec.name));
        if !was_unloading {
            self.record_crash(index, &error);
        }
        self.kill(index, UnloadReason::Fault);
    }

    pub(super) fn fail_jobs(&mut self, index: usize, error: &RequestError) {
        let jobs = self.models[index].jobs().iter();
        let ids: Vec<RequestId> = jobs.map(|job| job.request_id).collect();
        for id in ids {
            let error = error.clone();
            self.end_request(id, Outcome::Failed { error });
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

/// Returns the name of a report without its contents, for the error message about a protocol
/// violation.
fn name_of(report: &Report) -> String {
    let report = serde_json::to_value(report).unwrap_or_default();
    let name = report["report"].as_str().unwrap_or("unknown");
    name.replace('_', " ")
}
