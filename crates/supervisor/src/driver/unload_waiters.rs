//! People who wait until models are gone.

use super::executor::Executor;
use crate::core::WorkerId;
use crate::handle::Reply;
use crate::request::RequestError;
use crate::status::UnloadRecord;

/// See the head of this file.
#[derive(Default)]
pub(super) struct UnloadWaiters {
    waiters: Vec<UnloadWaiter>,
}

struct UnloadWaiter {
    /// Those that are still there.
    workers: Vec<WorkerId>,
    records: Vec<UnloadRecord>,
    reply: Reply<Result<Vec<UnloadRecord>, RequestError>>,
}

impl UnloadWaiters {
    /// Sends the records of `workers` to `reply` when all of them are gone, and with them the saved
    /// states that were to be forgotten.
    pub(super) fn add(
        &mut self,
        workers: Vec<WorkerId>,
        reply: Reply<Result<Vec<UnloadRecord>, RequestError>>,
        executor: &Executor,
    ) {
        self.waiters.push(UnloadWaiter {
            workers,
            records: Vec::new(),
            reply,
        });
        self.reply_to_finished(executor);
    }

    /// `worker` is gone; `record` says what came back.
    pub(super) fn worker_gone(
        &mut self,
        worker: WorkerId,
        record: Option<&UnloadRecord>,
        executor: &Executor,
    ) {
        for waiter in &mut self.waiters {
            let n_before = waiter.workers.len();
            waiter.workers.retain(|other| *other != worker);
            if waiter.workers.len() < n_before {
                waiter.records.extend(record.cloned());
            }
        }
        self.reply_to_finished(executor);
    }

    /// `worker` cannot be ended, as `error` says.
    pub(super) fn worker_stuck(&mut self, worker: WorkerId, error: &RequestError) {
        let waits = |waiter: &mut UnloadWaiter| waiter.workers.contains(&worker);
        for waiter in self.waiters.extract_if(.., waits) {
            // Whoever asked may have gone.
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }

    fn reply_to_finished(&mut self, executor: &Executor) {
        let is_over = |waiter: &mut UnloadWaiter| waiter.workers.is_empty();
        for waiter in self.waiters.extract_if(.., is_over) {
            // Whoever asked may have gone; the models have as well.
            executor.after_saved_states(|| drop(waiter.reply.send(Ok(waiter.records))));
        }
    }
}
