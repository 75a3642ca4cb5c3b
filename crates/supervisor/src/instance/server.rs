//! The owner's side of the socket: who is let in, and what each of them may ask.
//!
//! Rule: a client costs nobody but itself. One that goes away has its asks cancelled, one that
//! reads slowly gets joined texts and only the latest status, one that speaks out of turn is let
//! go. What is asked is never logged.

mod guest;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::InstanceError;
use super::folder::{self, Lock};
use crate::handle::Handle;

/// Clients at a time.
const MOST_GUESTS: usize = 32;

/// Connections at a time that have not said hello; more are accepted when one has.
const MOST_GREETING: usize = 64;

/// How long clients may take to read what is left when the supervisor has quit.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long to wait when the system gives no descriptor for one more client.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(200);

/// See the head of this file. Dropping it ends every connection.
#[derive(Debug)]
pub(super) struct Server {
    guests: Guests,
    accepting: JoinSet<()>,
    socket: SocketFile,
}

/// Removes the socket.
#[derive(Debug)]
struct SocketFile(PathBuf);

/// What connections share.
#[derive(Debug)]
struct Desk {
    handle: Handle,
    asks: watch::Sender<Asks>,
    seats: Arc<Semaphore>,
    greeting: Arc<Semaphore>,
    n_guests: AtomicU64,
    guests: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct Asks {
    n_open: usize,
    is_closing: bool,
}

/// An open ask of a client, counted until it is over.
#[derive(Debug)]
struct OpenAsk(Arc<Desk>);

/// The connections. Dropping it ends them.
#[derive(Debug)]
struct Guests(Arc<Desk>);

/// A socket that was made, and what waits on it.
#[derive(Debug)]
pub(super) struct Listener {
    listener: UnixListener,
    socket: SocketFile,
}

/// Makes the socket. Only the owner of the lock may, so what lies there is stale.
pub(super) fn listen(socket: PathBuf, _: &Lock) -> Result<Listener, InstanceError> {
    let wrong = |source| folder::wrong(&socket, source);
    match fs::remove_file(&socket) {
        Ok(()) => tracing::debug!("removed the socket of an instance that is gone"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(wrong(error)),
    }
    let listener = UnixListener::bind(&socket).map_err(wrong)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(wrong)?;
    let socket = SocketFile(socket);
    Ok(Listener { listener, socket })
}

impl Server {
    /// Serves `handle`.
    pub(super) fn start(listener: Listener, handle: Handle) -> Self {
        let Listener { listener, socket } = listener;
        let desk = Arc::new(Desk {
            handle,
            asks: watch::Sender::default(),
            seats: Arc::new(Semaphore::new(MOST_GUESTS)),
            greeting: Arc::new(Semaphore::new(MOST_GREETING)),
            n_guests: AtomicU64::new(0),
            guests: Mutex::default(),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, desk.clone()));
        Self {
            guests: Guests(desk),
            accepting,
            socket,
        }
    }

    /// Asks of clients that are not over.
    pub(super) fn n_asks(&self) -> usize {
        self.guests.0.asks.borrow().n_open
    }

    /// Tells new clients that the instance is closing and takes no request any more, and waits for
    /// the end of those that are open, or until `stands_still` says that none of them comes.
    pub(super) async fn close(&self, stands_still: impl Future<Output = ()>) {
        let desk = &self.guests.0;
        desk.asks.send_modify(|asks| asks.is_closing = true);
        let mut asks = desk.asks.subscribe();
        tokio::select! {
            // It fails only without a sender, and `desk` has it.
            _ = asks.wait_for(|asks| asks.n_open == 0) => {}
            () = stands_still => {}
        }
    }

    /// Accepts nobody any more, and waits until the clients have read what they were sent last, but
    /// not for long.
    pub(super) async fn end(self) {
        let Self {
            guests,
            mut accepting,
            socket,
        } = self;
        accepting.shutdown().await;
        drop(socket);
        let guests = guests.0.take_guests();
        if timeout(FAREWELL, guests.join_all()).await.is_err() {
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

impl Drop for Guests {
    fn drop(&mut self) {
        self.0.take_guests().abort_all();
    }
}

impl Desk {
    fn take_guests(&self) -> JoinSet<()> {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut guests)
    }

    /// Serves a client; `greeting` is held until it has said hello.
    fn let_in(self: Arc<Self>, stream: UnixStream, greeting: OwnedSemaphorePermit) {
        let number = self.n_guests.fetch_add(1, Ordering::Relaxed) + 1;
        let desk = self.clone();
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        while guests.try_join_next().is_some() {}
        guests.spawn(async move {
            if let Err(fault) = guest::attend(stream, number, greeting, desk).await {
                tracing::warn!(client = number, fault, "a client was let go");
            }
        });
    }

    /// Counts one more ask, unless the instance is closing.
    fn open_ask(self: &Arc<Self>) -> Option<OpenAsk> {
        let is_open = self.asks.send_if_modified(|asks| {
            asks.n_open += usize::from(!asks.is_closing);
            !asks.is_closing
        });
        is_open.then(|| OpenAsk(self.clone()))
    }
}

impl Drop for OpenAsk {
    fn drop(&mut self) {
        self.0.asks.send_modify(|asks| asks.n_open -= 1);
    }
}

async fn accept(listener: UnixListener, desk: Arc<Desk>) {
    // It is never closed.
    while let Ok(greeting) = desk.greeting.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => desk.clone().let_in(stream, greeting),
            Err(error) => {
                tracing::warn!(%error, "a client could not be let in");
                sleep(AFTER_FAILED_ACCEPT).await;
            }
        }
    }
}
