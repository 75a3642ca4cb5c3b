//! Counts crashes of workers: two in a row fail the requests for the model, one does not.
//!
//! Rule: two crashes are not in a row if a success is between them, or ten minutes.

use std::sync::Arc;
use std::time::Duration;

use super::Timestamp;
use crate::request::ModelSpec;

const EXPIRES_AFTER: Duration = Duration::from_secs(600);

/// The specs whose last worker crashed before it completed any work, with the time of the crash.
#[derive(Debug, Clone, Default)]
pub(super) struct CrashCounter(Vec<(Arc<ModelSpec>, Timestamp)>);

impl CrashCounter {
    /// Records that a worker of `spec` crashed before it completed any work. Returns true if the
    /// previous one did too, and then starts to count from zero.
    pub(super) fn record(&mut self, spec: &Arc<ModelSpec>, now: Timestamp) -> bool {
        self.0.retain(|(_, at)| now < *at + EXPIRES_AFTER);
        let is_second = self.0.iter().any(|(known, _)| known == spec);
        self.clear(spec);
        if !is_second {
            self.0.push((spec.clone(), now));
        }
        is_second
    }

    /// Forgets the crash of `spec`, because one of its workers completed a request.
    pub(super) fn clear(&mut self, spec: &ModelSpec) {
        self.0.retain(|(known, _)| **known != *spec);
    }
}
