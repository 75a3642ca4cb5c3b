//! The queue of tasks for the engine thread.
//!
//! The reader thread adds tasks and the engine thread takes them in order. Jobs may run at the same
//! time; every other task waits for all jobs before it. Rule: a stop or trim reaches the running tasks
//! through their [`JobControl`]s, and every new task stops the work of an idle engine thread.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use transom_engine::{FinishReason, JobControl};

use crate::wire::{Command, JobId};

pub(super) struct Task {
    pub(super) command: Command,
    /// Stops the task, if it is one that can be stopped.
    pub(super) control: JobControl,
}

impl Task {
    pub(super) fn new(command: Command) -> Self {
        Self {
            command,
            control: JobControl::new(),
        }
    }
}

pub(super) enum Next {
    Task(Task),
    /// Jobs run, and no task may start beside them.
    Busy,
    /// Nothing runs, and no task came until the given time.
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
    /// In the order in which they started; at most one that is no job.
    running: Vec<(Option<JobId>, JobControl)>,
    /// The work of an engine thread that has no task.
    idle_work: Option<JobControl>,
    is_closed: bool,
}

impl State {
    fn start(&mut self, task: Task) -> Next {
        let job = task.command.job();
        self.running.push((job, task.control.clone()));
        Next::Task(task)
    }

    fn controls(&self) -> impl Iterator<Item = (Option<JobId>, &JobControl)> {
        let running = self.running.iter().map(|(job, control)| (*job, control));
        let queued = self.queued.iter();
        running.chain(queued.map(|task| (task.command.job(), &task.control)))
    }
}

impl Inbox {
    /// Adds a task. An unload stops all tasks before it; a trim also reaches the running tasks at
    /// once.
    pub(super) fn push(&self, task: Task) {
        let mut state = self.state.lock();
        state.idle_work.iter().for_each(JobControl::cancel);
        match &task.command {
            Command::Unload { .. } => stop_all(&state),
            Command::Trim { .. } | Command::Forget { .. } => {
                for (_, control) in &state.running {
                    control.request_trim();
                }
            }
            _ => {}
        }
        state.queued.push_back(task);
        self.changed.notify_one();
    }

    /// Stops the load (`None`) or this job, running or queued. A save that a queued job waits for is
    /// given up.
    pub(super) fn stop(&self, job: Option<JobId>, reason: FinishReason) {
        let state = self.state.lock();
        let mut queued = state.queued.iter();
        let is_queued = queued.any(|task| task.command.job() == job);
        let stops = |id: Option<JobId>| id == job || (is_queued && id.is_none());
        for (_, control) in state.controls().filter(|(id, _)| stops(*id)) {
            match reason {
                FinishReason::Shed => control.shed(),
                FinishReason::Canceled | FinishReason::Stop | FinishReason::Length => {
                    control.cancel();
                }
            }
        }
    }

    /// Stops the running tasks and drops all others, because the parent is gone.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        stop_all(&state);
        state.queued.clear();
        state.is_closed = true;
        self.changed.notify_one();
    }

    /// Calls `beat` if the engine polled the control of a running task since the last call.
    pub(super) fn beat_if_polled(&self, beat: impl FnOnce()) {
        let state = self.state.lock();
        let running = state.running.iter().map(|(_, control)| control);
        let working = running.chain(&state.idle_work);
        if working.filter(|it| it.take_polled()).count() > 0 {
            beat();
        }
    }

    /// Returns how many responses begin before any task that waits for those that run.
    pub(super) fn n_queued_responses(&self) -> usize {
        let state = self.state.lock();
        let commands = state.queued.iter().map(|task| &task.command);
        let jobs = commands.take_while(|command| command.job().is_some());
        let responses = jobs.filter(|command| matches!(command, Command::Generate { .. }));
        responses.count()
    }

    /// Returns the control of work that any new task stops; `None` if a task is queued.
    pub(super) fn start_idle_work(&self) -> Option<JobControl> {
        let mut state = self.state.lock();
        let is_idle = state.queued.is_empty() && !state.is_closed;
        state.idle_work = is_idle.then(JobControl::new);
        state.idle_work.clone()
    }

    /// Records that the work of the idle engine thread has ended.
    pub(super) fn end_idle_work(&self) {
        self.state.lock().idle_work = None;
    }

    /// Records that a job has ended.
    pub(super) fn ended(&self, job: JobId) {
        self.state.lock().running.retain(|(id, _)| *id != Some(job));
    }

    /// Returns the next task. While jobs run, returns at once; otherwise waits, at most until `until`.
    /// A previous task that is no job must have ended. Calls `on_idle` if nothing runs and no task is
    /// queued.
    pub(super) fn take(&self, until: Option<Instant>, on_idle: impl FnOnce()) -> Next {
        let mut state = self.state.lock();
        state.running.retain(|(job, _)| job.is_some());
        if !state.running.is_empty() {
            return match state
                .queued
                .pop_front_if(|task| task.command.job().is_some())
            {
                Some(task) => state.start(task),
                None if state.is_closed => Next::Closed,
                None => Next::Busy,
            };
        }
        if state.queued.is_empty() {
            on_idle();
        }
        let is_idle = |state: &mut State| state.queued.is_empty() && !state.is_closed;
        match until {
            None => self.changed.wait_while(&mut state, is_idle),
            Some(until) => {
                let time = until.saturating_duration_since(Instant::now());
                self.changed.wait_while_for(&mut state, is_idle, time);
            }
        }
        let Some(task) = state.queued.pop_front() else {
            return match state.is_closed {
                true => Next::Closed,
                false => Next::Idle,
            };
        };
        state.start(task)
    }
}

fn stop_all(state: &State) {
    let controls = state.controls().map(|(_, control)| control);
    controls
        .chain(&state.idle_work)
        .for_each(JobControl::cancel);
}

#[cfg(test)]
mod tests;
