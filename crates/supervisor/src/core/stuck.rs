//! Processes that were killed but do not end, because they hang in a driver or on a dead network
//! share.
//!
//! Rule: such a process keeps its bytes of the budget, and nothing waits for it.

use transom_engine::MemoryNeed;
use transom_engine_host::WorkerEnd;
use transom_fit::{MemoryFit, memory_fit};

use super::model::{Model, UnloadStep};
use super::{Core, Phase, WorkerId};
use crate::request::RequestError;
use crate::status::UnloadReason;

impl Core {
    /// Handles that the process of `index` was killed, by the core or by its watchdog (`end` is the
    /// reason), but does not end.
    pub(super) fn process_stuck(&mut self, index: usize, process_id: u32, end: WorkerEnd) {
        if !self.models[index].is_unloading() {
            self.fail_jobs_of_dead_worker(index, end);
        }
        let step = UnloadStep::Stuck { process_id };
        self.set_unload_step(index, UnloadReason::Fault, step);
        self.last_error = self.models[index].stuck().map(|error| error.to_string());
    }

    /// Returns the workers whose processes do not end, with the error for callers that wait for
    /// them.
    pub(crate) fn stuck_workers(&self) -> impl Iterator<Item = (WorkerId, RequestError)> {
        let models = self.models.iter();
        models.filter_map(|model| Some((model.worker, model.stuck()?)))
    }

    pub(super) fn stuck_bytes(&self) -> u64 {
        let stuck = self.models.iter().filter(|model| model.is_stuck());
        stuck.map(Model::stuck_bytes).fold(0, u64::saturating_add)
    }

    /// Returns the error for a model with this `need` that would fit if all killed processes ended;
    /// `None` if it would not fit even then.
    pub(super) fn refused_by_stuck(&self, need: &MemoryNeed) -> Option<RequestError> {
        let in_use = self.committed_bytes().saturating_sub(self.stuck_bytes());
        match memory_fit(self.budget_bytes(), need, in_use, self.evictable_bytes()) {
            MemoryFit::Fits | MemoryFit::FitsAfterEviction => {
                self.models.iter().find_map(Model::stuck)
            }
            MemoryFit::FitsWithContext(_) | MemoryFit::DoesNotFit { .. } => None,
        }
    }
}

impl Model {
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck().is_some()
    }

    /// Returns the bytes that its process may hold: the model, or a failed load.
    fn stuck_bytes(&self) -> u64 {
        self.reserved_bytes().max(self.failed_load_bytes)
    }

    fn stuck(&self) -> Option<RequestError> {
        let Phase::Unloading(unloading) = &self.phase else {
            return None;
        };
        match unloading.step {
            UnloadStep::Stuck { process_id } => Some(RequestError::Stuck {
                name: self.spec.name.clone(),
                process_id,
                held_bytes: self.stuck_bytes(),
            }),
            _ => None,
        }
    }
}
