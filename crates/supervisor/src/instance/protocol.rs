//! What two instances say to each other, framed as the engine's wire is.
//!
//! The client says hello first. The server always answers with its own hello, so that a client of
//! another version learns why it is refused; then it sends the status, and every change of it.
//!
//! Rule: two programs talk if each knows the other's protocol: it is not older than the oldest one
//! that the program understands. So a change that only adds (a message, or a field that may be
//! missing) raises [`PROTOCOL`], and any other change raises [`OLDEST_PROTOCOL`] too. A message that
//! makes no sense ends the connection; one of an unknown kind is ignored.

use serde::{Deserialize, Serialize};

use crate::governor::Tuning;
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::ResponseEvent;
use crate::status::{Status, UnloadRecord};

/// Version of the messages in this file, raised with every change to them or to what they carry.
pub(super) const PROTOCOL: u32 = 8;

/// The oldest version whose messages still have the same meaning.
pub(super) const OLDEST_PROTOCOL: u32 = 8;

/// Longest [`Hello`] of a client, in bytes.
pub(super) const MAX_HELLO_BYTES: usize = 4 << 10;

/// Who speaks. Fields are only added, so that any two versions understand it.
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
    /// [`OLDEST_PROTOCOL`]; programs that do not say it understand their own protocol only.
    #[serde(default)]
    pub(super) oldest_protocol: Option<u32>,
}

/// How the server receives a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Welcome {
    /// It may ask, and names its asks from this number on.
    #[serde(rename = "from")]
    Accepted(RequestId),
    /// It is let go, for this reason.
    Refused(String),
    /// The server ends when its clients' last requests are answered; the next one may start then.
    Closing,
}

/// What the client asks for, after its [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(super) enum ClientMessage {
    /// Answered by [`ServerMessage::Response`]*, of which the last carries the end.
    #[serde(rename = "ask")]
    Request {
        id: RequestId,
        #[serde(rename = "ask")]
        request: Box<ModelRequest>,
    },
    /// Without effect on an ask that is over.
    Cancel { id: RequestId },
    /// Answered by [`ServerMessage::Unloaded`] when the models are gone.
    Unload { number: u64, which: ModelSelector },
    /// Not answered.
    #[serde(rename = "tune")]
    SetTuning { tuning: Tuning },
    /// Not answered; the status shows it.
    #[serde(rename = "pause")]
    SetPaused { is_paused: bool },
    /// Not answered.
    ForgetConversations,
    /// Of a later protocol. Ignored.
    #[serde(other)]
    Unknown,
}

/// What the server says, after its [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(super) enum ServerMessage {
    /// The state; the first comes unasked. A slow reader gets only the latest.
    Status { status: Box<Status> },
    /// An ask went on. A slow reader gets texts joined.
    #[serde(rename = "answer")]
    Response { id: RequestId, event: ResponseEvent },
    /// The models are gone.
    Unloaded {
        number: u64,
        result: Result<Vec<UnloadRecord>, RequestError>,
    },
    /// Of a later protocol. Ignored.
    #[serde(other)]
    Unknown,
}

impl Hello {
    /// This program's greeting.
    pub(super) fn own() -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_id: std::process::id(),
            welcome: None,
            oldest_protocol: Some(OLDEST_PROTOCOL),
        }
    }

    /// Whether each understands the other.
    pub(super) fn is_compatible_with(&self, other: &Self) -> bool {
        let understands = |one: &Self, other: &Self| {
            let oldest = one.oldest_protocol.unwrap_or(one.protocol);
            other.protocol >= oldest
        };
        understands(self, other) && understands(other, self)
    }

    /// The version as people are told it.
    pub(super) fn version_text(&self) -> String {
        format!("{} (protocol {})", self.version, self.protocol)
    }
}
