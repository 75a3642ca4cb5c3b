//! The client's side of the socket: a handle whose requests another process serves.
//!
//! Rule: whatever happens to the connection, every open request ends, with
//! [`RequestError::InstanceGone`] if the connection is lost.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use transom_engine::EngineError;
use transom_engine_host::frame::MAX_FRAME_BYTES;
use transom_engine_host::frame::{self, FrameError, FrameReader};

use super::InstanceError;
use super::folder::{self, own_user_id};
use super::protocol::{ClientMessage, Hello, ServerMessage, Welcome};
use crate::handle::{Handle, HandleMessage, ShutdownReason, UnloadReply};
use crate::request::{RequestError, RequestId};
use crate::response::{self, ResponseWriter};
use crate::status::Status;

/// How long the handshake and the first status may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// No process listens on the socket any more; contains what was observed.
    NotListening(String),
    /// A process listens but does not follow the protocol.
    Unresponsive(String),
    /// The instance has this incompatible version.
    VersionMismatch(String),
    /// The instance accepts no client, for this reason.
    Refused(String),
    /// The instance ends when the requests of its clients have ended.
    Closing,
    /// The instance belongs to the user with this id.
    OtherUser(u32),
}

impl ConnectError {
    pub(super) fn into_instance_error(self, data_folder: &Path) -> InstanceError {
        let process = folder::last_owner(data_folder);
        let process = process.map_or_else(String::new, |id| format!(" (process {id})"));
        match self {
            Self::NotListening(reason) | Self::Unresponsive(reason) => {
                InstanceError::Unavailable(format!(
                    "another Transom{process} is running but does not respond ({reason}); quit it, \
                     or try again in a moment"
                ))
            }
            Self::VersionMismatch(theirs) => InstanceError::VersionMismatch(format!(
                "the running Transom is version {theirs}, this one {}; quit the running one{process} \
                 and try again",
                Hello::own().version_text()
            )),
            Self::Refused(reason) => InstanceError::Unavailable(format!(
                "the running Transom{process} refused: {reason}"
            )),
            Self::Closing => InstanceError::Unavailable(format!(
                "the running Transom{process} refused: it is closing"
            )),
            Self::OtherUser(user) => {
                let fault =
                    format!("has a socket on which a process of another user (id {user}) listens");
                folder::unsafe_error(data_folder, &fault)
            }
        }
    }
}

pub(super) async fn connect(socket: &Path) -> Result<Handle, ConnectError> {
    let connected = timeout(HANDSHAKE_TIMEOUT, handshake(socket)).await;
    connected.unwrap_or_else(|_| {
        Err(ConnectError::Unresponsive(
            "the handshake timed out".to_owned(),
        ))
    })
}

async fn handshake(socket: &Path) -> Result<Handle, ConnectError> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::WouldBlock => {
            ConnectError::NotListening("it is starting or closing".to_owned())
        }
        _ => ConnectError::Unresponsive(error.to_string()),
    })?;
    let peer = stream.peer_cred();
    let peer = peer.map_err(|error| ConnectError::NotListening(error.to_string()))?;
    if peer.uid() != own_user_id() {
        return Err(ConnectError::OtherUser(peer.uid()));
    }
    let (from, mut to) = stream.into_split();
    let ours = Hello::own();
    let written = frame::write_async(&mut to, &ours).await;
    written.map_err(|error| read_error(&error))?;
    let mut from = FrameReader::new(from);
    let theirs: Hello = next(&mut from).await?;
    if !ours.is_compatible_with(&theirs) {
        return Err(ConnectError::VersionMismatch(theirs.version_text()));
    }
    let first_id = match theirs.welcome {
        Some(Welcome::Accepted(first_id)) => first_id,
        Some(Welcome::Refused(reason)) => return Err(ConnectError::Refused(reason)),
        Some(Welcome::Closing) => return Err(ConnectError::Closing),
        None => return Err(ConnectError::Unresponsive("it sent no welcome".to_owned())),
    };
    let ServerMessage::Status { status } = next(&mut from).await? else {
        return Err(ConnectError::Unresponsive("it sent no status".to_owned()));
    };
    Ok(start(from, to, first_id, *status))
}

async fn next<T: serde::de::DeserializeOwned>(
    from: &mut FrameReader<OwnedReadHalf>,
) -> Result<T, ConnectError> {
    let message = from.read_async().await;
    let message = message.map_err(|error| read_error(&error))?;
    message.ok_or_else(|| ConnectError::NotListening("it closed the connection".to_owned()))
}

fn read_error(error: &FrameError) -> ConnectError {
    match error {
        FrameError::Io(_) | FrameError::Truncated => ConnectError::NotListening(error.to_string()),
        FrameError::TooLong { .. } | FrameError::Malformed { .. } => {
            ConnectError::Unresponsive(error.to_string())
        }
    }
}

fn start(
    from: FrameReader<OwnedReadHalf>,
    to: OwnedWriteHalf,
    first_id: RequestId,
    status: Status,
) -> Handle {
    let (sender, status) = watch::channel(Arc::new(status));
    let (handle, messages, shutdown_reason) = Handle::new(status, first_id);
    let pending = Arc::<PendingCalls>::default();
    // Ends with the last handle. The server then closes the connection, which ends
    // `receive_messages`.
    let sending = tokio::spawn(send_messages(messages, to, pending.clone()));
    tokio::spawn(async move {
        let reason = receive_messages(from, &sender, &pending).await;
        pending.end(&reason, &shutdown_reason);
        sending.abort();
    });
    handle
}

/// Requests and unloads without a result.
#[derive(Default)]
struct PendingCalls(Mutex<PendingState>);

#[derive(Default)]
struct PendingState {
    responses: HashMap<RequestId, ResponseWriter>,
    unloads: HashMap<u64, UnloadReply>,
    n_unloads: u64,
    /// Set when the connection is lost.
    gone: Option<RequestError>,
}

impl PendingCalls {
    /// Ends all open calls, and all later ones.
    fn end(&self, reason: &str, shutdown_reason: &ShutdownReason) {
        let reason = reason.to_owned();
        let error = RequestError::InstanceGone { reason };
        // This is the only place that sets it, once per connection.
        let _ = shutdown_reason.set(error.clone());
        let mut state = self.0.lock();
        state.gone = Some(error.clone());
        let responses = std::mem::take(&mut state.responses);
        let unloads = std::mem::take(&mut state.unloads);
        drop(state);
        for writer in responses.into_values() {
            writer.fail(error.clone());
        }
        for reply in unloads.into_values() {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Registers a message and returns it in the form of the protocol. Returns `None` if there is
    /// nothing to send, as after the connection was lost.
    fn register(&self, message: HandleMessage) -> Option<ClientMessage> {
        let mut state = self.0.lock();
        match (message, state.gone.clone()) {
            (HandleMessage::Submit(_, writer), Some(error)) => {
                drop(state);
                writer.fail(error);
                None
            }
            (HandleMessage::Submit(request, writer), None) => {
                let id = writer.id();
                state.responses.insert(id, writer);
                Some(ClientMessage::Request { id, request })
            }
            (HandleMessage::Unload(_, reply), Some(error)) => {
                drop(reply.send(Err(error)));
                None
            }
            (HandleMessage::Unload(which, reply), None) => {
                state.n_unloads += 1;
                let number = state.n_unloads;
                state.unloads.insert(number, reply);
                Some(ClientMessage::Unload { number, which })
            }
            (HandleMessage::Cancel(id), _) => Some(ClientMessage::Cancel { id }),
            (HandleMessage::SetTuning(tuning), _) => Some(ClientMessage::SetTuning { tuning }),
            (HandleMessage::SetPaused(is_paused), _) => {
                Some(ClientMessage::SetPaused { is_paused })
            }
            (HandleMessage::ForgetConversations(conversation), _) => {
                Some(ClientMessage::ForgetConversations { conversation })
            }
            // Only the owner publishes its own status, saves states and quits.
            (
                HandleMessage::GetStatus(_) | HandleMessage::SaveStatesIn(..) | HandleMessage::Quit,
                _,
            ) => None,
        }
    }

    /// Ends a request that is too long to be sent.
    fn refuse(&self, id: RequestId, bytes: usize) {
        let writer = self.0.lock().responses.remove(&id);
        if let Some(writer) = writer {
            let source = EngineError::InvalidParameter {
                name: "prompt".into(),
                value: format!("{bytes} bytes long"),
                expected: format!("at most {MAX_FRAME_BYTES} bytes").into(),
            };
            writer.fail(RequestError::Engine { source });
        }
    }
}

/// Sends messages until the last handle is gone or the connection fails.
async fn send_messages(
    mut messages: mpsc::UnboundedReceiver<HandleMessage>,
    mut to: OwnedWriteHalf,
    pending: Arc<PendingCalls>,
) {
    while let Some(message) = messages.recv().await {
        let Some(message) = pending.register(message) else {
            continue;
        };
        match (frame::encode(&message), message) {
            (Ok(frame), _) => {
                if to.write_all(&frame).await.is_err() {
                    // `receive_messages` fails too, and ends the open calls.
                    return;
                }
            }
            (Err(FrameError::TooLong { bytes }), ClientMessage::Request { id, .. }) => {
                pending.refuse(id, bytes);
            }
            (Err(error), _) => tracing::error!(%error, "a message could not be encoded"),
        }
    }
}

/// Handles messages of the server until the connection ends; returns the reason.
async fn receive_messages(
    mut from: FrameReader<OwnedReadHalf>,
    status: &watch::Sender<Arc<Status>>,
    pending: &PendingCalls,
) -> String {
    loop {
        match from.read_async().await {
            Ok(Some(ServerMessage::Status { status: update })) => {
                // An older status may arrive late.
                status.send_if_modified(|status| {
                    let is_newer = update.revision > status.revision;
                    if is_newer {
                        *status = Arc::from(update);
                    }
                    is_newer
                });
            }
            Ok(Some(ServerMessage::Response { id, event })) => {
                response::respond(&mut pending.0.lock().responses, id, event);
            }
            Ok(Some(ServerMessage::Unloaded { number, result })) => {
                let reply = pending.0.lock().unloads.remove(&number);
                if let Some(reply) = reply {
                    // The caller may be gone.
                    let _ = reply.send(result);
                }
            }
            Ok(Some(ServerMessage::Unknown)) => {}
            Ok(None) => return "it closed the connection".to_owned(),
            Err(error) => return error.to_string(),
        }
    }
}
