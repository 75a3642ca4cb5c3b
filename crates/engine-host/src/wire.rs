//! The messages between parent and child.
//!
//! A frame is a 4-byte little-endian length and that many bytes of JSON, with the values of vectors
//! behind it ([`crate::frame`]). The first frame in each
//! direction is a hello with [`PROTOCOL`]. Both sides are the same executable, so a mismatch means
//! that it was replaced while running. It ends the child with an error that says so.
//!
//! Rule: commands take effect in order, except [`Command::Stop`], [`Command::Trim`] and
//! [`Command::Ping`], which take effect at once, even while a job runs. Jobs that follow each other may
//! run at the same time, and end in any order; every other command waits for the jobs before it.

use serde::{Deserialize, Serialize};
use transom_engine::{
    ConversationId, EmbedInput, EngineError, FinishReason, GenerationParams, Limits, LoadProgress,
    MemoryNeed, MemoryUse, ModelInfo, ModelSource, Prompt, Stats, TokenEvent, TokenInput, Trim,
    Truncation,
};

use crate::saved_state::{SavedConversation, SavedFolder};

/// Version of the messages in this file. Every change to them raises it.
pub const PROTOCOL: u32 = 17;

/// Identifies one generation or embedding, so that a late message about an earlier one is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// A message from the parent to the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Always the first.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// Computes the memory that a model needs. The response is [`Report::Measured`].
    Measure {
        /// The model.
        source: ModelSource,
        /// Limits of the model, such as its context length.
        limits: Limits,
    },
    /// Loads a model. The response is any number of [`Report::LoadProgress`] and then
    /// [`Report::Loaded`] or [`Report::LoadFailed`].
    Load {
        /// The model.
        source: ModelSource,
        /// Limits of the model, such as its context length.
        limits: Limits,
        /// The saved KV caches of the model, which the child restores when a request continues one of
        /// them; `None` if nothing is saved.
        saved: Option<SavedFolder>,
    },
    /// Generates a response. The child reports any number of [`Report::Event`] and then
    /// [`Report::JobEnded`].
    Generate {
        /// The id of the job.
        job: JobId,
        /// The request.
        request: Box<Request>,
    },
    /// Embeds texts. The child reports a [`Report::Embedded`] for each, in order, and then
    /// [`Report::JobEnded`].
    Embed {
        /// The id of the job.
        job: JobId,
        /// The texts.
        inputs: Vec<EmbedInput>,
    },
    /// Counts the tokens of a prompt, whether it fits the context or not. The child reports
    /// [`Report::JobEnded`], whose statistics contain only [`Stats::prompt_tokens`].
    Count {
        /// The id of the job.
        job: JobId,
        /// The prompt.
        prompt: Box<Prompt>,
    },
    /// Converts text to tokens, or tokens to text. The child reports any number of [`Report::Event`]
    /// with [`TokenEvent::Pieces`] and then [`Report::JobEnded`], whose statistics contain only
    /// [`Stats::prompt_tokens`].
    Tokenize {
        /// The id of the job.
        job: JobId,
        /// What to convert.
        input: Box<TokenInput>,
    },
    /// Stops the load (`None`) or this job after its running step. Has no effect on a job that has
    /// ended.
    Stop {
        /// The job.
        job: Option<JobId>,
        /// The reason: [`FinishReason::Canceled`] or [`FinishReason::Shed`].
        reason: FinishReason,
    },
    /// Frees memory. The response is [`Report::Trimmed`], after the running jobs if there are any; those
    /// free their spare buffers and the KV caches of other conversations at once.
    Trim {
        /// How much to free.
        trim: Trim,
    },
    /// Frees the KV caches of all conversations, and drops the key of the saved one of this
    /// conversation, or of all. The response is [`Report::Trimmed`], as for [`Command::Trim`].
    Forget {
        /// The conversation; `None` if all are forgotten.
        conversation: Option<ConversationId>,
    },
    /// Saves the KV caches. The child reports [`Report::Saved`] for each conversation that is on
    /// disk then, and then [`Report::SaveEnded`].
    Save {
        /// Largest number of bytes that may be written.
        max_bytes: u64,
    },
    /// Unloads the model, after stopping a running load or all jobs. The response is
    /// [`Report::Unloaded`].
    Unload {
        /// Saves the KV caches before, as [`Command::Save`] with this number of bytes; `None` discards
        /// them. An error does not stop the unload.
        save: Option<u64>,
    },
    /// Gets [`Report::Pong`] at once, from another thread than the engine thread.
    Ping {
        /// The number that the pong must have.
        nonce: u64,
    },
}

impl Command {
    /// Returns the job that this command starts.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Generate { job, .. }
            | Self::Embed { job, .. }
            | Self::Count { job, .. }
            | Self::Tokenize { job, .. } => Some(*job),
            Self::Hello { .. }
            | Self::Measure { .. }
            | Self::Load { .. }
            | Self::Stop { .. }
            | Self::Trim { .. }
            | Self::Forget { .. }
            | Self::Save { .. }
            | Self::Unload { .. }
            | Self::Ping { .. } => None,
        }
    }
}

/// A request for one response of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The prompt.
    pub prompt: Prompt,
    /// What to do if the prompt does not fit into the context.
    pub truncation: Truncation,
    /// Parameters of the generation.
    pub params: GenerationParams,
}

/// A message from the child to the parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// Always the first.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// The memory that a load would need.
    Measured {
        /// The memory need, from the first engine that supports the files.
        result: Result<MemoryNeed, EngineError>,
    },
    /// Progress of a load. A slow reader gets only the latest.
    LoadProgress {
        /// The progress.
        progress: LoadProgress,
    },
    /// The model is ready.
    Loaded {
        /// Information about the model.
        info: Box<ModelInfo>,
        /// The memory that the model uses.
        memory: MemoryUse,
        /// The footprint of the process just before the load and now; `None` if the system does not
        /// report it.
        footprint: Option<LoadFootprint>,
        /// Tokens of the saved conversation that was used last; 0 if there is none.
        saved_tokens: usize,
    },
    /// The load failed or was stopped, so there is no model.
    LoadFailed {
        /// The reason.
        error: EngineError,
    },
    /// An event of a running job, but never [`TokenEvent::Finished`]. For a slow reader,
    /// consecutive texts of a section are joined, with the token count of the last one, and only
    /// the latest prefill progress is kept.
    Event {
        /// The job.
        job: JobId,
        /// The event.
        event: TokenEvent,
    },
    /// The next text of a running job is embedded.
    Embedded {
        /// The job.
        job: JobId,
        /// Number of tokens of the text.
        n_tokens: usize,
        /// The vector, of length 1.
        #[serde(with = "crate::frame::floats")]
        vector: Vec<f32>,
    },
    /// The job has ended, and none of its work is still running.
    JobEnded {
        /// The job.
        job: JobId,
        /// How it ended.
        result: Result<JobSummary, EngineError>,
    },
    /// The result of a trim.
    Trimmed {
        /// Bytes that were freed.
        bytes: u64,
        /// The memory that the model uses now.
        memory: MemoryUse,
    },
    /// The model cannot be used any more, because its engine panicked or its backend failed. It can
    /// only be unloaded. Sent without a command, before the report of the job or trim that failed.
    Broken {
        /// The error. Never contains text of a prompt or a response.
        error: EngineError,
    },
    /// The memory footprint of the process now. Sent without a command: before [`Report::JobEnded`]
    /// and [`Report::Trimmed`], once some seconds after a load if no job follows, and after the next turn of
    /// a conversation was read ahead.
    Footprint {
        /// Bytes of the whole process.
        bytes: u64,
        /// The memory that the model uses.
        memory: MemoryUse,
    },
    /// The system notified the process of a change in memory pressure. Sent without a command, only
    /// on macOS, which notifies the largest processes first.
    MemoryNotice,
    /// The KV cache of a conversation is on disk; the one that was used last comes first. Sent while
    /// the child saves.
    Saved {
        /// Its files and their key.
        conversation: SavedConversation,
    },
    /// The end of a [`Command::Save`].
    SaveEnded,
    /// The model was unloaded.
    Unloaded {
        /// The footprint of the process before and after the unload; `None` if the system does not
        /// report it.
        footprint: Option<UnloadFootprint>,
    },
    /// The response to a ping.
    Pong {
        /// The number of the ping.
        nonce: u64,
        /// Seconds since the last heartbeat of the engine thread; 0 while it has nothing to do.
        silent_seconds: f64,
    },
}

/// A job that ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Why the job ended.
    pub reason: FinishReason,
    /// Statistics of the job.
    pub stats: Stats,
    /// The memory that the model uses now.
    pub memory: MemoryUse,
}

/// The memory footprint of the process before and after a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadFootprint {
    /// Bytes before the load.
    pub before_bytes: u64,
    /// Bytes with the model loaded.
    pub loaded_bytes: u64,
}

/// The memory footprint of the process before and after an unload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnloadFootprint {
    /// Bytes with the model and its caches still in memory.
    pub loaded_bytes: u64,
    /// Bytes after the model was freed.
    pub after_bytes: u64,
}
