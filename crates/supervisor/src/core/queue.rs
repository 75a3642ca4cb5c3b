//! The queue: pending requests, their progress events, and how they end before they start. Its
//! order is that of [`super::schedule`].
//!
//! Rule: a request that leaves the queue without becoming a job gets its end in the same step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use transom_engine::{EngineError, FinishReason, Stats};

use super::{Core, Effect, Phase, Timestamp};
use crate::governor::LimitReason;
use crate::request::{
    Class, ClientId, KeepAlive, ModelRequest, ModelSpec, RequestError, RequestId, WhenBlocked, Work,
};
use crate::response::{Outcome, ResponseEvent};
use crate::variants;

#[derive(Debug, Clone)]
pub(super) struct PendingRequest {
    pub(super) id: RequestId,
    pub(super) spec: Arc<ModelSpec>,
    pub(super) work: Work,
    pub(super) over_budget: bool,
    pub(super) client: ClientId,
    pub(super) class: Class,
    pub(super) keep_alive: Option<KeepAlive>,
    /// Requests of one class are served in the order of their turns; each client has one per turn.
    pub(super) turn: u64,
    /// When it was submitted.
    pub(super) since: Timestamp,
    /// When it fails if it has not started.
    start_by: Option<Timestamp>,
    /// Number of later requests that were served before it.
    pub(super) n_overtakes: u8,
    /// Number of loads of its model that memory pressure ended.
    pub(super) n_shed_loads: u8,
    when_blocked: WhenBlocked,
    blocked_since: Option<Timestamp>,
    /// The last progress event, so that none is sent twice.
    reported: Option<ResponseEvent>,
}

impl Core {
    pub(super) fn enqueue(&mut self, id: RequestId, request: ModelRequest) {
        if let Err(error) = self.admit(&request) {
            return self.end_request(id, Outcome::Failed { error });
        }
        let spec = self.shared_spec(request.model);
        let (position, turn) = self.place(&request.client, request.class);
        let pending = PendingRequest {
            id,
            spec,
            work: request.work,
            over_budget: request.over_budget,
            client: request.client,
            class: request.class,
            keep_alive: request.keep_alive,
            turn,
            since: self.now,
            // A time that no clock reaches is no limit.
            start_by: request.max_wait.and_then(|wait| self.now.checked_add(wait)),
            n_overtakes: 0,
            n_shed_loads: 0,
            when_blocked: request.when_blocked,
            blocked_since: None,
            reported: None,
        };
        self.queue.insert(position, pending);
    }

    fn admit(&self, request: &ModelRequest) -> Result<(), RequestError> {
        if self.is_quitting {
            return Err(RequestError::Quitting);
        }
        if request.model.variants.is_empty() {
            return Err(RequestError::Engine {
                source: EngineError::InvalidParameter {
                    name: "variants".into(),
                    value: "an empty list".to_owned(),
                    expected: "at least one file or folder".into(),
                },
            });
        }
        // A load request for a loaded model never waits.
        if request.work == Work::Load && self.loaded(&request.model).is_some() {
            return Ok(());
        }
        self.check_limits(request)
    }

    /// Returns the stored spec that equals `spec`, so that equal specs share one allocation. If
    /// there is none, returns `spec` with its variants in the order in which they are tried.
    fn shared_spec(&self, spec: ModelSpec) -> Arc<ModelSpec> {
        let loaded_specs = self.models.iter().map(|model| &model.spec);
        let of_queue = self.queue.iter().map(|pending| &pending.spec);
        let known = loaded_specs.chain(of_queue).find(|known| ***known == spec);
        known.cloned().unwrap_or_else(|| {
            let variants = variants::in_order(spec.variants, &self.hardware);
            Arc::new(ModelSpec { variants, ..spec })
        })
    }

    pub(super) fn cancel(&mut self, id: RequestId) {
        if let Some(index) = self.queue.iter().position(|pending| pending.id == id) {
            self.queue.remove(index);
            let (reason, stats) = (FinishReason::Canceled, Stats::default());
            return self.end_request(id, Outcome::Finished { reason, stats });
        }
        let runs = |model: &super::Model| model.running().is_some_and(|running| running.has(id));
        if let Some(index) = self.models.iter().position(runs) {
            self.stop_jobs(index, FinishReason::Canceled, |job| job.request_id == id);
        }
    }

    pub(super) fn fail_queued(
        &mut self,
        which: impl Fn(&PendingRequest) -> bool,
        error: &RequestError,
    ) {
        let (failed, kept): (VecDeque<_>, _) = self.queue.drain(..).partition(which);
        self.queue = kept;
        for pending in failed {
            let error = error.clone();
            self.end_request(pending.id, Outcome::Failed { error });
        }
    }

    /// Fails the requests that had to start by now.
    pub(super) fn expire_requests(&mut self) {
        let (now, waiting) = (self.now, self.queue.len());
        let is_late = |pending: &PendingRequest| pending.start_by.is_some_and(|by| by <= now);
        if self.queue.iter().any(is_late) {
            let retry_after = self.retry_after();
            let error = RequestError::Busy {
                waiting,
                retry_after,
            };
            self.fail_queued(is_late, &error);
        }
    }

    /// Tracks how long requests have been blocked, and fails those that were blocked too long.
    pub(super) fn expire_blocked_requests(&mut self) {
        let Some(reason) = self.blocked_by() else {
            for pending in &mut self.queue {
                pending.blocked_since = None;
            }
            return;
        };
        // How long signals last is unknown; a pause is ended by the user.
        let has_limit = reason != LimitReason::Paused;
        for pending in &mut self.queue {
            let since = pending.blocked_since.unwrap_or(self.now);
            pending.blocked_since = has_limit.then_some(since);
        }
        let retry_after = self.tuning.max_blocked_time.max(Duration::from_secs(1));
        let error = RequestError::Blocked {
            reason,
            retry_after,
        };
        let (longest, now) = (self.tuning.max_blocked_time, self.now);
        self.fail_queued(|pending| pending.has_waited_enough(longest, now), &error);
    }

    /// Returns when the pending request fails if it has not started.
    pub(super) fn expires_at(&self, pending: &PendingRequest) -> Option<Timestamp> {
        let blocked = pending.blocked_since;
        let blocked_until = blocked.map(|since| since + self.tuning.max_blocked_time);
        blocked_until.into_iter().chain(pending.start_by).min()
    }

    pub(super) fn blocked_by(&self) -> Option<LimitReason> {
        self.governor.restrictions().blocked_by
    }

    pub(super) fn finish_load_requests(&mut self) {
        let mut index = 0;
        while let Some(pending) = self.queue.get(index) {
            let loaded = self
                .loaded(&pending.spec)
                .filter(|_| pending.work == Work::Load);
            let Some(model) = loaded else {
                index += 1;
                continue;
            };
            let Some(pending) = self.queue.remove(index) else {
                return;
            };
            let id = pending.id;
            self.models[model].last_used = self.now;
            self.models[model].last_user = Some((pending.client, pending.class));
            self.models[model].keep_alive = pending.keep_alive;
            self.models[model].has_completed_work = true;
            self.crashes.clear(&self.models[model].spec);
            if let Some(info) = self.models[model].info.clone() {
                self.end_request(id, Outcome::Loaded { info });
            }
        }
    }

    fn loaded(&self, spec: &ModelSpec) -> Option<usize> {
        let is_it = |model: &super::Model| model.is_loaded() && model.serves(spec);
        self.models.iter().position(is_it)
    }

    /// Sends progress to every pending request whose state changed.
    pub(super) fn report_queue(&mut self) {
        let n_before = self.n_running();
        let blocked_by = self.blocked_by();
        for index in 0..self.queue.len() {
            let pending = &self.queue[index];
            let is_served = index + n_before == 0 && blocked_by.is_none();
            let event = match self.models.iter().find(|model| model.is_incoming()) {
                Some(model) if is_served && model.serves(&pending.spec) => {
                    let progress = match model.phase {
                        Phase::Loading { progress } => progress,
                        _ => None,
                    };
                    ResponseEvent::Loading { progress }
                }
                Some(_) | None => ResponseEvent::Queued {
                    position: index + n_before,
                    blocked_by,
                },
            };
            if pending.reported.as_ref() != Some(&event) {
                self.effects
                    .push(Effect::Respond(pending.id, event.clone()));
                self.queue[index].reported = Some(event);
            }
        }
    }

    pub(super) fn end_request(&mut self, id: RequestId, outcome: Outcome) {
        let event = ResponseEvent::Ended { outcome };
        self.effects.push(Effect::Respond(id, event));
    }
}

impl PendingRequest {
    fn has_waited_enough(&self, longest: Duration, now: Timestamp) -> bool {
        match self.when_blocked {
            WhenBlocked::Refuse => true,
            WhenBlocked::Wait => self
                .blocked_since
                .is_some_and(|since| since + longest <= now),
        }
    }
}
