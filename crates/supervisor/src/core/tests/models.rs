//! The models of the tests: their sizes, and the events of their workers.
//!
//! The budget is 6 GB. `chat` and `other` take 4 GB each, `embed` takes 1 GB: `embed` fits next to
//! either, the two chat models do not fit together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use transom_engine::{
    KvCacheChoice, Limits, MemoryNeed, MemoryUse, ModelInfo, ModelSource, SamplingParams,
};
use transom_engine_host::WorkerReport::{self, Message};
use transom_engine_host::wire::{Command, LoadFootprint, Report};
use transom_signals::Hardware;

use crate::core::{Effect, WorkerId};
use crate::governor::Tuning;
use crate::request::{Correction, ModelRole, ModelSpec};

pub(super) const GB: u64 = 1_000_000_000;

/// KV cache of one token in bytes.
const KV_BYTES_PER_TOKEN: u64 = 100_000;

/// KV cache of `other` after a response: a slow disk writes it in 2 s. The other models have none.
const CONVERSATION_BYTES: u64 = 2 * 200_000_000;

/// Footprint of a worker without a model, in bytes.
const EMPTY_BYTES: u64 = GB / 100;

pub(super) fn hardware() -> Hardware {
    Hardware {
        chip_name: "test".to_owned(),
        memory_bytes: 16 << 30,
        n_performance_cores: 4,
        n_cores: 8,
        working_set_bytes: None,
        working_set_is_estimated: false,
    }
}

pub(super) fn tuning() -> Tuning {
    Tuning {
        idle_unload: Some(Duration::from_secs(180)),
        memory_budget_bytes: Some(6 * GB),
        queue_limit: 2,
        // Tests of requests that run beside each other set more.
        parallel_requests: 1,
        max_blocked_time: Duration::from_secs(30),
        ..Tuning::default()
    }
}

/// Returns the spec of the model with this name. `deep` is `chat` with a context length chosen by
/// the user, `two` has two variants, and `owt` is `two` with another name and its variants in
/// reverse order. `chat/20000` is `chat` with that context length, `chat/full` and `chat/small`
/// with that kind of KV cache, `chat/20000+` needs at least that context length, `drafted` has a
/// draft model, `chat/took+3` with a correction of 3 GB more than estimated, and `chat/took-1` of
/// 1 GB less.
pub(super) fn spec(name: &str) -> ModelSpec {
    let (name, settings) = name.split_once('/').unwrap_or((name, ""));
    let source = |path: &str| ModelSource { path: path.into() };
    ModelSpec {
        id: name.to_owned(),
        name: name.to_owned(),
        role: match name {
            "embed" | "embed2" | "embed3" => ModelRole::Embedder,
            _ => ModelRole::Chat,
        },
        variants: match name {
            "two" => vec![source("two"), source("two.gguf")],
            "owt" => vec![source("two.gguf"), source("two")],
            "plump" => vec![source("plump"), source("plump.gguf")],
            "none" => Vec::new(),
            _ => vec![source(name)],
        },
        context_length: settings.parse().ok().or((name == "deep").then_some(50_000)),
        min_context_length: settings.strip_suffix('+').and_then(|n| n.parse().ok()),
        kv_cache: match settings {
            "full" => KvCacheChoice::Full,
            "small" => KvCacheChoice::Small,
            _ => KvCacheChoice::Automatic,
        },
        corrections: match settings.strip_prefix("took") {
            Some(gigabytes) => vec![Correction {
                path: name.into(),
                bytes: gigabytes.parse::<i64>().expect("a number of GB") * GB as i64,
            }],
            None => Vec::new(),
        },
        drafts: match name {
            "drafted" => vec![source("draft.gguf"), source("draft")],
            _ => Vec::new(),
        },
    }
}

/// The last variant and limits that each worker was told to measure or load.
#[derive(Debug, Clone, Default)]
pub(super) struct TestModels {
    by_worker: BTreeMap<WorkerId, (ModelSource, Limits)>,
}

impl TestModels {
    pub(super) fn record(&mut self, effect: &Effect) {
        if let Effect::Send(worker, Command::Measure { source, limits })
        | Effect::Load(worker, _, source, limits) = effect
        {
            let model = (source.clone(), limits.clone());
            self.by_worker.insert(*worker, model);
        }
    }

    pub(super) fn need(&self, worker: WorkerId) -> MemoryNeed {
        let (source, limits) = &self.by_worker[&worker];
        need_of(source, limits)
    }

    pub(super) fn path(&self, worker: WorkerId) -> PathBuf {
        self.by_worker[&worker].0.path.clone()
    }

    pub(super) fn memory(&self, worker: WorkerId) -> MemoryUse {
        let is_other = self.path(worker).to_str() == Some("other");
        MemoryUse {
            weight_bytes: self.need(worker).weight_bytes,
            kv_cache_bytes: if is_other { CONVERSATION_BYTES } else { 0 },
            ..MemoryUse::default()
        }
    }

    pub(super) fn footprint(&self, worker: WorkerId) -> LoadFootprint {
        LoadFootprint {
            before_bytes: EMPTY_BYTES,
            loaded_bytes: EMPTY_BYTES + self.need(worker).weight_bytes,
        }
    }

    pub(super) fn loaded(&self, worker: WorkerId, saved_tokens: usize) -> WorkerReport {
        let (source, limits) = &self.by_worker[&worker];
        Message(Report::Loaded {
            info: Box::new(ModelInfo {
                name: source.path.display().to_string(),
                architecture: "test".to_owned(),
                engine: "test".to_owned(),
                n_parameters: 1,
                stored_as: String::new(),
                computed_as: String::new(),
                context_length: limits.context_length,
                vocab_size: 1,
                has_chat_template: true,
                draft: None,
                recommended_sampling: SamplingParams::default(),
            }),
            memory: self.memory(worker),
            footprint: Some(self.footprint(worker)),
            saved_tokens,
        })
    }
}

/// Returns true if the model keeps several conversations in memory.
pub(super) fn parks(source: &ModelSource) -> bool {
    source.path.to_str() == Some("talker")
}

pub(super) fn need_of(source: &ModelSource, limits: &Limits) -> MemoryNeed {
    let total = match source.path.to_str() {
        Some("embed" | "embed2" | "embed3") => GB,
        Some("big") => 20 * GB,
        // 20 MB of weights.
        Some("tiny") => {
            GB / 1000 * 20 + Limits::default().context_length as u64 * KV_BYTES_PER_TOKEN
        }
        // Fits only with less context than the default, or with a small KV cache.
        Some("wide" | "lean" | "plump.gguf") => 6 * GB + GB / 10,
        Some("talker") => 4 * GB + GB / 2,
        _ => 4 * GB,
    };
    let of_draft = match &limits.draft {
        Some(draft) => {
            assert_eq!(draft.path.to_str(), Some("draft"), "of another kind");
            GB + GB / 2
        }
        None => 0,
    };
    let total = total + of_draft;
    let has_small_form = matches!(source.path.to_str(), Some("lean" | "plump.gguf"));
    let shrinks = match has_small_form && limits.kv_cache == KvCacheChoice::Small {
        true => 2,
        false => 1,
    };
    let default_kv = Limits::default().context_length as u64 * KV_BYTES_PER_TOKEN;
    MemoryNeed {
        weight_bytes: total - default_kv,
        kv_cache_bytes: limits.context_length as u64 * KV_BYTES_PER_TOKEN / shrinks,
        activation_bytes: 0,
        cache_bytes: 0,
        parked_bytes: match parks(source) {
            true => limits.parked_bytes,
            false => 0,
        },
        context_length: limits.context_length,
    }
}
