//! What is freed at each level of memory pressure.
//!
//! Rule: a level triggers actions only once, when it rises. Everything else follows from the
//! restrictions, so nothing has to be undone when pressure falls.

use std::time::Duration;

use transom_engine::{FinishReason, Trim};
use transom_engine_host::wire::Command;
use transom_signals::MemoryPressure;

use super::{Core, Effect, Phase};
use crate::governor::LimitReason;
use crate::request::{ModelRole, RequestError};
use crate::status::UnloadReason;

/// A conversation with a response this recent probably continues, so a warning keeps its KV cache.
const RECENT_USE: Duration = Duration::from_secs(60);

/// Number of loads that memory pressure may end before the request fails.
const MAX_SHED_LOADS: u8 = 2;

impl Core {
    pub(super) fn apply_pressure(&mut self) {
        let restrictions = self.governor.restrictions();
        let (pressure, stop_answers) = (restrictions.memory, restrictions.stop_answers);
        let is_critical = pressure == MemoryPressure::Critical;
        if pressure > self.trimmed_at {
            self.trim_caches(is_critical);
        }
        self.trimmed_at = pressure;
        let finish_by = self.now + self.tuning.finish_timeout;
        for index in self.secondary_first() {
            if let Phase::Generating(running) = &mut self.models[index].phase {
                running.finish_by = is_critical.then(|| running.finish_by.unwrap_or(finish_by));
                if stop_answers {
                    self.stop_jobs(index, FinishReason::Shed, |_| true);
                }
            } else if is_critical {
                self.count_shed_load(index);
                let reason = LimitReason::Memory { pressure };
                self.begin_unload(index, UnloadReason::Pressure { reason });
            }
        }
    }

    /// Counts an unload of model `index` by memory pressure. If the model was loaded, or partly
    /// loaded, without completing a request, the requests for it fail the second time, because a
    /// third load would end the same way.
    fn count_shed_load(&mut self, index: usize) {
        let model = &self.models[index];
        let is_for_nothing = model.load_started.is_some() && !model.has_completed_work;
        if model.is_unloading() || !is_for_nothing {
            return;
        }
        let error = RequestError::Shed {
            name: model.spec.name.clone(),
        };
        let mut n_ended = 0;
        for pending in &mut self.queue {
            if model.serves(&pending.spec) {
                pending.n_shed_loads += 1;
                n_ended += usize::from(pending.n_shed_loads >= MAX_SHED_LOADS);
            }
        }
        if n_ended > 0 {
            self.last_error = Some(error.to_string());
            self.fail_queued(|pending| pending.n_shed_loads >= MAX_SHED_LOADS, &error);
        }
    }

    /// Trims the caches of all models. With `will_unload`, idle models are skipped, because they
    /// are unloaded anyway.
    fn trim_caches(&mut self, will_unload: bool) {
        for index in 0..self.models.len() {
            let model = &self.models[index];
            let is_recent = self.now.saturating_sub(model.last_used) <= RECENT_USE;
            let trim = match &model.phase {
                Phase::Generating(_) => Trim::KeepConversation,
                Phase::Ready if will_unload || self.is_idle(model) => continue,
                Phase::Ready if is_recent => Trim::KeepConversation,
                Phase::Ready => Trim::Everything,
                _ => continue,
            };
            self.send_trim(index, Command::Trim { trim });
        }
    }

    /// Sends a trim, or a forget, to the worker of `index`. It waits there for the running jobs, and
    /// no job starts before it.
    pub(super) fn send_trim(&mut self, index: usize, command: Command) {
        let model = &mut self.models[index];
        self.effects.push(Effect::Send(model.worker, command));
        if let Phase::Generating(running) = &mut model.phase {
            running.then_trims = true;
        }
    }

    fn secondary_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.models.len()).collect();
        order.sort_by_key(|&index| self.models[index].spec.role == ModelRole::Chat);
        order
    }
}
