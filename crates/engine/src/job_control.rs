//! How another thread stops or trims a running load or generation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::event::FinishReason;

/// Stops or trims a running load or generation. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct JobControl {
    state: Arc<JobState>,
}

#[derive(Debug, Default)]
struct JobState {
    /// Why the job was stopped. The first reason stands.
    stop: OnceLock<FinishReason>,
    trim: AtomicBool,
    was_polled: AtomicBool,
}

impl JobControl {
    /// Returns a control of a job that was not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the job because its caller no longer needs it. The job ends after the running step
    /// (one token or one prefill chunk). The first reason for stopping stands.
    pub fn cancel(&self) {
        let _ = self.state.stop.set(FinishReason::Canceled);
    }

    /// Like [`JobControl::cancel`], but because the machine is short of memory or too hot.
    pub fn shed(&self) {
        let _ = self.state.stop.set(FinishReason::Shed);
    }

    /// Returns true if the job has to stop. Engines call this as often as they can, also within a
    /// step: each call shows the watchdog that the job is alive.
    pub fn is_stopped(&self) -> bool {
        self.state.was_polled.store(true, Ordering::Relaxed);
        self.stop_reason().is_some()
    }

    /// Returns true if the engine has called [`JobControl::is_stopped`] since the last call of this
    /// method. For watchdogs.
    pub fn take_polled(&self) -> bool {
        self.state.was_polled.swap(false, Ordering::Relaxed)
    }

    /// Returns the finish reason of a job that was stopped: [`FinishReason::Canceled`] or
    /// [`FinishReason::Shed`].
    pub fn stop_reason(&self) -> Option<FinishReason> {
        self.state.stop.get().copied()
    }

    /// Makes the running job release unused buffers and the KV caches of other conversations between
    /// two steps.
    pub fn request_trim(&self) {
        self.state.trim.store(true, Ordering::Release);
    }

    /// Returns true if a trim was requested since the last call of this method. For engines.
    pub fn take_trim_request(&self) -> bool {
        self.state.trim.swap(false, Ordering::AcqRel)
    }
}
