//! One attempt to download a file: resolves its link, downloads the missing ranges over several
//! connections, and verifies its checksum.
//!
//! Rule: this module decides nothing. An attempt ends with the complete, verified file or with an
//! error, and the bytes received until then are in the part file.

use std::ops::Range;

use futures_util::stream::{self, TryStreamExt};
use reqwest::{StatusCode, Url};
use tokio::sync::Semaphore;

use crate::hub::{HubResponse, RangeRequest, RequestContext, Resolved, content_range};
use crate::part_file::{FileIdentity, PartFile, WriteError};
use crate::retry_policy::AttemptError;
use crate::{DownloadsOptions, Hub, HubError};

/// Received bytes are written in chunks of this size.
const STEP_BYTES: usize = 1 << 20;

pub(crate) struct DownloadAttempt<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) options: &'a DownloadsOptions,
    pub(crate) connections: &'a Semaphore,
    pub(crate) repository: &'a str,
    pub(crate) commit: &'a str,
    pub(crate) part: &'a PartFile,
    /// True if the server ignores range requests.
    pub(crate) is_range_unsupported: bool,
    /// Called after each step: after each write, and after each checksum step once all bytes are
    /// written.
    pub(crate) on_progress: &'a (dyn Fn(AttemptProgress) + Sync),
    /// Returns the error for a full disk.
    pub(crate) disk_full_error: &'a (dyn Fn() -> HubError + Sync),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptProgress {
    Written,
    Verified(u64),
}

impl DownloadAttempt<'_> {
    pub(crate) async fn run(&self) -> Result<(), AttemptError> {
        let fetch = async {
            if self.part.is_complete() {
                return Ok(());
            }
            let file = &self.file().name;
            let resolved = self.hub.resolve(self.repository, self.commit, file).await?;
            self.check_unchanged(&resolved)?;
            if self.is_range_unsupported {
                self.download_in_one_request(&resolved.link).await
            } else {
                self.download_in_pieces(&resolved.link).await
            }
        };
        let hash = async {
            let on_progress = |n_bytes| {
                if self.part.is_complete() {
                    (self.on_progress)(AttemptProgress::Verified(n_bytes));
                }
            };
            let digest = self.part.hash_as_written(on_progress).await;
            digest.map_err(|error| self.write_failed(error))
        };
        let ((), found) = tokio::try_join!(fetch, hash)?;
        if found != self.file().digest {
            return Err(AttemptError::Hub(HubError::WrongHash {
                file: self.file().name.clone(),
                expected: self.file().digest.to_string(),
                found: found.to_string(),
            }));
        }
        Ok(())
    }

    fn file(&self) -> &FileIdentity {
        self.part.file()
    }

    fn check_unchanged(&self, resolved: &Resolved) -> Result<(), AttemptError> {
        let file = self.file();
        let is_commit = resolved
            .commit
            .as_deref()
            .is_none_or(|it| it == self.commit);
        let is_size = resolved.size_bytes.is_none_or(|it| it == file.size_bytes);
        // A listed SHA-256 of a small file cannot be compared with git's checksum of it.
        let is_digest = resolved.digest.as_ref().is_none_or(|it| {
            it == &file.digest || std::mem::discriminant(it) != std::mem::discriminant(&file.digest)
        });
        if is_commit && is_size && is_digest {
            return Ok(());
        }
        Err(self.changed())
    }

    fn changed(&self) -> AttemptError {
        AttemptError::Hub(HubError::ChangedMeanwhile {
            file: self.file().name.clone(),
        })
    }

    async fn download_in_pieces(&self, link: &Url) -> Result<(), AttemptError> {
        let pieces = self.part.missing(self.options.piece_bytes);
        let n_connections = self.options.connections_per_file.max(1);
        stream::iter(pieces.into_iter().map(Ok))
            .try_for_each_concurrent(n_connections, |piece| self.download_piece(link, piece))
            .await
    }

    async fn download_piece(&self, link: &Url, range: Range<u64>) -> Result<(), AttemptError> {
        let _turn = self.connections.acquire().await;
        let request = RangeRequest {
            range: range.clone(),
            if_range: self.part.etag(),
        };
        let response = self.request(link, Some(&request)).await?;
        let is_part = response.inner.status() == StatusCode::PARTIAL_CONTENT;
        let is_all = range == (0..self.file().size_bytes);
        if !self.part.check_etag(response.strong_etag()) {
            return Err(self.changed());
        }
        if !is_part && !is_all {
            return Err(AttemptError::RangeIgnored(HubError::NotAHub {
                host: response.host,
                what: "it ignores range requests".to_owned(),
            }));
        }
        if is_part {
            let due = (range.clone(), self.file().size_bytes);
            match content_range(response.inner.headers()) {
                Some(span) if span == due => {}
                // If the total length differs, the file has changed.
                Some((_, total)) if total != due.1 => return Err(self.changed()),
                Some((span, _)) => return Err(self.wrong_length(&range, span.end - span.start)),
                None => return Err(self.wrong_length(&range, 0)),
            }
        }
        self.write_body(response, range).await
    }

    async fn download_in_one_request(&self, link: &Url) -> Result<(), AttemptError> {
        let _turn = self.connections.acquire().await;
        let response = self.request(link, None).await?;
        if !self.part.check_etag(response.strong_etag()) {
            return Err(self.changed());
        }
        self.write_body(response, 0..self.file().size_bytes).await
    }

    async fn request(
        &self,
        link: &Url,
        range: Option<&RangeRequest>,
    ) -> Result<HubResponse, AttemptError> {
        let context = RequestContext {
            file: Some(self.file().name.clone()),
            ..RequestContext::of(self.repository, self.commit)
        };
        let response = self.hub.http().get_bytes(link, range, &context).await;
        response.map_err(|error| self.classify(link, error))
    }

    /// Converts a refused request. If the blob store refuses a link, the link has expired; an error
    /// of the hub itself has its usual meaning.
    fn classify(&self, link: &Url, error: HubError) -> AttemptError {
        if self.hub.http().is_own(link) {
            return AttemptError::Hub(error);
        }
        let host = link.host_str().unwrap_or_default().to_owned();
        match error {
            HubError::TokenNeeded { .. }
            | HubError::TokenRefused { .. }
            | HubError::Forbidden { .. }
            | HubError::Gated { .. } => AttemptError::LinkRefused(HubError::Forbidden {
                host,
                what: self.file().name.clone(),
            }),
            HubError::FileNotFound { .. } => AttemptError::LinkRefused(error),
            error => AttemptError::Hub(error),
        }
    }

    /// Writes a response's body to the part file. Bytes received before an error stay.
    async fn write_body(
        &self,
        mut response: HubResponse,
        range: Range<u64>,
    ) -> Result<(), AttemptError> {
        let due = range.end - range.start;
        if let Some(length) = response.inner.content_length()
            && length != due
        {
            return Err(self.wrong_length(&range, length));
        }
        let silence = self.hub.http().silence();
        let name = &self.file().name;
        let mut at = range.start;
        let capacity = (due as usize).min(STEP_BYTES + (64 << 10));
        let mut step: Vec<u8> = Vec::with_capacity(capacity);
        loop {
            let chunk = response.chunk(silence, name).await;
            let is_more = matches!(&chunk, Ok(Some(_)));
            if let Ok(Some(bytes)) = &chunk {
                step.extend_from_slice(bytes.as_ref());
            }
            let written_end = at + step.len() as u64;
            if written_end > range.end {
                return Err(self.wrong_length(&range, written_end - range.start));
            }
            if !step.is_empty() && (step.len() >= STEP_BYTES || !is_more) {
                let bytes = std::mem::replace(&mut step, Vec::with_capacity(capacity));
                let written = self.part.write(at, bytes).await;
                written.map_err(|error| self.write_failed(error))?;
                at = written_end;
                (self.on_progress)(AttemptProgress::Written);
            }
            match chunk {
                Ok(Some(_)) => {}
                Ok(None) if at == range.end => return Ok(()),
                Ok(None) => return Err(self.wrong_length(&range, at - range.start)),
                Err(error) => return Err(AttemptError::Hub(error)),
            }
        }
    }

    fn wrong_length(&self, range: &Range<u64>, found: u64) -> AttemptError {
        AttemptError::Hub(HubError::WrongLength {
            file: self.file().name.clone(),
            expected: range.end - range.start,
            found,
        })
    }

    fn write_failed(&self, error: WriteError) -> AttemptError {
        AttemptError::Hub(match error {
            WriteError::Full => (self.disk_full_error)(),
            WriteError::Other(error) => error,
        })
    }
}
