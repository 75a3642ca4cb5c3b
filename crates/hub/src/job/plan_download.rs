//! Downloads the files of a plan, one after another: finds what is missing, checks the disk space,
//! runs the attempts.
//!
//! Rule: every failed attempt goes to the file's `RetryPolicy`, and its action is carried out. A
//! file is moved to the verified files only after its checksum was correct.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DownloadEvent, Job, blocking, stopped};
use crate::attempt::{AttemptProgress, DownloadAttempt};
use crate::disk::disk_error;
use crate::lock::Lock;
use crate::part_file::{FileIdentity, PartFile, WriteError};
use crate::plan::Plan;
use crate::retry_policy::{AttemptError, RetryAction, RetryPolicy};
use crate::{HubError, State};

pub(super) enum Outcome {
    Complete,
    /// The files on the hub have changed, so a new plan is needed.
    Replan,
}

pub(super) struct PlanDownload<'a> {
    pub(super) job: &'a mut Job,
    pub(super) folder: &'a Path,
    pub(super) lock: &'a Arc<Lock>,
    pub(super) plan: &'a Plan,
    pub(super) done_bytes: u64,
    /// Bytes of complete files that are already in the model's folder.
    pub(super) in_place_bytes: u64,
}

impl PlanDownload<'_> {
    /// Returns when all files are complete, or when a new plan is needed.
    pub(super) async fn download_all(
        &mut self,
        retry_policies: &mut HashMap<String, RetryPolicy>,
        etag_ignored: &mut Vec<FileIdentity>,
    ) -> Result<Outcome, HubError> {
        let missing = self.find_missing().await?;
        self.check_disk_space(&missing).await?;
        for file in missing {
            let retry_policy = retry_policies
                .entry(file.name.clone())
                .or_insert_with(|| self.job.new_retry_policy());
            match self
                .download_file(&file, retry_policy, etag_ignored)
                .await?
            {
                Outcome::Complete => self.done_bytes += file.size_bytes,
                Outcome::Replan => return Ok(Outcome::Replan),
            }
        }
        Ok(Outcome::Complete)
    }

    /// Returns the files that are neither among the verified files nor in the model's folder.
    async fn find_missing(&mut self) -> Result<Vec<FileIdentity>, HubError> {
        let mut missing = Vec::new();
        for file in &self.plan.files {
            let has_size = |path: &Path| {
                let metadata = std::fs::metadata(path);
                metadata.is_ok_and(|data| data.is_file() && data.len() == file.size_bytes)
            };
            let place = self.plan.final_path(file);
            if has_size(&Plan::verified_path(self.folder, file)) {
                self.done_bytes += file.size_bytes;
            } else if has_size(&place) && self.has_checksum(&place, file).await? {
                self.done_bytes += file.size_bytes;
                self.in_place_bytes += file.size_bytes;
            } else {
                missing.push(file.clone());
            }
        }
        Ok(missing)
    }

    async fn has_checksum(&self, path: &Path, file: &FileIdentity) -> Result<bool, HubError> {
        let (path, file) = (path.to_owned(), file.clone());
        let events = self.job.events.clone();
        let control = self.job.control.clone();
        blocking(move || {
            use std::io::Read;
            let at = |error: std::io::Error| disk_error(&path, &error);
            let mut data = std::fs::File::open(&path).map_err(at)?;
            let mut hasher = file.digest.hasher(file.size_bytes);
            let mut step = vec![0; 1 << 20];
            let mut done_bytes = 0;
            loop {
                let n_bytes = data.read(&mut step).map_err(at)?;
                if n_bytes == 0 {
                    return Ok(hasher.finish() == file.digest);
                }
                if control.borrow().should_stop {
                    return Err(HubError::Stopped);
                }
                hasher.update(&step[..n_bytes]);
                done_bytes += n_bytes as u64;
                events.send_verified(done_bytes, file.size_bytes);
            }
        })
        .await
    }

    /// Checks that the disk has space for the missing bytes, and reserves it.
    async fn check_disk_space(&self, missing: &[FileIdentity]) -> Result<(), HubError> {
        let there: u64 = missing
            .iter()
            .map(|file| PartFile::len_on_disk(self.folder, file))
            .sum();
        let due: u64 = missing.iter().map(|file| file.size_bytes).sum();
        self.report_progress(there);
        let needed_bytes = due.saturating_sub(there);
        if needed_bytes == 0 {
            return Ok(());
        }
        let _turn = self.job.shared.disk_check.lock().await;
        let reserved_by_others: u64 = {
            let reserved_bytes = self.job.shared.reserved_bytes.lock();
            let others = reserved_bytes.iter();
            let others = others.filter(|(id, _)| **id != self.job.events.id);
            others.map(|(_, bytes)| bytes).sum()
        };
        let needed_bytes = needed_bytes + self.job.shared.options.spare_bytes;
        let disk = Arc::clone(&self.job.shared.options.disk);
        let folder = self.folder.to_owned();
        let target = self.plan.request.folder.clone();
        let target_bytes = self.plan.total_bytes().saturating_sub(self.in_place_bytes);
        let guard = self.lock.guard();
        blocking(move || {
            let _guard = guard;
            let check = |folder: PathBuf, needed_bytes: u64, reserved_bytes: u64| {
                let free = disk.free_bytes(&folder);
                let free = free.map_err(|error| disk_error(&folder, &error))?;
                let free_bytes = free.saturating_sub(reserved_bytes);
                match free_bytes < needed_bytes {
                    false => Ok(()),
                    true => Err(HubError::DiskFull {
                        folder,
                        needed_bytes,
                        free_bytes,
                    }),
                }
            };
            if let Some(target) = if_on_another_disk(&folder, &target) {
                check(target, target_bytes, 0)?;
            }
            check(folder, needed_bytes, reserved_by_others)
        })
        .await?;
        self.report_and_reserve(there);
        Ok(())
    }

    /// Reports the progress, and reserves disk space for the remaining bytes.
    fn report_and_reserve(&self, part_bytes: u64) {
        let rest = self.report_progress(part_bytes);
        let mut reserved_bytes = self.job.shared.reserved_bytes.lock();
        reserved_bytes.insert(self.job.events.id, rest);
    }

    /// Reports the progress. Returns the number of remaining bytes.
    fn report_progress(&self, part_bytes: u64) -> u64 {
        let (done, total) = (self.done_bytes + part_bytes, self.plan.total_bytes());
        self.job
            .events
            .send(DownloadEvent::Progress { done, total });
        total.saturating_sub(done)
    }

    /// Downloads one file, with as many attempts as its retry policy allows.
    async fn download_file(
        &mut self,
        file: &FileIdentity,
        retry_policy: &mut RetryPolicy,
        etag_ignored: &mut Vec<FileIdentity>,
    ) -> Result<Outcome, HubError> {
        let mut part = self.open(file).await?;
        loop {
            if etag_ignored.contains(file) {
                part.ignore_etag();
            }
            self.job
                .events
                .send(DownloadEvent::State(State::Downloading));
            let before = part.len();
            let result = self
                .attempt(&part, retry_policy.is_range_unsupported())
                .await;
            self.report_and_reserve(part.len());
            let Err(failure) = result else {
                let to = Plan::verified_path(self.folder, file);
                let guard = self.lock.guard();
                blocking(move || {
                    let _guard = guard;
                    part.finish(&to)
                })
                .await?;
                return Ok(Outcome::Complete);
            };
            let has_progressed = part.len() > before;
            if has_progressed {
                // Bytes that are not in the journal are only downloaded again.
                let _ = part.save().await;
            }
            let error = failure.error().clone();
            match retry_policy.next_action(&failure, has_progressed) {
                RetryAction::Retry(time) => self.job.wait(time, error).await?,
                RetryAction::Replan(time) => {
                    etag_ignored.push(file.clone());
                    self.job.wait(time, error).await?;
                    return Ok(Outcome::Replan);
                }
                RetryAction::Restart(time) => {
                    part.discard();
                    self.report_and_reserve(0);
                    self.job.wait(time, error).await?;
                    part = self.open(file).await?;
                }
                RetryAction::Discard => {
                    part.discard();
                    self.report_and_reserve(0);
                    return Err(error);
                }
                RetryAction::GiveUp if is_gone(&error) && !etag_ignored.contains(file) => {
                    // The commit may have been replaced since the plan was made.
                    etag_ignored.push(file.clone());
                    self.job.events.send(DownloadEvent::Problem(error));
                    return Ok(Outcome::Replan);
                }
                RetryAction::GiveUp => return Err(error),
            }
        }
    }

    async fn open(&self, file: &FileIdentity) -> Result<PartFile, HubError> {
        let (folder, file) = (self.folder.to_owned(), file.clone());
        let lock = Arc::clone(self.lock);
        let disk = Arc::clone(&self.job.shared.options.disk);
        let opened = blocking(move || Ok(PartFile::open(&folder, &file, &lock, &disk))).await?;
        opened.map_err(|error| match error {
            WriteError::Full => self.disk_full_error(0),
            WriteError::Other(error) => error,
        })
    }

    fn disk_full_error(&self, part_bytes: u64) -> HubError {
        let options = &self.job.shared.options;
        let done = self.done_bytes + part_bytes;
        HubError::DiskFull {
            folder: self.folder.to_owned(),
            needed_bytes: self.plan.total_bytes().saturating_sub(done),
            free_bytes: options.disk.free_bytes(self.folder).unwrap_or(0),
        }
    }

    async fn attempt(
        &self,
        part: &PartFile,
        is_range_unsupported: bool,
    ) -> Result<(), AttemptError> {
        let shared = &self.job.shared;
        let on_progress = |progress| match progress {
            AttemptProgress::Written => self.report_and_reserve(part.len()),
            AttemptProgress::Verified(done_bytes) => {
                self.job
                    .events
                    .send_verified(done_bytes, part.file().size_bytes);
            }
        };
        let attempt = DownloadAttempt {
            hub: &shared.hub,
            options: &shared.options,
            connections: &shared.connections,
            repository: &self.plan.request.repository,
            commit: &self.plan.commit,
            part,
            is_range_unsupported,
            on_progress: &on_progress,
            disk_full_error: &|| self.disk_full_error(part.len()),
        };
        tokio::select! {
            result = attempt.run() => result,
            () = stopped(self.job.control.clone()) => Err(AttemptError::Hub(HubError::Stopped)),
        }
    }
}

/// Returns the nearest existing folder above the target if it is on another disk than the part
/// files.
fn if_on_another_disk(parts: &Path, target: &Path) -> Option<PathBuf> {
    let disk = |path: &Path| std::fs::metadata(path).ok().map(|data| data.dev());
    let above = target.ancestors().find(|path| path.exists())?;
    (disk(above) != disk(parts)).then(|| above.to_owned())
}

fn is_gone(error: &HubError) -> bool {
    matches!(
        error,
        HubError::RevisionNotFound { .. } | HubError::FileNotFound { .. }
    )
}
