//! All errors of the hub: one case and one sentence each.
//!
//! Rule: each case contains its values and names its file or host, so its sentence needs no context.
//! Windows translate by `code()`; `Display` says in English what happened and what to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use transom_files::disk_text;

/// Why a search, a listing or a download failed. Serialized with its `code`.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum HubError {
    /// `HF_HUB_OFFLINE` turns the network off.
    #[error("Downloads are off because HF_HUB_OFFLINE is set. Unset it to download models.")]
    Offline,
    /// No connection could be made. A download waits and continues by itself.
    #[error("Can't reach {host}: {reason}. Check your internet connection.")]
    Unreachable { host: String, reason: String },
    /// This computer does not trust the host's certificate, or a redirect leads from HTTPS to HTTP.
    #[error(
        "Can't make a secure connection to {host}: {reason}. Check your clock and your proxy settings."
    )]
    NotSafe { host: String, reason: String },
    /// The connection timed out.
    #[error("{host} sent no data for {seconds} seconds.")]
    Silent { host: String, seconds: u64 },
    /// The connection ended before the response did.
    #[error("The connection was lost during the download of {file}.")]
    Dropped { file: String },
    /// 401 without a token.
    #[error(
        "{repository} was not found or is private. If it is yours, add a Hugging Face token in the settings or set HF_TOKEN."
    )]
    TokenNeeded { repository: String },
    /// 401 with a token.
    #[error("{host} rejected the token. It may have been revoked. Set a new one.")]
    TokenRefused { host: String },
    /// The authors require that users accept their license first.
    #[error(
        "You need to accept the license of {repository} first. Accept it at {page}, then try again with a token of that account."
    )]
    Gated {
        repository: String,
        /// The page on which to accept the license.
        page: String,
    },
    /// 403 for another reason.
    #[error("{host} denied access to {what}. The token may not have permission to read it.")]
    Forbidden { host: String, what: String },
    /// 404 for the repository.
    #[error("There's no repository named {repository}. Check its name.")]
    RepositoryNotFound { repository: String },
    /// 404 for the revision.
    #[error("{repository} has no revision {revision}.")]
    RevisionNotFound {
        repository: String,
        revision: String,
    },
    /// 404 for a file.
    #[error("{repository} has no file {file}.")]
    FileNotFound { repository: String, file: String },
    /// 416: the server does not have the requested range of the file.
    #[error("{host} can't resume the download of {file} right now. Try again later.")]
    RangeRefused { host: String, file: String },
    /// 429.
    #[error("{host} received too many requests. Try again {}.", when(*seconds))]
    TooManyRequests {
        host: String,
        /// How long to wait, if the response says so.
        seconds: Option<u64>,
    },
    /// 5xx.
    #[error("{host} returned an error (status {status}). Try again later.")]
    ServerTrouble {
        host: String,
        status: u16,
        /// How long to wait, if the response says so. Used for the next attempt, and not shown.
        #[serde(skip)]
        seconds: Option<u64>,
    },
    /// 407.
    #[error("The proxy requires a valid user name and password.")]
    ProxyRefused,
    /// A response that no hub sends.
    #[error("{host} sent an unexpected response: {what}")]
    NotAHub { host: String, what: String },
    /// The server sent a file or a range with the wrong length.
    #[error("{file} has the wrong size: the server sent {found} bytes instead of {expected}.")]
    WrongLength {
        file: String,
        expected: u64,
        found: u64,
    },
    /// All bytes arrived, but their checksum is wrong. The file was deleted.
    #[error(
        "{file} failed verification, so Transom deleted it: its checksum is {found} instead of {expected}. Try again later."
    )]
    WrongHash {
        file: String,
        expected: String,
        found: String,
    },
    /// The file changed on the server between two requests, so it is downloaded again.
    #[error("{file} changed on the hub during the download.")]
    ChangedMeanwhile { file: String },
    /// The hub's file has another size or checksum than the requested one.
    #[error(
        "{file} on the hub doesn't match the list of models: expected {expected}, found {found}."
    )]
    NotAsListed {
        file: String,
        expected: String,
        found: String,
    },
    /// The disk is full, before or during the download.
    #[error(
        "Not enough disk space in {}: the download needs {} more, and {} is free.",
        folder.display(), disk_text(*needed_bytes), disk_text(*free_bytes)
    )]
    DiskFull {
        folder: PathBuf,
        /// The bytes still to write.
        needed_bytes: u64,
        free_bytes: u64,
    },
    /// This user cannot write to a file or folder.
    #[error("Can't write to {}: {reason}", path.display())]
    NotWritable { path: PathBuf, reason: String },
    /// Reading or writing failed for another reason.
    #[error("Can't read or write {}: {reason}", path.display())]
    DiskTrouble { path: PathBuf, reason: String },
    /// The repository contains no model that Transom can run.
    #[error(
        "{repository} has no model that Transom can run (.safetensors with a config.json, or .gguf)."
    )]
    NoModelFiles { repository: String },
    /// The repository contains several quantizations of the model, and none was chosen.
    #[error("{repository} has the model in several quantizations. Choose one of {}.", quantizations.join(", "))]
    SeveralQuantizations {
        repository: String,
        quantizations: Vec<String>,
    },
    /// An invalid name of a repository or file, or one that would leave its folder.
    #[error("{name:?} isn't a valid name for a repository or file.")]
    BadName { name: String },
    /// The endpoint, for example in `HF_ENDPOINT`, is not a valid address.
    #[error("{endpoint:?} isn't a valid hub address: {reason}")]
    BadEndpoint { endpoint: String, reason: String },
    /// The system lacks what encrypted connections need, such as the certificates of servers.
    #[error(
        "Encrypted connections don't work on this computer: {reason}. On Linux, install the package ca-certificates."
    )]
    NoEncryption { reason: String },
    /// Another program has the same download. This one waits and continues when that one ends.
    #[error("{by} is already downloading {name}.")]
    InUse {
        /// The program and its process id.
        by: String,
        name: String,
    },
    /// No download has this id.
    #[error("This download no longer exists.")]
    NoSuchDownload,
    /// No keychain is running on this computer.
    #[error(
        "No keychain was found ({reason}), so the token can't be stored. Set HF_TOKEN instead."
    )]
    NoKeychain { reason: String },
    /// The keychain is locked, or the user denied access.
    #[error("The keychain returned an error: {reason}")]
    KeychainRefused { reason: String },
    /// The text is not a token.
    #[error("This is not a token. A Hugging Face token is one word that starts with hf_.")]
    NotAToken,
    /// The program is ending, or the queue has stopped.
    #[error("Downloads were stopped.")]
    Stopped,
}

impl HubError {
    /// Returns the code of the case, for translation: `code` in JSON.
    pub fn code(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// "in 40 seconds", or "later".
fn when(seconds: Option<u64>) -> String {
    seconds.map_or("later".to_owned(), |seconds| {
        format!("in {seconds} seconds")
    })
}

/// Returns the root cause of an error: "Connection refused" and not "error sending request".
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut root_cause = error;
    while let Some(source) = root_cause.source() {
        root_cause = source;
    }
    root_cause.to_string()
}
