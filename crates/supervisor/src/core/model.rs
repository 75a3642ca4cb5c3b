//! One model and what it is doing: the state of its worker, as far as decisions need it.
//!
//! Rule: a model's memory counts from [`Model::load_began`] until its entry is gone, and its entry
//! goes only with its process.

use std::sync::Arc;
use std::time::Duration;

use transom_engine::{
    FinishReason, KvCacheChoice, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo,
    ModelSource,
};
use transom_engine_host::wire::{LoadFootprint, UnloadFootprint};

use super::{Now, WorkerId};
use crate::request::{AskId, ModelSpec};
use crate::status::{PassedOver, UnloadReason};

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) worker: WorkerId,
    pub(super) spec: Arc<ModelSpec>,
    /// Which of the spec's variants is tried, or loaded.
    pub(super) variant: usize,
    pub(super) limits: Limits,
    pub(super) phase: Phase,
    /// Known once measured.
    pub(super) need: Option<MemoryNeed>,
    /// Set with [`super::Effect::Load`].
    pub(super) load_began: Option<Now>,
    /// A load of another variant failed, of which its process may still hold something.
    pub(super) has_failed_load: bool,
    pub(super) load_time: Option<Duration>,
    /// A person insisted, so it does not make room for a budget lowered later.
    pub(super) is_over_budget: bool,
    pub(super) info: Option<Box<ModelInfo>>,
    pub(super) memory: Option<MemoryUse>,
    pub(super) footprint: Option<LoadFootprint>,
    pub(super) restored_tokens: usize,
    /// The variants before this one, and why they do not run.
    pub(super) passed_over: Vec<PassedOver>,
    pub(super) used_at: Now,
    pub(super) n_answered: u64,
    /// Its worker did what somebody asked for, so its death is not the start of a series.
    pub(super) finished_something: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Files are read to learn what it needs.
    Measuring,
    /// Measured; others make room, or the machine allows no load now.
    WaitingForRoom {
        need: MemoryNeed,
    },
    Loading {
        progress: Option<LoadProgress>,
    },
    Ready,
    Generating(Job),
    Unloading(Unloading),
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) ask: AskId,
    /// It was told to stop, and why; the first reason stands.
    pub(super) stop: Option<FinishReason>,
    /// Critical memory pressure gives it until then.
    pub(super) finish_by: Option<Now>,
    /// The program ends: if it has not settled by then, its worker is killed.
    pub(super) settle_by: Option<Now>,
    /// Its model goes when it has settled.
    pub(super) then_unload: Option<UnloadReason>,
}

impl Job {
    pub(super) fn new(ask: AskId) -> Self {
        Self {
            ask,
            stop: None,
            finish_by: None,
            settle_by: None,
            then_unload: None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Now> {
        let finish_by = self.finish_by.filter(|_| self.stop.is_none());
        finish_by.into_iter().chain(self.settle_by).min()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Unloading {
    pub(super) why: UnloadReason,
    pub(super) step: UnloadStep,
    pub(super) since: Now,
    /// Killed if its process is still there.
    pub(super) kill_at: Now,
    pub(super) freed: Option<UnloadFootprint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnloadStep {
    /// Its load was told to stop.
    EndingLoad,
    /// The model is dropped, and measured.
    Freeing,
    /// Let go; the process ends.
    Leaving,
    /// Killed; the process ends.
    Killed,
}

impl Unloading {
    pub(super) fn deadline(&self) -> Option<Now> {
        match self.step {
            UnloadStep::EndingLoad | UnloadStep::Freeing | UnloadStep::Leaving => {
                Some(self.kill_at)
            }
            UnloadStep::Killed => None,
        }
    }
}

impl Model {
    pub(super) fn new(worker: WorkerId, spec: Arc<ModelSpec>, limits: Limits, now: Now) -> Self {
        Self {
            worker,
            spec,
            variant: 0,
            limits,
            phase: Phase::Measuring,
            need: None,
            load_began: None,
            has_failed_load: false,
            load_time: None,
            is_over_budget: false,
            info: None,
            memory: None,
            footprint: None,
            restored_tokens: 0,
            passed_over: Vec::new(),
            used_at: now,
            n_answered: 0,
            finished_something: false,
        }
    }

    /// Whether an ask for `spec` may be answered by this one, as it is loaded or is being loaded: it
    /// is the same model, and has all that `spec` does not leave open.
    pub(super) fn serves(&self, spec: &ModelSpec) -> bool {
        if *self.spec == *spec {
            return true;
        }
        let has_context = spec.context_length.is_none_or(|wanted| {
            self.context_of(wanted) == self.context_of(self.limits.context_length)
        });
        let has_cache = match spec.kv_cache {
            KvCacheChoice::Automatic => true,
            chosen @ (KvCacheChoice::Full | KvCacheChoice::Small) => self.limits.kv_cache == chosen,
        };
        has_context && has_cache && self.spec.is_same_model(spec)
    }

    /// The context that it has if it is loaded for `n` tokens: its own is the most, once known.
    fn context_of(&self, n: usize) -> usize {
        let of_model = self.need.map(|need| need.context_length);
        let own = of_model.filter(|own| *own < self.limits.context_length);
        own.map_or(n, |own| n.min(own))
    }

    pub(super) fn source(&self) -> Option<&ModelSource> {
        self.spec.variants.get(self.variant)
    }

    /// On its way to be loaded. There is at most one such model.
    pub(super) fn is_incoming(&self) -> bool {
        match self.phase {
            Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. } => true,
            Phase::Ready | Phase::Generating(_) | Phase::Unloading(_) => false,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    pub(super) fn is_unloading(&self) -> bool {
        matches!(self.phase, Phase::Unloading(_))
    }

    pub(super) fn job(&self) -> Option<&Job> {
        match &self.phase {
            Phase::Generating(job) => Some(job),
            Phase::Measuring
            | Phase::WaitingForRoom { .. }
            | Phase::Loading { .. }
            | Phase::Ready
            | Phase::Unloading(_) => None,
        }
    }

    /// Loaded, and staying so.
    pub(super) fn is_loaded(&self) -> bool {
        match &self.phase {
            Phase::Ready => true,
            Phase::Generating(job) => job.then_unload.is_none(),
            Phase::Measuring
            | Phase::WaitingForRoom { .. }
            | Phase::Loading { .. }
            | Phase::Unloading(_) => false,
        }
    }

    /// Bytes of the budget that it takes: all that it may come to need.
    pub(super) fn held_bytes(&self) -> u64 {
        match (self.load_began, &self.need) {
            (Some(_), Some(need)) => need.total_bytes(),
            (Some(_), None) | (None, _) => 0,
        }
    }

    /// Whether its process may hold memory of a model.
    pub(super) fn may_hold_memory(&self) -> bool {
        self.load_began.is_some() || self.has_failed_load
    }

    /// What it is doing, for messages.
    pub(super) fn doing(&self) -> &'static str {
        match self.phase {
            Phase::Measuring => "reading the model's files",
            Phase::WaitingForRoom { .. } => "waiting for room",
            Phase::Loading { .. } => "loading",
            Phase::Ready => "idle",
            Phase::Generating(_) => "answering",
            Phase::Unloading(_) => "unloading",
        }
    }
}
