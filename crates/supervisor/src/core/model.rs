//! The state of one model and its worker, as far as the core's decisions need it.
//!
//! Rule: a model's memory counts from [`Model::load_started`] until its entry is removed, and the
//! entry is removed only when its process is gone.

use std::sync::Arc;
use std::time::Duration;

use transom_engine::{
    ConversationId, KvCacheChoice, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo,
    ModelSource,
};
use transom_engine_host::wire::LoadFootprint;

use super::{Timestamp, WorkerId};
use crate::request::{Class, ClientId, KeepAlive, ModelSpec, PassedOver, RequestId, Work};
use crate::status::UnloadReason;

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) worker: WorkerId,
    pub(super) spec: Arc<ModelSpec>,
    pub(super) variant: usize,
    pub(super) limits: Limits,
    pub(super) phase: Phase,
    /// Known once measured.
    pub(super) need: Option<MemoryNeed>,
    /// Set with [`super::Effect::Load`].
    pub(super) load_started: Option<Timestamp>,
    /// Bytes that failed loads of other variants reserved in the budget and that the process may
    /// still hold; 0 if there were none.
    pub(super) failed_load_bytes: u64,
    pub(super) load_time: Option<Duration>,
    /// The user chose to exceed the budget, so lowering the budget does not unload it.
    pub(super) is_over_budget: bool,
    pub(super) info: Option<Box<ModelInfo>>,
    pub(super) memory: Option<MemoryUse>,
    /// Footprint of its process before the load and now.
    pub(super) footprint: Option<LoadFootprint>,
    pub(super) saved_tokens: usize,
    /// The conversation of its last request, if it has an id.
    pub(super) conversation: Option<ConversationId>,
    /// A request switched to another conversation, and the KV caches were not saved since.
    pub(super) has_switched: bool,
    /// Its KV cache may contain a private conversation, so it is not saved.
    pub(super) has_private_cache: bool,
    /// The variants before this one, and why they do not run.
    pub(super) passed_over: Vec<PassedOver>,
    pub(super) last_used: Timestamp,
    /// The client of its last request, and the class of that request; `None` before the first.
    pub(super) last_user: Option<(ClientId, Class)>,
    /// What its last request asked for.
    pub(super) keep_alive: Option<KeepAlive>,
    pub(super) n_answered: u64,
    /// Its worker has completed a request, so a crash is not the first of a series.
    pub(super) has_completed_work: bool,
    /// Its engine panicked or its backend failed; it cannot generate any more.
    pub(super) is_broken: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Reading files to estimate the memory need.
    Measuring,
    /// Measured; waiting for other models to unload, or for requests to be unblocked.
    WaitingForRoom {
        need: MemoryNeed,
    },
    Loading {
        progress: Option<LoadProgress>,
    },
    Ready,
    Generating(Running),
    Unloading(Unloading),
}

/// The running jobs of a model.
#[derive(Debug, Clone)]
pub(super) struct Running {
    /// In the order in which they started; at least one.
    pub(super) jobs: Vec<Job>,
    /// Deadline that critical memory pressure sets.
    pub(super) finish_by: Option<Timestamp>,
    /// The worker trims or forgets its KV caches after these jobs. A further job would wait for that too,
    /// and could not be stopped before.
    pub(super) then_trims: bool,
    /// Reason to unload the model after all jobs have ended. No job starts then.
    pub(super) then_unload: Option<UnloadReason>,
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) request_id: RequestId,
    pub(super) client: ClientId,
    pub(super) class: Class,
    pub(super) kind: JobKind,
    /// When it started.
    pub(super) since: Timestamp,
    pub(super) stop: Option<Stop>,
}

/// What a job needs of its model, and whether others may run beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobKind {
    /// A response, with a KV cache of its own.
    Response,
    /// A response that is generated alone, so that it is reproducible.
    Reproducible,
    /// Embedded texts, which no other job waits for a part of.
    Embedding,
    /// Counted or converted tokens, which take no time and no memory.
    Count,
}

impl Running {
    pub(super) fn new(job: Job) -> Self {
        Self {
            jobs: vec![job],
            finish_by: None,
            then_trims: false,
            then_unload: None,
        }
    }

    /// Returns when a job is stopped, or the process killed if a stopped one has not ended.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let jobs = self.jobs.iter();
        let deadlines = jobs.filter_map(|job| match &job.stop {
            None => self.finish_by,
            Some(stop) => Some(stop.end_by),
        });
        deadlines.min()
    }

    /// Returns true if all jobs were told to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.jobs.iter().all(|job| job.stop.is_some())
    }

    pub(super) fn has(&self, id: RequestId) -> bool {
        self.jobs.iter().any(|job| job.request_id == id)
    }

    fn n_responses(&self) -> usize {
        let kinds = self.jobs.iter().map(|job| job.kind);
        let responses = kinds.filter(|kind| kind.has_kv_cache());
        responses.count()
    }
}

impl JobKind {
    pub(super) fn of(work: &Work) -> Self {
        match work {
            Work::Generate(request) if request.params.sampling.seed.is_some() => Self::Reproducible,
            Work::Generate(_) => Self::Response,
            Work::CountTokens(_) | Work::Tokenize(_) => Self::Count,
            // A load request is no job.
            Work::Embed(_) | Work::Load => Self::Embedding,
        }
    }

    pub(super) fn has_kv_cache(self) -> bool {
        matches!(self, Self::Response | Self::Reproducible)
    }
}

/// The stop of a job. Rule: every stop has a deadline.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    pub(super) since: Timestamp,
    /// The worker is killed if the job has not ended by then.
    pub(super) end_by: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct Unloading {
    pub(super) why: UnloadReason,
    pub(super) step: UnloadStep,
    pub(super) since: Timestamp,
    /// The process is killed if it still exists by then.
    pub(super) kill_at: Timestamp,
    /// See [`Model::reserved_bytes`]. The process may hold the KV caches of all jobs that it ran.
    pub(super) reserved_bytes: u64,
    /// Footprint of the process after dropping the model, in bytes.
    pub(super) freed_to_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnloadStep {
    /// The load was told to stop.
    StoppingLoad,
    /// The model is being dropped and the footprint measured.
    Freeing,
    /// Released; the process exits.
    Exiting,
    /// Killed; the process ends, or is reported as stuck.
    Killed,
    /// Killed, but the process does not end.
    Stuck { process_id: u32 },
}

impl Unloading {
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let is_killed = matches!(self.step, UnloadStep::Killed | UnloadStep::Stuck { .. });
        (!is_killed).then_some(self.kill_at)
    }
}

impl Model {
    pub(super) fn new(
        worker: WorkerId,
        spec: Arc<ModelSpec>,
        limits: Limits,
        now: Timestamp,
    ) -> Self {
        Self {
            worker,
            spec,
            variant: 0,
            limits,
            phase: Phase::Measuring,
            need: None,
            load_started: None,
            failed_load_bytes: 0,
            load_time: None,
            is_over_budget: false,
            info: None,
            memory: None,
            footprint: None,
            saved_tokens: 0,
            conversation: None,
            has_switched: false,
            has_private_cache: false,
            passed_over: Vec::new(),
            last_used: now,
            last_user: None,
            keep_alive: None,
            n_answered: 0,
            has_completed_work: false,
            is_broken: false,
        }
    }

    /// Records the conversation of its next request.
    pub(super) fn use_conversation(&mut self, conversation: Option<ConversationId>) {
        // A request without an id may continue any conversation.
        self.has_switched |= self.conversation.is_some() && self.conversation != conversation;
        self.conversation = conversation;
    }

    /// Returns true if a switch to another conversation keeps the current one in memory.
    pub(super) fn can_park(&self) -> bool {
        let memory = self.memory.unwrap_or_default();
        memory.kv_cache_bytes <= self.limits.parked_bytes
    }

    /// Returns true if this model, as it is loaded or being loaded, can serve a request for `spec`:
    /// it is the same model with at least the context length and exactly the kind of KV cache that
    /// `spec` chooses.
    pub(super) fn serves(&self, spec: &ModelSpec) -> bool {
        let has_context = spec.required_context().is_none_or(|requested| {
            self.context_of(requested) <= self.context_of(self.limits.context_length)
        });
        let has_cache = match spec.kv_cache {
            KvCacheChoice::Automatic => true,
            chosen @ (KvCacheChoice::Full | KvCacheChoice::Small) => self.limits.kv_cache == chosen,
        };
        has_context && has_cache && self.spec.is_same_model(spec)
    }

    /// Returns the context length that results from loading with `n` tokens: at most the model's
    /// own maximum, if known.
    fn context_of(&self, n: usize) -> usize {
        let of_model = self.need.map(|need| need.context_length);
        let own = of_model.filter(|own| *own < self.limits.context_length);
        own.map_or(n, |own| n.min(own))
    }

    pub(super) fn source(&self) -> Option<&ModelSource> {
        self.spec.variants.get(self.variant)
    }

    /// Returns true if the model is measured, waiting or loading. At most one model is.
    pub(super) fn is_incoming(&self) -> bool {
        matches!(
            self.phase,
            Phase::Measuring | Phase::WaitingForRoom { .. } | Phase::Loading { .. }
        )
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    pub(super) fn is_unloading(&self) -> bool {
        matches!(self.phase, Phase::Unloading(_))
    }

    pub(super) fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Generating(running) => Some(running),
            _ => None,
        }
    }

    /// Returns true if a response is being generated, which has a KV cache.
    pub(super) fn generates(&self) -> bool {
        self.jobs().iter().any(|job| job.kind.has_kv_cache())
    }

    /// Returns the running jobs.
    pub(super) fn jobs(&self) -> &[Job] {
        self.running().map_or(&[], |running| &running.jobs)
    }

    /// Returns true if the model is loaded and not about to be unloaded.
    pub(super) fn is_loaded(&self) -> bool {
        match &self.phase {
            Phase::Ready => true,
            Phase::Generating(running) => running.then_unload.is_none(),
            _ => false,
        }
    }

    /// Returns the bytes of the budget reserved for the model: the maximum that it may need for the
    /// responses that it generates, or that it generated when its unload began.
    pub(super) fn reserved_bytes(&self) -> u64 {
        if let Phase::Unloading(unloading) = &self.phase {
            return unloading.reserved_bytes;
        }
        let need = self.need.filter(|_| self.load_started.is_some());
        let n_further = self
            .running()
            .map_or(0, Running::n_responses)
            .saturating_sub(1);
        need.map_or(0, |need| {
            let further = need
                .further_response_bytes()
                .saturating_mul(n_further as u64);
            need.total_bytes().saturating_add(further)
        })
    }

    pub(super) fn set_process_bytes(&mut self, bytes: u64) {
        if let Some(footprint) = &mut self.footprint {
            footprint.loaded_bytes = bytes;
        }
    }

    /// Returns the growth of its process since before the load in bytes; `None` if the system does
    /// not report footprints. During an unload, the growth with the model still loaded.
    pub(super) fn footprint_growth(&self) -> Option<u64> {
        let LoadFootprint {
            before_bytes,
            loaded_bytes,
        } = self.footprint?;
        Some(loaded_bytes.saturating_sub(before_bytes))
    }

    /// Returns the growth that remained after dropping the model; `None` before that.
    pub(super) fn residual_bytes(&self) -> Option<u64> {
        let Phase::Unloading(unloading) = &self.phase else {
            return None;
        };
        let before_bytes = self.footprint?.before_bytes;
        Some(unloading.freed_to_bytes?.saturating_sub(before_bytes))
    }

    /// Returns the bytes that its process holds for the model: the growth of the process, or the
    /// engine's own count if that is larger, as with memory-mapped weights.
    pub(super) fn process_held_bytes(&self) -> Option<u64> {
        let by_engine = self.memory.map_or(0, |memory| memory.total_bytes());
        Some(self.footprint_growth()?.max(by_engine))
    }

    pub(super) fn activity(&self) -> &'static str {
        match &self.phase {
            Phase::Measuring => "reading the model's files",
            Phase::WaitingForRoom { .. } => "waiting for room",
            Phase::Loading { .. } => "loading",
            Phase::Ready => "idle",
            Phase::Generating(running) if running.is_stopping() => "stopping",
            Phase::Generating(_) => "generating",
            Phase::Unloading(_) => "unloading",
        }
    }
}
