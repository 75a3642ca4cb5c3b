//! The order of downloads: who runs, who waits, and what a person's wish changes.
//!
//! Rule: this is pure. The first so many lines that neither are paused nor over run; everything
//! else follows from `settle`. No clock is read; rates get the time as an argument.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::job::News;
use crate::rate::Rate;
use crate::{Download, DownloadId, HubError, Place, State, Wanted};

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Start { id: DownloadId, run: u64 },
    Stop(DownloadId),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: Vec<Line>,
    at_once: usize,
    next_id: u64,
    next_run: u64,
    is_stopped: bool,
}

#[derive(Debug)]
struct Line {
    wanted: Wanted,
    download: Download,
    /// A run that has not ended, maybe one that was told to.
    run: Option<Run>,
    rate: Option<Rate>,
    is_cancelled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    number: u64,
    is_stopping: bool,
}

/// A line as it is kept over a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) id: DownloadId,
    pub(crate) wanted: Wanted,
    pub(crate) is_paused: bool,
    pub(crate) failed: Option<HubError>,
}

impl Queue {
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            lines: Vec::new(),
            at_once: at_once.max(1),
            next_id: 1,
            next_run: 1,
            is_stopped: false,
        }
    }

    /// Puts a kept line at the end, with what is on the disk of it.
    pub(crate) fn restore(&mut self, kept: Kept, done_bytes: u64, total_bytes: Option<u64>) {
        let state = match (kept.failed, kept.is_paused) {
            (Some(error), _) => State::Failed(error),
            (None, true) => State::Paused,
            (None, false) => State::Waiting,
        };
        self.next_id = self.next_id.max(kept.id.0 + 1);
        self.push(kept.id, kept.wanted, state);
        if let Some(line) = self.lines.last_mut() {
            line.download.done_bytes = done_bytes;
            line.download.total_bytes = total_bytes;
        }
    }

    pub(crate) fn add(&mut self, wanted: Wanted) -> DownloadId {
        let same = self
            .lines
            .iter()
            .position(|line| line.wanted.key == wanted.key && !line.is_cancelled);
        if let Some(at) = same {
            let line = &mut self.lines[at];
            match line.download.state {
                State::Done => {
                    self.lines.remove(at);
                }
                State::Failed(_) | State::Paused => {
                    line.download.name.clone_from(&wanted.name);
                    line.wanted = wanted;
                    line.download.state = State::Waiting;
                    return line.download.id;
                }
                _ => return line.download.id,
            }
        }
        let id = self.fresh_id();
        self.push(id, wanted, State::Waiting);
        id
    }

    pub(crate) fn fresh_id(&mut self) -> DownloadId {
        let id = DownloadId(self.next_id);
        self.next_id += 1;
        id
    }

    fn push(&mut self, id: DownloadId, wanted: Wanted, state: State) {
        self.lines.push(Line {
            download: Download {
                id,
                key: wanted.key.clone(),
                name: wanted.name.clone(),
                repository: wanted.repository.clone(),
                folder: wanted.folder.clone(),
                state,
                done_bytes: 0,
                total_bytes: None,
                bytes_per_second: 0,
                seconds_left: None,
                last_trouble: None,
            },
            wanted,
            run: None,
            rate: None,
            is_cancelled: false,
        });
    }

    pub(crate) fn pause(&mut self, id: DownloadId) -> Result<(), HubError> {
        let line = self.line(id)?;
        if !line.download.state.is_over() {
            line.rest(State::Paused);
        }
        Ok(())
    }

    /// Returns whether its run waits, which is to end now.
    pub(crate) fn resume(&mut self, id: DownloadId) -> Result<bool, HubError> {
        let line = self.line(id)?;
        match line.download.state {
            State::Paused | State::Failed(_) => line.rest(State::Waiting),
            State::Retrying { .. } => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    /// Takes it from the list. Its parts may go once nothing runs of it: see [`Self::is_idle`].
    pub(crate) fn cancel(&mut self, id: DownloadId) -> Result<Wanted, HubError> {
        let line = self.line(id)?;
        line.is_cancelled = true;
        line.rest(State::Paused);
        Ok(line.wanted.clone())
    }

    pub(crate) fn is_done(&self, id: DownloadId) -> bool {
        let line = self.lines.iter().find(|line| line.download.id == id);
        line.is_some_and(|line| line.download.state == State::Done)
    }

    /// Whether no run of it is left.
    pub(crate) fn is_idle(&self, id: DownloadId) -> bool {
        let line = self.lines.iter().find(|line| line.download.id == id);
        line.is_none_or(|line| line.run.is_none())
    }

    pub(crate) fn remove(&mut self, id: DownloadId) {
        self.lines.retain(|line| line.download.id != id);
    }

    pub(crate) fn move_to(&mut self, id: DownloadId, place: Place) -> Result<(), HubError> {
        self.line(id)?;
        if place == Place::Before(id) {
            return Ok(());
        }
        if let Place::Before(other) = place {
            self.line(other)?;
        }
        let position = |lines: &[Line], id| lines.iter().position(|line| line.download.id == id);
        let Some(from) = position(&self.lines, id) else {
            return Err(HubError::NoSuchDownload);
        };
        let line = self.lines.remove(from);
        let to = match place {
            Place::First => 0,
            Place::Last => self.lines.len(),
            Place::Before(other) => position(&self.lines, other).unwrap_or(from),
        };
        self.lines.insert(to, line);
        Ok(())
    }

    /// Nothing starts any more, and all that runs is told to stop.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(crate) fn wanted(&self, id: DownloadId) -> Option<&Wanted> {
        let line = self.lines.iter().find(|line| line.download.id == id);
        line.map(|line| &line.wanted)
    }

    pub(crate) fn runs(&self) -> bool {
        self.lines.iter().any(|line| line.run.is_some())
    }

    /// Takes note of what a run said. False if it is of a run that no longer counts.
    pub(crate) fn note(&mut self, id: DownloadId, run: u64, news: News, now: Instant) -> bool {
        let Ok(line) = self.any_line(id) else {
            return false;
        };
        let Some(current) = line.run.filter(|current| current.number == run) else {
            return false;
        };
        if let News::Ended(result) = news {
            line.run = None;
            line.rate = None;
            if !current.is_stopping || result.is_ok() {
                line.end(result);
            }
            return true;
        }
        if let News::Bytes { done, total } = news {
            line.count(done, total, now);
            return true;
        }
        if current.is_stopping {
            return false;
        }
        match news {
            News::State(state) => {
                if state != State::Downloading {
                    line.rate = None;
                    line.still();
                }
                line.download.state = state;
            }
            News::Trouble(error) => line.download.last_trouble = Some(error),
            News::Bytes { .. } | News::Ended(_) => {}
        }
        true
    }

    /// What must be done so that the right ones run.
    pub(crate) fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut n_places = if self.is_stopped { 0 } else { self.at_once };
        for line in &mut self.lines {
            let is_ready = !line.download.state.is_over()
                && line.download.state != State::Paused
                && !line.is_cancelled;
            let is_due = is_ready && n_places > 0;
            if is_due {
                n_places -= 1;
            }
            match (&mut line.run, is_due) {
                (None, true) => {
                    let run = self.next_run;
                    self.next_run += 1;
                    line.run = Some(Run {
                        number: run,
                        is_stopping: false,
                    });
                    line.download.state = State::Downloading;
                    let id = line.download.id;
                    effects.push(Effect::Start { id, run });
                }
                (Some(run), false) if !run.is_stopping => {
                    run.is_stopping = true;
                    if is_ready {
                        line.rest(State::Waiting);
                    }
                    effects.push(Effect::Stop(line.download.id));
                }
                _ => {}
            }
        }
        effects
    }

    /// What people see.
    pub(crate) fn list(&self) -> Vec<Download> {
        let lines = self.lines.iter().filter(|line| !line.is_cancelled);
        lines.map(|line| line.download.clone()).collect()
    }

    /// What is kept over a restart: all that is not done.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let lines = self.lines.iter().filter(|line| !line.is_cancelled);
        let open = lines.filter(|line| line.download.state != State::Done);
        open.map(|line| Kept {
            id: line.download.id,
            wanted: line.wanted.clone(),
            is_paused: line.download.state == State::Paused,
            failed: match &line.download.state {
                State::Failed(error) => Some(error.clone()),
                _ => None,
            },
        })
        .collect()
    }

    /// A line that people can see.
    fn line(&mut self, id: DownloadId) -> Result<&mut Line, HubError> {
        let line = self.any_line(id)?;
        if line.is_cancelled {
            return Err(HubError::NoSuchDownload);
        }
        Ok(line)
    }

    fn any_line(&mut self, id: DownloadId) -> Result<&mut Line, HubError> {
        let line = self.lines.iter_mut().find(|line| line.download.id == id);
        line.ok_or(HubError::NoSuchDownload)
    }
}

impl Line {
    /// Nothing comes.
    fn still(&mut self) {
        self.download.bytes_per_second = 0;
        self.download.seconds_left = None;
    }

    fn rest(&mut self, state: State) {
        self.download.state = state;
        self.rate = None;
        self.still();
    }

    fn end(&mut self, result: Result<(), HubError>) {
        self.still();
        self.download.state = match result {
            Ok(()) => {
                self.download.done_bytes = self.download.total_bytes.unwrap_or_default();
                State::Done
            }
            Err(error) => State::Failed(error),
        };
    }

    fn count(&mut self, done: u64, total: u64, now: Instant) {
        self.download.done_bytes = done;
        self.download.total_bytes = Some(total);
        if self.download.state != State::Downloading {
            return;
        }
        let rate = self.rate.get_or_insert_with(|| Rate::new(now, done));
        rate.note(now, done);
        self.download.bytes_per_second = rate.bytes_per_second();
        self.download.seconds_left = rate.seconds_left(Some(total));
    }
}

#[cfg(test)]
mod tests;
