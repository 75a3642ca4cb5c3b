//! The queue of tasks for the engine thread.
//!
//! The reader thread adds tasks and the engine thread takes them in order. Rule: a stop or trim
//! reaches the running task through its [`JobControl`].

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use transom_engine::{
    ConversationId, EmbedInput, FinishReason, JobControl, Limits, ModelSource, Prompt, TokenInput,
    Trim,
};

use crate::saved_state::SavedFolder;
use crate::wire::{JobId, Request};

pub(super) enum Task {
    Measure(ModelSource, Limits),
    Load(ModelSource, Limits, Option<SavedFolder>, JobControl),
    Generate(JobId, Box<Request>, JobControl),
    Embed(JobId, Vec<EmbedInput>, JobControl),
    Count(JobId, Box<Prompt>, JobControl),
    Tokenize(JobId, Box<TokenInput>, JobControl),
    Trim(Trim),
    Forget(Option<ConversationId>),
    Save(u64, JobControl),
    Unload(Option<u64>),
}

impl Task {
    /// Returns the control of the task, and its job id or `None` for a load or a save, as in
    /// [`crate::wire::Command::Stop`].
    fn control(&self) -> Option<(Option<JobId>, &JobControl)> {
        match self {
            Self::Load(_, _, _, control) | Self::Save(_, control) => Some((None, control)),
            Self::Generate(job, _, control)
            | Self::Embed(job, _, control)
            | Self::Count(job, _, control)
            | Self::Tokenize(job, _, control) => Some((Some(*job), control)),
            Self::Measure(..) | Self::Trim(_) | Self::Forget(_) | Self::Unload(_) => None,
        }
    }
}

pub(super) enum Next {
    Task(Task),
    /// No task came until the given time.
    Idle,
    /// The parent is gone.
    Closed,
}

/// The queue between the reader thread and the engine thread.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queued: VecDeque<Task>,
    running: Option<(Option<JobId>, JobControl)>,
    is_closed: bool,
}

impl State {
    fn controls(&self) -> impl Iterator<Item = (Option<JobId>, &JobControl)> {
        let running = self.running.iter().map(|(job, control)| (*job, control));
        running.chain(self.queued.iter().filter_map(Task::control))
    }
}

impl Inbox {
    /// Adds a task. An unload stops all tasks before it; a trim also reaches the running task at
    /// once.
    pub(super) fn push(&self, task: Task) {
        let mut state = self.lock();
        match &task {
            Task::Unload(_) => stop_all(&state),
            Task::Trim(_) | Task::Forget(_) => {
                if let Some((_, control)) = &state.running {
                    control.request_trim();
                }
            }
            Task::Measure(..)
            | Task::Load(..)
            | Task::Generate(..)
            | Task::Embed(..)
            | Task::Count(..)
            | Task::Tokenize(..)
            | Task::Save(..) => {}
        }
        state.queued.push_back(task);
        self.changed.notify_one();
    }

    /// Stops the load (`None`) or this job, running or queued.
    pub(super) fn stop(&self, job: Option<JobId>, reason: FinishReason) {
        for (_, control) in self.lock().controls().filter(|(id, _)| *id == job) {
            match reason {
                FinishReason::Shed => control.shed(),
                FinishReason::Canceled | FinishReason::Stop | FinishReason::Length => {
                    control.cancel();
                }
            }
        }
    }

    /// Stops the running task and drops all others, because the parent is gone.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        stop_all(&state);
        state.queued.clear();
        state.is_closed = true;
        self.changed.notify_one();
    }

    /// Calls `beat` if the engine polled the control of its running task since the last call.
    pub(super) fn beat_if_polled(&self, beat: impl FnOnce()) {
        let state = self.lock();
        if let Some((_, control)) = &state.running
            && control.take_polled()
        {
            beat();
        }
    }

    /// Waits for the next task, at most until `until`. The previous task must have ended. Calls
    /// `on_idle` if no task is queued.
    pub(super) fn take(&self, until: Option<Instant>, on_idle: impl FnOnce()) -> Next {
        let mut state = self.lock();
        state.running = None;
        if state.queued.is_empty() {
            on_idle();
        }
        let is_idle = |state: &mut State| state.queued.is_empty() && !state.is_closed;
        let mut state = match until {
            None => self
                .changed
                .wait_while(state, is_idle)
                .unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let time = until.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout_while(state, time, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let Some(task) = state.queued.pop_front() else {
            return match state.is_closed {
                true => Next::Closed,
                false => Next::Idle,
            };
        };
        state.running = task.control().map(|(job, control)| (job, control.clone()));
        Next::Task(task)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stop_all(state: &State) {
    for (_, control) in state.controls() {
        control.cancel();
    }
}

#[cfg(test)]
mod tests;
