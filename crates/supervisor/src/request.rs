//! Requests to the supervisor and their errors. All of them are serializable, because they are sent
//! through the socket to a running instance.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::{
    EmbedInput, EngineError, KvCacheChoice, MemoryNeed, ModelSource, Prompt, TokenInput,
    serde_seconds,
};
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::Request;

use crate::governor::LimitReason;
use crate::variants;

/// Id of an accepted request. One supervisor never uses an id twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A model and the settings to load it with.
///
/// Rule: a model is loaded only once. The role and the set of variants identify the model
/// ([`ModelSpec::is_same_model`]); `name` is for people, `id` for programs. A loaded model serves
/// every request that leaves context length and KV cache open (`None`,
/// [`KvCacheChoice::Automatic`]) or chooses no larger context and the same kind of cache. For any
/// other request the supervisor reloads the model: after its running response, and only if the new
/// one fits. If a load fails for a request, it fails for all requests with the same choices (`==`).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Id of the model, the same in all programs of the user.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The purpose of the model.
    pub role: ModelRole,
    /// Variants of the same model; never empty. They are tried in the order of
    /// [`crate::variants::in_order`], until one is found and supported.
    pub variants: Vec<ModelSource>,
    /// Maximum number of tokens of prompt and response together. `None` selects the default, which
    /// is lowered if necessary to fit the memory budget. A given number is never lowered: the
    /// request fails if it does not fit.
    pub context_length: Option<usize>,
    /// Minimum number of tokens of prompt and response together, for a request without a
    /// `context_length`. A loaded model with at least this context serves the request. If it has to
    /// be loaded, it gets the default or this minimum, whichever is larger; the default is lowered
    /// down to the minimum if necessary to fit the memory budget.
    #[serde(default)]
    pub min_context_length: Option<usize>,
    /// The kind of KV cache. [`KvCacheChoice::Automatic`] selects the small one if necessary to fit
    /// the memory budget. Any other choice is used as given: the request fails if it does not fit.
    #[serde(default)]
    pub kv_cache: KvCacheChoice,
    /// Memory corrections measured by earlier loads of the variants. They do not identify the model
    /// and never cause a reload.
    #[serde(default)]
    pub corrections: Vec<Correction>,
    /// Draft models for the variants, at most one for each kind of files, because one engine runs both.
    /// They do not identify the model and never cause a reload, and the model is loaded without one
    /// if memory is short.
    #[serde(default)]
    pub drafts: Vec<ModelSource>,
}

/// A correction of the memory that one variant of a model needs, measured by earlier loads.
/// Programs show the corrected number before they send a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    /// Path of the variant, as in [`ModelSpec::variants`].
    pub path: PathBuf,
    /// Bytes to add to the engine's estimate; negative if the variant needs less.
    pub bytes: i64,
}

impl ModelSpec {
    /// Returns `need`, which an engine computed for the variant at `path`, with the correction
    /// applied. A negative correction reduces activations first, then caches, then weights; the
    /// size of the KV cache is exact and is not corrected.
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

    /// Returns the context length that a loaded model needs at least; `None` if any is enough.
    pub(crate) fn required_context(&self) -> Option<usize> {
        self.context_length.or(self.min_context_length)
    }

    /// Returns the draft model for `variant`.
    pub(crate) fn draft_for(&self, variant: &ModelSource) -> Option<&ModelSource> {
        let mut drafts = self.drafts.iter();
        drafts.find(|draft| variants::are_of_same_kind(draft, variant))
    }

    /// Returns true if both specs are of the same model, whatever their settings.
    pub fn is_same_model(&self, other: &Self) -> bool {
        self.role == other.role && variants::are_same(&self.variants, &other.variants)
    }
}

impl PartialEq for ModelSpec {
    fn eq(&self, other: &Self) -> bool {
        let settings = |spec: &Self| (spec.context_length, spec.min_context_length, spec.kv_cache);
        settings(self) == settings(other) && self.is_same_model(other)
    }
}

impl Eq for ModelSpec {}

/// The purpose of a model. Under memory pressure, chat models are unloaded last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Responds to people.
    Chat,
    /// Turns text into embedding vectors.
    Embedder,
}

/// A request for a model: to load it, to generate a response, or to embed texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The model.
    pub model: ModelSpec,
    /// The work to do with it.
    pub work: Work,
    /// Load the model even if it exceeds the memory budget: the user was warned and confirmed.
    pub over_budget: bool,
    /// What to do while requests are blocked.
    pub when_blocked: WhenBlocked,
    /// The program or user that asks.
    #[serde(default)]
    pub client: ClientId,
    /// Its rank in the queue.
    #[serde(default)]
    pub class: Class,
    /// Maximum time until the response starts, including the load of the model; after it the
    /// request fails with [`RequestError::Busy`]. `None` waits without limit.
    #[serde(default, rename = "max_wait_seconds", with = "serde_seconds::option")]
    pub max_wait: Option<Duration>,
    /// How long the model stays loaded after this request; `None` selects the user's setting. The
    /// last request to the model counts.
    #[serde(default)]
    pub keep_alive: Option<KeepAlive>,
}

impl ModelRequest {
    /// Returns a [`Class::Interactive`] request that waits and has no limits of its own.
    pub fn new(client: ClientId, model: ModelSpec, work: Work) -> Self {
        Self {
            model,
            work,
            over_budget: false,
            when_blocked: WhenBlocked::Wait,
            client,
            class: Class::Interactive,
            max_wait: None,
            keep_alive: None,
        }
    }
}

/// Who submits a request: `app`, `cli`, or `api:` and the name of an API key. The status shows it.
/// Clients of the same class take turns.
///
/// The default is a program with an older protocol, which does not say who it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ClientId(String);

impl ClientId {
    /// Returns the client with this id.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the app.
    pub fn app() -> Self {
        Self::new("app")
    }

    /// Returns the command line.
    pub fn cli() -> Self {
        Self::new("cli")
    }

    /// Returns its text; empty for a program that does not say who it is.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            "" => f.write_str("unknown"),
            id => f.write_str(id),
        }
    }
}

/// The rank of a request in the queue.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A person waits in a window or a terminal of Transom. Served before every background request.
    #[default]
    Interactive,
    /// Another program asks, through the HTTP API.
    Background,
}

/// How long a model stays loaded after a request, in place of the user's settings. Memory pressure
/// can shorten it, as it can shorten those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "until", rename_all = "snake_case")]
pub enum KeepAlive {
    /// Until it was idle for this time; zero unloads it after the response.
    Idle {
        /// The idle time.
        #[serde(rename = "seconds", with = "serde_seconds")]
        time: Duration,
    },
    /// As long as there is enough memory.
    Forever,
}

/// The work that a request asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Only load the model.
    Load,
    /// Generate a response.
    Generate(Box<Request>),
    /// Embed these texts, with a [`ModelRole::Embedder`].
    Embed(Vec<EmbedInput>),
    /// Count the tokens of a prompt, whether it fits the context or not.
    CountTokens(Box<Prompt>),
    /// Convert text to tokens, or tokens to text.
    Tokenize(Box<TokenInput>),
}

/// What happens to a request while the machine is too hot or too short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenBlocked {
    /// It waits in the queue, for up to [`crate::Tuning::max_blocked_time`], or without limit while
    /// the user has paused.
    #[default]
    Wait,
    /// It fails with [`RequestError::Blocked`], which says when to retry.
    Refuse,
}

/// A selection of models, such as those to unload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSelector {
    /// Every model.
    All,
    /// The models with this id.
    Model(String),
}

impl ModelSelector {
    pub(crate) fn selects(&self, spec: &ModelSpec) -> bool {
        match self {
            Self::All => true,
            Self::Model(id) => *id == spec.id,
        }
    }
}

/// A variant of a model that does not run on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Its folder or file.
    pub path: PathBuf,
    /// The reason, as reported by the engine.
    pub reason: String,
}

/// Why a request failed. Text streamed before the error remains valid.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum RequestError {
    /// The engine refused the request or failed.
    #[error(transparent)]
    Engine {
        /// The engine's error.
        #[from]
        #[serde(rename = "reason")]
        source: EngineError,
    },
    /// The model has several variants, and none of them runs on this machine.
    #[error("no variant of {name} runs on this machine: {}", reasons(.variants))]
    NoVariantRuns {
        /// Name of the model.
        name: String,
        /// Each variant with its reason, in the order in which they were tried.
        variants: Vec<PassedOver>,
    },
    /// The queue is full, or the request waited for longer than [`ModelRequest::max_wait`].
    #[error("{waiting} requests are waiting already; try again in {} s", .retry_after.as_secs())]
    Busy {
        /// Number of requests in the queue.
        waiting: usize,
        /// Estimated time after which a retry may succeed, 1 to 60 seconds.
        #[serde(
            default = "one_second",
            rename = "retry_after_seconds",
            with = "serde_seconds"
        )]
        retry_after: Duration,
    },
    /// The client has too many requests in the queue.
    #[error(
        "{waiting} requests of {client} are waiting already; try again in {} s",
        .retry_after.as_secs()
    )]
    ClientBusy {
        /// The client.
        client: ClientId,
        /// Number of its requests in the queue.
        waiting: usize,
        /// Estimated time after which a retry may succeed, 1 to 60 seconds.
        #[serde(rename = "retry_after_seconds", with = "serde_seconds")]
        retry_after: Duration,
    },
    /// The model does not fit the memory budget.
    #[error("{}", too_large(.name, .need, *.budget_bytes, *.in_use_bytes, *.context_that_fits))]
    TooLarge {
        /// Name of the model.
        name: String,
        /// Memory that it needs.
        need: MemoryNeed,
        /// Bytes that models may use together at present.
        budget_bytes: u64,
        /// Bytes of the budget used by models that cannot be unloaded.
        in_use_bytes: u64,
        /// A context length with which it would fit.
        context_that_fits: Option<usize>,
    },
    /// No request may start at present.
    #[error("{reason}; try again in {} s", .retry_after.as_secs())]
    Blocked {
        /// The reason.
        reason: LimitReason,
        /// Time after which a retry may succeed.
        #[serde(rename = "retry_after_seconds", with = "serde_seconds")]
        retry_after: Duration,
    },
    /// The model's process ended; the next request starts a new one.
    #[error("{end}, while {during}; ask again to restart the model")]
    WorkerGone {
        /// How the process ended.
        end: WorkerEnd,
        /// What it was doing: `loading`, `generating`, ….
        during: String,
    },
    /// The model was loaded twice for this request, and memory pressure ended both loads.
    #[error(
        "{name} was not loaded: memory became critically short twice while it was loading; close \
         other apps, or choose a smaller model or a shorter context"
    )]
    Shed {
        /// Name of the model.
        name: String,
    },
    /// The memory is in use by a process that was killed but does not end.
    #[error(
        "the system cannot end process {process_id}, which had {name} loaded, and its {} of memory \
         stay in use until it ends; choose a smaller model, or restart the computer",
        transom_files::memory_text(*.held_bytes)
    )]
    Stuck {
        /// Name of the model that the process had loaded.
        name: String,
        /// Id of the process.
        process_id: u32,
        /// Bytes of the budget that it holds.
        held_bytes: u64,
    },
    /// The user unloaded the model, or memory ran out, before the request started.
    #[error("the model was unloaded before this request started; ask again to load it")]
    Unloaded,
    /// The supervisor is shutting down.
    #[error("Transom is quitting")]
    Quitting,
    /// The connection to the instance that served the request is lost.
    #[error("the connection to the running Transom was lost: {reason}")]
    InstanceGone {
        /// What was observed.
        reason: String,
    },
}

/// Returns the estimate for an error of an older program, which has none.
fn one_second() -> Duration {
    Duration::from_secs(1)
}

fn reasons(variants: &[PassedOver]) -> String {
    let reasons = variants.iter();
    let reasons = reasons.map(|variant| format!("{}: {}", variant.path.display(), variant.reason));
    reasons.collect::<Vec<_>>().join("; ")
}

fn too_large(
    name: &str,
    need: &MemoryNeed,
    budget_bytes: u64,
    in_use_bytes: u64,
    context_that_fits: Option<usize>,
) -> String {
    let gb = transom_files::memory_text;
    let in_use = match in_use_bytes {
        0 => String::new(),
        bytes => format!(", of which {} is in use", gb(bytes)),
    };
    let advice = match context_that_fits {
        Some(n) => format!("a context length of {n} would fit"),
        None => "choose a smaller model, or one quantized to fewer bits".to_owned(),
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
