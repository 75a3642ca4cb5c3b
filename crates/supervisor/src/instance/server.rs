//! The owner's side of the socket: accepts clients and limits them.
//!
//! Rule: a client affects only itself. If it disconnects, its requests are canceled; if it reads
//! slowly, it gets joined texts and only the latest status; if it violates the protocol, it is
//! disconnected. The contents of requests are never logged.

mod connection;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::InstanceError;
use super::folder::{self, InstanceLock};
use crate::handle::Handle;

/// Maximum number of connected clients.
const MAX_CLIENTS: usize = 32;

/// Maximum number of connections before the handshake; further ones wait until one has completed.
const MAX_HANDSHAKES: usize = 64;

/// How long the disk may take to remove the socket after the supervisor has quit, and clients to
/// read their last messages.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Delay before the next attempt if a connection could not be accepted, for example because no file
/// descriptor was free.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Accepts and serves clients. Dropping it ends every connection.
#[derive(Debug)]
pub(super) struct Server {
    state: Arc<ServerState>,
    /// The task that accepts clients and owns the tasks of their connections.
    accepting: JoinSet<()>,
    /// Dropped to accept no more clients.
    stop: oneshot::Sender<()>,
    socket: SocketFile,
}

/// The path of the socket. Dropping it removes the socket.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

#[derive(Debug)]
struct ServerState {
    handle: Handle,
    requests: watch::Sender<OpenRequests>,
    client_slots: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    n_open: usize,
    is_closing: bool,
}

/// An open request of a client, counted until it is dropped.
#[derive(Debug)]
struct OpenRequest(Arc<ServerState>);

/// Creates the socket. Only the owner of the lock does this, so an existing socket is stale.
pub(super) fn listen(
    socket: PathBuf,
    _: &InstanceLock,
) -> Result<(UnixListener, SocketFile), InstanceError> {
    let folder_error = |error| folder::folder_error(&socket, &error);
    match fs::remove_file(&socket) {
        Ok(()) => tracing::debug!("removed a stale socket"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(folder_error(error)),
    }
    let listener = UnixListener::bind(&socket).map_err(folder_error)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(folder_error)?;
    Ok((listener, SocketFile(socket)))
}

impl Server {
    /// Starts to accept clients of `handle`.
    pub(super) fn start(listener: UnixListener, socket: SocketFile, handle: Handle) -> Self {
        let state = Arc::new(ServerState {
            handle,
            requests: watch::Sender::default(),
            client_slots: Arc::new(Semaphore::new(MAX_CLIENTS)),
        });
        let (stop, stopped) = oneshot::channel();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, state.clone(), stopped));
        Self {
            state,
            accepting,
            stop,
            socket,
        }
    }

    pub(super) fn n_open_requests(&self) -> usize {
        self.state.requests.borrow().n_open
    }

    /// Tells new clients that the instance is closing, refuses new requests, and waits for the open
    /// ones to end, or until `stalled` says that they never will.
    pub(super) async fn close(&self, stalled: impl Future<Output = ()>) {
        let requests = &self.state.requests;
        requests.send_modify(|requests| requests.is_closing = true);
        let mut requests = requests.subscribe();
        tokio::select! {
            // Fails only without a sender, and the state has one.
            _ = requests.wait_for(|requests| requests.n_open == 0) => {}
            () = stalled => {}
        }
    }

    /// Stops accepting clients, and waits for a limited time until the socket is removed and the
    /// clients have read their last messages.
    pub(super) async fn end(self) {
        let Self {
            mut accepting,
            stop,
            socket,
            ..
        } = self;
        drop(stop);
        let removed = spawn_blocking(move || drop(socket));
        if timeout(DISCONNECT_TIMEOUT, removed).await.is_err() {
            tracing::warn!("the disk hangs, so the socket was not removed");
        }
        let served = accepting.join_next();
        if timeout(DISCONNECT_TIMEOUT, served).await.is_err() {
            tracing::info!("a client did not read its last messages");
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, "the socket could not be removed");
        }
    }
}

impl ServerState {
    /// Counts a new request; returns `None` if the instance is closing.
    fn open_request(self: &Arc<Self>) -> Option<OpenRequest> {
        let is_open = self.requests.send_if_modified(|requests| {
            requests.n_open += usize::from(!requests.is_closing);
            !requests.is_closing
        });
        is_open.then(|| OpenRequest(self.clone()))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.requests.send_modify(|requests| requests.n_open -= 1);
    }
}

/// Accepts clients until the sender of `stopped` is dropped; returns when all of them are served.
async fn accept(
    listener: UnixListener,
    state: Arc<ServerState>,
    mut stopped: oneshot::Receiver<()>,
) {
    let handshake_slots = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    let mut clients = JoinSet::new();
    let mut number: u64 = 0;
    loop {
        let accepted = async {
            // The semaphore is never closed. A slot is held until the handshake is complete.
            let handshake_slot = handshake_slots.clone().acquire_owned().await;
            (handshake_slot, listener.accept().await)
        };
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = clients.join_next() => {}
            (Ok(handshake_slot), accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    number += 1;
                    let served = connection::serve(stream, number, handshake_slot, state.clone());
                    clients.spawn(async move {
                        if let Err(fault) = served.await {
                            tracing::warn!(client = number, fault, "a client was disconnected");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a client could not be accepted");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    drop(listener);
    clients.join_all().await;
}
