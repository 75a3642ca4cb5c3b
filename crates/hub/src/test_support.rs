//! A hub on this machine, with faults on demand.
//!
//! Rule: it speaks the routes as the official hub does (metadata, redirects to a blob store at
//! another address, ranges, ETags), so that what works here works there. It runs on a thread of its
//! own, for tests with and without tokio, and remembers what it was asked.

mod faults;
mod repositories;
mod server;
mod tight_disk;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

pub use faults::{Fault, Route};
pub use tight_disk::TightDisk;

use self::repositories::Repositories;
use crate::{Hub, HubError, HubOptions, TokenSource};

/// A hub on this machine. It ends with its value.
#[derive(Debug)]
pub struct LocalHub {
    address: String,
    state: Arc<Mutex<State>>,
    _end: tokio::sync::oneshot::Sender<()>,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which route it was for.
    pub route: Route,
    /// With its query.
    pub path: String,
    /// As it came.
    pub range: Option<String>,
    /// Whether it carried a token, right or wrong.
    pub has_token: bool,
}

#[derive(Debug, Default)]
struct State {
    repositories: Repositories,
    token: Option<String>,
    rules: Vec<faults::Rule>,
    /// Old names and new ones.
    renamed: Vec<(String, String)>,
    seen: Vec<Seen>,
    /// Links with a lower number are refused.
    oldest_link: u64,
    next_link: u64,
}

impl LocalHub {
    /// Starts one with nothing in it, at two free addresses of this machine.
    pub fn start() -> io::Result<Self> {
        Self::start_at(0)
    }

    /// The same, the hub itself at this port.
    pub fn start_at(port: u16) -> io::Result<Self> {
        let hub = server::listen(port)?;
        let blobs = server::listen(0)?;
        let address = format!("http://{}", hub.local_addr()?);
        let state: Arc<Mutex<State>> = Arc::default();
        let (end, ended) = tokio::sync::oneshot::channel();
        let served = Arc::clone(&state);
        thread::Builder::new()
            .name("local-hub".to_owned())
            .spawn(move || server::serve(hub, blobs, served, ended))?;
        Ok(Self {
            address,
            state,
            _end: end,
        })
    }

    /// Its address, for `HF_ENDPOINT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Options for a hub of ours that asks it: no token, no proxies, quick to find it silent.
    pub fn options(&self) -> HubOptions {
        HubOptions {
            endpoint: self.address.clone(),
            token: TokenSource::Nothing,
            is_offline: false,
            silence: Duration::from_secs(10),
            uses_proxies: false,
        }
    }

    /// A hub of ours that asks it.
    pub fn hub(&self) -> Result<Hub, HubError> {
        Hub::new(self.options())
    }

    /// Puts a file into a repository, which has a new commit by that. Files from 1,000 bytes on
    /// lie in the blob store. Returns the commit.
    pub fn put(&self, repository: &str, file: &str, bytes: impl Into<Vec<u8>>) -> String {
        let mut state = self.state();
        state.repositories.put(repository, file, bytes.into())
    }

    /// Puts `owner/name/…` below this folder into repositories of these names.
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

    /// Other bytes under the same commit, as no hub should do it.
    pub fn rewrite(&self, repository: &str, file: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state();
        state.repositories.rewrite(repository, file, bytes.into());
    }

    /// What a file is now.
    pub fn bytes(&self, repository: &str, file: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let (_, blob) = state.repositories.file(repository, "main", file).ok()?;
        Some(blob.bytes.to_vec())
    }

    /// Forgets all commits of a repository but the newest.
    pub fn forget_history(&self, repository: &str) {
        self.state().repositories.forget_history(repository);
    }

    /// The token that opens gated repositories.
    pub fn accept_token(&self, token: &str) {
        self.state().token = Some(token.to_owned());
    }

    /// What is asked of the old name is redirected to the new one, on the hub itself.
    pub fn rename(&self, old: &str, new: &str) {
        self.state().renamed.push((old.to_owned(), new.to_owned()));
    }

    /// Wants the token, and conditions accepted, for this repository.
    pub fn gate(&self, repository: &str) {
        self.state().repositories.gate(repository);
    }

    /// The next so many requests of a route go wrong in this way.
    pub fn fail(&self, route: Route, fault: Fault, n_times: u32) {
        self.state().rules.push(faults::Rule {
            route,
            fault,
            n_times,
        });
    }

    /// The same from a line of words, such as `blob:drop=1000*3` or `resolve:status=429/2`. Without
    /// a number of times it is for ever.
    pub fn fail_as(&self, words: &str) -> Result<(), String> {
        let rule = faults::Rule::read(words)?;
        self.state().rules.push(rule);
        Ok(())
    }

    /// No more faults.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// All requests since the start.
    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
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
