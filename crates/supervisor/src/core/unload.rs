//! Unloading, verified: freed and measured, then the process ends; by force where it must.
//!
//! Rule: an unload is over when the process is gone, and begins only when no job runs.

use std::time::Duration;

use transom_engine::{FinishReason, Trim};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::UnloadFootprint;

use super::model::{UnloadStep, Unloading};
use super::{
    Core, Effect, MAX_SAVED_STATE_BYTES, Model, Phase, StateOnUnload, Timestamp, WorkerId,
};
use crate::request::{ModelSelector, RequestError, Role};
use crate::status::{UnloadReason, UnloadRecord};

/// Bytes that a library may keep until its process ends, whatever the model's size: tables, threads,
/// what its allocator holds. llama.cpp keeps one or two megabytes, which is a tenth of a tiny model.
const LIBRARY_RESIDUE_BYTES: u64 = 32 << 20;

/// Bytes a second that a slow disk takes, for the time that keeping a conversation may add to an
/// unload.
const SLOW_DISK_BYTES_PER_SECOND: u64 = 200_000_000;

/// Most time that it may add: others wait for the memory.
const MAX_SAVE_TIME: Duration = Duration::from_secs(10);

/// How long a secondary model stays unused while the chat model is kept for good.
const SECONDARY_IDLE: Duration = Duration::from_secs(180);

impl Core {
    /// The workers of the models that `which` means, in whatever phase.
    pub(crate) fn workers_of(&self, which: &ModelSelector) -> Vec<WorkerId> {
        let meant = self
            .models
            .iter()
            .filter(|model| which.selects(&model.spec));
        meant.map(|model| model.worker).collect()
    }

    /// What came back when `worker`, the last one gone, was unloaded; `None` where another went
    /// after it, or it had not begun to load.
    pub(crate) fn unload_record_of(&self, worker: WorkerId) -> Option<&UnloadRecord> {
        let (last, record) = self.last_unload.as_ref()?;
        (*last == worker).then_some(record)
    }

    /// A person wants memory back: also those who wait for the models are told so.
    pub(super) fn unload_selected(&mut self, which: &ModelSelector, now: Timestamp) {
        self.effects.push(Effect::DeleteSavedStates(which.clone()));
        self.fail_queued(
            |pending| which.selects(&pending.spec),
            &RequestError::Unloaded,
        );
        for index in 0..self.models.len() {
            if which.selects(&self.models[index].spec) {
                self.stop_and_unload(index, UnloadReason::Requested, now);
            }
        }
    }

    /// Removes every saved state, and the KV cache of every loaded model. A worker that is answering
    /// or loading drops its cache after that.
    pub(super) fn forget_conversations(&mut self) {
        self.effects
            .push(Effect::DeleteSavedStates(ModelSelector::All));
        for model in &mut self.models {
            match model.phase {
                Phase::Ready | Phase::Generating(_) => {
                    let trim = Effect::Trim(model.worker, Trim::Everything);
                    self.effects.push(trim);
                }
                Phase::Loading { .. } => model.clears_cache_when_loaded = true,
                // They hold none, or save one that the effect above removes.
                Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Unloading(_) => {}
            }
        }
    }

    /// Unloads `index`, ending its job first if it has one.
    pub(super) fn stop_and_unload(&mut self, index: usize, why: UnloadReason, now: Timestamp) {
        self.stop_job(index, FinishReason::Cancelled, now);
        match &mut self.models[index].phase {
            Phase::Generating(job) => job.then_unload = Some(why),
            Phase::Measuring
            | Phase::WaitingForRoom { .. }
            | Phase::Loading { .. }
            | Phase::Ready
            | Phase::Unloading(_) => self.begin_unload(index, why, now),
        }
    }

    /// Begins the unload of a model that has no job.
    pub(super) fn begin_unload(&mut self, index: usize, why: UnloadReason, now: Timestamp) {
        let worker = self.models[index].worker;
        match self.models[index].phase {
            Phase::Measuring | Phase::WaitingForRoom { .. } => self.release(index, why, now),
            Phase::Loading { .. } => {
                let reason = match why {
                    UnloadReason::Pressure { .. } => FinishReason::Shed,
                    UnloadReason::Idle
                    | UnloadReason::MakeRoom
                    | UnloadReason::Replaced
                    | UnloadReason::Paused
                    | UnloadReason::Requested
                    | UnloadReason::LoadEnded
                    | UnloadReason::Fault
                    | UnloadReason::Quit => FinishReason::Cancelled,
                };
                self.effects.push(Effect::Stop(worker, None, reason));
                self.set_unload_step(index, why, UnloadStep::StoppingLoad, now);
            }
            Phase::Ready => {
                let (state, time) = state_on_unload(&self.models[index], why);
                self.effects.push(Effect::Unload(worker, state));
                self.set_unload_step(index, why, UnloadStep::Freeing, now);
                self.extend_deadline(index, time);
            }
            // A job settles first.
            Phase::Generating(_) => {}
            Phase::Unloading(_) => self.shorten_deadline(index, why, now),
        }
    }

    fn extend_deadline(&mut self, index: usize, time: Duration) {
        if let Phase::Unloading(unloading) = &mut self.models[index].phase {
            unloading.kill_at += time;
        }
    }

    /// An unload that began goes on. But the time that was given for keeping the conversation is
    /// taken back when somebody needs the memory at once.
    fn shorten_deadline(&mut self, index: usize, why: UnloadReason, now: Timestamp) {
        let by = now + self.tuning.unload_timeout;
        let Phase::Unloading(unloading) = &mut self.models[index].phase else {
            return;
        };
        match why {
            UnloadReason::Idle
            | UnloadReason::MakeRoom
            | UnloadReason::Replaced
            | UnloadReason::Paused => {}
            UnloadReason::Pressure { .. }
            | UnloadReason::Requested
            | UnloadReason::LoadEnded
            | UnloadReason::Fault
            | UnloadReason::Quit => unloading.kill_at = unloading.kill_at.min(by),
        }
    }

    /// Lets a worker go that has no model.
    pub(super) fn release(&mut self, index: usize, why: UnloadReason, now: Timestamp) {
        let worker = self.models[index].worker;
        self.effects.push(Effect::Release(worker));
        self.set_unload_step(index, why, UnloadStep::Exiting, now);
    }

    /// Kills the worker; its job, if it has one, must have been ended.
    pub(super) fn kill(&mut self, index: usize, why: UnloadReason, now: Timestamp) {
        let worker = self.models[index].worker;
        self.effects.push(Effect::Kill(worker));
        self.set_unload_step(index, why, UnloadStep::Killed, now);
    }

    /// The next step of an unload; the first reason, time and deadline stand.
    pub(super) fn set_unload_step(
        &mut self,
        index: usize,
        why: UnloadReason,
        step: UnloadStep,
        now: Timestamp,
    ) {
        let kill_at = now + self.tuning.unload_timeout;
        match &mut self.models[index].phase {
            Phase::Unloading(unloading) => unloading.step = step,
            phase @ (Phase::Measuring
            | Phase::WaitingForRoom { .. }
            | Phase::Loading { .. }
            | Phase::Ready
            | Phase::Generating(_)) => {
                *phase = Phase::Unloading(Unloading {
                    why,
                    step,
                    since: now,
                    kill_at,
                    freed_to_bytes: None,
                });
            }
        }
    }

    /// The load that was to end had just succeeded.
    pub(super) fn unload_after_load(&mut self, index: usize, now: Timestamp) {
        let worker = self.models[index].worker;
        self.effects
            .push(Effect::Unload(worker, StateOnUnload::Discard));
        self.set_unload_step(index, UnloadReason::LoadEnded, UnloadStep::Freeing, now);
    }

    /// The model is dropped. What leaked goes with the process, but a process that keeps much of
    /// its memory is not trusted to end well either.
    pub(super) fn model_freed(
        &mut self,
        index: usize,
        footprint: Option<UnloadFootprint>,
        now: Timestamp,
    ) {
        let model = &mut self.models[index];
        model.freed(footprint);
        let is_freed = match (model.footprint_growth(), model.residual_bytes()) {
            (Some(growth), Some(left)) => left <= (growth / 10).max(LIBRARY_RESIDUE_BYTES),
            // The system does not tell; the end of the process is proof enough.
            (_, _) => true,
        };
        if is_freed {
            self.release(index, UnloadReason::LoadEnded, now);
        } else {
            self.kill(index, UnloadReason::LoadEnded, now);
        }
    }

    /// The process of an unloading model is gone: its memory is the system's again.
    pub(super) fn process_gone(&mut self, index: usize, end: &WorkerEnd, now: Timestamp) {
        let model = self.models.remove(index);
        let Phase::Unloading(unloading) = &model.phase else {
            return;
        };
        if model.load_started.is_none() {
            return;
        }
        let exited_normally = unloading.step == UnloadStep::Exiting && *end == WorkerEnd::AsTold;
        let held_bytes = model.process_held_bytes();
        let freed_bytes = held_bytes
            .zip(model.residual_bytes())
            .map(|(held, left)| held.saturating_sub(left));
        let record = UnloadRecord {
            name: model.spec.name.clone(),
            why: unloading.why,
            held_bytes,
            freed_bytes,
            by_force: !exited_normally,
            took: now.saturating_sub(unloading.since),
        };
        self.last_unload = Some((model.worker, record));
    }

    /// When `model`, which is ready, goes for want of use. Not while somebody waits for it.
    pub(super) fn idle_at(&self, model: &Model) -> Option<Timestamp> {
        if self.is_needed(model) {
            return None;
        }
        let allowed = self.governor.allowance().idle_unload;
        let wait = match model.spec.role {
            Role::Chat => allowed,
            // The wish to keep the model loaded is for the chat model.
            Role::Draft | Role::Embedder => {
                let wait = self.tuning.idle_unload.unwrap_or(SECONDARY_IDLE);
                allowed.or(Some(wait))
            }
        };
        Some(model.last_used + wait?)
    }

    /// Whether it goes now for want of use.
    pub(super) fn is_idle(&self, model: &Model, now: Timestamp) -> bool {
        self.idle_at(model).is_some_and(|at| at <= now)
    }

    /// Whether somebody waits for it.
    pub(super) fn is_needed(&self, model: &Model) -> bool {
        self.queue.iter().any(|pending| model.serves(&pending.spec))
    }

    /// Unloads what was not used for long, and kills what did not end in time.
    pub(super) fn enforce_deadlines(&mut self, now: Timestamp) {
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if self.deadline(model).is_none_or(|deadline| deadline > now) {
                continue;
            }
            match &model.phase {
                Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. } => {}
                Phase::Ready => self.begin_unload(index, UnloadReason::Idle, now),
                Phase::Generating(job) => match job.stop {
                    Some(_) => self.kill_job(index, now),
                    None => self.stop_job(index, FinishReason::Shed, now),
                },
                Phase::Unloading(_) => self.kill(index, UnloadReason::LoadEnded, now),
            }
        }
    }
}

/// Whether the conversation of `model`, which is ready, is kept when it is unloaded for this reason,
/// and the time that it takes at most.
///
/// It is kept when its user is likely to come back to it. Not when somebody wants it gone, or the
/// memory at once.
fn state_on_unload(model: &Model, why: UnloadReason) -> (StateOnUnload, Duration) {
    let bytes = model.memory.map_or(0, |memory| memory.kv_cache_bytes);
    match why {
        UnloadReason::Idle
        | UnloadReason::MakeRoom
        | UnloadReason::Replaced
        | UnloadReason::Paused
            if (1..=MAX_SAVED_STATE_BYTES).contains(&bytes) =>
        {
            let time = Duration::from_secs_f64(bytes as f64 / SLOW_DISK_BYTES_PER_SECOND as f64);
            (StateOnUnload::Save { bytes }, time.min(MAX_SAVE_TIME))
        }
        UnloadReason::Idle
        | UnloadReason::MakeRoom
        | UnloadReason::Replaced
        | UnloadReason::Paused
        | UnloadReason::Pressure { .. }
        | UnloadReason::Requested
        | UnloadReason::LoadEnded
        | UnloadReason::Fault
        | UnloadReason::Quit => (StateOnUnload::Discard, Duration::ZERO),
    }
}
