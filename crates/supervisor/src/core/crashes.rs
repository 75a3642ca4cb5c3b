//! Models whose workers die: two deaths in a row are a pattern, one is an accident.
//!
//! Rule: a success between two deaths, or some minutes, make them two accidents.

use std::sync::Arc;
use std::time::Duration;

use super::Timestamp;
use crate::request::ModelSpec;

/// How long a death is remembered.
const EXPIRES_AFTER: Duration = Duration::from_secs(600);

/// The specs whose last worker died before it finished anything, and when it did.
#[derive(Debug, Clone, Default)]
pub(super) struct CrashCounter(Vec<(Arc<ModelSpec>, Timestamp)>);

impl CrashCounter {
    /// A worker of `spec` died with nothing finished. Returns true if the one before did as well;
    /// the next death is then a first one again.
    pub(super) fn record(&mut self, spec: &Arc<ModelSpec>, now: Timestamp) -> bool {
        self.0.retain(|(_, at)| now < *at + EXPIRES_AFTER);
        let is_second = self.0.iter().any(|(known, _)| known == spec);
        self.clear(spec);
        if !is_second {
            self.0.push((spec.clone(), now));
        }
        is_second
    }

    /// A worker of `spec` did what somebody asked for.
    pub(super) fn clear(&mut self, spec: &ModelSpec) {
        self.0.retain(|(known, _)| **known != *spec);
    }
}
