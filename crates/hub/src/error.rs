//! Everything that can go wrong between a hub and a whole model, one case and one sentence each.
//!
//! Rule: each case carries its numbers and names its file or host, so that the sentence needs no
//! context. Windows translate by `code()`; `Display` says it in English and says what to do.

use std::fmt::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why something was not found, not fetched or not written. Serialised with its `code`.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HubError {
    /// The user (or `HF_HUB_OFFLINE`) forbade the network.
    #[error("Downloads are off, because HF_HUB_OFFLINE is set. Unset it to fetch models.")]
    Offline,
    /// No connection could be made; a download waits and goes on by itself.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The host that was asked.
        host: String,
        /// What the system said.
        reason: String,
    },
    /// The host's certificate is not trusted by this computer.
    #[error(
        "The connection to {host} is not safe: {reason}. A proxy that reads along, or a wrong clock, may be the cause."
    )]
    NotSafe {
        /// The host that was asked.
        host: String,
        /// What the verifier said.
        reason: String,
    },
    /// Nothing came for too long.
    #[error("{host} has sent nothing for {seconds} seconds.")]
    Silent {
        /// The host that was asked.
        host: String,
        /// How long was waited.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        seconds: u64,
    },
    /// The connection ended before the answer did.
    #[error("The connection was lost while {file} was coming.")]
    Dropped {
        /// The file that was being fetched, or the address.
        file: String,
    },
    /// 401, and no token was sent.
    #[error(
        "{repository} was not found, or is private. If it is yours, set a Hugging Face token in the settings or in HF_TOKEN."
    )]
    TokenNeeded {
        /// The repository that was asked for.
        repository: String,
    },
    /// 401, although a token was sent.
    #[error("{host} does not accept the token. It may have been revoked: set a new one.")]
    TokenRefused {
        /// The host that was asked.
        host: String,
    },
    /// The authors want their conditions accepted first.
    #[error(
        "The authors of {repository} ask you to accept their conditions first. Open {page}, accept, and try again with a token of that account."
    )]
    Gated {
        /// The repository that was asked for.
        repository: String,
        /// Where to accept.
        page: String,
    },
    /// 403 for another reason.
    #[error("{host} refuses access to {what}. The token may lack the right to read it.")]
    Forbidden {
        /// The host that was asked.
        host: String,
        /// The repository or file.
        what: String,
    },
    /// 404 for the repository.
    #[error("There is no repository {repository}. Check its name.")]
    RepositoryNotFound {
        /// The repository that was asked for.
        repository: String,
    },
    /// 404 for the revision.
    #[error("{repository} has no revision {revision}.")]
    RevisionNotFound {
        /// The repository that was asked for.
        repository: String,
        /// The revision that was asked for.
        revision: String,
    },
    /// 404 for a file.
    #[error("{repository} has no file {file}.")]
    FileNotFound {
        /// The repository that was asked for.
        repository: String,
        /// The file that was asked for.
        file: String,
    },
    /// 416: the part of the file that was asked for is not there.
    #[error("{host} does not have the part of {file} that was asked for. Try again later.")]
    RangeRefused {
        /// The host that was asked.
        host: String,
        /// The file that was being fetched.
        file: String,
    },
    /// 429.
    #[error("{host} was asked too often{}.", wait(seconds))]
    TooManyRequests {
        /// The host that was asked.
        host: String,
        /// How long it wants to be left alone, if it said so.
        #[cfg_attr(feature = "bindings", ts(type = "number | null"))]
        seconds: Option<u64>,
    },
    /// 5xx.
    #[error("{host} has trouble of its own (status {status}). Try again later.")]
    ServerTrouble {
        /// The host that was asked.
        host: String,
        /// The status it answered.
        status: u16,
        /// How long it wants to be left alone, if it said so: for the next attempt, and not told.
        #[serde(skip)]
        #[cfg_attr(feature = "bindings", ts(skip))]
        seconds: Option<u64>,
    },
    /// 407.
    #[error("The proxy wants a user and password, and has not got the right ones.")]
    ProxyRefused,
    /// Something else than the hub's routes answer.
    #[error("{host} did not answer as a hub does: {what}")]
    NotAHub {
        /// The host that was asked.
        host: String,
        /// What was wrong.
        what: String,
    },
    /// The server sent a file or part of another length than it should have.
    #[error("{file} came with a wrong length: {found} bytes, where {expected} were due.")]
    WrongLength {
        /// The file that was being fetched.
        file: String,
        /// In bytes.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        expected: u64,
        /// In bytes.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        found: u64,
    },
    /// All bytes came, but not the right ones. What came was deleted.
    #[error(
        "{file} came damaged, and what came was deleted: its checksum is {found}, where {expected} was due. Try again later."
    )]
    WrongHash {
        /// The file that was fetched.
        file: String,
        /// In hexadecimal.
        expected: String,
        /// In hexadecimal.
        found: String,
    },
    /// The file became another one between two parts of it, so it starts over.
    #[error("{file} was changed on the hub while it was coming.")]
    ChangedMeanwhile {
        /// The file that was being fetched.
        file: String,
    },
    /// The hub's file is not the one that was asked for by size or checksum.
    #[error(
        "{file} on the hub is not the file in the list of models: {expected} was listed, {found} is there."
    )]
    NotAsListed {
        /// The file that was asked for.
        file: String,
        /// Its listed size or checksum.
        expected: String,
        /// The hub's.
        found: String,
    },
    /// The disk has no room, before or during the download.
    #[error(
        "The disk is too full: {} more are needed in {}, {} are free.",
        bytes(*needed_bytes), folder.display(), bytes(*free_bytes)
    )]
    DiskFull {
        /// Where it was to go.
        folder: PathBuf,
        /// What is still to come, in bytes.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        needed_bytes: u64,
        /// What the disk has, in bytes.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        free_bytes: u64,
    },
    /// A file or folder cannot be written by this user.
    #[error("{} cannot be written: {reason}", path.display())]
    NotWritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Reading or writing failed for another reason.
    #[error("{} could not be read or written: {reason}", path.display())]
    DiskTrouble {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// There is nothing in the repository that Transom could run.
    #[error("{repository} has no model files (.safetensors with a config.json, or .gguf).")]
    NoModelFiles {
        /// The repository that was asked for.
        repository: String,
    },
    /// A repository holds the model several times, and none was chosen.
    #[error("{repository} has the model in several packings. Choose one of {}.", packings.join(", "))]
    SeveralPackings {
        /// The repository that was asked for.
        repository: String,
        /// Their names.
        packings: Vec<String>,
    },
    /// A name that cannot be a repository, or would leave its folder.
    #[error("{name:?} cannot be the name of a repository or file.")]
    BadName {
        /// The name as it came.
        name: String,
    },
    /// `HF_ENDPOINT` or the like is no address.
    #[error("{endpoint:?} is not the address of a hub: {reason}")]
    BadEndpoint {
        /// The address as it came.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another program fetches the same; a download waits and takes over when that one ends.
    #[error("{by} is fetching {name} already.")]
    InUse {
        /// The program, with its process number.
        by: String,
        /// What is fetched.
        name: String,
    },
    /// No download has this number (any more).
    #[error("There is no such download.")]
    NoSuchDownload,
    /// No keychain runs on this computer.
    #[error(
        "No keychain was found ({reason}), so the token cannot be kept. Set HF_TOKEN in the environment instead."
    )]
    NoKeychain {
        /// What the system said.
        reason: String,
    },
    /// The keychain is locked, or the user said no.
    #[error("The keychain refused: {reason}")]
    KeychainRefused {
        /// What the system said.
        reason: String,
    },
    /// What was given is no token.
    #[error("This is not a token. A Hugging Face token is one word and begins with hf_.")]
    NotAToken,
    /// The program is ending, or the queue is gone.
    #[error("Downloads have been stopped.")]
    Stopped,
}

impl HubError {
    /// A word for the case, for translation; the same as `code` in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::Unreachable { .. } => "unreachable",
            Self::NotSafe { .. } => "not_safe",
            Self::Silent { .. } => "silent",
            Self::Dropped { .. } => "dropped",
            Self::TokenNeeded { .. } => "token_needed",
            Self::TokenRefused { .. } => "token_refused",
            Self::Gated { .. } => "gated",
            Self::Forbidden { .. } => "forbidden",
            Self::RepositoryNotFound { .. } => "repository_not_found",
            Self::RevisionNotFound { .. } => "revision_not_found",
            Self::FileNotFound { .. } => "file_not_found",
            Self::RangeRefused { .. } => "range_refused",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::ServerTrouble { .. } => "server_trouble",
            Self::ProxyRefused => "proxy_refused",
            Self::NotAHub { .. } => "not_a_hub",
            Self::WrongLength { .. } => "wrong_length",
            Self::WrongHash { .. } => "wrong_hash",
            Self::ChangedMeanwhile { .. } => "changed_meanwhile",
            Self::NotAsListed { .. } => "not_as_listed",
            Self::DiskFull { .. } => "disk_full",
            Self::NotWritable { .. } => "not_writable",
            Self::DiskTrouble { .. } => "disk_trouble",
            Self::NoModelFiles { .. } => "no_model_files",
            Self::SeveralPackings { .. } => "several_packings",
            Self::BadName { .. } => "bad_name",
            Self::BadEndpoint { .. } => "bad_endpoint",
            Self::InUse { .. } => "in_use",
            Self::NoSuchDownload => "no_such_download",
            Self::NoKeychain { .. } => "no_keychain",
            Self::KeychainRefused { .. } => "keychain_refused",
            Self::NotAToken => "not_a_token",
            Self::Stopped => "stopped",
        }
    }
}

/// ", and wants to be left alone for 40 seconds", or nothing.
fn wait(seconds: &Option<u64>) -> String {
    let mut text = String::new();
    if let Some(seconds) = seconds {
        let _ = write!(text, ", and wants to be left alone for {seconds} seconds");
    }
    text
}

/// In the units of a disk: "3.2 GB", "410 MB".
fn bytes(n_bytes: u64) -> String {
    let n_bytes = n_bytes as f64;
    if n_bytes >= 1e9 {
        format!("{:.1} GB", n_bytes / 1e9)
    } else {
        format!("{:.0} MB", (n_bytes / 1e6).ceil())
    }
}

/// What lies at the bottom of an error: "Connection refused" rather than "error sending request".
pub(crate) fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
