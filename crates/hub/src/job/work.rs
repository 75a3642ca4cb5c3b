//! The files of a plan, one after the other: what is there, whether there is room, each attempt.
//!
//! Rule: what an attempt ended with goes to the file's `Course`, and what that says is done. A file
//! is among the whole ones only after its checksum was right.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::{Job, News, blocking, stopped};
use crate::course::{Course, Fault, Step};
use crate::disk::trouble;
use crate::fetch::{Attempt, Told};
use crate::lock::Lock;
use crate::part::{Identity, Part, WriteError};
use crate::plan::Plan;
use crate::{HubError, State};

/// A check that takes less than this is not worth a word.
const QUICK_CHECK: u64 = 64 << 20;

/// How the work on a plan ended.
pub(super) enum Outcome {
    Whole,
    /// The hub has other files now.
    AskAnew,
}

/// Work on the files of a plan.
pub(super) struct Work<'a> {
    pub(super) job: &'a mut Job,
    pub(super) folder: &'a Path,
    pub(super) lock: &'a Arc<Lock>,
    pub(super) plan: &'a Plan,
    /// Of files that are whole.
    pub(super) done_bytes: u64,
    /// Of those of them that are in the model's folder.
    pub(super) placed_bytes: u64,
}

impl Work<'_> {
    /// Returns when all files are whole, or when the hub has to be asked anew.
    pub(super) async fn files(
        &mut self,
        courses: &mut HashMap<String, Course>,
        unmarked: &mut Vec<Identity>,
    ) -> Result<Outcome, HubError> {
        let missing = self.missing().await?;
        self.check_room(&missing).await?;
        for file in missing {
            let course = courses
                .entry(file.name.clone())
                .or_insert_with(|| self.job.course());
            match self.file(&file, course, unmarked).await? {
                Outcome::Whole => self.done_bytes += file.size_bytes,
                Outcome::AskAnew => return Ok(Outcome::AskAnew),
            }
        }
        Ok(Outcome::Whole)
    }

    /// The files that are not whole yet, neither among the parts nor in the model's folder.
    async fn missing(&mut self) -> Result<Vec<Identity>, HubError> {
        let mut missing = Vec::new();
        for file in &self.plan.files {
            let has_size = |path: &Path| {
                let metadata = std::fs::metadata(path);
                metadata.is_ok_and(|data| data.is_file() && data.len() == file.size_bytes)
            };
            let place = self.plan.final_path(file);
            if has_size(&Plan::whole_path(self.folder, file)) {
                self.done_bytes += file.size_bytes;
            } else if has_size(&place) && self.is_same(&place, file).await? {
                self.done_bytes += file.size_bytes;
                self.placed_bytes += file.size_bytes;
            } else {
                missing.push(file.clone());
            }
        }
        Ok(missing)
    }

    /// Whether the file that is in the model's folder already is the one that is wanted.
    async fn is_same(&self, path: &Path, file: &Identity) -> Result<bool, HubError> {
        let (path, file) = (path.to_owned(), file.clone());
        let teller = self.job.teller.clone();
        let order = self.job.order.clone();
        blocking(move || {
            use std::io::Read;
            let at = |error: std::io::Error| trouble(&path, &error);
            let mut data = std::fs::File::open(&path).map_err(at)?;
            let mut sum = file.digest.begin(file.size_bytes);
            let mut step = vec![0; 1 << 20];
            let mut done_bytes = 0;
            loop {
                let n_bytes = data.read(&mut step).map_err(at)?;
                if n_bytes == 0 {
                    return Ok(sum.end() == file.digest);
                }
                if order.borrow().stop {
                    return Err(HubError::Stopped);
                }
                sum.add(&step[..n_bytes]);
                done_bytes += n_bytes as u64;
                if file.size_bytes >= QUICK_CHECK {
                    teller.tell(News::State(State::Verifying {
                        done_bytes,
                        total_bytes: file.size_bytes,
                    }));
                }
            }
        })
        .await
    }

    /// Counts what is still to be written, and whether the disk has room for it.
    async fn check_room(&self, missing: &[Identity]) -> Result<(), HubError> {
        let there: u64 = missing
            .iter()
            .map(|file| Part::len_on_disk(self.folder, file))
            .sum();
        let due: u64 = missing.iter().map(|file| file.size_bytes).sum();
        self.show_bytes(there);
        let needed_bytes = due.saturating_sub(there);
        if needed_bytes == 0 {
            return Ok(());
        }
        let _turn = self.job.shared.asks_for_room.lock().await;
        let claimed: u64 = {
            let claims = self.job.shared.claims.lock();
            let claims = claims.unwrap_or_else(PoisonError::into_inner);
            let others = claims.iter().filter(|(id, _)| **id != self.job.teller.id);
            others.map(|(_, bytes)| bytes).sum()
        };
        let needed_bytes = needed_bytes + self.job.shared.options.spare_bytes;
        let disk = Arc::clone(&self.job.shared.options.disk);
        let folder = self.folder.to_owned();
        let home = self.plan.wanted.folder.clone();
        let home_bytes = self.plan.total_bytes().saturating_sub(self.placed_bytes);
        let guard = self.lock.held();
        blocking(move || {
            let _guard = guard;
            if let Some(home) = on_another_disk(&folder, &home) {
                let free = disk.free_bytes(&home);
                let free_bytes = free.map_err(|error| trouble(&home, &error))?;
                if free_bytes < home_bytes {
                    return Err(HubError::DiskFull {
                        folder: home,
                        needed_bytes: home_bytes,
                        free_bytes,
                    });
                }
            }
            let free = disk.free_bytes(&folder);
            let free = free.map_err(|error| trouble(&folder, &error))?;
            let free_bytes = free.saturating_sub(claimed);
            if free_bytes < needed_bytes {
                return Err(HubError::DiskFull {
                    folder,
                    needed_bytes,
                    free_bytes,
                });
            }
            Ok(())
        })
        .await?;
        self.tell_bytes(there);
        Ok(())
    }

    /// Tells how much is there, and claims room for the rest.
    fn tell_bytes(&self, part_bytes: u64) {
        let rest = self.show_bytes(part_bytes);
        let claims = self.job.shared.claims.lock();
        let mut claims = claims.unwrap_or_else(PoisonError::into_inner);
        claims.insert(self.job.teller.id, rest);
    }

    /// Tells how much is there. Returns how much is not.
    fn show_bytes(&self, part_bytes: u64) -> u64 {
        let (done, total) = (self.done_bytes + part_bytes, self.plan.total_bytes());
        self.job.teller.tell(News::Bytes { done, total });
        total.saturating_sub(done)
    }

    /// Fetches one file, with as many attempts as its course allows.
    async fn file(
        &mut self,
        file: &Identity,
        course: &mut Course,
        unmarked: &mut Vec<Identity>,
    ) -> Result<Outcome, HubError> {
        let mut part = self.open(file).await?;
        loop {
            if unmarked.contains(file) {
                part.ignore_etag();
            }
            self.job.teller.tell(News::State(State::Downloading));
            let before = part.len();
            let result = self.attempt(&part, course.is_whole_only()).await;
            self.tell_bytes(part.len());
            let Err(fault) = result else {
                let to = Plan::whole_path(self.folder, file);
                let guard = self.lock.held();
                blocking(move || {
                    let _guard = guard;
                    part.finish(&to)
                })
                .await?;
                return Ok(Outcome::Whole);
            };
            let has_progressed = part.len() > before;
            if has_progressed {
                // What cannot be noted is only fetched again.
                let _ = part.save().await;
            }
            let error = fault.error().clone();
            match course.after(&fault, has_progressed) {
                Step::Again(time) => self.job.wait(time, error).await?,
                Step::AskAnew(time) => {
                    unmarked.push(file.clone());
                    self.job.wait(time, error).await?;
                    return Ok(Outcome::AskAnew);
                }
                Step::StartOver(time) => {
                    part.discard();
                    self.tell_bytes(0);
                    self.job.wait(time, error).await?;
                    part = self.open(file).await?;
                }
                Step::Discard => {
                    part.discard();
                    self.tell_bytes(0);
                    return Err(error);
                }
                Step::GiveUp if is_gone(&error) && !unmarked.contains(file) => {
                    // The commit may have been replaced since it was pinned.
                    unmarked.push(file.clone());
                    self.job.teller.tell(News::Trouble(error));
                    return Ok(Outcome::AskAnew);
                }
                Step::GiveUp => return Err(error),
            }
        }
    }

    async fn open(&self, file: &Identity) -> Result<Part, HubError> {
        let (folder, file) = (self.folder.to_owned(), file.clone());
        let lock = Arc::clone(self.lock);
        let disk = Arc::clone(&self.job.shared.options.disk);
        let opened = blocking(move || Ok(Part::open(&folder, &file, &lock, &disk))).await?;
        opened.map_err(|error| match error {
            WriteError::Full => self.full(0),
            WriteError::Other(error) => error,
        })
    }

    fn full(&self, part_bytes: u64) -> HubError {
        let options = &self.job.shared.options;
        let done = self.done_bytes + part_bytes;
        HubError::DiskFull {
            folder: self.folder.to_owned(),
            needed_bytes: self.plan.total_bytes().saturating_sub(done),
            free_bytes: options.disk.free_bytes(self.folder).unwrap_or(0),
        }
    }

    async fn attempt(&self, part: &Part, is_whole_only: bool) -> Result<(), Fault> {
        let shared = &self.job.shared;
        let size_bytes = part.file().size_bytes;
        let told = |told| match told {
            Told::Written => self.tell_bytes(part.len()),
            Told::Checked(done_bytes) if size_bytes >= QUICK_CHECK => {
                self.job.teller.tell(News::State(State::Verifying {
                    done_bytes,
                    total_bytes: size_bytes,
                }));
            }
            Told::Checked(_) => {}
        };
        let attempt = Attempt {
            hub: &shared.hub,
            options: &shared.options,
            connections: &shared.connections,
            repository: &self.plan.wanted.repository,
            commit: &self.plan.commit,
            part,
            is_whole_only,
            told: &told,
            full: &|| self.full(part.len()),
        };
        tokio::select! {
            result = attempt.run() => result,
            () = stopped(self.job.order.clone()) => Err(Fault::Hub(HubError::Stopped)),
        }
    }
}

/// The nearest folder above the model's that is there, if it is not on the disk of the parts.
fn on_another_disk(parts: &Path, home: &Path) -> Option<PathBuf> {
    let disk = |path: &Path| std::fs::metadata(path).ok().map(|data| data.dev());
    let above = home.ancestors().find(|path| path.exists())?;
    (disk(above) != disk(parts)).then(|| above.to_owned())
}

/// Whether the hub no longer has what the plan names.
fn is_gone(error: &HubError) -> bool {
    matches!(
        error,
        HubError::RevisionNotFound { .. } | HubError::FileNotFound { .. }
    )
}
