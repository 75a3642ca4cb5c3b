//! Loading: estimate the memory, free enough of it, load; and what happens if that fails.
//!
//! Rule: only one model loads at a time. It loads only if it fits the budget and every model that
//! is being unloaded is gone.

use std::sync::Arc;

use transom_engine::{EngineError, KvCacheChoice, Limits, MemoryNeed, ModelSource};
use transom_engine_host::wire::Command;
use transom_fit::{MemoryFit, default_parked_bytes, memory_fit};
use transom_signals::MemoryPressure;

use super::model::Model;
use super::{Core, Effect, Phase, WorkerId};
use crate::budget::bytes_under;
use crate::request::{ModelSpec, PassedOver, RequestError};
use crate::status::UnloadReason;

impl Core {
    /// Starts a worker for `spec` and lets it estimate the memory that the model needs.
    pub(super) fn start_worker(&mut self, spec: Arc<ModelSpec>) {
        self.workers_started += 1;
        let worker = WorkerId(self.workers_started);
        let limits = self.limits(&spec, 0);
        self.effects.push(Effect::Start(worker));
        self.models.push(Model::new(worker, spec, limits, self.now));
        self.measure(self.models.len() - 1);
    }

    fn measure(&mut self, index: usize) {
        let model = &mut self.models[index];
        let Some(source) = model.source().cloned() else {
            return;
        };
        model.phase = Phase::Measuring;
        let limits = model.limits.clone();
        let effect = Effect::Send(model.worker, Command::Measure { source, limits });
        self.effects.push(effect);
    }

    /// Returns the limits for loading this variant of `spec`. A context length and KV cache chosen by
    /// the user are kept; defaults are lowered under memory pressure, there is no draft model, and only
    /// one conversation stays in memory.
    fn limits(&self, spec: &ModelSpec, variant: usize) -> Limits {
        let default = Limits::default();
        let restrictions = self.governor.restrictions();
        let is_short = restrictions.memory > MemoryPressure::Normal;
        let affordable = restrictions.context_length.filter(|_| is_short);
        let lowered = affordable.map_or(default.context_length, |n| n.min(default.context_length));
        let variant = spec.variants.get(variant).filter(|_| !is_short);
        Limits {
            context_length: spec
                .context_length
                .unwrap_or_else(|| lowered.max(spec.min_context_length.unwrap_or(0))),
            kv_cache: match spec.kv_cache {
                KvCacheChoice::Automatic if is_short => KvCacheChoice::Small,
                chosen => chosen,
            },
            parked_bytes: match is_short {
                true => 0,
                false => default_parked_bytes(self.hardware.memory_bytes),
            },
            draft: variant.and_then(|variant| spec.draft_for(variant).cloned()),
            ..default
        }
    }

    /// Moves the load of model `index` forward if possible. Returns true if anything changed.
    pub(super) fn make_room(&mut self, index: usize) -> bool {
        let model = &self.models[index];
        let Phase::WaitingForRoom { need } = model.phase else {
            return false;
        };
        let may_shrink = model.limits.kv_cache == KvCacheChoice::Automatic;
        let may_unpark = model.limits.parked_bytes > 0 && need.parked_bytes > 0;
        // The context lengths that the load may be lowered to.
        let may_lower_to = match model.spec.context_length {
            None => model.spec.min_context_length.unwrap_or(0)..model.limits.context_length,
            Some(_) => 0..0,
        };
        let in_use = self.committed_bytes();
        let evictable = self.evictable_bytes();
        let fit = |need: &MemoryNeed| memory_fit(self.budget_bytes(), need, in_use, evictable);
        let without_parked = MemoryNeed {
            parked_bytes: 0,
            ..need
        };
        let fits_without_parked = fit(&without_parked) == MemoryFit::Fits;
        let has_draft = model.limits.draft.is_some();
        match fit(&need) {
            MemoryFit::Fits => self.unload_replaced(index) || self.load_when_memory_is_free(index),
            MemoryFit::FitsAfterEviction if self.unload_replaced(index) => true,
            // The draft model is given up first: without it, responses are the same.
            MemoryFit::FitsAfterEviction
            | MemoryFit::FitsWithContext(_)
            | MemoryFit::DoesNotFit { .. }
                if has_draft =>
            {
                self.models[index].limits.draft = None;
                self.measure(index);
                true
            }
            // Other conversations are given up before a loaded model and before anything else that the
            // model could do without.
            MemoryFit::FitsAfterEviction if may_unpark && fits_without_parked => {
                self.load_one_conversation(index)
            }
            MemoryFit::FitsWithContext(_) | MemoryFit::DoesNotFit { .. } if may_unpark => {
                self.load_one_conversation(index)
            }
            MemoryFit::FitsAfterEviction => match self.next_to_evict(&without_parked) {
                Some(oldest) => {
                    self.begin_unload(oldest, UnloadReason::MakeRoom);
                    true
                }
                None => self.refuse_too_large(index, need, None),
            },
            // A small KV cache is tried before other models are unloaded. It is tried once per
            // load: if the engine has none, it reports the same need again and the other cases
            // apply.
            MemoryFit::FitsWithContext(_) | MemoryFit::DoesNotFit { .. } if may_shrink => {
                self.models[index].limits.kv_cache = KvCacheChoice::Small;
                self.measure(index);
                true
            }
            MemoryFit::FitsWithContext(n) if may_lower_to.contains(&n) => {
                self.models[index].limits.context_length = n;
                self.measure(index);
                true
            }
            MemoryFit::FitsWithContext(n) => self.refuse_too_large(index, need, Some(n)),
            MemoryFit::DoesNotFit { context_that_fits } => {
                self.refuse_too_large(index, need, context_that_fits)
            }
        }
    }

    /// Lets the loading model `index` keep only one conversation in memory, and estimates it again.
    fn load_one_conversation(&mut self, index: usize) -> bool {
        self.models[index].limits.parked_bytes = 0;
        self.measure(index);
        true
    }

    /// Unloads the ready model that the loading model `index`, which fits, replaces: the same model
    /// with other settings. Returns true if there was one.
    fn unload_replaced(&mut self, index: usize) -> bool {
        let spec = self.models[index].spec.clone();
        let is_old = |model: &Model| model.is_ready() && model.spec.is_same_model(&spec);
        let Some(old) = self.models.iter().position(is_old) else {
            return false;
        };
        self.begin_unload(old, UnloadReason::Replaced);
        true
    }

    /// Fails the requests for a model that is too large for the budget, unless one of them has
    /// `over_budget`.
    fn refuse_too_large(
        &mut self,
        index: usize,
        need: MemoryNeed,
        context_that_fits: Option<usize>,
    ) -> bool {
        let spec = self.models[index].spec.clone();
        let insists = |pending: &super::PendingRequest| pending.over_budget && pending.spec == spec;
        if self.queue.iter().any(insists) {
            if let Some(oldest) = self.least_recently_used(|_| true) {
                self.begin_unload(oldest, UnloadReason::MakeRoom);
                return true;
            }
            self.models[index].is_over_budget = true;
            return self.load_when_memory_is_free(index);
        }
        let error = self
            .refused_by_stuck(&need)
            .unwrap_or(RequestError::TooLarge {
                name: spec.name.clone(),
                need,
                budget_bytes: self.budget_bytes(),
                in_use_bytes: self
                    .committed_bytes()
                    .saturating_sub(self.evictable_bytes()),
                context_that_fits,
            });
        self.abandon_load(index, error);
        true
    }

    /// Loads the model `index`, unless another one is still unloading: how much memory that one
    /// really used is known, and free, only when its process has ended. Processes that cannot be
    /// killed are not waited for.
    fn load_when_memory_is_free(&mut self, index: usize) -> bool {
        let holds = |model: &Model| {
            let may_hold_memory = model.load_started.is_some() || model.failed_load_bytes > 0;
            model.is_unloading() && may_hold_memory && !model.is_stuck()
        };
        if self.models.iter().any(holds) {
            return false;
        }
        let model = &mut self.models[index];
        let Some(source) = model.source().cloned() else {
            return false;
        };
        model.phase = Phase::Loading { progress: None };
        model.load_started = Some(self.now);
        let id = model.spec.id.clone();
        let effect = Effect::Load(model.worker, id, source, model.limits.clone());
        self.effects.push(effect);
        true
    }

    /// Handles that the files of `index` cannot be used: tries the next variant if that may help,
    /// otherwise fails all requests for the model, because each would fail in the same way.
    pub(super) fn load_failed(&mut self, index: usize, error: EngineError) {
        let model = &mut self.models[index];
        let Some(skipped) = model
            .source()
            .and_then(|source| try_next_variant(source, &error))
        else {
            return self.abandon_load(index, RequestError::Engine { source: error });
        };
        model.passed_over.push(skipped);
        if model.variant + 1 < model.spec.variants.len() {
            model.variant += 1;
            let need = model.need.take().filter(|_| model.load_started.is_some());
            let failed_bytes = need.map_or(0, |need| need.total_bytes());
            model.failed_load_bytes = model.failed_load_bytes.max(failed_bytes);
            model.load_started = None;
            model.is_over_budget = false;
            let (spec, variant) = (model.spec.clone(), model.variant);
            self.models[index].limits = self.limits(&spec, variant);
            self.measure(index);
        } else if model.passed_over.len() > 1 {
            let name = model.spec.name.clone();
            let variants = model.passed_over.clone();
            self.abandon_load(index, RequestError::NoVariantRuns { name, variants });
        } else {
            self.abandon_load(index, RequestError::Engine { source: error });
        }
    }

    fn abandon_load(&mut self, index: usize, error: RequestError) {
        let spec = self.models[index].spec.clone();
        self.last_error = Some(format!("{}: {error}", spec.name));
        self.fail_queued(|pending| pending.spec == spec, &error);
        self.release(index, UnloadReason::LoadEnded);
    }

    /// Returns the bytes of the budget used by models that are not being unloaded and by processes
    /// that cannot be killed.
    pub(super) fn committed_bytes(&self) -> u64 {
        let stuck = self.stuck_bytes();
        let staying = self.models.iter().filter(|model| !model.is_unloading());
        staying
            .map(Model::reserved_bytes)
            .fold(stuck, u64::saturating_add)
    }

    /// Returns the bytes that models may use together under the present memory pressure.
    pub(super) fn budget_bytes(&self) -> u64 {
        bytes_under(self.governor.restrictions().memory, &self.budget)
    }

    pub(super) fn evictable_bytes(&self) -> u64 {
        let ready = self.models.iter().filter(|model| model.is_ready());
        ready
            .map(Model::reserved_bytes)
            .fold(0, u64::saturating_add)
    }

    /// Returns the ready model to unload to make room for `need`. Prefers one that is large enough
    /// alone, so that no other has to be unloaded.
    fn next_to_evict(&self, need: &MemoryNeed) -> Option<usize> {
        let total = self.committed_bytes().saturating_add(need.total_bytes());
        let missing = total.saturating_sub(self.budget_bytes());
        self.least_recently_used(|model| model.reserved_bytes() >= missing)
            .or_else(|| self.least_recently_used(|_| true))
    }

    pub(super) fn least_recently_used(&self, may_go: impl Fn(&Model) -> bool) -> Option<usize> {
        let ready = self.models.iter().enumerate();
        ready
            .filter(|(_, model)| model.is_ready() && may_go(model))
            .min_by_key(|(_, model)| model.last_used)
            .map(|(index, _)| index)
    }
}

/// Returns why another variant is tried after this `error`: no engine supports this variant, or its
/// file does not exist (for example because it is not converted yet). Returns `None` if another
/// variant would only hide the problem: too little memory, or damaged or incomplete files.
fn try_next_variant(variant: &ModelSource, error: &EngineError) -> Option<PassedOver> {
    let reason = match error {
        EngineError::Unsupported { reason, .. } => reason.clone(),
        EngineError::NotFound { path, what, .. } if *path == variant.path => {
            format!("{what} not found")
        }
        _ => return None,
    };
    let path = variant.path.clone();
    Some(PassedOver { path, reason })
}
