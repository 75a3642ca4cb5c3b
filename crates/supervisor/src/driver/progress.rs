//! The progress of running responses for the status: tokens and speed, counted from the events that
//! pass through the driver.
//!
//! Rule: no text is kept.

use std::collections::HashMap;

use transom_engine::TokenEvent;
use transom_engine_host::wire::JobId;

use crate::core::Timestamp;
use crate::request::RequestId;
use crate::status::{RequestState, Status};

/// The progress of every running response.
#[derive(Debug, Default)]
pub(super) struct ProgressTracker {
    jobs: HashMap<RequestId, Progress>,
}

/// The progress of one response. A pair is a time and the number of tokens generated until then.
#[derive(Debug, Clone, Copy)]
enum Progress {
    Prefill {
        done: usize,
        total: usize,
    },
    Generating {
        first: (Timestamp, usize),
        last: (Timestamp, usize),
    },
}

impl ProgressTracker {
    /// Takes an event of `job` into account, which arrived at `now`.
    pub(super) fn record(&mut self, job: JobId, event: &TokenEvent, now: Timestamp) {
        let id = RequestId(job.0);
        let progress = match *event {
            TokenEvent::Started {
                prompt_tokens,
                cached_tokens,
                ..
            } => Progress::Prefill {
                done: cached_tokens,
                total: prompt_tokens,
            },
            TokenEvent::Prefill { done, total } => Progress::Prefill { done, total },
            TokenEvent::Text {
                generated_tokens, ..
            }
            | TokenEvent::ToolCall {
                generated_tokens, ..
            } => {
                let last = (now, generated_tokens);
                let first = match self.jobs.get(&id) {
                    Some(Progress::Generating { first, .. }) => *first,
                    Some(Progress::Prefill { .. }) | None => last,
                };
                Progress::Generating { first, last }
            }
            TokenEvent::Pieces { .. } | TokenEvent::Finished { .. } => return,
        };
        self.jobs.insert(id, progress);
    }

    /// Fills in the progress of the running requests, and forgets all others.
    pub(super) fn fill(&mut self, status: &mut Status) {
        let is_running = |id: &RequestId| status.running.iter().any(|job| job.request_id == *id);
        self.jobs.retain(|id, _| is_running(id));
        for job in &mut status.running {
            if job.state != RequestState::Stopping
                && let Some(progress) = self.jobs.get(&job.request_id)
            {
                job.state = progress.state();
            }
        }
    }
}

impl Progress {
    fn state(self) -> RequestState {
        match self {
            Self::Prefill { done, total } => RequestState::Prefill { done, total },
            Self::Generating { first, last } => {
                let tokens = last.1.saturating_sub(first.1);
                let seconds = last.0.saturating_sub(first.0).as_secs_f64();
                RequestState::Generating {
                    tokens: last.1,
                    tokens_per_second: match tokens > 0 && seconds > 0.0 {
                        true => Some(tokens as f64 / seconds),
                        false => None,
                    },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use transom_engine::Section;

    use super::*;
    use crate::core::Core;
    use crate::governor::Tuning;
    use crate::request::{Class, ClientId};
    use crate::status::RequestStatus;
    use crate::test_support;

    fn status() -> Status {
        let job = |id| RequestStatus {
            request_id: RequestId(id),
            model: "chat".to_owned(),
            client: ClientId::app(),
            class: Class::Interactive,
            state: RequestState::Prefill { done: 0, total: 0 },
        };
        let core = Core::new(&test_support::hardware(), Tuning::default());
        let mut status = core.status(Duration::ZERO);
        status.running = vec![job(1)];
        status
    }

    fn text(generated_tokens: usize) -> TokenEvent {
        TokenEvent::Text {
            section: Section::Answer,
            text: "secret".to_owned(),
            generated_tokens,
            logprobs: Vec::new(),
        }
    }

    #[test]
    fn the_status_has_the_tokens_and_the_speed_of_the_running_response() {
        let mut tracker = ProgressTracker::default();
        let mut state_after = |event: &TokenEvent, seconds| {
            tracker.record(JobId(1), event, Duration::from_secs(seconds));
            let mut status = status();
            tracker.fill(&mut status);
            status.running.remove(0).state
        };
        let started = TokenEvent::Started {
            prompt_tokens: 100,
            cached_tokens: 40,
            dropped_messages: 0,
            unconstrained_tools: Vec::new(),
        };
        let prefill = RequestState::Prefill {
            done: 40,
            total: 100,
        };
        assert_eq!(state_after(&started, 1), prefill);
        let generating = |tokens, tokens_per_second| RequestState::Generating {
            tokens,
            tokens_per_second,
        };
        assert_eq!(state_after(&text(1), 2), generating(1, None));
        assert_eq!(state_after(&text(21), 4), generating(21, Some(10.0)));
    }

    #[test]
    fn a_response_that_was_told_to_end_stays_so_and_ended_ones_are_forgotten() {
        let mut tracker = ProgressTracker::default();
        tracker.record(JobId(1), &text(1), Duration::ZERO);
        tracker.record(JobId(2), &text(1), Duration::ZERO);
        let mut status = status();
        status.running[0].state = RequestState::Stopping;
        tracker.fill(&mut status);
        assert_eq!(status.running[0].state, RequestState::Stopping);
        assert_eq!(tracker.jobs.len(), 1);
    }
}
