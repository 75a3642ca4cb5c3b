//! Updates of the app as the pages show them.

use serde::Serialize;
use ts_rs::TS;

/// Updates of the app.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, TS)]
pub struct UpdatesView {
    /// Why this copy does not update itself; `None` if it does.
    pub refusal: Option<UpdateRefusal>,
    /// The server that is asked for the newest version; empty if this build knows none.
    pub host: String,
    /// What is happening.
    pub step: UpdateStep,
    /// The newer version that the last check found.
    pub offer: Option<OfferView>,
    /// The version that the server offered at the last check, if it is older than this one.
    pub older: Option<String>,
    /// When the last check succeeded, in milliseconds since 1970.
    pub checked_at: Option<i64>,
    /// Why the last check, download or installation failed.
    pub problem: Option<UpdateProblem>,
}

/// Why a copy of the app does not update itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum UpdateRefusal {
    /// It was built without a server or without a public key.
    NoServer,
    /// It is not installed, for example because it was started from the folder of a build.
    NotInstalled,
    /// It is an app of a Mac outside the folder Applications.
    NotInApplications,
    /// A package manager installed it.
    Package,
    /// The user may not write to its folder.
    NotWritable,
}

/// A step of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, TS)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum UpdateStep {
    /// Nothing happens.
    #[default]
    Idle,
    /// The server is asked for the newest version.
    Checking,
    /// The newer version is being downloaded.
    Downloading {
        /// Bytes so far.
        done_bytes: u64,
    },
    /// The newer version is downloaded, and its signature is right.
    Ready,
    /// The installation waits for running responses.
    Waiting,
    /// The app is being replaced. Then it starts again.
    Installing,
}

/// A newer version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct OfferView {
    /// Its version.
    pub version: String,
    /// The size of the download in bytes.
    pub size_bytes: u64,
    /// What it changes, in English.
    pub notes: Vec<ReleaseNote>,
}

/// A line of release notes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct ReleaseNote {
    /// It is the heading of the lines below.
    pub is_heading: bool,
    /// Plain text.
    pub text: String,
}

/// Why an update failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum UpdateProblem {
    /// The server can't be reached.
    Unreachable,
    /// The server responded with an error.
    Refused,
    /// The server named an address that is not encrypted.
    Insecure,
    /// The server's response is not a description of a release.
    Malformed,
    /// The release has no file for this system.
    NoFile,
    /// The connection was lost during the download.
    Interrupted,
    /// The disk has too little space.
    DiskFull {
        /// Bytes that the update needs; 0 if the disk was full unexpectedly.
        needed_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
    },
    /// The file is not signed with the key of this app.
    BadSignature,
    /// The file is signed for another version than the announced one.
    OtherVersion,
    /// The system does not allow the app to be replaced.
    NotPermitted,
    /// The app was moved away, and neither the new nor the old one could be put in its place.
    NotRestored {
        /// Where the old app is.
        path: String,
    },
    /// Something else.
    Failed {
        /// The reason in English.
        detail: String,
    },
}
