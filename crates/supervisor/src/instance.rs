//! One supervisor per user. The process that takes the lock in the data folder owns the supervisor;
//! all others reach it through the socket next to the lock.
//!
//! The system releases the lock when its process ends, however that happens. The files stay; by
//! themselves they mean nothing. Rule: the socket is created and removed only by the owner of the
//! lock, and only processes of the same user are served or used.

mod client;
mod folder;
mod protocol;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::driver::{Supervisor, saved_states};
use crate::handle::Handle;
use crate::status::Status;
use client::ConnectError;
use folder::InstanceLock;
use server::Server;

/// Name of the folders in the user's data and cache folders.
const FOLDER_NAME: &str = if cfg!(target_os = "macos") {
    "Transom"
} else {
    "transom"
};

/// Name of the folder for saved states in the cache folder; and its name in older versions, in the
/// data folder, which is backed up.
const SAVED_STATES_FOLDER: &str = "saved-states";
const OLD_SAVED_STATES_FOLDER: &str = "conversations";

/// How long [`open`] waits for another instance that starts or ends.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum and maximum delay between two attempts to take the lock. Waiting for the lock itself
/// would need a thread that cannot be canceled.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Why no supervisor could be reached or started. Each message names the folder, the version or the
/// process, and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The data folder, or a file in it, cannot be used.
    #[error("{0}")]
    Folder(String),
    /// The running instance has an incompatible version.
    #[error("{0}")]
    VersionMismatch(String),
    /// The running instance accepts no client, or does not respond.
    #[error("{0}")]
    Unavailable(String),
}

/// Returns the folder for the user's data: `$TRANSOM_DATA`, or `Transom` in `~/Library/Application
/// Support` on a Mac, or `transom` in `$XDG_DATA_HOME` or `~/.local/share`. [`open`] creates it if
/// necessary.
///
/// # Errors
/// [`InstanceError::Folder`] if no home folder is known, or `$TRANSOM_DATA` cannot be made an
/// absolute path.
pub fn data_folder() -> Result<PathBuf, InstanceError> {
    match std::env::var_os("TRANSOM_DATA").filter(|path| !path.is_empty()) {
        Some(path) => {
            std::path::absolute(&path).map_err(|error| folder::folder_error(path.as_ref(), &error))
        }
        None => default_data_folder().ok_or_else(|| {
            let reason = "no home folder is known; set TRANSOM_DATA to a folder for Transom's data";
            InstanceError::Folder(reason.to_owned())
        }),
    }
}

fn default_data_folder() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join(FOLDER_NAME))
}

/// Returns the folder for data that can be recreated and needs no backup: `Transom` in
/// `~/Library/Caches` on a Mac, or `transom` in `$XDG_CACHE_HOME` or `~/.cache`. If the data folder
/// is not at its default place, returns the folder `cache` in it.
pub fn cache_folder(data_folder: &Path) -> PathBuf {
    cache_folder_of(data_folder, default_data_folder(), dirs::cache_dir())
}

fn cache_folder_of(
    data_folder: &Path,
    default_data_folder: Option<PathBuf>,
    user_caches: Option<PathBuf>,
) -> PathBuf {
    match (default_data_folder, user_caches) {
        (Some(default), Some(caches)) if default == data_folder => caches.join(FOLDER_NAME),
        _ => data_folder.join("cache"),
    }
}

/// A connection to the user's supervisor, in this or another process.
#[derive(Debug)]
pub enum Connection {
    /// This process owns the lock. Other processes reach its supervisor through the socket.
    Own(OwnInstance),
    /// Another process owns the lock.
    Running(Handle),
}

/// The user's supervisor and its socket.
#[derive(Debug)]
pub struct OwnInstance {
    supervisor: Supervisor,
    /// The error if no socket could be created.
    server: Result<Server, InstanceError>,
    /// Dropped last.
    lock: InstanceLock,
}

impl Connection {
    /// Returns a handle of the supervisor.
    pub fn handle(&self) -> Handle {
        match self {
            Self::Own(own) => own.supervisor.handle(),
            Self::Running(handle) => handle.clone(),
        }
    }

    fn server(&self) -> Option<&Result<Server, InstanceError>> {
        match self {
            Self::Own(own) => Some(&own.server),
            Self::Running(_) => None,
        }
    }

    /// Returns true if the supervisor runs in this process.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// Returns the number of requests of other programs that [`Connection::close`] would wait for.
    pub fn n_remote_requests(&self) -> usize {
        let server = self.server().and_then(|server| server.as_ref().ok());
        server.map_or(0, Server::n_open_requests)
    }

    /// Returns why other programs cannot reach the supervisor of this process, if they cannot.
    pub fn sharing_error(&self) -> Option<&InstanceError> {
        self.server()?.as_ref().err()
    }

    /// Returns a future that quits the supervisor of this process, even if other programs wait for
    /// responses, and ends when models and saved states are gone; `None` if the supervisor runs in
    /// another process.
    pub fn quit(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        match self {
            Self::Own(own) => Some(own.supervisor.quit()),
            Self::Running(_) => None,
        }
    }

    /// Ends this process's part. If the supervisor runs in this process, it accepts no more
    /// requests, finishes the requests of other programs (but fails those that wait in a pause),
    /// quits, and releases the lock. Otherwise only the connection is closed.
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
        // Requests never start during a pause, so they fail when this supervisor quits.
        let stalled = async move {
            let is_stalled = |status: &Arc<Status>| status.is_paused && !status.is_answering();
            // Fails only if the supervisor is gone, which ends all requests.
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

/// Connects to the user's running supervisor, or runs the one that `start` returns, which then also
/// serves other programs. Must be called within a Tokio runtime.
///
/// Waits up to 10 seconds for an instance that is starting, and for one that is closing until its
/// requests have ended. If no socket can be created, the supervisor is not shared
/// ([`Connection::sharing_error`]). It saves the states of unloaded models in [`cache_folder`]
/// until it is closed.
///
/// # Errors
/// Any [`InstanceError`]; its message says what to do.
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
            let server = listener
                .map(|(listener, socket)| Server::start(listener, socket, supervisor.handle()));
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

/// Lets `supervisor`, whose process owns the lock, save the states of its models.
fn save_states(supervisor: &Supervisor, data_folder: &Path) {
    // The folder exists only once, after an update.
    let _ = std::fs::remove_dir_all(data_folder.join(OLD_SAVED_STATES_FOLDER));
    let folder = cache_folder(data_folder).join(SAVED_STATES_FOLDER);
    match saved_states::prepare(&folder) {
        Ok(()) => supervisor.save_states_in(folder),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "conversations are not saved");
        }
    }
}

/// Connects to the running supervisor, if there is one; starts and creates nothing. Must be called
/// within a Tokio runtime.
///
/// # Errors
/// The errors of [`open`].
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
