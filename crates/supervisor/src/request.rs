//! What a shell may ask for, and how it may be refused. All of it crosses the socket to a running
//! instance, so all of it serialises.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::{EngineError, KvCacheChoice, MemoryNeed, ModelSource};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::Request;

use crate::governor::LimitReason;
use crate::status::PassedOver;
use crate::variants;

/// Names an accepted ask. Never used twice by one supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A model as it shall be loaded.
///
/// Rule: one model is loaded once. The role and the variants, in whatever order, say which model it
/// is ([`ModelSpec::is_same_model`]); its name is for people and its id for programs. A loaded model serves each request
/// that leaves context length and KV cache open (`None`, [`KvCacheChoice::Automatic`]), or chooses
/// no larger context and the same kind of cache. Otherwise the supervisor reloads it in place of
/// what was there: after its running answer, and only once the new one is known to fit. Requests
/// with equal choices (`==`) share one fate: a load that fails for one fails for all of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Id of the model, as every program of the user knows it.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Forms of the same model; never empty. They are tried in the order of
    /// [`crate::variants::in_order`], while the one before is not supported or not there.
    pub variants: Vec<ModelSource>,
    /// Most tokens of prompt and answer together. `None`: the default, which may be lowered to fit
    /// the memory budget; a number is a wish that is granted or refused.
    pub context_length: Option<usize>,
    /// How keys and values are kept. [`KvCacheChoice::Automatic`] may become small to fit the memory
    /// budget; a choice is a wish that is granted or refused.
    #[serde(default)]
    pub kv_cache: KvCacheChoice,
    /// What earlier uses of its forms measured. No part of which model it is, or of how it shall be
    /// loaded: what is loaded already stays as it is.
    #[serde(default)]
    pub corrections: Vec<Correction>,
}

/// Bytes by which the need of one form of a model is corrected, as earlier uses measured it. Shells
/// show the same number before they ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    /// The form, as in [`ModelSpec::variants`].
    pub path: PathBuf,
    /// More, or less, than its engine computes.
    pub bytes: i64,
}

impl ModelSpec {
    /// `need`, which an engine computed for the form at `path`, as earlier uses correct it. What is
    /// less comes off what steps hold, then off caches and weights; keys and values are never wrong.
    pub(crate) fn corrected(&self, path: &Path, need: MemoryNeed) -> MemoryNeed {
        let of_variant = self.corrections.iter().find(|known| known.path == path);
        let bytes = of_variant.map_or(0, |known| known.bytes);
        let mut need = need;
        if let Ok(more) = u64::try_from(bytes) {
            need.activation_bytes = need.activation_bytes.saturating_add(more);
            return need;
        }
        let mut less = bytes.unsigned_abs();
        for part in [
            &mut need.activation_bytes,
            &mut need.cache_bytes,
            &mut need.weight_bytes,
        ] {
            let taken = less.min(*part);
            *part -= taken;
            less -= taken;
        }
        need
    }

    /// Whether both are of one model, however it shall be loaded.
    pub fn is_same_model(&self, other: &Self) -> bool {
        self.role == other.role && variants::are_same(&self.variants, &other.variants)
    }
}

impl PartialEq for ModelSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.context_length, self.kv_cache) == (other.context_length, other.kv_cache)
            && self.is_same_model(other)
    }
}

impl Eq for ModelSpec {}

impl Hash for ModelSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.role, self.context_length, self.kv_cache).hash(state);
        variants::sorted(&self.variants).hash(state);
    }
}

/// What a model is for. Under memory pressure all but the chat model go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Answers people.
    Chat,
    /// Guesses ahead for a chat model.
    Draft,
    /// Turns text into vectors.
    Embedder,
}

/// One thing that a shell wants of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Of which model.
    pub model: ModelSpec,
    /// What.
    pub work: Work,
    /// Load the model even if it exceeds the memory budget: the user was told, and insists.
    pub over_budget: bool,
    /// What to do while the machine allows no work.
    #[serde(rename = "when_held")]
    pub when_blocked: WhenBlocked,
}

/// What is wanted of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Only that it is loaded.
    Load,
    /// An answer.
    Generate(Box<Request>),
}

/// What an ask does while the machine is too hot or too short of memory for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenBlocked {
    /// Waits in the queue, up to [`crate::Tuning::max_blocked_time`]; while a person pauses, until they let
    /// it go on.
    #[default]
    Wait,
    /// Is refused with [`RequestError::Blocked`], which says when to come back.
    Refuse,
}

/// Which models to unload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSelector {
    /// Every model.
    All,
    /// Those with this id.
    Model(String),
}

impl ModelSelector {
    /// Returns true if the selection contains the model of `spec`.
    pub(crate) fn selects(&self, spec: &ModelSpec) -> bool {
        match self {
            Self::All => true,
            Self::Model(id) => *id == spec.id,
        }
    }
}

/// Why an ask ended without its result. What was streamed until then stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum RequestError {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine {
        /// Its reason.
        #[from]
        #[serde(rename = "reason")]
        source: EngineError,
    },
    /// The model comes in several forms, and none of them runs here.
    #[error("no form of {name} runs here: {}", reasons(.variants))]
    #[serde(rename = "no_form_runs")]
    NoVariantRuns {
        /// The model.
        name: String,
        /// Each form with its reason, in the order in which they were tried.
        #[serde(rename = "forms")]
        variants: Vec<PassedOver>,
    },
    /// Too many asks are waiting.
    #[error("{waiting} requests are waiting already; try again when one of them is answered")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// The model does not fit the memory budget.
    #[error("{}", too_large(.name, .need, *.budget_bytes, *.in_use_bytes, *.context_that_fits))]
    TooLarge {
        /// The model.
        name: String,
        /// What it needs.
        need: MemoryNeed,
        /// What models may use together on this machine now.
        budget_bytes: u64,
        /// Of that, what models use that cannot make room.
        in_use_bytes: u64,
        /// A context length with which it would fit.
        context_that_fits: Option<usize>,
    },
    /// The machine allows no work now.
    #[error("{reason}; try again in {} s", .retry_after.as_secs())]
    #[serde(rename = "held")]
    Blocked {
        /// Why.
        #[serde(rename = "because")]
        reason: LimitReason,
        /// When it may be worth trying again.
        #[serde(rename = "retry_after_seconds", with = "transom_engine::seconds")]
        retry_after: Duration,
    },
    /// The model's process came to an end; a new one starts with the next ask.
    #[error("{end}, while {during}; what was written stays, and asking again starts a new one")]
    WorkerGone {
        /// How.
        end: WorkerEnd,
        /// What it was doing: `loading`, `answering`, ….
        during: String,
    },
    /// The model was loaded twice for this, and memory pressure ended both loads.
    #[error(
        "{name} was not loaded: memory became critically short twice while it was loading; close \
         other apps, or choose a smaller model or a shorter context"
    )]
    Shed {
        /// The model.
        name: String,
    },
    /// The memory is held by a process that was killed but does not end.
    #[error(
        "the system cannot end process {process_id}, which had {name} loaded, and its {} of memory \
         stay in use until it ends; choose a smaller model, or restart the computer",
        gigabytes(*.held_bytes)
    )]
    Stuck {
        /// The model that the process had loaded.
        name: String,
        /// Id of the process.
        process_id: u32,
        /// Bytes of the budget that it takes.
        held_bytes: u64,
    },
    /// The user unloaded the model, or memory ran out, before the ask was begun.
    #[error("the model was unloaded before this was begun; ask again to load it")]
    Unloaded,
    /// The supervisor is ending.
    #[error("Transom is quitting")]
    Quitting,
    /// The instance that was asked went away.
    #[error("the running Transom went away: {reason}")]
    InstanceGone {
        /// What was noticed.
        reason: String,
    },
}

fn reasons(variants: &[PassedOver]) -> String {
    let reasons = variants.iter();
    let reasons = reasons.map(|variant| format!("{}: {}", variant.path.display(), variant.reason));
    reasons.collect::<Vec<_>>().join("; ")
}

/// Of memory, so in powers of two, as it is sold.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / (1u64 << 30) as f64)
}

fn too_large(
    name: &str,
    need: &MemoryNeed,
    budget_bytes: u64,
    in_use_bytes: u64,
    context_that_fits: Option<usize>,
) -> String {
    let gb = gigabytes;
    let in_use = match in_use_bytes {
        0 => String::new(),
        bytes => format!(", of which {} is in use", gb(bytes)),
    };
    let advice = match context_that_fits {
        Some(n) => format!("a context length of {n} would fit"),
        None => "choose a smaller model, or one quantised to fewer bits".to_owned(),
    };
    format!(
        "{name} needs {} of memory ({} weights, {} context of {} tokens, {} working space), but \
         models may use {} here{in_use}; {advice}",
        gb(need.total_bytes()),
        gb(need.weight_bytes),
        gb(need.kv_cache_bytes),
        need.context_length,
        gb(need.activation_bytes + need.cache_bytes),
        gb(budget_bytes),
    )
}
