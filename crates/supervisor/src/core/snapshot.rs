//! Builds the status from the core's state.

use super::{Core, Model, Phase, Timestamp};
use crate::status::{ModelStatus, PhaseStatus, RequestState, RequestStatus, Status};

impl Core {
    /// Returns a snapshot at `now`. The publisher fills in revision and process id, which are 0
    /// here.
    pub fn status(&self, now: Timestamp) -> Status {
        let restrictions = self.governor.restrictions();
        let models = self.models.iter();
        let queue = self.queue.iter().map(|pending| RequestStatus {
            request_id: pending.id,
            model: pending.spec.name.clone(),
            client: pending.client.clone(),
            class: pending.class,
            state: RequestState::Queued,
        });
        Status {
            revision: 0,
            process_id: 0,
            models: models
                .clone()
                .map(|model| self.describe(model, now))
                .collect(),
            running: self.models.iter().flat_map(describe_jobs).collect(),
            queue: queue.collect(),
            budget_bytes: self.budget_bytes(),
            in_use_bytes: models
                .map(Model::reserved_bytes)
                .fold(0, u64::saturating_add),
            signals: self.governor.signals(),
            restrictions: restrictions.clone(),
            is_paused: self.governor.is_paused(),
            last_unload: self.last_unload.clone().map(|(_, record)| record),
            last_error: self.last_error.clone(),
            keeps_awake: self.keeps_awake,
        }
    }

    fn describe(&self, model: &Model, now: Timestamp) -> ModelStatus {
        ModelStatus {
            id: model.spec.id.clone(),
            name: model.spec.name.clone(),
            role: model.spec.role,
            phase: describe_phase(&model.phase),
            info: model.info.as_deref().cloned(),
            need: model.need,
            memory: model.memory,
            footprint_bytes: model.footprint_growth(),
            load_time: model.load_time,
            passed_over: model.passed_over.clone(),
            saved_tokens: model.saved_tokens,
            n_answered: model.n_answered,
            unloads_in: match model.phase {
                Phase::Ready => self.idle_at(model).map(|at| at.saturating_sub(now)),
                _ => None,
            },
        }
    }
}

/// Returns the running requests of the model. The driver fills in their progress.
fn describe_jobs(model: &Model) -> impl Iterator<Item = RequestStatus> {
    model.jobs().iter().map(|job| RequestStatus {
        request_id: job.request_id,
        model: model.spec.name.clone(),
        client: job.client.clone(),
        class: job.class,
        state: match job.stop {
            Some(_) => RequestState::Stopping,
            None => RequestState::Prefill { done: 0, total: 0 },
        },
    })
}

fn describe_phase(phase: &Phase) -> PhaseStatus {
    match phase {
        Phase::Measuring => PhaseStatus::Measuring,
        Phase::WaitingForRoom { .. } => PhaseStatus::WaitingForRoom,
        Phase::Loading { progress } => PhaseStatus::Loading {
            progress: *progress,
        },
        // Generating without a job does not exist.
        Phase::Ready => PhaseStatus::Ready,
        Phase::Generating(running) => match running.jobs.first() {
            Some(job) => PhaseStatus::Generating {
                request_id: job.request_id,
                is_stopping: running.is_stopping(),
            },
            None => PhaseStatus::Ready,
        },
        Phase::Unloading(unloading) => PhaseStatus::Unloading { why: unloading.why },
    }
}
