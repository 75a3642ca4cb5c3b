//! What workers say: every pair of phase and event, written out.
//!
//! Rule: what cannot be means that the worker is broken; it is killed, and said so. What can come
//! late, because it crossed a command of ours, is ignored.

use transom_engine::MemoryUse;
use transom_engine::ModelInfo;
use transom_engine::Trim;
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::LoadFootprint;

use super::model::UnloadStep;
use super::{Core, Effect, Now, Phase, WorkerEvent, WorkerId};
use crate::answer::Outcome;
use crate::request::AskError;
use crate::status::UnloadReason;

use Phase as P;
use WorkerEvent as E;

impl Core {
    pub(super) fn hear(&mut self, worker: WorkerId, event: WorkerEvent, now: Now) {
        let is_it = |model: &super::Model| model.worker == worker;
        let Some(index) = self.models.iter().position(is_it) else {
            return;
        };
        let said = said(&event);
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
            (P::Measuring, E::Measured(Err(error))) => self.load_failed(index, error, now),
            (P::Loading { progress }, E::LoadProgress(news)) => *progress = Some(news),
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
                self.load_succeeded(index, info, memory, footprint, now);
            }
            (P::Loading { .. }, E::LoadFailed(error)) => self.load_failed(index, error, now),
            (P::Generating(job), E::JobEnded(ask, result)) => {
                if job.ask == ask {
                    self.job_ended(index, ask, result, now);
                } else {
                    self.fault(index, said, now);
                }
            }
            (P::Ready | P::Generating(_), E::Trimmed { memory, .. }) => model.memory = Some(memory),
            (P::Ready | P::Generating(_), E::Broken(error)) => self.broke(index, error, now),
            (P::Ready | P::Generating(_), E::Footprint(bytes)) => model.costs(bytes),
            (_, E::Stuck { process_id, end }) => self.stuck(index, process_id, end, now),
            (
                P::Measuring
                | P::WaitingForRoom { .. }
                | P::Loading { .. }
                | P::Ready
                | P::Generating(_),
                E::Gone(end),
            ) => self.died(index, end, now),
            (P::Unloading(unloading), event) => {
                let step = unloading.step;
                self.hear_unloading(index, step, event, now);
            }
            (
                P::Measuring,
                E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::JobEnded(..)
                | E::Trimmed { .. }
                | E::Broken(_)
                | E::Footprint(_)
                | E::Unloaded(_),
            )
            | (
                P::WaitingForRoom { .. },
                E::Measured(_)
                | E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::JobEnded(..)
                | E::Trimmed { .. }
                | E::Broken(_)
                | E::Footprint(_)
                | E::Unloaded(_),
            )
            | (
                P::Loading { .. },
                E::Measured(_)
                | E::JobEnded(..)
                | E::Trimmed { .. }
                | E::Broken(_)
                | E::Footprint(_)
                | E::Unloaded(_),
            )
            | (
                P::Ready,
                E::Measured(_)
                | E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::JobEnded(..)
                | E::Unloaded(_),
            )
            | (
                P::Generating(_),
                E::Measured(_)
                | E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::Unloaded(_),
            ) => self.fault(index, said, now),
        }
    }

    fn hear_unloading(&mut self, index: usize, step: UnloadStep, event: WorkerEvent, now: Now) {
        use UnloadStep as S;
        let said = said(&event);
        match (step, event) {
            (
                S::EndingLoad | S::Freeing | S::Leaving | S::Killed | S::Stuck { .. },
                E::Gone(end),
            ) => {
                self.unloaded(index, &end, now);
            }
            (S::EndingLoad, E::Loaded { footprint, .. }) => {
                self.models[index].footprint = footprint;
                self.unload_after_all(index, now);
            }
            (S::EndingLoad, E::LoadFailed(_)) => self.let_go(index, UnloadReason::LoadEnded, now),
            (S::Freeing, E::Unloaded(footprint)) => self.freed(index, footprint, now),
            // Late: a step of the load that ends, a trim, a measurement that nobody waits for.
            (S::EndingLoad, E::LoadProgress(_) | E::Footprint(_))
            | (S::Freeing, E::Trimmed { .. } | E::Broken(_) | E::Footprint(_))
            | (
                S::Leaving,
                E::Measured(_) | E::Trimmed { .. } | E::Broken(_) | E::Footprint(_),
            )
            | (
                S::Killed | S::Stuck { .. },
                E::Measured(_)
                | E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::JobEnded(..)
                | E::Trimmed { .. }
                | E::Broken(_)
                | E::Footprint(_)
                | E::Unloaded(_),
            )
            // Told to `hear`, whatever the step.
            | (_, E::Stuck { .. }) => {}
            (
                S::EndingLoad,
                E::Measured(_)
                | E::JobEnded(..)
                | E::Trimmed { .. }
                | E::Broken(_)
                | E::Unloaded(_),
            )
            | (
                S::Freeing,
                E::Measured(_)
                | E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::JobEnded(..),
            )
            | (
                S::Leaving,
                E::LoadProgress(_)
                | E::Loaded { .. }
                | E::LoadFailed(_)
                | E::JobEnded(..)
                | E::Unloaded(_),
            ) => self.fault(index, said, now),
        }
    }

    fn load_succeeded(
        &mut self,
        index: usize,
        info: Box<ModelInfo>,
        memory: MemoryUse,
        footprint: Option<LoadFootprint>,
        now: Now,
    ) {
        let model = &mut self.models[index];
        model.phase = P::Ready;
        model.info = Some(info);
        model.memory = Some(memory);
        model.footprint = footprint;
        model.load_time = model.load_began.map(|began| now.saturating_sub(began));
        model.used_at = now;
        if std::mem::take(&mut model.forgets_when_loaded) {
            let trim = Effect::Trim(model.worker, Trim::Everything);
            self.effects.push(trim);
        }
    }

    /// A worker is gone that was not told to go. Its job fails; whoever waits gets a new worker.
    fn died(&mut self, index: usize, end: WorkerEnd, now: Now) {
        self.fail_job_of_dead(index, end, now);
        self.models.remove(index);
    }

    /// A worker that was not told to go came to its `end`: its job fails, and its death counts.
    pub(super) fn fail_job_of_dead(&mut self, index: usize, end: WorkerEnd, now: Now) {
        let during = self.models[index].doing().to_owned();
        let error = AskError::WorkerGone { end, during };
        self.fail_job(index, &error);
        self.count_death(index, &error, now);
    }

    /// A worker sent what it must not send: nothing that it says is believed any more.
    fn fault(&mut self, index: usize, said: &'static str, now: Now) {
        let model = &self.models[index];
        let during = model.doing().to_owned();
        let was_unloading = model.is_unloading();
        let reason = format!("`{said}`");
        let end = WorkerEnd::Protocol { reason };
        let error = AskError::WorkerGone { end, during };
        self.fail_job(index, &error);
        self.last_error = Some(format!("{}: {error}", self.models[index].spec.name));
        if !was_unloading {
            self.count_death(index, &error, now);
        }
        self.kill(index, UnloadReason::Fault, now);
    }

    pub(super) fn fail_job(&mut self, index: usize, error: &AskError) {
        if let Some(job) = self.models[index].job() {
            let (ask, error) = (job.ask, error.clone());
            self.end(ask, Outcome::Failed { error });
        }
    }

    /// Two workers in a row that die with nothing finished are a pattern: who waits for the model
    /// is told, instead of a third being started.
    pub(super) fn count_death(&mut self, index: usize, error: &AskError, now: Now) {
        let model = &self.models[index];
        let spec = model.spec.clone();
        self.last_error = Some(format!("{}: {error}", spec.name));
        if !model.finished_something && self.strikes.count(&spec, now) {
            self.fail_queued(|waiting| waiting.spec == spec, error);
        }
    }
}

/// The event's name, for the message about a worker that spoke out of turn.
fn said(event: &WorkerEvent) -> &'static str {
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
