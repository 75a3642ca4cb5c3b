//! Whose turn it is among the responses that are generated at the same time.
//!
//! Rule: each gets the same time of the engine thread, so no response waits for another one, and while a
//! long prompt is read, a running response waits for one part of it. The time of a shared step counts for
//! all responses that share it, so a prompt beside them gets half of the time. Times are arguments; no
//! clock is read here.

use std::time::Duration;

use transom_engine::{JobControl, NextStep, ResponseId};

use crate::wire::JobId;

/// A response in progress.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) job: JobId,
    pub(super) id: ResponseId,
    pub(super) control: JobControl,
}

/// The responses in progress.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Each with the time that it has had. The one that waits longest for its turn comes first.
    responses: Vec<(Response, Duration)>,
}

impl Turns {
    /// Adds a response. It has the time of the one with the least, so it does not make up for the time
    /// before.
    pub(super) fn add(&mut self, response: Response) {
        let times = self.responses.iter().map(|(_, time)| *time);
        let time = times.min().unwrap_or_default();
        self.responses.push((response, time));
    }

    /// Returns the response to continue: a stopped one, which ends at once, or one in the order of
    /// [`NextStep`], and among equal ones that with the least time so far. So the token of all responses
    /// that share steps is known before the next one is computed. One that only waits does not make up
    /// for the turns of others later.
    pub(super) fn next(&mut self, next_step: impl Fn(ResponseId) -> NextStep) -> Option<Response> {
        let order = |(response, time): &(Response, Duration)| {
            let is_running = response.control.stop_reason().is_none();
            (is_running.then(|| next_step(response.id)), *time)
        };
        let all = self.responses.iter().map(|entry| (order(entry), &entry.0));
        let ((step, least), next) = all.min_by_key(|(order, _)| *order)?;
        let next = next.clone();
        if matches!(step, Some(NextStep::Compute | NextStep::Wait)) {
            // Only those that wait have had less.
            let times = self.responses.iter_mut().map(|(_, time)| time);
            times.for_each(|time| *time = least.max(*time));
        }
        Some(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// Records that a step of `job` took this time. It is also the time of those for which it computed a
    /// token, as `next_step` tells; none was left from an earlier step.
    pub(super) fn record(
        &mut self,
        job: JobId,
        took: Duration,
        next_step: impl Fn(ResponseId) -> NextStep,
    ) {
        for (response, time) in &mut self.responses {
            if response.job != job && next_step(response.id) == NextStep::Take {
                *time += took;
            }
        }
        let mut all = self.responses.iter();
        if let Some(index) = all.position(|(response, _)| response.job == job) {
            let (response, time) = self.responses.remove(index);
            self.responses.push((response, time + took));
        }
    }

    pub(super) fn remove(&mut self, job: JobId) {
        self.responses.retain(|(response, _)| response.job != job);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use transom_engine::Responses;

    use super::*;

    /// Creates turns with these jobs.
    fn turns(jobs: &[u64]) -> Turns {
        let mut turns = Turns::default();
        for &job in jobs {
            turns.add(response(job));
        }
        turns
    }

    /// Returns the number of the job with this response.
    fn number(id: ResponseId) -> usize {
        let found = (0..4).find(|job| response(*job as u64).id == id);
        found.expect("it is one of these")
    }

    fn response(job: u64) -> Response {
        let mut ids = Responses::default();
        let before = (0..job).map(|_| ids.add(())).count();
        assert_eq!(before as u64, job);
        Response {
            job: JobId(job),
            id: ids.add(()),
            control: JobControl::new(),
        }
    }

    /// Takes the next turn, whose step takes `milliseconds(job)`.
    fn take(turns: &mut Turns, milliseconds: impl Fn(u64) -> u64) -> u64 {
        take_if(turns, |_| NextStep::Compute, milliseconds)
    }

    /// Takes the next turn while these jobs wait.
    fn take_unless(turns: &mut Turns, waiting: &[u64], milliseconds: impl Fn(u64) -> u64) -> u64 {
        let next_step = |job| match waiting.contains(&job) {
            true => NextStep::Wait,
            false => NextStep::Compute,
        };
        take_if(turns, next_step, milliseconds)
    }

    fn take_if(
        turns: &mut Turns,
        next_step: impl Fn(u64) -> NextStep,
        milliseconds: impl Fn(u64) -> u64,
    ) -> u64 {
        let all = turns.responses.iter();
        let steps = all.map(|(response, _)| (response.id, next_step(response.job.0)));
        let steps: HashMap<ResponseId, NextStep> = steps.collect();
        let next = turns.next(|id| steps[&id]);
        let job = next.expect("there is a response").job;
        let took = Duration::from_millis(milliseconds(job.0));
        turns.record(job, took, |_| NextStep::Compute);
        job.0
    }

    #[test]
    fn responses_with_equal_steps_take_turns() {
        let mut turns = turns(&[1, 2, 3]);
        let jobs: Vec<u64> = (0..7).map(|_| take(&mut turns, |_| 10)).collect();
        assert_eq!(jobs, [1, 2, 3, 1, 2, 3, 1]);
        turns.remove(JobId(2));
        let jobs: Vec<u64> = (0..4).map(|_| take(&mut turns, |_| 10)).collect();
        assert_eq!(jobs, [3, 1, 3, 1]);
    }

    /// A running response waits for one part of a prompt, and then has as much time.
    #[test]
    fn a_long_prompt_is_read_in_parts_between_which_tokens_are_generated() {
        let mut turns = turns(&[1]);
        for _ in 0..50 {
            take(&mut turns, |_| 20);
        }
        turns.add(response(2));
        let jobs = (0..44).map(|_| take(&mut turns, |job| if job == 2 { 200 } else { 20 }));
        let jobs: Vec<u64> = jobs.collect();
        let parts = jobs.iter().filter(|job| **job == 2).count();
        assert_eq!(parts, 4, "{jobs:?}");
        let is_stalled = |two: &[u64]| two == [2, 2];
        assert!(!jobs.windows(2).any(is_stalled), "{jobs:?}");
    }

    /// Each step that computes is for all. A prompt that is read meanwhile has as much time as all of them.
    #[test]
    fn all_responses_take_their_token_before_the_next_shared_step() {
        let next_step = |has_token| match has_token {
            true => NextStep::Take,
            false => NextStep::Compute,
        };
        let mut turns = turns(&[1, 2, 3]);
        let mut has_token = [false; 4];
        let mut computed = Vec::new();
        for turn in 0..160 {
            if turn == 30 {
                turns.add(response(0));
            }
            let steps = has_token.map(next_step);
            let next = turns.next(|id| steps[number(id)]);
            let job = next.expect("there is a response").job;
            let known = std::mem::take(&mut has_token[job.0 as usize]);
            if known {
                turns.record(job, Duration::ZERO, |_| NextStep::Compute);
                continue;
            }
            computed.push(job.0);
            let mut after = [NextStep::Compute; 4];
            if job.0 > 0 {
                assert_eq!(has_token, [false; 4], "a token is not taken");
                has_token = [0, 1, 2, 3].map(|other| other > 0 && other != job.0);
                after = has_token.map(next_step);
            }
            turns.record(job, Duration::from_millis(20), |id| after[number(id)]);
        }
        // Ten steps before it began.
        let rest = &computed[10..];
        let parts = rest.iter().filter(|job| **job == 0).count();
        assert!(parts.abs_diff(rest.len() / 2) <= 1, "{computed:?}");
    }

    #[test]
    fn a_response_that_began_later_has_no_time_to_make_up_for() {
        let mut turns = turns(&[1]);
        for _ in 0..100 {
            take(&mut turns, |_| 10);
        }
        turns.add(response(2));
        let jobs: Vec<u64> = (0..4).map(|_| take(&mut turns, |_| 10)).collect();
        assert_eq!(jobs, [1, 2, 1, 2]);
    }

    /// Its grammar is compiled meanwhile.
    #[test]
    fn a_response_that_waits_leaves_its_turns_to_others_and_does_not_make_up_for_them() {
        let mut turns = turns(&[1, 2, 3]);
        let jobs: Vec<u64> = (0..6)
            .map(|_| take_unless(&mut turns, &[1], |_| 10))
            .collect();
        assert_eq!(jobs, [2, 3, 2, 3, 2, 3]);
        let mut jobs: Vec<u64> = (0..6).map(|_| take(&mut turns, |_| 10)).collect();
        jobs.sort_unstable();
        assert_eq!(jobs, [1, 1, 2, 2, 3, 3]);
        let jobs: Vec<u64> = (0..3)
            .map(|_| take_unless(&mut turns, &[1, 2, 3], |_| 20))
            .collect();
        assert_eq!(jobs.len(), 3, "all wait, so each step does");
        let stopped = turns.responses.iter().find(|(it, _)| it.job == JobId(2));
        stopped.expect("it is there").0.control.cancel();
        assert_eq!(take_unless(&mut turns, &[2], |_| 0), 2, "it ends at once");
    }

    #[test]
    fn a_stopped_response_ends_before_others_continue() {
        let mut turns = turns(&[1, 2, 3]);
        turns.record(JobId(3), Duration::from_secs(60), |_| NextStep::Compute);
        let stopped = turns.responses.iter().find(|(it, _)| it.job == JobId(3));
        stopped.expect("it is there").0.control.cancel();
        assert_eq!(take(&mut turns, |_| 0), 3);
        turns.remove(JobId(3));
        assert_eq!(take(&mut turns, |_| 10), 1);
    }
}
