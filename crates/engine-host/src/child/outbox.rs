//! What the engine has said and the parent has not yet taken.
//!
//! The engine's thread pushes and never waits; the writer's thread takes. Rule: what waits is never
//! more than the answer itself, since texts of a section are joined and only the latest progress is
//! kept. Nothing else is joined, replaced or put in another order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use transom_engine::TokenEvent;

use crate::wire::Report;

/// Texts are joined, and cut, to this length: far below the longest frame, however much JSON
/// escapes.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The queue between the engine's thread and the writer's.
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
        let mut state = self.lock();
        if !state.is_abandoned {
            state.queue.push(report);
            self.changed.notify_one();
        }
    }

    /// The next report, waiting for one; `None` when there will be no more.
    pub(super) fn take(&self) -> Option<Report> {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| state.queue.is_empty() && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.queue.pop()
    }

    /// Nothing more will be pushed.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Nobody takes any more: what is pushed from now on is forgotten.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        state.queue = Queue::default();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reports in order; the latest pong goes before them, since it answers a watchdog.
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

    fn push(&mut self, mut report: Report) {
        if matches!(report, Report::Pong { .. }) {
            self.pong = Some(report);
            return;
        }
        if let Report::Event {
            job,
            event:
                TokenEvent::Text {
                    section,
                    text,
                    generated_tokens,
                },
        } = &mut report
            && text.len() > MAX_TEXT_BYTES
        {
            let (heads, rest) = cut(text);
            self.reports
                .extend(heads.into_iter().map(|text| Report::Event {
                    job: *job,
                    event: TokenEvent::Text {
                        section: *section,
                        text,
                        generated_tokens: *generated_tokens,
                    },
                }));
            *text = rest;
        }
        let last = self.reports.back_mut();
        if let Some(report) = join(last, report) {
            self.reports.push_back(report);
        }
    }
}

/// The parts of a text that is too long for one report, and the rest of it.
fn cut(mut text: &str) -> (Vec<String>, String) {
    let mut heads = Vec::new();
    while text.len() > MAX_TEXT_BYTES {
        let (head, rest) = text.split_at(text.floor_char_boundary(MAX_TEXT_BYTES));
        heads.push(head.to_owned());
        text = rest;
    }
    (heads, text.to_owned())
}

/// Lets `last` take `report` in; returns it where that would lose something.
fn join(last: Option<&mut Report>, report: Report) -> Option<Report> {
    use Report::{Event, LoadProgress};
    use TokenEvent::{Prefill, Text};
    let Some(last) = last else {
        return Some(report);
    };
    match (&mut *last, &report) {
        (
            Event {
                job: last_job,
                event:
                    Text {
                        section: last_section,
                        text: joined,
                        generated_tokens: latest,
                    },
            },
            Event {
                job,
                event:
                    Text {
                        section,
                        text,
                        generated_tokens,
                    },
            },
        ) if last_job == job
            && last_section == section
            && joined.len() + text.len() <= MAX_TEXT_BYTES =>
        {
            joined.push_str(text);
            *latest = *generated_tokens;
            None
        }
        (
            Event {
                job: last_job,
                event: Prefill { .. },
            },
            Event {
                job,
                event: Prefill { .. },
            },
        ) if last_job == job => {
            *last = report;
            None
        }
        (LoadProgress { .. }, LoadProgress { .. }) => {
            *last = report;
            None
        }
        _ => Some(report),
    }
}

#[cfg(test)]
mod tests;
