//! Jobs that a scripted worker was told to run while it runs another one.

use transom_engine::{FinishReason, Stats};
use transom_engine_host::wire::{Command, JobId, JobSummary, Report};

use super::WorkerTask;

impl WorkerTask {
    /// Ends a job that runs after the present one.
    pub(super) async fn end_deferred(&mut self, job: JobId, reason: FinishReason) {
        let is_it = |command: &Command| match command {
            Command::Generate { job: id, .. }
            | Command::Embed { job: id, .. }
            | Command::Count { job: id, .. } => *id == job,
            _ => false,
        };
        let Some(index) = self.deferred.iter().position(is_it) else {
            return;
        };
        self.deferred.remove(index);
        let summary = JobSummary {
            reason,
            stats: Stats::default(),
            memory: self.memory(),
        };
        let result = Ok(summary);
        self.report(Report::JobEnded { job, result }).await;
    }
}
