//! One attempt at one file: where it lies, its missing parts over a few connections, its checksum.
//!
//! Rule: nothing is decided here. An attempt ends with the whole, verified file or with a fault,
//! and what came until then is in the part file.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use futures_util::future::try_join_all;
use reqwest::{StatusCode, Url};
use tokio::sync::Semaphore;

use crate::course::Fault;
use crate::hub::{About, Answer, Part as Asked, Resolved, span_of};
use crate::part::{Identity, Part, WriteError};
use crate::{DownloadsOptions, Hub, HubError};

/// What came is written in steps of this size.
const STEP_BYTES: usize = 1 << 20;

/// One attempt.
pub(crate) struct Attempt<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) options: &'a DownloadsOptions,
    pub(crate) connections: &'a Semaphore,
    pub(crate) repository: &'a str,
    pub(crate) commit: &'a str,
    pub(crate) part: &'a Part,
    /// The server gives no parts.
    pub(crate) is_whole_only: bool,
    /// Told after each step: bytes written, or bytes checked once all are written.
    pub(crate) told: &'a (dyn Fn(Told) + Sync),
    /// What to say when the disk is full.
    pub(crate) full: &'a (dyn Fn() -> HubError + Sync),
}

/// How far an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Written,
    Checked(u64),
}

impl Attempt<'_> {
    /// Returns when the part is whole and its checksum is right.
    pub(crate) async fn run(&self) -> Result<(), Fault> {
        let fetch = async {
            if self.part.is_whole() {
                return Ok(());
            }
            let file = &self.file().name;
            let resolved = self.hub.resolve(self.repository, self.commit, file).await?;
            self.compare(&resolved)?;
            if self.is_whole_only {
                self.whole(&resolved.link).await
            } else {
                self.parts(&resolved.link).await
            }
        };
        let follow = async {
            let told = |n_bytes| {
                if self.part.is_whole() {
                    (self.told)(Told::Checked(n_bytes));
                }
            };
            let digest = self.part.follow(told).await;
            digest.map_err(|error| self.write_fault(error))
        };
        let ((), found) = tokio::try_join!(fetch, follow)?;
        if found != self.file().digest {
            return Err(Fault::Hub(HubError::WrongHash {
                file: self.file().name.clone(),
                expected: self.file().digest.to_string(),
                found: found.to_string(),
            }));
        }
        Ok(())
    }

    fn file(&self) -> &Identity {
        self.part.file()
    }

    /// Whether the hub still has the file that the plan says.
    fn compare(&self, resolved: &Resolved) -> Result<(), Fault> {
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

    fn changed(&self) -> Fault {
        Fault::Hub(HubError::ChangedMeanwhile {
            file: self.file().name.clone(),
        })
    }

    async fn parts(&self, link: &Url) -> Result<(), Fault> {
        let pieces = self.part.missing(self.options.piece_bytes);
        let n_workers = self
            .options
            .connections_a_file
            .clamp(1, pieces.len().max(1));
        let queue = Mutex::new(VecDeque::from(pieces));
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.pop_front()
        };
        let workers = (0..n_workers).map(|_| async {
            while let Some(piece) = next() {
                self.piece(link, piece).await?;
            }
            Ok(())
        });
        try_join_all(workers).await.map(drop)
    }

    async fn piece(&self, link: &Url, range: Range<u64>) -> Result<(), Fault> {
        let _turn = self.connections.acquire().await;
        let if_range = self.part.etag();
        let asked = Asked {
            range: Some(range.clone()),
            if_range: if_range.clone(),
        };
        let answer = self.ask(link, &asked).await?;
        let is_part = answer.response.status() == StatusCode::PARTIAL_CONTENT;
        let is_all = range == (0..self.file().size_bytes);
        if !self.part.note_etag(answer.strong_etag()) {
            return Err(self.changed());
        }
        if !is_part && !is_all {
            return Err(Fault::RangeIgnored(HubError::NotAHub {
                host: answer.host,
                what: "it sends whole files where parts are asked for".to_owned(),
            }));
        }
        if is_part {
            let due = (range.clone(), self.file().size_bytes);
            match span_of(answer.response.headers()) {
                Some(span) if span == due => {}
                // Another length of the whole is another file.
                Some((_, total)) if total != due.1 => return Err(self.changed()),
                Some((span, _)) => return Err(self.wrong_length(&range, span.end - span.start)),
                None => return Err(self.wrong_length(&range, 0)),
            }
        }
        self.take(answer, range).await
    }

    async fn whole(&self, link: &Url) -> Result<(), Fault> {
        let _turn = self.connections.acquire().await;
        let asked = Asked {
            range: None,
            if_range: None,
        };
        let answer = self.ask(link, &asked).await?;
        if !self.part.note_etag(answer.strong_etag()) {
            return Err(self.changed());
        }
        self.take(answer, 0..self.file().size_bytes).await
    }

    async fn ask(&self, link: &Url, asked: &Asked) -> Result<Answer, Fault> {
        let about = About {
            file: Some(self.file().name.clone()),
            ..About::of(self.repository, self.commit)
        };
        let answer = self.hub.wire().part(link, asked, &about).await;
        answer.map_err(|error| self.refused(link, error))
    }

    /// A refusal by the store means that its link is no longer good; one by the hub itself means
    /// what it says.
    fn refused(&self, link: &Url, error: HubError) -> Fault {
        if self.hub.wire().is_own(link) {
            return Fault::Hub(error);
        }
        let host = link.host_str().unwrap_or_default().to_owned();
        match error {
            HubError::TokenNeeded { .. }
            | HubError::TokenRefused { .. }
            | HubError::Forbidden { .. }
            | HubError::Gated { .. } => Fault::LinkRefused(HubError::Forbidden {
                host,
                what: self.file().name.clone(),
            }),
            HubError::FileNotFound { .. } => Fault::LinkRefused(error),
            error => Fault::Hub(error),
        }
    }

    /// Writes a body into its place. What came before a fault is kept.
    async fn take(&self, mut answer: Answer, range: Range<u64>) -> Result<(), Fault> {
        let due = range.end - range.start;
        if let Some(length) = answer.response.content_length()
            && length != due
        {
            return Err(self.wrong_length(&range, length));
        }
        let silence = self.hub.wire().silence();
        let name = &self.file().name;
        let mut at = range.start;
        let room = (due as usize).min(STEP_BYTES + (64 << 10));
        let mut step: Vec<u8> = Vec::with_capacity(room);
        loop {
            let chunk = answer.chunk(silence, name).await;
            let is_more = matches!(&chunk, Ok(Some(_)));
            if let Ok(Some(bytes)) = &chunk {
                step.extend_from_slice(bytes.as_ref());
            }
            let came = at + step.len() as u64;
            if came > range.end {
                return Err(self.wrong_length(&range, came - range.start));
            }
            if !step.is_empty() && (step.len() >= STEP_BYTES || !is_more) {
                let bytes = std::mem::replace(&mut step, Vec::with_capacity(room));
                let written = self.part.write(at, bytes).await;
                written.map_err(|error| self.write_fault(error))?;
                at = came;
                (self.told)(Told::Written);
            }
            match chunk {
                Ok(Some(_)) => {}
                Ok(None) if at == range.end => return Ok(()),
                Ok(None) => return Err(self.wrong_length(&range, at - range.start)),
                Err(error) => return Err(Fault::Hub(error)),
            }
        }
    }

    fn wrong_length(&self, range: &Range<u64>, found: u64) -> Fault {
        Fault::Hub(HubError::WrongLength {
            file: self.file().name.clone(),
            expected: range.end - range.start,
            found,
        })
    }

    fn write_fault(&self, error: WriteError) -> Fault {
        Fault::Hub(match error {
            WriteError::Full => (self.full)(),
            WriteError::Other(error) => error,
        })
    }
}
