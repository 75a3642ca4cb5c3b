//! Downloads model files from a hub with Hugging Face's API, and queues the downloads.
//!
//! Rule: a file is in its final place only if it is complete and verified. Until then its part file
//! stays on the disk, and the next attempt resumes from it. Every error has one sentence.

mod attempt;
mod digest;
mod disk;
mod download;
mod downloads;
mod error;
mod hub;
pub mod hub_settings;
mod job;
mod listing;
mod lock;
mod network_wait;
mod options;
mod part_file;
mod plan;
mod publish;
mod queue;
mod ranges;
mod rate;
mod retry_policy;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
mod token;

pub use disk::{Disk, RealDisk};
pub use download::{Download, DownloadId, DownloadRequest, QueuePosition, RequestedFile, State};
pub use downloads::Downloads;
pub use error::HubError;
pub use hub::Hub;
pub use listing::{FoundRepository, Listing, ModelFormat, RemoteFile, RepositoryVariant};
pub use network_wait::NetworkWait;
pub use options::{DownloadsOptions, HubOptions, PUBLIC_HUB, RetryOptions, TokenSource};
pub use token::Token;
