//! Converts the supervisor's status for pages.
//!
//! Rule: nothing is decided here. Each field of [`StatusView`] follows from the status alone.

use transom_server::key_of_client;
use transom_signals::{MemoryPressure, ThermalState};
use transom_supervisor::status::{ModelStatus, PhaseStatus, RequestStatus, Status, UnloadReason};
use transom_supervisor::{Class, ClientId, ModelRole, governor};

use crate::wire::{
    Activity, BackgroundView, LimitReason, LimitView, LoadedView, StatusView, UnloadView,
};

/// Converts a status. `is_client` is true if the supervisor belongs to another program.
pub(crate) fn from_status(status: &Status, is_client: bool) -> StatusView {
    let chat = status
        .models
        .iter()
        .find(|model| model.role == ModelRole::Chat);
    let limits = status.restrictions.limits.iter();
    let last_unload = status.last_unload.as_ref();
    StatusView {
        activity: activity(status),
        model: chat.map(loaded),
        budget_bytes: status.budget_bytes,
        in_use_bytes: status.in_use_bytes,
        held: status.restrictions.blocked_by.map(limit_reason),
        is_paused: status.is_paused,
        limits: limits
            .map(|active| LimitView {
                limit: active.limit,
                reason: limit_reason(active.reason),
            })
            .collect(),
        offer_smaller_model: status.restrictions.offer_smaller_model,
        machine: status.signals,
        last_unload: last_unload.map(|record| UnloadView {
            name: record.name.clone(),
            held_bytes: record.held_bytes,
            was_idle: record.why == UnloadReason::Idle,
        }),
        n_queued: status.queue.len(),
        background: background(status),
        is_client,
    }
}

/// Returns the request of another program that runs now.
fn background(status: &Status) -> Option<BackgroundView> {
    let mut running = status.running.iter();
    let is_of_others = |request: &&RequestStatus| {
        request.class == Class::Background && request.client != ClientId::app()
    };
    let request = running.find(is_of_others)?;
    let key = key_of_client(&request.client);
    Some(BackgroundView {
        client: key.unwrap_or_else(|| request.client.to_string()),
        model: request.model.clone(),
    })
}

/// A running response has priority over a limit that lets it continue.
fn activity(status: &Status) -> Activity {
    let mut phases = status.models.iter().map(|model| &model.phase);
    let is_loading = |phase: &PhaseStatus| {
        matches!(
            phase,
            PhaseStatus::Measuring | PhaseStatus::WaitingForRoom | PhaseStatus::Loading { .. }
        )
    };
    if status.is_answering() {
        Activity::Answering
    } else if status.restrictions.blocked_by.is_some() {
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
    let by_engine = model.memory.map(|memory| memory.total_bytes());
    let info = model.info.as_ref();
    LoadedView {
        name: model.name.clone(),
        load_fraction,
        is_ready: matches!(
            model.phase,
            PhaseStatus::Ready | PhaseStatus::Generating { .. }
        ),
        is_unloading: matches!(model.phase, PhaseStatus::Unloading { .. }),
        // Mapped weights count only in the engine's sum, and library allocations only in the
        // process's.
        memory_bytes: model.footprint_bytes.max(by_engine),
        engine: info.map(|info| info.engine.clone()),
        context_length: info.map(|info| info.context_length),
        unloads_in_seconds: model.unloads_in.map(|left| left.as_secs()),
    }
}

fn limit_reason(reason: governor::LimitReason) -> LimitReason {
    use governor::LimitReason as From;
    match reason {
        From::Memory {
            pressure: MemoryPressure::Critical,
        } => LimitReason::MemoryCritical,
        From::Memory { .. } => LimitReason::MemoryWarning,
        From::Thrashing => LimitReason::Thrashing,
        From::Heat { state } => match state {
            ThermalState::Nominal | ThermalState::Fair => LimitReason::HeatFair,
            ThermalState::Serious => LimitReason::HeatSerious,
            ThermalState::Critical => LimitReason::HeatCritical,
        },
        From::LowPower => LimitReason::LowPower,
        From::Battery => LimitReason::Battery,
        From::SmallMachine => LimitReason::SmallMachine,
        From::Setting => LimitReason::Setting,
        From::Paused => LimitReason::Paused,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use serde_json::{Value, json};

    /// Returns the view of an idle machine.
    fn idle() -> StatusView {
        StatusView {
            budget_bytes: 8 << 30,
            ..StatusView::default()
        }
    }

    /// Returns a status as sent over the socket, with `change` merged into it.
    pub(crate) fn status(change: Value) -> Status {
        let mut status = json!({
            "revision": 1, "process_id": 2, "models": [], "queue": [],
            "budget_bytes": 8u64 << 30, "in_use_bytes": 0,
            "signals": transom_signals::SystemSignals::default(),
            "restrictions": {
                "memory": "normal", "stop_answers": false, "context_length": null,
                "prefill_chunk": null, "max_tokens": null, "speculation": true,
                "repaint_interval_seconds": 0.016,
                "idle_unload_seconds": null, "blocked_by": null,
                "offer_smaller_model": false, "limits": []
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

    /// Returns a loaded model in this phase, as sent over the socket.
    fn model(phase: Value) -> Value {
        json!({
            "id": "qwen3-4b@4-bit", "name": "Qwen3", "role": "chat", "phase": phase, "info": null, "need": null,
            "memory": {
                "weight_bytes": 700, "kv_cache_bytes": 50, "allocator_cache_bytes": 0,
                "peak_bytes": 0
            },
            "footprint_bytes": 900, "load_time_seconds": null,
            "passed_over": [], "saved_tokens": 0, "n_answered": 0,
            "unloads_in_seconds": 12.0
        })
    }

    #[test]
    fn an_idle_machine_has_an_empty_view() {
        assert_eq!(from_status(&status(json!({})), false), idle());
        assert!(from_status(&status(json!({})), true).is_client);
    }

    #[test]
    fn a_loading_model_shows_its_progress() {
        let progress = json!({ "done_bytes": 1, "total_bytes": 4 });
        let phase = json!({ "phase": "loading", "progress": progress });
        let view = from_status(&status(json!({ "models": [model(phase)] })), false);
        assert_eq!(view.activity, Activity::Loading);
        let model = view.model.unwrap();
        assert_eq!(model.load_fraction, Some(0.25));
        assert!(!model.is_ready);
    }

    #[test]
    fn a_running_response_has_priority_over_held_requests() {
        let held = json!({ "blocked_by": { "because": "heat", "state": "critical" } });
        let generating = json!({ "phase": "generating", "request_id": 1, "is_stopping": false });
        let change = json!({ "restrictions": held, "models": [model(generating)] });
        let view = from_status(&status(change), false);
        assert_eq!(view.activity, Activity::Answering);
        assert_eq!(view.held, Some(LimitReason::HeatCritical));
        let view = from_status(&status(json!({ "restrictions": held })), false);
        assert_eq!(view.activity, Activity::Held);
        assert!(!view.is_paused);
    }

    #[test]
    fn the_program_that_uses_the_model_in_the_background_is_named() {
        let running = |class: &str, client: &str| {
            let request = json!({
                "request_id": 1, "model": "Qwen3", "client": client, "class": class
            });
            from_status(&status(json!({ "running": [request] })), false).background
        };
        let by = |client: &str| {
            Some(BackgroundView {
                client: client.to_owned(),
                model: "Qwen3".to_owned(),
            })
        };
        assert_eq!(running("background", "api:Zed"), by("Zed"));
        assert_eq!(running("background", "script"), by("script"));
        assert_eq!(running("interactive", "cli"), None);
    }

    #[test]
    fn a_pause_is_distinguished_from_other_holds() {
        let held = json!({ "blocked_by": { "because": "paused" } });
        let paused = json!({ "is_paused": true, "restrictions": held });
        let view = from_status(&status(paused), false);
        assert!(view.is_paused);
        assert_eq!(view.activity, Activity::Held);
    }

    #[test]
    fn a_ready_model_has_its_memory_and_unload_time() {
        let ready = model(json!({ "phase": "ready" }));
        let model = from_status(&status(json!({ "models": [ready] })), false)
            .model
            .unwrap();
        assert!(model.is_ready);
        assert_eq!(model.memory_bytes, Some(900));
        assert_eq!(model.unloads_in_seconds, Some(12));
    }
}
