//! The order of the queue, its limits, and when the models in memory are switched.
//!
//! Rule: interactive requests go before background ones. Clients of the same class take turns, and
//! each of them is served in the order of its requests. A loaded model may serve a few requests
//! before it is switched for an earlier one, so that clients with different models do not reload
//! them at every turn; how often and how long an earlier request waits for that is bounded.

use std::time::Duration;

use super::queue::PendingRequest;
use super::{Core, Model, Timestamp};
use crate::request::{Class, ClientId, ModelRequest, RequestError};

/// Number of requests that may be served before an earlier one that needs another model.
pub(super) const MAX_OVERTAKES: u8 = 4;

/// A request that has waited for this long is not overtaken any more.
const MAX_OVERTAKING_TIME: Duration = Duration::from_secs(30);

/// How long a loaded model waits for another request of the client that it served last, before it
/// is switched for a request of another client. Programs that send one request after the other need
/// less than that between two, a load takes longer.
const SWITCH_DELAY: Duration = Duration::from_secs(1);

/// The time of a job, before any was measured.
pub(super) const FIRST_JOB_TIME: Duration = Duration::from_secs(10);

impl Core {
    /// Returns the position in the queue and the turn of a new request: the turn after that of the
    /// client's last one, and after the last one that was served. So each client has one request
    /// per turn, and no stream of new requests keeps a waiting one from its turn.
    pub(super) fn place(&self, client: &ClientId, class: Class) -> (usize, u64) {
        let is_own = |other: &&PendingRequest| other.class == class && other.client == *client;
        let last = self.queue.iter().rfind(is_own);
        let served = self.served_turns[class as usize];
        let turn = last.map_or(served, |last| last.turn.max(served)) + 1;
        let goes_first = |other: &PendingRequest| (other.class, other.turn) <= (class, turn);
        (self.queue.partition_point(goes_first), turn)
    }

    /// Refuses a request if the queue is full, or if its client has too many requests in it.
    /// Background requests do not count for interactive ones, so they cannot keep a person out.
    pub(super) fn check_limits(&self, request: &ModelRequest) -> Result<(), RequestError> {
        if self.queue.is_empty() && self.n_running() == 0 {
            return Ok(());
        }
        // One request is being served and does not wait.
        let n_served = usize::from(self.n_running() == 0);
        let queued = self.queue.iter().skip(n_served);
        let retry_after = self.retry_after();
        let of_client = queued
            .clone()
            .filter(|other| other.client == request.client);
        let waiting = of_client.count();
        // Programs with an older protocol do not say who they are, and do not know this error.
        let is_known = request.client != ClientId::default();
        if is_known && waiting >= self.tuning.client_queue_limit {
            let client = request.client.clone();
            return Err(RequestError::ClientBusy {
                client,
                waiting,
                retry_after,
            });
        }
        let waiting = queued.filter(|other| other.class <= request.class).count();
        if waiting >= self.tuning.queue_limit {
            return Err(RequestError::Busy {
                waiting,
                retry_after,
            });
        }
        Ok(())
    }

    /// Returns the estimated time to serve the queue, 1 to 60 seconds.
    pub(super) fn retry_after(&self) -> Duration {
        let n = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let time = self.job_time.saturating_mul(n);
        Duration::from_secs(time.as_secs().clamp(1, 60))
    }

    /// Takes the time of a completed job into account. Recent jobs count most.
    pub(super) fn record_job_time(&mut self, time: Duration) {
        self.job_time = self.job_time.saturating_mul(3).saturating_add(time) / 4;
    }

    /// Returns the position of the request to serve next: the first one, or a later one that a
    /// loaded model serves and that may overtake all before it.
    pub(super) fn next_position(&self) -> usize {
        let is_served = |pending: &PendingRequest| {
            let mut ready = self.models.iter().filter(|model| model.is_ready());
            ready.any(|model| model.serves(&pending.spec))
        };
        self.first_to_serve(is_served).unwrap_or(0)
    }

    /// Returns the position of the first request that `is_served` selects, if it may overtake all before
    /// it.
    pub(super) fn first_to_serve(
        &self,
        is_served: impl Fn(&PendingRequest) -> bool,
    ) -> Option<usize> {
        let position = self.queue.iter().position(is_served)?;
        let next = &self.queue[position];
        let mut earlier = self.queue.range(..position);
        let may_overtake = earlier.all(|other| other.may_be_overtaken_by(next, self.now));
        may_overtake.then_some(position)
    }

    /// Returns until when the models in memory stay for the client that they served last, although
    /// the first request in the queue needs another one; `None` if it may be loaded.
    pub(super) fn switch_at(&self) -> Option<Timestamp> {
        let is_incoming = self.models.iter().any(Model::is_incoming);
        if self.n_running() > 0 || is_incoming || self.blocked_by().is_some() {
            return None;
        }
        let first = self.queue.front()?;
        let ready = self.models.iter().filter(|model| model.is_ready());
        let last_used = ready
            .filter(|model| model.may_be_asked_again_before(first))
            .map(|model| model.last_used)
            .max()?;
        let until = (last_used + SWITCH_DELAY).min(first.since + MAX_OVERTAKING_TIME);
        (until > self.now).then_some(until)
    }
}

impl PendingRequest {
    fn may_be_overtaken_by(&self, other: &Self, now: Timestamp) -> bool {
        self.class == other.class
            && self.client != other.client
            && self.n_overtakes < MAX_OVERTAKES
            && now < self.since + MAX_OVERTAKING_TIME
    }
}

impl Model {
    /// Returns true if the client that used the model last may be served again before `pending`, a
    /// request of another one.
    fn may_be_asked_again_before(&self, pending: &PendingRequest) -> bool {
        let may_overtake = pending.n_overtakes < MAX_OVERTAKES;
        let last_user = self.last_user.as_ref();
        last_user.is_some_and(|(client, class)| {
            let has_same_rank = *class == pending.class && may_overtake;
            *client != pending.client && (*class < pending.class || has_same_rank)
        })
    }
}
