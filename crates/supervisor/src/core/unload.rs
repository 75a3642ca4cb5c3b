//! Verified unloading: drop the model, measure the process, let it exit; kill it if necessary.
//!
//! Rule: an unload starts only when no job of the model runs and is complete only when the process is gone.

use std::time::Duration;

use transom_engine::{ConversationId, FinishReason};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::{Command, UnloadFootprint};
use transom_signals::MemoryPressure;

use super::model::{UnloadStep, Unloading};
use super::{Core, Effect, MAX_SAVED_STATE_BYTES, Model, Phase, Timestamp, WorkerId};
use crate::request::{ModelRole, ModelSelector, RequestError};
use crate::saving::Forgotten;
use crate::status::{UnloadReason, UnloadRecord};

/// Bytes that libraries may keep until the process ends, whatever the size of the model: tables,
/// threads, allocator caches. llama.cpp keeps one or two megabytes, which is a tenth of a tiny
/// model.
const LIBRARY_RESIDUE_BYTES: u64 = 32 << 20;

/// Bytes per second that a slow disk writes, for the extra time that saving a state may take.
const SLOW_DISK_BYTES_PER_SECOND: u64 = 200_000_000;

/// Maximum extra time for saving a state, because other models wait for the memory.
const MAX_SAVE_TIME: Duration = Duration::from_secs(10);

/// Idle time after which a secondary model is unloaded while the chat model is kept loaded.
const SECONDARY_IDLE: Duration = Duration::from_secs(180);

impl Core {
    /// Returns the workers of the models that `which` selects, in any phase.
    pub(crate) fn workers_of(&self, which: &ModelSelector) -> Vec<WorkerId> {
        let selected = self
            .models
            .iter()
            .filter(|model| which.selects(&model.spec));
        selected.map(|model| model.worker).collect()
    }

    /// Returns the record of the unload of `worker`; `None` if another worker ended after it or its
    /// load had not started.
    pub(crate) fn unload_record_of(&self, worker: WorkerId) -> Option<&UnloadRecord> {
        let (last, record) = self.last_unload.as_ref()?;
        (*last == worker).then_some(record)
    }

    /// Unloads models on the user's request, and fails the requests queued for them.
    pub(super) fn unload_selected(&mut self, which: &ModelSelector) {
        let forgotten = Forgotten::Of(which.clone());
        self.effects.push(Effect::DeleteSavedStates(forgotten));
        self.fail_queued(
            |pending| which.selects(&pending.spec),
            &RequestError::Unloaded,
        );
        for index in 0..self.models.len() {
            if which.selects(&self.models[index].spec) {
                self.stop_and_unload(index, UnloadReason::Requested);
            }
        }
    }

    /// Deletes the saved KV caches of a conversation, or of all, and the KV caches of every loaded
    /// model. A worker that is generating drops its caches afterwards.
    pub(super) fn forget_conversations(&mut self, conversation: Option<ConversationId>) {
        let forgotten = conversation.map_or(Forgotten::ALL, Forgotten::Conversation);
        self.effects.push(Effect::DeleteSavedStates(forgotten));
        for index in 0..self.models.len() {
            match self.models[index].phase {
                Phase::Loading { .. } | Phase::Ready | Phase::Generating(_) => {
                    self.send_trim(index, Command::Forget { conversation });
                    let model = &mut self.models[index];
                    model.has_private_cache = false;
                    model.has_switched = false;
                    model.conversation = None;
                }
                // They have no KV cache, or are saving one that the effect above deletes.
                Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Unloading(_) => {}
            }
        }
    }

    /// Saves the KV caches of the ready model if its last requests switched to another conversation,
    /// unless another request waits or the model is about to be unloaded.
    pub(super) fn save_after_switch(&mut self, index: usize) {
        let is_calm = self.queue.is_empty() && !self.is_quitting && !self.governor.is_paused();
        if is_calm && self.models[index].has_switched {
            self.save_now(index);
        }
    }

    /// Saves the KV caches of the model, which generates no response, unless memory is short.
    pub(super) fn save_now(&mut self, index: usize) {
        let model = &mut self.models[index];
        if self.governor.restrictions().memory != MemoryPressure::Normal || model.is_broken {
            return;
        }
        model.has_switched = false;
        if let Some(bytes) = savable_bytes(model) {
            self.effects.push(Effect::Save(model.worker, bytes));
        }
    }

    /// Unloads `index`, stopping its jobs first if it has any.
    pub(super) fn stop_and_unload(&mut self, index: usize, why: UnloadReason) {
        self.stop_jobs(index, FinishReason::Canceled, |_| true);
        match &mut self.models[index].phase {
            Phase::Generating(running) => running.then_unload = Some(why),
            _ => self.begin_unload(index, why),
        }
    }

    /// Starts the unload of a model that has no job.
    pub(super) fn begin_unload(&mut self, index: usize, why: UnloadReason) {
        let worker = self.models[index].worker;
        match &mut self.models[index].phase {
            Phase::Measuring | Phase::WaitingForRoom { .. } => self.release(index, why),
            Phase::Loading { .. } => {
                let reason = match why {
                    UnloadReason::Pressure { .. } => FinishReason::Shed,
                    _ => FinishReason::Canceled,
                };
                let stop = Command::Stop { job: None, reason };
                self.effects.push(Effect::Send(worker, stop));
                self.set_unload_step(index, why, UnloadStep::StoppingLoad);
            }
            Phase::Ready => {
                let saved_bytes = saved_bytes(&self.models[index], why);
                self.effects.push(Effect::Unload(worker, saved_bytes));
                self.set_unload_step(index, why, UnloadStep::Freeing);
                if let Phase::Unloading(unloading) = &mut self.models[index].phase
                    && may_wait_for_save(why)
                {
                    unloading.kill_at += saved_bytes.map_or(Duration::ZERO, time_to_save);
                }
            }
            // The jobs end first.
            Phase::Generating(_) => {}
            Phase::Unloading(_) if may_wait_for_save(why) => {}
            // Takes back the extra time for saving the state. The unload itself continues.
            Phase::Unloading(unloading) => {
                let by = self.now + self.tuning.unload_timeout;
                unloading.kill_at = unloading.kill_at.min(by);
            }
        }
    }

    /// Releases a worker that has no model.
    pub(super) fn release(&mut self, index: usize, why: UnloadReason) {
        let worker = self.models[index].worker;
        self.effects.push(Effect::Release(worker));
        self.set_unload_step(index, why, UnloadStep::Exiting);
    }

    /// Kills the worker. Its job, if it has one, must have been ended before.
    pub(super) fn kill(&mut self, index: usize, why: UnloadReason) {
        let worker = self.models[index].worker;
        self.effects.push(Effect::Kill(worker));
        self.set_unload_step(index, why, UnloadStep::Killed);
    }

    /// Sets the step of an unload. The reason, start and deadline of the first step are kept.
    pub(super) fn set_unload_step(&mut self, index: usize, why: UnloadReason, step: UnloadStep) {
        let kill_at = self.now + self.tuning.unload_timeout;
        let reserved_bytes = self.models[index].reserved_bytes();
        match &mut self.models[index].phase {
            Phase::Unloading(unloading) => unloading.step = step,
            phase => {
                *phase = Phase::Unloading(Unloading {
                    why,
                    step,
                    since: self.now,
                    kill_at,
                    reserved_bytes,
                    freed_to_bytes: None,
                });
            }
        }
    }

    /// Handles that the model was dropped. A leak is freed with the process, but a process that
    /// keeps much of its memory is killed, because it may not exit cleanly either.
    pub(super) fn model_freed(&mut self, index: usize, footprint: Option<UnloadFootprint>) {
        let model = &mut self.models[index];
        if let (Phase::Unloading(unloading), Some(footprint)) = (&mut model.phase, footprint) {
            unloading.freed_to_bytes = Some(footprint.after_bytes);
            model.set_process_bytes(footprint.loaded_bytes);
        }
        match model.footprint_growth().zip(model.residual_bytes()) {
            Some((growth, left)) if left > (growth / 10).max(LIBRARY_RESIDUE_BYTES) => {
                self.kill(index, UnloadReason::LoadEnded);
            }
            // Without a footprint, the end of the process frees the memory in any case.
            _ => self.release(index, UnloadReason::LoadEnded),
        }
    }

    /// Handles that the process of an unloading model has ended and its memory is free.
    pub(super) fn process_gone(&mut self, index: usize, end: &WorkerEnd) {
        let model = self.models.remove(index);
        let Phase::Unloading(unloading) = &model.phase else {
            return;
        };
        if model.load_started.is_none() {
            return;
        }
        let exited_normally = unloading.step == UnloadStep::Exiting && *end == WorkerEnd::Requested;
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
            took: self.now.saturating_sub(unloading.since),
        };
        self.last_unload = Some((model.worker, record));
    }

    /// Returns when the ready model is unloaded for being idle; `None` while a request needs it.
    pub(super) fn idle_at(&self, model: &Model) -> Option<Timestamp> {
        if self.is_needed(model) {
            return None;
        }
        let allowed = self.governor.restrictions().idle_unload;
        let wait = match (model.keep_alive, model.spec.role) {
            (Some(keep_alive), _) => self.governor.idle_unload_with(keep_alive),
            (None, ModelRole::Chat) => allowed,
            // `keep_loaded` applies to the chat model only.
            (None, ModelRole::Embedder) => {
                let wait = self.tuning.idle_unload.unwrap_or(SECONDARY_IDLE);
                allowed.or(Some(wait))
            }
        };
        Some(model.last_used + wait?)
    }

    pub(super) fn is_idle(&self, model: &Model) -> bool {
        self.idle_at(model).is_some_and(|at| at <= self.now)
    }

    pub(super) fn is_needed(&self, model: &Model) -> bool {
        self.queue.iter().any(|pending| model.serves(&pending.spec))
    }

    /// Unloads models that were idle for too long, and kills workers that missed a deadline.
    pub(super) fn enforce_deadlines(&mut self) {
        for index in 0..self.models.len() {
            let model = &self.models[index];
            if self
                .deadline(model)
                .is_none_or(|deadline| deadline > self.now)
            {
                continue;
            }
            match &model.phase {
                Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. } => {}
                Phase::Ready => self.begin_unload(index, UnloadReason::Idle),
                Phase::Generating(_) => self.enforce_deadline_of_jobs(index),
                Phase::Unloading(_) => self.kill(index, UnloadReason::LoadEnded),
            }
        }
    }
}

/// Returns the size of the KV caches of the ready model if they are saved when the model is unloaded for
/// this reason.
fn saved_bytes(model: &Model, why: UnloadReason) -> Option<u64> {
    let may_save = may_wait_for_save(why) || why == UnloadReason::Quit;
    savable_bytes(model).filter(|_| may_save)
}

/// Returns the size of the KV caches of the model; `None` if there is nothing that may be saved.
fn savable_bytes(model: &Model) -> Option<u64> {
    let memory = model.memory.unwrap_or_default();
    let bytes = memory.kv_cache_bytes.saturating_add(memory.parked_bytes);
    let may_save = bytes > 0 && !model.has_private_cache;
    // The worker saves as many conversations as fit.
    may_save.then_some(bytes.min(MAX_SAVED_STATE_BYTES))
}

/// Returns the maximum extra time for saving a state of this size.
fn time_to_save(bytes: u64) -> Duration {
    let time = Duration::from_secs_f64(bytes as f64 / SLOW_DISK_BYTES_PER_SECOND as f64);
    time.min(MAX_SAVE_TIME)
}

/// Returns true if the user is likely to continue the conversation, and neither the memory is needed
/// at once nor does the program end. A program that ends saves what it can in the time of an unload.
fn may_wait_for_save(why: UnloadReason) -> bool {
    match why {
        UnloadReason::Idle
        | UnloadReason::MakeRoom
        | UnloadReason::Replaced
        | UnloadReason::Paused => true,
        UnloadReason::Pressure { .. }
        | UnloadReason::Requested
        | UnloadReason::LoadEnded
        | UnloadReason::Fault
        | UnloadReason::Quit => false,
    }
}
