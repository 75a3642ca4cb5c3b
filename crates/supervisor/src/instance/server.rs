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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
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
    connections: Connections,
    accepting: JoinSet<()>,
    socket: SocketFile,
}

/// The path of the socket. Dropping it removes the socket.
#[derive(Debug)]
struct SocketFile(PathBuf);

/// State shared by all connections.
#[derive(Debug)]
struct ServerState {
    handle: Handle,
    requests: watch::Sender<OpenRequests>,
    client_slots: Arc<Semaphore>,
    handshake_slots: Arc<Semaphore>,
    n_accepted: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    n_open: usize,
    is_closing: bool,
}

/// An open request of a client, counted until it is dropped.
#[derive(Debug)]
struct OpenRequest(Arc<ServerState>);

/// The tasks of all connections. Dropping it ends them.
#[derive(Debug)]
struct Connections(Arc<ServerState>);

/// A bound socket and its path.
#[derive(Debug)]
pub(super) struct Listener {
    listener: UnixListener,
    socket: SocketFile,
}

/// Creates the socket. Only the owner of the lock does this, so an existing socket is stale.
pub(super) fn listen(socket: PathBuf, _: &InstanceLock) -> Result<Listener, InstanceError> {
    let folder_error = |error| folder::folder_error(&socket, &error);
    match fs::remove_file(&socket) {
        Ok(()) => tracing::debug!("removed a stale socket"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(folder_error(error)),
    }
    let listener = UnixListener::bind(&socket).map_err(folder_error)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(folder_error)?;
    let socket = SocketFile(socket);
    Ok(Listener { listener, socket })
}

impl Server {
    /// Starts to accept clients of `handle`.
    pub(super) fn start(listener: Listener, handle: Handle) -> Self {
        let Listener { listener, socket } = listener;
        let state = Arc::new(ServerState {
            handle,
            requests: watch::Sender::default(),
            client_slots: Arc::new(Semaphore::new(MAX_CLIENTS)),
            handshake_slots: Arc::new(Semaphore::new(MAX_HANDSHAKES)),
            n_accepted: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, state.clone()));
        Self {
            connections: Connections(state),
            accepting,
            socket,
        }
    }

    /// Returns the number of open requests of clients.
    pub(super) fn n_open_requests(&self) -> usize {
        self.connections.0.requests.borrow().n_open
    }

    /// Tells new clients that the instance is closing, refuses new requests, and waits for the open
    /// ones to end, or until `stalled` says that they never will.
    pub(super) async fn close(&self, stalled: impl Future<Output = ()>) {
        let state = &self.connections.0;
        state
            .requests
            .send_modify(|requests| requests.is_closing = true);
        let mut requests = state.requests.subscribe();
        tokio::select! {
            // Fails only without a sender, and `state` has one.
            _ = requests.wait_for(|requests| requests.n_open == 0) => {}
            () = stalled => {}
        }
    }

    /// Stops accepting clients, and waits for a limited time until the socket is removed and the
    /// clients have read their last messages.
    pub(super) async fn end(self) {
        let Self {
            connections,
            mut accepting,
            socket,
        } = self;
        accepting.shutdown().await;
        let removed = spawn_blocking(move || drop(socket));
        if timeout(DISCONNECT_TIMEOUT, removed).await.is_err() {
            tracing::warn!("the disk hangs, so the socket was not removed");
        }
        let tasks = connections.0.take_tasks();
        if timeout(DISCONNECT_TIMEOUT, tasks.join_all()).await.is_err() {
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

impl Drop for Connections {
    fn drop(&mut self) {
        self.0.take_tasks().abort_all();
    }
}

impl ServerState {
    fn take_tasks(&self) -> JoinSet<()> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut tasks)
    }

    /// Serves a client. `handshake_slot` is held until its handshake is complete.
    fn serve_client(self: Arc<Self>, stream: UnixStream, handshake_slot: OwnedSemaphorePermit) {
        let number = self.n_accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let state = self.clone();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            if let Err(fault) = connection::serve(stream, number, handshake_slot, state).await {
                tracing::warn!(client = number, fault, "a client was disconnected");
            }
        });
    }

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

async fn accept(listener: UnixListener, state: Arc<ServerState>) {
    // The semaphore is never closed.
    while let Ok(handshake_slot) = state.handshake_slots.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => state.clone().serve_client(stream, handshake_slot),
            Err(error) => {
                tracing::warn!(%error, "a client could not be accepted");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}
