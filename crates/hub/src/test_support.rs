//! A hub on this machine that injects faults.
//!
//! Rule: it behaves like the official hub (metadata, redirects to a blob store at another address,
//! ranges, ETags), so code that works here works there. It runs on its own thread, for tests with
//! and without tokio, and records all requests.

mod faults;
mod limited_disk;
mod repositories;
mod server;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

pub use faults::{Fault, Route};
pub use limited_disk::LimitedDisk;

use self::repositories::Repositories;
use crate::{Hub, HubError, HubOptions, TokenSource};

/// A hub on this machine. Dropping it stops it.
#[derive(Debug)]
pub struct LocalHub {
    address: String,
    state: Arc<Mutex<State>>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// A request that the hub received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The route of the request.
    pub route: Route,
    /// The path with its query.
    pub path: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// Whether it carried a token, valid or not.
    pub has_token: bool,
}

#[derive(Debug, Default)]
struct State {
    repositories: Repositories,
    token: Option<String>,
    rules: Vec<faults::FaultRule>,
    /// Old and new names of repositories.
    renamed: Vec<(String, String)>,
    requests: Vec<ReceivedRequest>,
    /// Links with a lower number have expired.
    oldest_link: u64,
    next_link: u64,
}

impl LocalHub {
    /// Starts an empty hub at two free addresses of this machine.
    pub fn start() -> io::Result<Self> {
        Self::start_at(0)
    }

    /// Starts an empty hub at this port.
    pub fn start_at(port: u16) -> io::Result<Self> {
        let hub = server::listen(port)?;
        let blobs = server::listen(0)?;
        let address = format!("http://{}", hub.local_addr()?);
        let state: Arc<Mutex<State>> = Arc::default();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let served = Arc::clone(&state);
        thread::Builder::new()
            .name("local-hub".to_owned())
            .spawn(move || server::serve(hub, blobs, served, stopped))?;
        Ok(Self {
            address,
            state,
            _stop: stop,
        })
    }

    /// Returns the address, for `HF_ENDPOINT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns options for a client of this hub: no token, no proxies, and a short timeout.
    pub fn options(&self) -> HubOptions {
        HubOptions {
            endpoint: self.address.clone(),
            token: TokenSource::Nothing,
            is_offline: false,
            silence: Duration::from_secs(10),
            uses_proxies: false,
        }
    }

    /// Returns a client of this hub.
    pub fn hub(&self) -> Result<Hub, HubError> {
        Hub::new(self.options())
    }

    /// Puts a file into a repository, which creates a new commit. Files of 1,000 bytes and more are
    /// in the blob store. Returns the commit.
    pub fn put(&self, repository: &str, file: &str, bytes: impl Into<Vec<u8>>) -> String {
        let mut state = self.state();
        state.repositories.put(repository, file, bytes.into())
    }

    /// Puts the files below `owner/name/` in this folder into repositories with these names.
    pub fn put_folder(&self, folder: &Path) -> io::Result<()> {
        for owner in folders(folder)? {
            for name in folders(&owner)? {
                let repository = format!("{}/{}", last(&owner), last(&name));
                self.put_files(&repository, &name, "")?;
            }
        }
        Ok(())
    }

    fn put_files(&self, repository: &str, folder: &Path, above: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = format!("{above}{}", last(&path));
            if path.is_dir() {
                self.put_files(repository, &path, &format!("{name}/"))?;
            } else {
                self.put(repository, &name, fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// Changes the bytes of a file without a new commit, which no real hub does.
    pub fn rewrite(&self, repository: &str, file: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state();
        state.repositories.rewrite(repository, file, bytes.into());
    }

    /// Returns the current bytes of a file.
    pub fn bytes(&self, repository: &str, file: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let (_, blob) = state.repositories.file(repository, "main", file).ok()?;
        Some(blob.bytes.to_vec())
    }

    /// Deletes all commits of a repository except the newest.
    pub fn forget_history(&self, repository: &str) {
        self.state().repositories.forget_history(repository);
    }

    /// Sets the token that opens gated repositories.
    pub fn accept_token(&self, token: &str) {
        self.state().token = Some(token.to_owned());
    }

    /// Renames a repository. Requests with the old name are redirected within the hub.
    pub fn rename(&self, old: &str, new: &str) {
        self.state().renamed.push((old.to_owned(), new.to_owned()));
    }

    /// Makes a repository gated.
    pub fn gate(&self, repository: &str) {
        self.state().repositories.gate(repository);
    }

    /// Injects a fault into the next `n_times` requests of a route.
    pub fn fail(&self, route: Route, fault: Fault, n_times: u32) {
        self.state().rules.push(faults::FaultRule {
            route,
            fault,
            n_times,
        });
    }

    /// Injects a fault from its text, such as `blob:drop=1000*3` or `resolve:status=429/2`. Without
    /// a count it is permanent.
    pub fn fail_from_text(&self, words: &str) -> Result<(), String> {
        let rule = faults::FaultRule::parse(words)?;
        self.state().rules.push(rule);
        Ok(())
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state().rules.clear();
    }

    /// Returns all requests since the start.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state().requests.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn folders(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn last(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
