//! One supervisor per user: whoever takes the lock in the data folder owns it, everybody else
//! reaches it through the socket beside the lock.
//!
//! The lock is the system's, so it goes with its owner however that ends; the files stay and mean
//! nothing by themselves. Rule: the socket is made and removed only under the lock, and nobody but
//! the same user is spoken to.

mod client;
mod folder;
mod protocol;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::driver::saved_states;
use crate::handle::{Handle, Supervisor};
use crate::status::Status;
use client::ConnectError;
use folder::InstanceLock;
use server::Server;

/// Of the folders in the user's default places.
const FOLDER_NAME: &str = if cfg!(target_os = "macos") {
    "Transom"
} else {
    "transom"
};

/// Where saved states lie, in the cache folder; and where older versions had them, in the data
/// folder, which is backed up.
const SAVED_STATES_FOLDER: &str = "saved-states";
const OLD_SAVED_STATES_FOLDER: &str = "conversations";

/// How long another instance may take to begin or to end before [`open`] gives up.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// First and longest delay between two looks; the lock can be asked for, but not waited for without
/// a thread that could not be called off.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Why no supervisor could be reached or started.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The system names no folder for the user's data.
    #[error("no home folder is known; set TRANSOM_DATA to a folder for Transom's data")]
    NoHome,
    /// The data folder, or a file in it, cannot be used.
    #[error("{path}: {source}")]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Somebody else could read what is asked, or answer in the supervisor's place.
    #[error(
        "{path} {fault}; make it your own alone (chown, chmod 700), \
         or set TRANSOM_DATA to another folder"
    )]
    Unsafe {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it, such as `can be written by others`.
        fault: String,
    },
    /// Sockets have short names.
    #[error(
        "{path} is too long for the name of a socket ({bytes} bytes, {limit} are allowed); \
         set TRANSOM_DATA to a folder with a shorter path"
    )]
    PathTooLong {
        /// The socket's path.
        path: PathBuf,
        /// Bytes of it.
        bytes: usize,
        /// Most bytes that this system takes.
        limit: usize,
    },
    /// The running instance is of another version.
    #[error(
        "the running Transom is version {theirs}, this one {ours}; \
         quit the running one{} and try again", process(*.process_id)
    )]
    VersionMismatch {
        /// The running one's version.
        theirs: String,
        /// This program's.
        ours: String,
        /// The running one's process.
        process_id: Option<u32>,
    },
    /// The running instance takes nobody in.
    #[error("the running Transom{} refused: {reason}", process(*.process_id))]
    Refused {
        /// Its reason.
        reason: String,
        /// Its process.
        process_id: Option<u32>,
    },
    /// There is an instance, but it does not speak.
    #[error(
        "another Transom{} is running, but does not answer ({reason}); \
         quit it, or try again in a moment", process(*.process_id)
    )]
    Unresponsive {
        /// What was noticed.
        reason: String,
        /// Its process.
        process_id: Option<u32>,
    },
}

fn process(id: Option<u32>) -> String {
    id.map_or_else(String::new, |id| format!(" (process {id})"))
}

/// The folder of the user's data: `$TRANSOM_DATA`, else `Transom` in `~/Library/Application
/// Support` on a Mac, else `transom` in `$XDG_DATA_HOME` or `~/.local/share`. [`open`] makes it if
/// it is not there.
///
/// # Errors
/// [`InstanceError::NoHome`]; [`InstanceError::Folder`] when `$TRANSOM_DATA` cannot be made a path
/// from the root.
pub fn data_folder() -> Result<PathBuf, InstanceError> {
    match std::env::var_os("TRANSOM_DATA").filter(|path| !path.is_empty()) {
        Some(path) => std::path::absolute(&path).map_err(|source| InstanceError::Folder {
            path: path.into(),
            source,
        }),
        None => default_data_folder().ok_or(InstanceError::NoHome),
    }
}

fn default_data_folder() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join(FOLDER_NAME))
}

/// The folder for what can be made again, which no backup needs: `Transom` in `~/Library/Caches` on
/// a Mac, else `transom` in `$XDG_CACHE_HOME` or `~/.cache`. A data folder at another than the
/// default place has its own: `cache` in it.
pub fn cache_folder(data_folder: &Path) -> PathBuf {
    let is_default = default_data_folder().is_some_and(|default| default == data_folder);
    let user_caches = dirs::cache_dir().filter(|_| is_default);
    user_caches.map_or_else(
        || data_folder.join("cache"),
        |caches| caches.join(FOLDER_NAME),
    )
}

/// A supervisor to ask: this process's own, or the running one's.
#[derive(Debug)]
pub enum Connection {
    /// This process has the lock. Others reach its supervisor through the socket.
    Own(OwnInstance),
    /// Another process has it.
    Running(Handle),
}

/// The one supervisor of this user, and its socket.
#[derive(Debug)]
pub struct OwnInstance {
    supervisor: Supervisor,
    /// Where no socket can be made, why.
    server: Result<Server, InstanceError>,
    /// Let go last.
    lock: InstanceLock,
}

impl Connection {
    /// A handle of the supervisor.
    pub fn handle(&self) -> Handle {
        match self {
            Self::Own(own) => own.supervisor.handle(),
            Self::Running(handle) => handle.clone(),
        }
    }

    /// Whether the supervisor is this process's own.
    pub fn is_own(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Running(_) => false,
        }
    }

    /// Asks of other programs that [`Connection::close`] would delay for.
    pub fn n_remote_requests(&self) -> usize {
        match self {
            Self::Own(own) => own.server.as_ref().map_or(0, Server::n_open_requests),
            Self::Running(_) => 0,
        }
    }

    /// Why other programs cannot reach an own supervisor, if they cannot.
    pub fn sharing_error(&self) -> Option<&InstanceError> {
        match self {
            Self::Own(own) => own.server.as_ref().err(),
            Self::Running(_) => None,
        }
    }

    /// Has an own supervisor quit when the result is awaited, also where others delay for answers; it
    /// returns when models and saved states are gone. With another process's supervisor, does
    /// nothing.
    pub fn quit(&self) -> impl Future<Output = ()> + Send + use<> {
        let quit = match self {
            Self::Own(own) => Some(own.supervisor.quit_detached()),
            Self::Running(_) => None,
        };
        async move {
            if let Some(quit) = quit {
                quit.await;
            }
        }
    }

    /// Ends this process's part. An own supervisor takes nobody in any more, lets the asks that
    /// other programs have open come to their end, but not those that delay in a pause, then quits and
    /// makes way for the next. One of
    /// another process is only let go.
    pub async fn close(self) {
        match self {
            Self::Own(own) => own.close().await,
            Self::Running(_) => {}
        }
    }
}

impl OwnInstance {
    async fn close(self) {
        let Self {
            supervisor,
            server,
            lock,
        } = self;
        let mut status = supervisor.handle().status();
        // In a pause nobody's turn would ever come; whoever waits is told that this one quits.
        let stalled = async move {
            let is_stalled = |status: &Arc<Status>| status.is_paused && !status.is_answering();
            // Fails only when the supervisor is gone, and then nobody is answered either.
            let _ = status.wait_for(is_stalled).await;
        };
        if let Ok(server) = &server {
            server.close(stalled).await;
        }
        supervisor.quit().await;
        if let Ok(server) = server {
            server.end().await;
        }
        drop(lock);
    }
}

/// Opens the user's supervisor: the running one, or one that `start` gives, which then serves other
/// programs too. To be called within a Tokio runtime.
///
/// An instance that is just beginning is waited for, up to 10 seconds; one that is ending, until it
/// has answered its clients. Where no socket can be made, the supervisor that is started is not
/// shared ([`Connection::sharing_error`]). It
/// saves the states of unloaded models in [`cache_folder`] until it is closed.
///
/// # Errors
/// Any [`InstanceError`]; what it says helps.
pub async fn open(
    data_folder: &Path,
    start: impl FnOnce() -> Supervisor,
) -> Result<Connection, InstanceError> {
    folder::prepare(data_folder)?;
    let mut give_up_at = Instant::now() + OPEN_TIMEOUT;
    let mut delay = RETRY_DELAYS.0;
    loop {
        if let Some(lock) = InstanceLock::take(data_folder)? {
            let socket = folder::socket_path(data_folder);
            let listener = socket.and_then(|socket| server::listen(socket, &lock));
            let supervisor = start();
            save_states(&supervisor, data_folder);
            let server = listener.map(|listener| Server::start(listener, supervisor.handle()));
            if let Err(error) = &server {
                tracing::warn!(%error, "other programs cannot share the models of this one");
            }
            return Ok(Connection::Own(OwnInstance {
                supervisor,
                server,
                lock,
            }));
        }
        match client::connect(&folder::socket_path(data_folder)?).await {
            Ok(handle) => return Ok(Connection::Running(handle)),
            Err(ConnectError::Closing) => give_up_at = Instant::now() + OPEN_TIMEOUT,
            Err(ConnectError::NotListening(_)) if Instant::now() < give_up_at => {}
            Err(error) => return Err(error.into_instance_error(data_folder)),
        }
        sleep(delay).await;
        delay = (delay * 2).min(RETRY_DELAYS.1);
    }
}

/// Has `supervisor`, which has the lock, save its models' states.
fn save_states(supervisor: &Supervisor, data_folder: &Path) {
    // It is there only once.
    let _ = std::fs::remove_dir_all(data_folder.join(OLD_SAVED_STATES_FOLDER));
    let folder = cache_folder(data_folder).join(SAVED_STATES_FOLDER);
    match saved_states::prepare(&folder) {
        Ok(()) => supervisor.save_states_in(folder),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "conversations are not saved");
        }
    }
}

/// The running supervisor, if there is one; starts and makes nothing. To be called within a Tokio
/// runtime.
///
/// # Errors
/// As [`open`].
pub async fn connect(data_folder: &Path) -> Result<Option<Handle>, InstanceError> {
    if !folder::check(data_folder)? {
        return Ok(None);
    }
    let socket = folder::socket_path(data_folder)?;
    match client::connect(&socket).await {
        Ok(handle) => Ok(Some(handle)),
        Err(ConnectError::NotListening(_) | ConnectError::Closing) => Ok(None),
        Err(error) => Err(error.into_instance_error(data_folder)),
    }
}

#[cfg(test)]
mod tests;
