//! What the supervisor says, in a window's terms.
//!
//! Rule: nothing is decided here; each field of [`StatusView`] follows from the supervisor's
//! snapshot alone.

use transom_signals::{MemoryPressure, ThermalState};
use transom_supervisor::status::{ModelStatus, PhaseStatus, Status, UnloadReason, UnloadRecord};
use transom_supervisor::{ActiveLimit, Role, governor};

use crate::wire::{
    Activity, Because, Heat, Limit, LoadedView, MachineView, Pressure, RestraintView, StatusView,
    UnloadView,
};

/// The window's view of a snapshot; `is_guest` if it is of another program's supervisor.
pub(crate) fn of(status: &Status, is_guest: bool) -> StatusView {
    let chat = status.models.iter().find(|model| model.role == Role::Chat);
    let held = status.allowance.blocked_by.map(because);
    let restraints = status.allowance.limits.iter();
    StatusView {
        activity: activity(status),
        model: chat.map(loaded),
        budget_bytes: status.budget_bytes,
        in_use_bytes: status.in_use_bytes,
        held,
        is_paused: status.is_paused,
        restraints: restraints.map(restraint).collect(),
        repaint_ms: whole(status.allowance.repaint_interval.as_millis()),
        offer_smaller_model: status.allowance.offer_smaller_model,
        machine: MachineView {
            memory: match status.signals.memory {
                MemoryPressure::Normal => Pressure::Normal,
                MemoryPressure::Warning => Pressure::Warning,
                MemoryPressure::Critical => Pressure::Critical,
            },
            heat: match status.signals.thermal {
                ThermalState::Nominal => Heat::Nominal,
                ThermalState::Fair => Heat::Fair,
                ThermalState::Serious => Heat::Serious,
                ThermalState::Critical => Heat::Critical,
            },
            is_low_power: status.signals.is_low_power,
            is_on_battery: status.signals.is_on_battery,
            is_thrashing: status.signals.is_thrashing,
        },
        last_unload: status.last_unload.as_ref().map(unload),
        n_waiting: whole(status.queue.len() as u128),
        is_guest,
    }
}

/// An answer that is being written counts more than a limit that lets it go on.
fn activity(status: &Status) -> Activity {
    let mut phases = status.models.iter().map(|model| &model.phase);
    let is_answering = |phase: &PhaseStatus| matches!(phase, PhaseStatus::Generating { .. });
    let is_loading = |phase: &PhaseStatus| {
        matches!(
            phase,
            PhaseStatus::Measuring | PhaseStatus::WaitingForRoom | PhaseStatus::Loading { .. }
        )
    };
    if phases.clone().any(is_answering) {
        Activity::Answering
    } else if status.allowance.blocked_by.is_some() {
        Activity::Held
    } else if phases.any(is_loading) {
        Activity::Loading
    } else {
        Activity::Idle
    }
}

fn loaded(model: &ModelStatus) -> LoadedView {
    let load_fraction = match &model.phase {
        PhaseStatus::Loading {
            progress: Some(progress),
        } if progress.total_bytes > 0 => {
            let fraction = progress.done_bytes as f64 / progress.total_bytes as f64;
            Some(fraction.clamp(0.0, 1.0) as f32)
        }
        _ => None,
    };
    let by_engine = model
        .memory
        .map(|memory| memory.weight_bytes + memory.kv_cache_bytes + memory.allocator_cache_bytes);
    let info = model.info.as_ref();
    LoadedView {
        name: model.name.clone(),
        load_fraction,
        is_ready: matches!(
            model.phase,
            PhaseStatus::Ready | PhaseStatus::Generating { .. }
        ),
        is_leaving: matches!(model.phase, PhaseStatus::Unloading { .. }),
        // Mapped weights are in the engine's sum alone, and what a library keeps in the process's.
        memory_bytes: model.footprint_bytes.max(by_engine),
        engine: info.map(|info| info.engine.clone()),
        context_length: info.map(|info| whole(info.context_length as u128)),
        unloads_in_seconds: model.unloads_in.map(|left| whole(left.as_secs().into())),
    }
}

fn restraint(restraint: &ActiveLimit) -> RestraintView {
    use governor::Limit as Of;
    let limit = match restraint.limit {
        Of::NewAnswers => Limit::NewAnswers,
        Of::RunningAnswers => Limit::RunningAnswers,
        Of::AnswerLength { tokens } => Limit::AnswerLength {
            tokens: whole(tokens as u128),
        },
        Of::Context { tokens } => Limit::Context {
            tokens: whole(tokens as u128),
        },
        Of::PrefillStep { tokens } => Limit::PrefillStep {
            tokens: whole(tokens as u128),
        },
        Of::Speculation => Limit::Speculation,
        Of::Repaint { milliseconds } => Limit::Repaint {
            milliseconds: whole(milliseconds.into()),
        },
        Of::IdleUnload { seconds } => Limit::IdleUnload {
            seconds: whole(seconds.into()),
        },
        Of::SmallerModel => Limit::SmallerModel,
    };
    RestraintView {
        limit,
        because: because(restraint.reason),
    }
}

fn because(why: governor::LimitReason) -> Because {
    use governor::LimitReason as Of;
    match why {
        Of::Memory {
            pressure: MemoryPressure::Critical,
        } => Because::MemoryCritical,
        Of::Memory { .. } => Because::MemoryWarning,
        Of::Thrashing => Because::Thrashing,
        Of::Heat { state } => match state {
            ThermalState::Nominal | ThermalState::Fair => Because::HeatFair,
            ThermalState::Serious => Because::HeatSerious,
            ThermalState::Critical => Because::HeatCritical,
        },
        Of::LowPower => Because::LowPower,
        Of::Battery => Because::Battery,
        Of::SmallMachine => Because::SmallMachine,
        Of::Setting => Because::Setting,
        Of::Paused => Because::Paused,
    }
}

fn unload(record: &UnloadRecord) -> UnloadView {
    UnloadView {
        name: record.name.clone(),
        held_bytes: record.held_bytes,
        was_idle: record.why == UnloadReason::Idle,
    }
}

/// A figure for people, who never see one that is larger.
fn whole(figure: u128) -> u32 {
    u32::try_from(figure).unwrap_or(u32::MAX)
}

/// The view before the supervisor was reached, or of one that cannot be.
pub(crate) fn nothing() -> StatusView {
    StatusView {
        activity: Activity::Idle,
        model: None,
        budget_bytes: 0,
        in_use_bytes: 0,
        held: None,
        is_paused: false,
        restraints: Vec::new(),
        repaint_ms: 16,
        offer_smaller_model: false,
        machine: MachineView {
            memory: Pressure::Normal,
            heat: Heat::Nominal,
            is_low_power: false,
            is_on_battery: false,
            is_thrashing: false,
        },
        last_unload: None,
        n_waiting: 0,
        is_guest: false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use serde_json::{Value, json};

    /// A view with nothing to tell.
    pub(crate) fn idle() -> StatusView {
        StatusView {
            budget_bytes: 8 << 30,
            ..nothing()
        }
    }

    /// A snapshot as it crosses the socket, with `change` laid over it.
    pub(crate) fn status(change: Value) -> Status {
        let mut status = json!({
            "revision": 1, "process_id": 2, "models": [], "queue": [],
            "budget_bytes": 8u64 << 30, "in_use_bytes": 0,
            "signals": transom_signals::SystemSignals::default(),
            "allowance": {
                "memory": "normal", "stop_answers": false, "context_length": null,
                "prefill_chunk": null, "max_tokens": null, "speculation": true,
                "repaint_interval_seconds": 0.016,
                "idle_unload_seconds": null, "held": null, "offer_smaller_model": false,
                "restraints": []
            },
            "last_unload": null, "last_error": null, "keeps_awake": false
        });
        merge(&mut status, change);
        serde_json::from_value(status).unwrap()
    }

    fn merge(into: &mut Value, change: Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                for (key, value) in change {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, change) => *into = change,
        }
    }

    /// A loaded model in this phase, as it crosses the socket.
    pub(crate) fn model(phase: Value) -> Value {
        json!({
            "id": "qwen3-4b@4-bit", "name": "Qwen3", "role": "chat", "phase": phase, "info": null, "need": null,
            "memory": {
                "weight_bytes": 700, "kv_cache_bytes": 50, "allocator_cache_bytes": 0,
                "peak_bytes": 0
            },
            "footprint_bytes": 900, "load_time_seconds": null,
            "passed_over": [], "restored_tokens": 0, "n_answered": 0,
            "unloads_in_seconds": 12.0
        })
    }

    #[test]
    fn a_quiet_machine_has_nothing_to_tell() {
        assert_eq!(of(&status(json!({})), false), idle());
        assert!(of(&status(json!({})), true).is_guest);
    }

    #[test]
    fn a_load_shows_how_far_it_is() {
        let progress = json!({ "done_bytes": 1, "total_bytes": 4 });
        let phase = json!({ "phase": "loading", "progress": progress });
        let view = of(&status(json!({ "models": [model(phase)] })), false);
        assert_eq!(view.activity, Activity::Loading);
        let model = view.model.unwrap();
        assert_eq!(model.load_fraction, Some(0.25));
        assert!(!model.is_ready);
    }

    #[test]
    fn an_answer_that_goes_on_counts_more_than_what_holds_the_next() {
        let held = json!({ "held": { "because": "heat", "state": "critical" } });
        let generating = json!({ "phase": "generating", "ask": 1, "is_stopping": false });
        let change = json!({ "allowance": held, "models": [model(generating)] });
        let view = of(&status(change), false);
        assert_eq!(view.activity, Activity::Answering);
        assert_eq!(view.held, Some(Because::HeatCritical));
        let view = of(&status(json!({ "allowance": held })), false);
        assert_eq!(view.activity, Activity::Held);
        assert!(!view.is_paused);
    }

    #[test]
    fn a_pause_is_told_from_other_holds() {
        let held = json!({ "held": { "because": "paused" } });
        let paused = json!({ "is_paused": true, "allowance": held });
        let view = of(&status(paused), false);
        assert!(view.is_paused);
        assert_eq!(view.activity, Activity::Held);
    }

    #[test]
    fn a_ready_model_says_its_memory_and_when_it_goes() {
        let ready = model(json!({ "phase": "ready" }));
        let model = of(&status(json!({ "models": [ready] })), false)
            .model
            .unwrap();
        assert!(model.is_ready);
        assert_eq!(model.memory_bytes, Some(900));
        assert_eq!(model.unloads_in_seconds, Some(12));
    }
}
