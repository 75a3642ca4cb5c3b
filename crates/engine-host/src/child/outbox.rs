//! The queue of reports to the parent.
//!
//! The engine thread adds reports and never waits; the writer thread takes them. Rule: the queue is
//! never larger than the responses themselves, because texts of a section are joined and only the latest
//! progress is kept. Nothing else is joined, replaced or reordered, but events of different jobs, which
//! take turns, may pass each other.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use transom_engine::TokenEvent;

use crate::wire::{JobId, Report};

/// Longest text in one report. Longer ones are split. Even if JSON escapes every byte, the frame
/// stays far below its limit.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The queue between the engine thread and the writer thread.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: Queue,
    is_closed: bool,
    is_abandoned: bool,
}

impl Outbox {
    /// Adds a report. Returns at once.
    pub(super) fn push(&self, report: Report) {
        let mut state = self.state.lock();
        if !state.is_abandoned {
            state.queue.push(report);
            self.changed.notify_one();
        }
    }

    /// Waits for the next report; `None` after the last one.
    pub(super) fn take(&self) -> Option<Report> {
        let mut state = self.state.lock();
        let is_empty = |state: &mut State| state.queue.is_empty() && !state.is_closed;
        self.changed.wait_while(&mut state, is_empty);
        state.queue.pop()
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Drops all reports, now and from now on, because the parent is gone.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_abandoned = true;
        state.queue = Queue::default();
    }
}

/// The reports in order. The latest pong comes before them, because the watchdog waits for it.
#[derive(Default)]
struct Queue {
    pong: Option<Report>,
    reports: VecDeque<Report>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.pong.is_none() && self.reports.is_empty()
    }

    fn pop(&mut self) -> Option<Report> {
        self.pong.take().or_else(|| self.reports.pop_front())
    }

    /// Returns the last event of `job`, unless a report that is no event follows it.
    fn last_event_of(&mut self, job: JobId) -> Option<&mut Report> {
        let events = self.reports.iter_mut().rev();
        let mut events = events.take_while(|report| matches!(report, Report::Event { .. }));
        events.find(|report| matches!(report, Report::Event { job: other, .. } if *other == job))
    }

    fn push(&mut self, mut report: Report) {
        if matches!(report, Report::Pong { .. }) {
            self.pong = Some(report);
            return;
        }
        if let Report::Event { job, event } = &mut report
            && let TokenEvent::Text {
                section,
                text,
                generated_tokens,
                ..
            } = event
            && text.len() > MAX_TEXT_BYTES
        {
            let mut rest = text.as_str();
            while rest.len() > MAX_TEXT_BYTES {
                let (head, tail) = rest.split_at(rest.floor_char_boundary(MAX_TEXT_BYTES));
                let event = TokenEvent::Text {
                    section: *section,
                    text: head.to_owned(),
                    generated_tokens: *generated_tokens,
                    logprobs: Vec::new(),
                };
                self.reports.push_back(Report::Event { job: *job, event });
                rest = tail;
            }
            *text = rest.to_owned();
        }
        let last = match &report {
            Report::Event { job, .. } => self.last_event_of(*job),
            _ => self.reports.back_mut(),
        };
        if let Some(report) = join(last, report) {
            self.reports.push_back(report);
        }
    }
}

/// Merges `report` into `last`, or returns `report` if they cannot be merged without loss.
fn join(last: Option<&mut Report>, report: Report) -> Option<Report> {
    match (last, report) {
        (Some(last @ Report::LoadProgress { .. }), report @ Report::LoadProgress { .. }) => {
            *last = report;
            None
        }
        (
            Some(Report::Event {
                job: last_job,
                event: last,
            }),
            Report::Event { job, event },
        ) if *last_job == job => {
            let event = last.join(event, MAX_TEXT_BYTES)?;
            Some(Report::Event { job, event })
        }
        (_, report) => Some(report),
    }
}

#[cfg(test)]
mod tests;
