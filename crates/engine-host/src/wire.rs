//! What parent and child say to each other.
//!
//! A frame is a 4-byte little-endian length and that many bytes of JSON. The first frame each way
//! is a hello with [`PROTOCOL`]; both sides are the same executable, so a mismatch means that it
//! was replaced while running, and ends the child with a message that says so.
//!
//! Rule: commands are answered in order, except [`Command::Stop`], [`Command::Trim`] and
//! [`Command::Ping`], which take effect at once, in mid-job as well.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transom_engine::{
    EngineError, FinishReason, GenerationParams, Limits, LoadProgress, MemoryNeed, MemoryUse,
    ModelInfo, ModelSource, Prompt, Stats, TokenEvent, Trim, Truncation,
};

/// Version of the messages in this file. Raised with every change to them.
pub const PROTOCOL: u32 = 6;

/// Longest frame accepted, in bytes: a prompt of any real context, with room.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

/// Names one generation, so that a late word about an earlier one is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// What the parent asks of the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Always the first.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// Answered by [`Report::Measured`].
    Measure {
        /// The model.
        source: ModelSource,
        /// Bounds of its use.
        limits: Limits,
    },
    /// Answered by [`Report::LoadProgress`]* and then [`Report::Loaded`] or
    /// [`Report::LoadFailed`].
    Load {
        /// The model.
        source: ModelSource,
        /// Bounds of its use.
        limits: Limits,
        /// Where a conversation of it may have been kept. If there is one, it is taken up when the
        /// model is loaded, and its file is gone whether that succeeds or not.
        state: Option<PathBuf>,
    },
    /// Answered by [`Report::Event`]* and then [`Report::JobEnded`].
    Generate {
        /// The job's name.
        job: JobId,
        /// What to answer, and how.
        request: Box<Request>,
    },
    /// Ends the load (`None`) or this job, after its running step. Without effect on one
    /// that has ended.
    Stop {
        /// The job.
        job: Option<JobId>,
        /// Why: [`FinishReason::Canceled`] or [`FinishReason::Shed`].
        reason: FinishReason,
    },
    /// Answered by [`Report::Trimmed`], after the running job if there is one; spare buffers are
    /// given back in mid-job.
    Trim {
        /// How much.
        trim: Trim,
    },
    /// Answered by [`Report::Unloaded`]; ends a running load or job first.
    Unload {
        /// Where to keep the conversation last answered; `None` forgets it. The file is there whole
        /// or not at all, and failing to write it does not stop the unload.
        state: Option<PathBuf>,
    },
    /// Answered at once by [`Report::Pong`], from another thread than the engine's.
    Ping {
        /// Returned as it is.
        nonce: u64,
    },
}

/// One generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What to answer.
    pub prompt: Prompt,
    /// What to do when it does not fit.
    pub fit: Truncation,
    /// How to answer.
    pub params: GenerationParams,
}

/// What the child tells the parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// Always the first.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// What a load would need.
    Measured {
        /// The need, from the first engine that supports the files.
        result: Result<MemoryNeed, EngineError>,
    },
    /// A load goes on. A slow reader gets only the latest.
    LoadProgress {
        /// How far.
        progress: LoadProgress,
    },
    /// The model is ready.
    Loaded {
        /// What it is.
        info: Box<ModelInfo>,
        /// What it uses.
        memory: MemoryUse,
        /// The process's footprint in bytes just before the load and now; `None` where the system
        /// does not tell.
        footprint: Option<LoadFootprint>,
        /// Tokens of the conversation that was taken up; 0 when there was none.
        restored_tokens: usize,
    },
    /// There is no model now.
    LoadFailed {
        /// Why.
        error: EngineError,
    },
    /// The running job went on. Never carries [`TokenEvent::Finished`]; a slow reader gets
    /// consecutive texts of a section joined with the last one's count of tokens, and only the
    /// latest prefill.
    Event {
        /// The job.
        job: JobId,
        /// What happened.
        event: TokenEvent,
    },
    /// The job is over and settled: none of its work is still running.
    JobEnded {
        /// The job.
        job: JobId,
        /// How it ended.
        result: Result<JobSummary, EngineError>,
    },
    /// What a trim gave back.
    Trimmed {
        /// Bytes let go.
        bytes: u64,
        /// What is used now.
        memory: MemoryUse,
    },
    /// The model cannot be used any more, because its engine panicked or its backend failed. It
    /// can only be unloaded. Sent unasked, before the report of the job or trim that broke it.
    Broken {
        /// What failed. Never holds text of a prompt or an answer.
        error: EngineError,
    },
    /// Memory that the process costs the machine now. Sent unasked: before [`Report::JobEnded`] and
    /// [`Report::Trimmed`], and once some seconds after a load that no job followed.
    Footprint {
        /// Bytes of the whole process.
        bytes: u64,
    },
    /// The system told the process that memory pressure changed. Sent unasked, on macOS, which tells
    /// the largest processes first.
    MemoryNotice,
    /// The model is dropped.
    Unloaded {
        /// The process's footprint before and after the drop; `None` where the system does not
        /// tell.
        footprint: Option<UnloadFootprint>,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's.
        nonce: u64,
        /// Seconds since the engine's thread last reported or took up anything; 0 while it has
        /// nothing to do.
        silent_seconds: f64,
    },
}

/// A job that ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Why it ended.
    pub reason: FinishReason,
    /// What it took.
    pub stats: Stats,
    /// What the model uses now.
    pub memory: MemoryUse,
}

/// Bytes of the process around a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadFootprint {
    /// Before the load began.
    pub before_bytes: u64,
    /// With the model ready.
    pub loaded_bytes: u64,
}

/// Bytes of the process around an unload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnloadFootprint {
    /// With the model still there, its caches in use.
    pub loaded_bytes: u64,
    /// With the model dropped.
    pub after_bytes: u64,
}
