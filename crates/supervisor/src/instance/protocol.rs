//! The protocol between two instances, with the same framing as the protocol of the engine's child
//! process.
//!
//! The client sends its hello first. The server always replies with its own hello, so that an
//! incompatible client can report both versions. Then the server sends the status and every change
//! of it.
//!
//! Rule: two programs are compatible if each understands the protocol of the other, which means
//! that it is not older than the oldest protocol that the program understands. So a change that
//! only adds something (a message, or an optional field) raises [`PROTOCOL`], and any other change
//! also raises [`OLDEST_PROTOCOL`]. An invalid message ends the connection; a message of an unknown
//! kind is ignored.

use serde::{Deserialize, Serialize};
use transom_engine::ConversationId;

use crate::governor::Tuning;
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::ResponseEvent;
use crate::status::{Status, UnloadRecord};

/// Version of the messages in this file, raised with every change of them or of the types in them.
pub(super) const PROTOCOL: u32 = 18;

/// The oldest version whose messages still have the same meaning. An older program has other names
/// for messages and fields, or does not know every kind of work.
pub(super) const OLDEST_PROTOCOL: u32 = 16;

/// Maximum length of a client's [`Hello`] in bytes.
pub(super) const MAX_HELLO_BYTES: usize = 4 << 10;

/// The first message of each side. Fields are only ever added, so that any two versions understand
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// [`PROTOCOL`].
    pub(super) protocol: u32,
    /// Version of the product.
    pub(super) version: String,
    /// Process id of the sender.
    pub(super) process_id: u32,
    /// Set by the server only.
    #[serde(default)]
    pub(super) welcome: Option<Welcome>,
    /// [`OLDEST_PROTOCOL`]; if missing, the program understands its own protocol only.
    #[serde(default)]
    pub(super) oldest_protocol: Option<u32>,
}

/// The server's reply to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Welcome {
    /// The client may send requests; their ids start at this one. Its first name stays, because it is
    /// part of the [`Hello`].
    #[serde(rename = "from")]
    Accepted(RequestId),
    /// The connection is refused for this reason.
    Refused(String),
    /// The server ends when the last requests of its clients have ended; a new instance may start
    /// then.
    Closing,
}

/// A message of the client, after its [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(super) enum ClientMessage {
    /// Submits a request. The reply is a sequence of [`ServerMessage::Response`], the last with the
    /// end.
    Request {
        id: RequestId,
        request: Box<ModelRequest>,
    },
    /// Cancels a request. Ignored if the request has ended.
    Cancel { id: RequestId },
    /// Unloads models. The reply is [`ServerMessage::Unloaded`], when they are gone.
    Unload { number: u64, which: ModelSelector },
    /// Applies settings. No reply.
    SetTuning { tuning: Tuning },
    /// Pauses or resumes. No reply; the status changes.
    SetPaused { is_paused: bool },
    /// Deletes this conversation, or all. No reply.
    ForgetConversations {
        conversation: Option<ConversationId>,
    },
    /// A message of a later protocol. Ignored.
    #[serde(other)]
    Unknown,
}

/// A message of the server, after its [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(super) enum ServerMessage {
    /// The state; sent once at the start and then after every change. A slow reader gets only the
    /// latest.
    Status { status: Box<Status> },
    /// An event of a request. A slow reader gets texts joined.
    Response { id: RequestId, event: ResponseEvent },
    /// The models are gone.
    Unloaded {
        number: u64,
        result: Result<Vec<UnloadRecord>, RequestError>,
    },
    /// A message of a later protocol. Ignored.
    #[serde(other)]
    Unknown,
}

impl Hello {
    pub(super) fn own() -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_id: std::process::id(),
            welcome: None,
            oldest_protocol: Some(OLDEST_PROTOCOL),
        }
    }

    /// Returns true if each program understands the other.
    pub(super) fn is_compatible_with(&self, other: &Self) -> bool {
        let understands = |one: &Self, other: &Self| {
            let oldest = one.oldest_protocol.unwrap_or(one.protocol);
            other.protocol >= oldest
        };
        understands(self, other) && understands(other, self)
    }

    pub(super) fn version_text(&self) -> String {
        format!("{} (protocol {})", self.version, self.protocol)
    }
}
