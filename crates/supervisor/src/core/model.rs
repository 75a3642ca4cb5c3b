//! One model and its process: what is known of it, and what it is doing.

use transom_engine::{FinishReason, LoadProgress, MemoryNeed, MemoryUse, ModelInfo};
use transom_engine_host::wire::{LoadFootprint, UnloadFootprint};

use super::{Effect, Now, WorkerId};
use crate::governor::Tuning;
use crate::request::{AskId, ModelSpec};
use crate::status::UnloadReason;

/// A model that has a process.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) worker: WorkerId,
    pub(super) spec: ModelSpec,
    /// Which of the spec's variants is tried or loaded.
    pub(super) variant: usize,
    /// Loaded although it exceeds the budget.
    pub(super) is_over_budget: bool,
    pub(super) phase: Phase,
    /// What it needs; counts against the budget from the load until the process is gone.
    pub(super) need: Option<MemoryNeed>,
    pub(super) info: Option<Box<ModelInfo>>,
    pub(super) memory: Option<MemoryUse>,
    pub(super) footprint: Option<LoadFootprint>,
    pub(super) load_began: Now,
    pub(super) load_ended: Option<Now>,
    pub(super) last_used: Now,
    pub(super) n_answered: u64,
}

/// What a model is doing. A model that is not there has no entry, so there is no phase for failure.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// Its files are read to learn what it needs.
    Measuring,
    /// Others are being unloaded first.
    WaitingForRoom,
    /// Weights are read.
    Loading {
        /// How far.
        progress: Option<LoadProgress>,
    },
    /// It could answer at once.
    Ready,
    /// It answers.
    Generating {
        /// Which ask.
        ask: AskId,
        /// It was asked to end early, and why.
        stop: Option<FinishReason>,
        /// When it will be asked to.
        finish_by: Option<Now>,
        /// It will be unloaded when the job is over, and why.
        then: Option<UnloadReason>,
    },
    /// Its memory is being given back.
    Unloading(Unloading),
}

/// An unload under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unloading {
    pub(super) why: UnloadReason,
    pub(super) since: Now,
    /// When the process will be killed; `None` once it was.
    pub(super) deadline: Option<Now>,
    /// What freeing the model gave back.
    pub(super) freed: Option<UnloadFootprint>,
    /// The process was told to leave, so no command may follow.
    pub(super) is_ending: bool,
}

impl Model {
    /// Whether this ask's job is running in it.
    pub(super) fn runs(&self, id: AskId) -> bool {
        matches!(self.phase, Phase::Generating { ask, .. } if ask == id)
    }

    /// Bytes that it holds of the budget.
    pub(super) fn reserved_bytes(&self) -> u64 {
        match self.phase {
            Phase::Measuring | Phase::WaitingForRoom => 0,
            Phase::Loading { .. }
            | Phase::Ready
            | Phase::Generating { .. }
            | Phase::Unloading(_) => self.need.map_or(0, |need| need.total_bytes()),
        }
    }

    /// Whether a load is under way.
    pub(super) fn is_loading(&self) -> bool {
        match self.phase {
            Phase::Measuring | Phase::WaitingForRoom | Phase::Loading { .. } => true,
            Phase::Ready | Phase::Generating { .. } | Phase::Unloading(_) => false,
        }
    }

    /// Asks the running job to end. The first reason stands.
    pub(super) fn stop_job(&mut self, reason: FinishReason, effects: &mut Vec<Effect>) {
        if let Phase::Generating { ask, stop, .. } = &mut self.phase
            && stop.is_none()
        {
            *stop = Some(reason);
            effects.push(Effect::Stop(self.worker, Some(*ask), reason));
        }
    }

    /// Begins to unload, whatever it is doing; a running job is asked to end, and settles first.
    pub(super) fn unload(
        &mut self,
        why: UnloadReason,
        now: Now,
        tuning: &Tuning,
        effects: &mut Vec<Effect>,
    ) {
        let is_ending = match &mut self.phase {
            Phase::Generating { then, .. } => {
                *then = Some(why);
                self.stop_job(FinishReason::Cancelled, effects);
                return;
            }
            Phase::Unloading(_) => return,
            // There is no model in the process yet.
            Phase::Measuring | Phase::WaitingForRoom => {
                self.need = None;
                effects.push(Effect::Release(self.worker));
                true
            }
            Phase::Loading { .. } | Phase::Ready => {
                effects.push(Effect::Unload(self.worker));
                false
            }
        };
        self.phase = Phase::Unloading(Unloading {
            why,
            since: now,
            deadline: Some(now + tuning.unload_within),
            freed: None,
            is_ending,
        });
    }

    /// Kills the process: it broke a rule, or did not end in time.
    pub(super) fn kill(&mut self, why: UnloadReason, now: Now, effects: &mut Vec<Effect>) {
        effects.push(Effect::Kill(self.worker));
        let before = match &self.phase {
            Phase::Unloading(unloading) => Some(unloading.clone()),
            _ => None,
        };
        let (why, since, freed) = before.map_or((why, now, None), |unloading| {
            (unloading.why, unloading.since, unloading.freed)
        });
        self.phase = Phase::Unloading(Unloading {
            why,
            since,
            deadline: None,
            freed,
            is_ending: true,
        });
    }
}
