//! People who wait until models are gone.

use super::hands::Hands;
use crate::core::WorkerId;
use crate::handle::Reply;
use crate::request::AskError;
use crate::status::UnloadRecord;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Unloads {
    waiting: Vec<Waiting>,
}

struct Waiting {
    /// Those that are still there.
    workers: Vec<WorkerId>,
    records: Vec<UnloadRecord>,
    reply: Reply<Result<Vec<UnloadRecord>, AskError>>,
}

impl Unloads {
    /// Sends the records of `workers` to `reply` when all of them are gone, and with them the saved
    /// states that were to be forgotten.
    pub(super) fn wait_for(
        &mut self,
        workers: Vec<WorkerId>,
        reply: Reply<Result<Vec<UnloadRecord>, AskError>>,
        hands: &Hands,
    ) {
        self.waiting.push(Waiting {
            workers,
            records: Vec::new(),
            reply,
        });
        self.answer(hands);
    }

    /// `worker` is gone; `record` says what came back.
    pub(super) fn is_gone(
        &mut self,
        worker: WorkerId,
        record: Option<&UnloadRecord>,
        hands: &Hands,
    ) {
        for waiting in &mut self.waiting {
            let n_before = waiting.workers.len();
            waiting.workers.retain(|other| *other != worker);
            if waiting.workers.len() < n_before {
                waiting.records.extend(record.cloned());
            }
        }
        self.answer(hands);
    }

    /// `worker` cannot be ended, as `error` says.
    pub(super) fn is_stuck(&mut self, worker: WorkerId, error: &AskError) {
        let waits = |waiting: &mut Waiting| waiting.workers.contains(&worker);
        for waiting in self.waiting.extract_if(.., waits) {
            // Whoever asked may have gone.
            let _ = waiting.reply.send(Err(error.clone()));
        }
    }

    fn answer(&mut self, hands: &Hands) {
        let is_over = |waiting: &mut Waiting| waiting.workers.is_empty();
        for waiting in self.waiting.extract_if(.., is_over) {
            // Whoever asked may have gone; the models have as well.
            hands.after_saved_states(|| drop(waiting.reply.send(Ok(waiting.records))));
        }
    }
}
