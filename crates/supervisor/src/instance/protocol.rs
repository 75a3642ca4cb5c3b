//! What two instances say to each other, framed as the engine's wire is.
//!
//! The client greets first. The server always greets back, so that a client of another version
//! learns why it is let go; then it sends the status, and every change of it. Rule: both sides are
//! of the same version, so a message that makes no sense ends the connection.

use serde::{Deserialize, Serialize};

use crate::answer::AnswerEvent;
use crate::governor::Tuning;
use crate::request::{Ask, AskError, AskId, Unload};
use crate::status::{Status, UnloadRecord};

/// Version of the messages in this file. Raised with every change to them.
pub(super) const PROTOCOL: u32 = 5;

/// Who speaks. Its form never changes, so that any two versions understand it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// [`PROTOCOL`].
    pub(super) protocol: u32,
    /// The product's version.
    pub(super) version: String,
    /// The speaker's process.
    pub(super) process_id: u32,
    /// What the server says beyond that.
    #[serde(default)]
    pub(super) welcome: Option<Welcome>,
}

/// How the server receives a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Welcome {
    /// It may ask, and names its asks from this number on.
    From(AskId),
    /// It is let go, for this reason.
    Refused(String),
}

/// What the client asks for, after its [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(super) enum ToServer {
    /// Answered by [`ToClient::Answer`]*, of which the last carries the end.
    Ask { id: AskId, ask: Box<Ask> },
    /// Without effect on an ask that is over.
    Cancel { id: AskId },
    /// Answered by [`ToClient::Unloaded`] when the models are gone.
    Unload { number: u64, which: Unload },
    /// Not answered.
    Tune { tuning: Tuning },
    /// Not answered; the status shows it.
    Pause { is_paused: bool },
}

/// What the server says, after its [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(super) enum ToClient {
    /// The state; the first comes unasked. A slow reader gets only the latest.
    Status { status: Box<Status> },
    /// An ask went on. A slow reader gets texts joined.
    Answer { id: AskId, event: AnswerEvent },
    /// The models are gone.
    Unloaded {
        number: u64,
        result: Result<Vec<UnloadRecord>, AskError>,
    },
}

impl Hello {
    /// This program's greeting.
    pub(super) fn own() -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_id: std::process::id(),
            welcome: None,
        }
    }

    /// Whether both speak the same way.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        (self.protocol, &self.version) == (other.protocol, &other.version)
    }

    /// The version as people are told it.
    pub(super) fn spoken_version(&self) -> String {
        format!("{} (protocol {})", self.version, self.protocol)
    }
}
