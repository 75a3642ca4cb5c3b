//! The connection of one client: a task that reads, one that writes, and one for each result that
//! the client waits for.
//!
//! Rule: only the writer keeps the connection open. When the reader ends, it drops everything that
//! the client has requested; when the last sender is dropped, the writer ends.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use transom_engine_host::frame::MAX_FRAME_BYTES;
use transom_engine_host::frame::{self, FrameError, FrameReader};

use super::super::folder::own_user_id;
use super::super::protocol::{ClientMessage, Hello, MAX_HELLO_BYTES, ServerMessage, Welcome};
use super::{MAX_CLIENTS, ServerState};
use crate::handle::Handle;
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::{Outcome, RequestGuard, Response, ResponseEvent};
use crate::status::Status;

/// How long the client's hello may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of open or unread responses of a client; further requests are not read until it
/// has read some.
const MAX_OPEN: usize = 1024;

/// The upper bits of a request id are the number of the client, the lower ones count its requests.
const CLIENT_ID_SHIFT: u32 = 32;

/// Serves a client until it disconnects, or until the supervisor has quit and the client has read
/// everything. Returns an error if the client violated the protocol.
pub(super) async fn serve(
    stream: UnixStream,
    number: u64,
    handshake_slot: OwnedSemaphorePermit,
    state: Arc<ServerState>,
) -> Result<(), &'static str> {
    let peer = stream.peer_cred().map_err(|_| "its user is unknown")?;
    if peer.uid() != own_user_id() {
        return Err("it belongs to another user");
    }
    let first_id = RequestId(number << CLIENT_ID_SHIFT);
    let (from, mut to) = stream.into_split();
    let mut from = FrameReader::new(from);
    from.set_limit(MAX_HELLO_BYTES);
    let theirs = timeout(HANDSHAKE_TIMEOUT, from.read_async::<Hello>()).await;
    let theirs = match theirs.map_err(|_| "its hello timed out")? {
        Ok(Some(hello)) => hello,
        Ok(None) => return Ok(()),
        Err(error) => return Err(fault_of(&error)),
    };
    drop(handshake_slot);
    from.set_limit(MAX_FRAME_BYTES);
    let ours = Hello::own();
    let agrees = theirs.is_compatible_with(&ours);
    let is_closing = state.requests.borrow().is_closing;
    let slot = state.client_slots.clone().try_acquire_owned().ok();
    let welcome = match &slot {
        _ if is_closing => Welcome::Closing,
        Some(_) => Welcome::Accepted(first_id),
        None => Welcome::Refused(format!("{MAX_CLIENTS} programs are already connected")),
    };
    let hello = Hello {
        welcome: Some(welcome),
        ..ours
    };
    write(&mut to, &hello).await?;
    if !agrees {
        return Err("its version is incompatible");
    }
    if is_closing {
        return Ok(());
    }
    let Some(_slot) = slot else {
        return Err("too many clients are connected");
    };
    run(from, to, first_id, state).await
}

async fn run(
    from: FrameReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    first_id: RequestId,
    state: Arc<ServerState>,
) -> Result<(), &'static str> {
    // The channel does not buffer: responses wait in their own streams, which join unread events.
    let (sender, mut messages) = mpsc::channel(1);
    let fault = Arc::<OnceLock<&'static str>>::default();
    let reader_fault = fault.clone();
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        let mut client = Client {
            state,
            sender: sender.downgrade(),
            first_id,
            next_id: first_id,
            end_id: RequestId(first_id.0 + (1 << CLIENT_ID_SHIFT)),
            open: JoinSet::new(),
        };
        client.send_status(sender);
        if let Err(fault) = client.read(from).await {
            reader_fault.get_or_init(|| fault);
        }
    });
    while let Some(message) = messages.recv().await {
        write(&mut to, &message).await?;
    }
    fault.get().map_or(Ok(()), |fault| Err(*fault))
}

/// A connected client and its open calls.
struct Client {
    state: Arc<ServerState>,
    /// Exists as long as there is a supervisor whose status is sent.
    sender: mpsc::WeakSender<ServerMessage>,
    /// Ids of its requests: `first_id..next_id` are used, `next_id..end_id` are free.
    first_id: RequestId,
    next_id: RequestId,
    end_id: RequestId,
    open: JoinSet<()>,
}

impl Client {
    /// Sends the current status and then every change, only the latest if the client is slow.
    fn send_status(&mut self, sender: mpsc::Sender<ServerMessage>) {
        let handle = self.state.handle.clone();
        self.open.spawn(async move {
            let mut receiver = handle.status();
            let mut status = handle.current_status().await;
            drop(handle);
            loop {
                let shown = status.revision;
                if sender.send(status_message(&status)).await.is_err() {
                    return;
                }
                while status.revision <= shown {
                    if receiver.changed().await.is_err() {
                        return;
                    }
                    status = receiver.borrow_and_update().clone();
                }
            }
        });
    }

    async fn read(&mut self, mut from: FrameReader<OwnedReadHalf>) -> Result<(), &'static str> {
        while let Some(message) = from.read_async().await.map_err(|error| fault_of(&error))? {
            while self.open.try_join_next().is_some() {}
            while self.open.len() > MAX_OPEN {
                self.open.join_next().await;
            }
            let Some(sender) = self.sender.upgrade() else {
                return Ok(());
            };
            match message {
                ClientMessage::Request { id, request } => {
                    if !(self.next_id..self.end_id).contains(&id) {
                        return Err("it used a request id that is not its own");
                    }
                    self.next_id = RequestId(id.0 + 1);
                    self.submit(id, *request, sender);
                }
                ClientMessage::Cancel { id } if (self.first_id..self.next_id).contains(&id) => {
                    self.state.handle.cancel(id);
                }
                // An id of another client, or one that was not used yet.
                ClientMessage::Cancel { .. } => {}
                ClientMessage::Unload { number, which } => self.unload(number, which, sender),
                ClientMessage::SetPaused { is_paused } => self.state.handle.set_paused(is_paused),
                ClientMessage::SetTuning { tuning } => self.state.handle.set_tuning(tuning),
                ClientMessage::Unknown => {}
                ClientMessage::ForgetConversations { conversation } => {
                    self.state.handle.forget_conversations(conversation);
                }
            }
        }
        Ok(())
    }

    /// Submits at once, so that requests and cancels keep their order; a task forwards the
    /// response.
    fn submit(
        &mut self,
        id: RequestId,
        request: ModelRequest,
        sender: mpsc::Sender<ServerMessage>,
    ) {
        let handle = self.state.handle.clone();
        let response = self.state.open_request().map(|guard| {
            let guard: RequestGuard = Box::new(guard);
            handle.submit_as(id, request, Some(guard))
        });
        self.open.spawn(async move {
            match response {
                Some(response) => forward_response(response, &handle, &sender).await,
                None => {
                    let error = RequestError::Quitting;
                    let outcome = Outcome::Failed { error };
                    let event = ResponseEvent::Ended { outcome };
                    // The client may be gone.
                    let _ = sender.send(ServerMessage::Response { id, event }).await;
                }
            }
        });
    }

    fn unload(&mut self, number: u64, which: ModelSelector, sender: mpsc::Sender<ServerMessage>) {
        let unload = self.state.handle.unload(which);
        self.open.spawn(async move {
            let result = unload.await;
            let _ = sender
                .send(ServerMessage::Unloaded { number, result })
                .await;
        });
    }
}

/// Forwards a response to a client, and before its end the status that results from it.
async fn forward_response(
    mut response: Response,
    handle: &Handle,
    sender: &mpsc::Sender<ServerMessage>,
) {
    let id = response.id();
    while let Some(event) = response.next().await {
        if matches!(event, ResponseEvent::Ended { .. }) {
            // The status was published before the end was written, so reading in this order gets
            // the new one.
            let status = status_message(&handle.status().borrow());
            let _ = sender.send(status).await;
        }
        if sender
            .send(ServerMessage::Response { id, event })
            .await
            .is_err()
        {
            return;
        }
    }
}

fn status_message(status: &Status) -> ServerMessage {
    ServerMessage::Status {
        status: Box::new(status.clone()),
    }
}

async fn write<T: serde::Serialize>(
    to: &mut OwnedWriteHalf,
    message: &T,
) -> Result<(), &'static str> {
    let frame = frame::encode(message).map_err(|error| fault_of(&error))?;
    // The client may be gone, which is not an error.
    let _ = to.write_all(&frame).await;
    Ok(())
}

/// Returns what is wrong, without quoting the message.
fn fault_of(error: &FrameError) -> &'static str {
    match error {
        FrameError::TooLong { .. } => "its message is too long",
        FrameError::Truncated => "the connection ended within a message",
        FrameError::Malformed { .. } => "its message is invalid",
        FrameError::Io(_) => "the connection failed",
    }
}
