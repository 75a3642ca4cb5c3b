//! The ladder of memory pressure: what is given back at which level.
//!
//! Rule: a level is acted on once when it rises, and all of it follows from the allowance, so what
//! eases again needs no undoing.

use std::time::Duration;

use transom_engine::{FinishReason, Trim};
use transom_signals::MemoryPressure;

use super::{Core, Effect, Phase, Timestamp};
use crate::governor::LimitReason;
use crate::request::{RequestError, Role};
use crate::status::UnloadReason;

/// A conversation answered this recently is probably going on; its KV cache stays at a warning.
const RECENT_USE: Duration = Duration::from_secs(60);

/// Loads of its model that memory pressure may end before an ask is refused.
const MAX_SHED_LOADS: u8 = 2;

impl Core {
    pub(super) fn apply_pressure(&mut self, now: Timestamp) {
        let allowance = self.governor.allowance();
        let (pressure, stop_answers) = (allowance.memory, allowance.stop_answers);
        let is_critical = pressure == MemoryPressure::Critical;
        if pressure > self.trimmed_at {
            self.trim_caches(is_critical, now);
        }
        self.trimmed_at = pressure;
        let finish_by = now + self.tuning.finish_timeout;
        for index in self.secondary_first() {
            if let Phase::Generating(job) = &mut self.models[index].phase {
                if is_critical {
                    job.finish_by.get_or_insert(finish_by);
                } else {
                    job.finish_by = None;
                }
                if stop_answers {
                    self.stop_job(index, FinishReason::Shed, now);
                }
            } else if is_critical {
                self.count_shed_load(index);
                let reason = LimitReason::Memory { pressure };
                self.begin_unload(index, UnloadReason::Pressure { reason }, now);
            }
        }
    }

    /// The model `index` goes because of memory pressure. If it was loaded, or half loaded, for
    /// nothing, whoever it was loaded for is told the second time: a third would end in the same way.
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

    /// Caches go. `will_unload`: those of idle models go with them.
    fn trim_caches(&mut self, will_unload: bool, now: Timestamp) {
        for model in &self.models {
            let is_recent = now.saturating_sub(model.last_used) <= RECENT_USE;
            let trim = match &model.phase {
                Phase::Generating(_) => Trim::KeepConversation,
                Phase::Ready if will_unload || self.is_idle(model, now) => continue,
                Phase::Ready if is_recent => Trim::KeepConversation,
                Phase::Ready => Trim::Everything,
                Phase::Measuring
                | Phase::WaitingForRoom { .. }
                | Phase::Loading { .. }
                | Phase::Unloading(_) => continue,
            };
            self.effects.push(Effect::Trim(model.worker, trim));
        }
    }

    fn secondary_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.models.len()).collect();
        order.sort_by_key(|&index| self.models[index].spec.role == Role::Chat);
        order
    }
}
