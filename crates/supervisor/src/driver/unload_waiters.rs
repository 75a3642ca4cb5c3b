//! Callers that wait until models are unloaded.

use super::saved_states::SavedStates;
use crate::core::WorkerId;
use crate::handle::UnloadReply;
use crate::request::RequestError;
use crate::status::UnloadRecord;

#[derive(Default)]
pub(super) struct UnloadWaiters(Vec<UnloadWaiter>);

struct UnloadWaiter {
    /// Workers that still exist.
    workers: Vec<WorkerId>,
    records: Vec<UnloadRecord>,
    reply: UnloadReply,
}

impl UnloadWaiters {
    /// Sends the records of `workers` to `reply` when all of them are gone and the saved states to
    /// delete are deleted.
    pub(super) fn add(
        &mut self,
        workers: Vec<WorkerId>,
        reply: UnloadReply,
        saved_states: &SavedStates,
    ) {
        self.0.push(UnloadWaiter {
            workers,
            records: Vec::new(),
            reply,
        });
        self.reply_to_finished(saved_states);
    }

    /// Handles that `worker` has ended; `record` is the record of its unload.
    pub(super) fn worker_gone(
        &mut self,
        worker: WorkerId,
        record: Option<&UnloadRecord>,
        saved_states: &SavedStates,
    ) {
        for waiter in &mut self.0 {
            let n_before = waiter.workers.len();
            waiter.workers.retain(|other| *other != worker);
            if waiter.workers.len() < n_before {
                waiter.records.extend(record.cloned());
            }
        }
        self.reply_to_finished(saved_states);
    }

    /// Handles that the process of `worker` does not end; `error` is the reply.
    pub(super) fn worker_stuck(&mut self, worker: WorkerId, error: &RequestError) {
        let waits = |waiter: &mut UnloadWaiter| waiter.workers.contains(&worker);
        for waiter in self.0.extract_if(.., waits) {
            // The caller may be gone.
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }

    fn reply_to_finished(&mut self, saved_states: &SavedStates) {
        let is_over = |waiter: &mut UnloadWaiter| waiter.workers.is_empty();
        for waiter in self.0.extract_if(.., is_over) {
            // The caller may be gone; the models are gone in any case.
            saved_states.run_in_order(|| drop(waiter.reply.send(Ok(waiter.records))));
        }
    }
}
