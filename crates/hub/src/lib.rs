//! Fetches model files from a hub that speaks Hugging Face's routes, and keeps their order.
//!
//! Rule: a file is in its place only when it is whole and verified. Whatever happens before, a part
//! file stays that the next attempt goes on from, and the reason is told in one sentence.

pub mod choice;
mod course;
mod digest;
mod disk;
mod download;
mod downloads;
mod error;
mod fetch;
mod hub;
mod job;
mod listing;
mod lock;
mod options;
mod part;
mod plan;
mod publish;
mod queue;
mod ranges;
mod rate;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
mod token;

pub use disk::{Disk, RealDisk};
pub use download::{Download, DownloadId, Place, State, Wanted, WantedFile};
pub use downloads::{Downloads, DownloadsOptions, Freed, Patience};
pub use error::HubError;
pub use hub::Hub;
pub use listing::{Found, Library, Listing, Offer, RemoteFile};
pub use options::{HubOptions, PUBLIC_HUB, TokenSource};
pub use token::Token;
