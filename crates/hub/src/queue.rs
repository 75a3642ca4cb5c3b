//! The download queue: decides which downloads run, in which order.
//!
//! Rule: this module is pure. The first `max_concurrent` entries that are neither paused nor
//! finished run; `schedule` derives everything else from that. It reads no clock; the time is an
//! argument.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::job::DownloadEvent;
use crate::rate::Rate;
use crate::{Download, DownloadId, DownloadRequest, HubError, QueuePosition, State};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Start { id: DownloadId, run: u64 },
    Stop(DownloadId),
}

#[derive(Debug)]
pub(crate) struct Queue {
    entries: Vec<Entry>,
    max_concurrent: usize,
    next_id: u64,
    next_run: u64,
    is_stopped: bool,
}

#[derive(Debug)]
struct Entry {
    request: DownloadRequest,
    download: Download,
    /// A run that has not ended. It may have been told to stop.
    run: Option<Run>,
    rate: Option<Rate>,
    is_canceled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    number: u64,
    is_stopping: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedDownload {
    pub(crate) id: DownloadId,
    #[serde(alias = "wanted")]
    pub(crate) request: DownloadRequest,
    pub(crate) is_paused: bool,
    pub(crate) failed: Option<HubError>,
}

impl Queue {
    pub(crate) fn new(max_concurrent: usize) -> Self {
        Self {
            entries: Vec::new(),
            max_concurrent: max_concurrent.max(1),
            next_id: 1,
            next_run: 1,
            is_stopped: false,
        }
    }

    /// Appends a saved download, with the number of its bytes on the disk.
    pub(crate) fn restore(
        &mut self,
        saved: SavedDownload,
        done_bytes: u64,
        total_bytes: Option<u64>,
    ) {
        let state = match (saved.failed, saved.is_paused) {
            (Some(error), _) => State::Failed(error),
            (None, true) => State::Paused,
            (None, false) => State::Queued,
        };
        self.next_id = self.next_id.max(saved.id.0 + 1);
        self.push(saved.id, saved.request, state);
        if let Some(entry) = self.entries.last_mut() {
            entry.download.done_bytes = done_bytes;
            entry.download.total_bytes = total_bytes;
        }
    }

    pub(crate) fn add(&mut self, request: DownloadRequest) -> DownloadId {
        let same = self
            .entries
            .iter()
            .position(|entry| entry.request.key == request.key && !entry.is_canceled);
        if let Some(at) = same {
            let entry = &mut self.entries[at];
            match entry.download.state {
                State::Done => {
                    self.entries.remove(at);
                }
                State::Failed(_) | State::Paused => {
                    entry.download.name.clone_from(&request.name);
                    entry.request = request;
                    entry.download.state = State::Queued;
                    return entry.download.id;
                }
                _ => return entry.download.id,
            }
        }
        let id = self.new_id();
        self.push(id, request, State::Queued);
        id
    }

    pub(crate) fn new_id(&mut self) -> DownloadId {
        let id = DownloadId(self.next_id);
        self.next_id += 1;
        id
    }

    fn push(&mut self, id: DownloadId, request: DownloadRequest, state: State) {
        self.entries.push(Entry {
            download: Download {
                id,
                key: request.key.clone(),
                name: request.name.clone(),
                repository: request.repository.clone(),
                folder: request.folder.clone(),
                state,
                done_bytes: 0,
                total_bytes: None,
                bytes_per_second: 0,
                seconds_left: None,
                last_error: None,
            },
            request,
            run: None,
            rate: None,
            is_canceled: false,
        });
    }

    pub(crate) fn pause(&mut self, id: DownloadId) -> Result<(), HubError> {
        let entry = self.entry(id)?;
        if !entry.download.state.is_finished() {
            entry.set_state(State::Paused);
        }
        Ok(())
    }

    /// Returns true if the job waits before a retry and must be told to retry now.
    pub(crate) fn resume(&mut self, id: DownloadId) -> Result<bool, HubError> {
        let entry = self.entry(id)?;
        match entry.download.state {
            State::Paused | State::Failed(_) => entry.set_state(State::Queued),
            State::Retrying { .. } => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    /// Removes a download from the list. Its part files may be deleted when [`Self::is_idle`]
    /// returns true.
    pub(crate) fn cancel(&mut self, id: DownloadId) -> Result<DownloadRequest, HubError> {
        let entry = self.entry(id)?;
        entry.is_canceled = true;
        entry.set_state(State::Paused);
        Ok(entry.request.clone())
    }

    pub(crate) fn is_done(&self, id: DownloadId) -> bool {
        let entry = self.entries.iter().find(|entry| entry.download.id == id);
        entry.is_some_and(|entry| entry.download.state == State::Done)
    }

    /// Returns true if no job of the download is running.
    pub(crate) fn is_idle(&self, id: DownloadId) -> bool {
        let entry = self.entries.iter().find(|entry| entry.download.id == id);
        entry.is_none_or(|entry| entry.run.is_none())
    }

    pub(crate) fn remove(&mut self, id: DownloadId) {
        self.entries.retain(|entry| entry.download.id != id);
    }

    pub(crate) fn move_to(&mut self, id: DownloadId, place: QueuePosition) -> Result<(), HubError> {
        self.entry(id)?;
        if place == QueuePosition::Before(id) {
            return Ok(());
        }
        if let QueuePosition::Before(other) = place {
            self.entry(other)?;
        }
        let position =
            |entries: &[Entry], id| entries.iter().position(|entry| entry.download.id == id);
        let Some(from) = position(&self.entries, id) else {
            return Err(HubError::NoSuchDownload);
        };
        let entry = self.entries.remove(from);
        let to = match place {
            QueuePosition::First => 0,
            QueuePosition::Last => self.entries.len(),
            QueuePosition::Before(other) => position(&self.entries, other).unwrap_or(from),
        };
        self.entries.insert(to, entry);
        Ok(())
    }

    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(crate) fn request(&self, id: DownloadId) -> Option<&DownloadRequest> {
        let entry = self.entries.iter().find(|entry| entry.download.id == id);
        entry.map(|entry| &entry.request)
    }

    pub(crate) fn has_running(&self) -> bool {
        self.entries.iter().any(|entry| entry.run.is_some())
    }

    /// Handles an event of a job. Returns false if it is from an earlier run or has no effect.
    pub(crate) fn on_event(
        &mut self,
        id: DownloadId,
        run: u64,
        event: DownloadEvent,
        now: Instant,
    ) -> bool {
        let Ok(entry) = self.any_entry(id) else {
            return false;
        };
        let Some(current) = entry.run.filter(|current| current.number == run) else {
            return false;
        };
        match event {
            DownloadEvent::Ended(result) => {
                entry.run = None;
                entry.rate = None;
                if !current.is_stopping || result.is_ok() {
                    entry.finish(result);
                }
            }
            DownloadEvent::Progress { done, total } => entry.update_progress(done, total, now),
            _ if current.is_stopping => return false,
            DownloadEvent::State(state) => {
                if state != State::Downloading {
                    entry.rate = None;
                    entry.clear_rate();
                }
                entry.download.state = state;
            }
            DownloadEvent::Problem(error) => entry.download.last_error = Some(error),
        }
        true
    }

    /// Returns what to do so that the right downloads run.
    pub(crate) fn schedule(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut n_free_slots = if self.is_stopped {
            0
        } else {
            self.max_concurrent
        };
        for entry in &mut self.entries {
            let is_ready = !entry.download.state.is_finished()
                && entry.download.state != State::Paused
                && !entry.is_canceled;
            let should_run = is_ready && n_free_slots > 0;
            if should_run {
                n_free_slots -= 1;
            }
            match (&mut entry.run, should_run) {
                (None, true) => {
                    let run = self.next_run;
                    self.next_run += 1;
                    entry.run = Some(Run {
                        number: run,
                        is_stopping: false,
                    });
                    entry.download.state = State::Downloading;
                    let id = entry.download.id;
                    effects.push(Effect::Start { id, run });
                }
                (Some(run), false) if !run.is_stopping => {
                    run.is_stopping = true;
                    if is_ready {
                        entry.set_state(State::Queued);
                    }
                    effects.push(Effect::Stop(entry.download.id));
                }
                _ => {}
            }
        }
        effects
    }

    pub(crate) fn list(&self) -> Vec<Download> {
        let entries = self.entries.iter().filter(|entry| !entry.is_canceled);
        entries.map(|entry| entry.download.clone()).collect()
    }

    /// Returns the downloads to save: all that are not done.
    pub(crate) fn saved(&self) -> Vec<SavedDownload> {
        let entries = self.entries.iter().filter(|entry| !entry.is_canceled);
        let open = entries.filter(|entry| entry.download.state != State::Done);
        open.map(|entry| SavedDownload {
            id: entry.download.id,
            request: entry.request.clone(),
            is_paused: entry.download.state == State::Paused,
            failed: match &entry.download.state {
                State::Failed(error) => Some(error.clone()),
                _ => None,
            },
        })
        .collect()
    }

    fn entry(&mut self, id: DownloadId) -> Result<&mut Entry, HubError> {
        let entry = self.any_entry(id)?;
        if entry.is_canceled {
            return Err(HubError::NoSuchDownload);
        }
        Ok(entry)
    }

    fn any_entry(&mut self, id: DownloadId) -> Result<&mut Entry, HubError> {
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.download.id == id);
        entry.ok_or(HubError::NoSuchDownload)
    }
}

impl Entry {
    fn clear_rate(&mut self) {
        self.download.bytes_per_second = 0;
        self.download.seconds_left = None;
    }

    fn set_state(&mut self, state: State) {
        self.download.state = state;
        self.rate = None;
        self.clear_rate();
    }

    fn finish(&mut self, result: Result<(), HubError>) {
        self.clear_rate();
        self.download.state = match result {
            Ok(()) => {
                self.download.done_bytes = self.download.total_bytes.unwrap_or_default();
                State::Done
            }
            Err(error) => State::Failed(error),
        };
    }

    fn update_progress(&mut self, done: u64, total: u64, now: Instant) {
        self.download.done_bytes = done;
        self.download.total_bytes = Some(total);
        if self.download.state != State::Downloading {
            return;
        }
        let rate = self.rate.get_or_insert_with(|| Rate::new(now, done));
        rate.record(now, done);
        self.download.bytes_per_second = rate.bytes_per_second();
        self.download.seconds_left = rate.seconds_left(Some(total));
    }
}

#[cfg(test)]
mod tests;
