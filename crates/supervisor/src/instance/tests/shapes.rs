//! Tests that the messages have the shapes recorded for this version of the protocol.
//!
//! Rule: every kind of message is listed. The matches have no wildcard, so a new variant does not
//! compile until it is added here.

mod client_messages;

use serde_json::Value;
use transom_engine::test_support::shapes::{check, shape};
use transom_engine::{
    EngineError, LoadProgress, Logprob, MemoryNeed, MemoryUse, ModelInfo, SamplingParams, Section,
    Stats, TokenEvent, TokenLogprobs, TokenPiece, ToolCallDelta,
};
use transom_engine_host::WorkerEnd;
use transom_signals::{MemoryPressure, SystemSignals, ThermalState};

use super::protocol::{Hello, PROTOCOL, ServerMessage, Welcome};
use super::*;
use crate::core::Core;
use crate::governor::{ActiveLimit, Limit, LimitReason};
use crate::request::{Class, ClientId, ModelRole, PassedOver, RequestId};
use crate::response::ResponseEvent;
use crate::status::{ModelStatus, RequestState, RequestStatus, UnloadReason, UnloadRecord};
use client_messages::client_messages;

const ID: RequestId = RequestId(1);

fn hellos() -> Vec<Hello> {
    let welcomes = [
        Welcome::Accepted(ID),
        Welcome::Refused("why".to_owned()),
        Welcome::Closing,
    ];
    for welcome in &welcomes {
        match welcome {
            Welcome::Accepted(_) | Welcome::Refused(_) | Welcome::Closing => {}
        }
    }
    let welcomes = welcomes.into_iter().map(Some).chain([None]);
    let hello = |welcome| Hello {
        protocol: PROTOCOL,
        version: "version".to_owned(),
        process_id: 1,
        welcome,
        oldest_protocol: Some(PROTOCOL),
    };
    welcomes.map(hello).collect()
}

fn info() -> ModelInfo {
    ModelInfo {
        name: "name".to_owned(),
        architecture: "architecture".to_owned(),
        engine: "engine".to_owned(),
        n_parameters: 1,
        stored_as: "stored".to_owned(),
        computed_as: "computed".to_owned(),
        context_length: 1,
        vocab_size: 1,
        has_chat_template: true,
        draft: Some("draft".to_owned()),
        recommended_sampling: SamplingParams::default(),
    }
}

fn limit_reasons() -> Vec<LimitReason> {
    let all = vec![
        LimitReason::Memory {
            pressure: MemoryPressure::Warning,
        },
        LimitReason::Thrashing,
        LimitReason::Heat {
            state: ThermalState::Serious,
        },
        LimitReason::LowPower,
        LimitReason::Battery,
        LimitReason::SmallMachine,
        LimitReason::Setting,
        LimitReason::Paused,
    ];
    for because in &all {
        match because {
            LimitReason::Memory { .. }
            | LimitReason::Thrashing
            | LimitReason::Heat { .. }
            | LimitReason::LowPower
            | LimitReason::Battery
            | LimitReason::SmallMachine
            | LimitReason::Setting
            | LimitReason::Paused => {}
        }
    }
    all
}

fn unload_reasons() -> Vec<UnloadReason> {
    let all = vec![
        UnloadReason::Idle,
        UnloadReason::MakeRoom,
        UnloadReason::Replaced,
        UnloadReason::Paused,
        UnloadReason::Pressure {
            reason: LimitReason::Thrashing,
        },
        UnloadReason::Requested,
        UnloadReason::LoadEnded,
        UnloadReason::Fault,
        UnloadReason::Quit,
    ];
    for why in &all {
        match why {
            UnloadReason::Idle
            | UnloadReason::MakeRoom
            | UnloadReason::Replaced
            | UnloadReason::Paused
            | UnloadReason::Pressure { .. }
            | UnloadReason::Requested
            | UnloadReason::LoadEnded
            | UnloadReason::Fault
            | UnloadReason::Quit => {}
        }
    }
    all
}

fn passed_over() -> PassedOver {
    PassedOver {
        path: "path".into(),
        reason: "reason".to_owned(),
    }
}

fn status() -> Status {
    let progress = LoadProgress {
        done_bytes: 1,
        total_bytes: 1,
    };
    let mut phases = vec![
        PhaseStatus::Measuring,
        PhaseStatus::WaitingForRoom,
        PhaseStatus::Loading {
            progress: Some(progress),
        },
        PhaseStatus::Ready,
        PhaseStatus::Generating {
            request_id: ID,
            is_stopping: true,
        },
    ];
    let unloading = |why| PhaseStatus::Unloading { why };
    phases.extend(unload_reasons().into_iter().map(unloading));
    let model = |phase| ModelStatus {
        id: "id".to_owned(),
        name: "name".to_owned(),
        role: ModelRole::Chat,
        phase,
        info: Some(info()),
        need: Some(MemoryNeed::default()),
        memory: Some(MemoryUse::default()),
        footprint_bytes: Some(1),
        load_time: Some(Duration::ZERO),
        passed_over: vec![passed_over()],
        saved_tokens: 1,
        n_answered: 1,
        unloads_in: Some(Duration::ZERO),
    };
    let limits = [
        Limit::RunningAnswers,
        Limit::NewAnswers,
        Limit::AnswerLength { tokens: 1 },
        Limit::Context { tokens: 1 },
        Limit::PrefillStep { tokens: 1 },
        Limit::Speculation,
        Limit::Repaint { milliseconds: 1 },
        Limit::IdleUnload { seconds: 1 },
        Limit::SmallerModel,
    ];
    let nothing = Core::new(&test_support::hardware(), Tuning::default());
    let mut status = nothing.status(Duration::ZERO);
    status.models = phases.into_iter().map(model).collect();
    let request = |state| RequestStatus {
        request_id: ID,
        model: "name".to_owned(),
        client: ClientId::app(),
        class: Class::Interactive,
        state,
    };
    let states = [
        RequestState::Prefill { done: 1, total: 1 },
        RequestState::Generating {
            tokens: 1,
            tokens_per_second: Some(1.0),
        },
        RequestState::Stopping,
        RequestState::Queued,
    ];
    for state in &states {
        match state {
            RequestState::Prefill { .. }
            | RequestState::Generating { .. }
            | RequestState::Stopping
            | RequestState::Queued => {}
        }
    }
    status.running = states.into_iter().map(request).collect();
    status.queue = vec![request(RequestState::Queued)];
    status.signals = SystemSignals::default();
    let reason = LimitReason::LowPower;
    let active = |limit| ActiveLimit { limit, reason };
    status.restrictions.limits = limits.into_iter().map(active).collect();
    status.last_unload = Some(UnloadRecord {
        name: "name".to_owned(),
        why: UnloadReason::Idle,
        held_bytes: Some(1),
        freed_bytes: Some(1),
        by_force: true,
        took: Duration::ZERO,
    });
    status.last_error = Some("error".to_owned());
    status
}

fn outcomes() -> Vec<Outcome> {
    let name = || "name".to_owned();
    let errors = vec![
        RequestError::Engine {
            source: EngineError::EmptyPrompt,
        },
        RequestError::NoVariantRuns {
            name: name(),
            variants: vec![passed_over()],
        },
        RequestError::Busy {
            waiting: 1,
            retry_after: Duration::ZERO,
        },
        RequestError::ClientBusy {
            client: ClientId::app(),
            waiting: 1,
            retry_after: Duration::ZERO,
        },
        RequestError::TooLarge {
            name: name(),
            need: MemoryNeed::default(),
            budget_bytes: 1,
            in_use_bytes: 1,
            context_that_fits: Some(1),
        },
        RequestError::Blocked {
            reason: LimitReason::Thrashing,
            retry_after: Duration::ZERO,
        },
        RequestError::WorkerGone {
            end: WorkerEnd::Requested,
            during: "loading".to_owned(),
        },
        RequestError::Shed { name: name() },
        RequestError::Stuck {
            name: name(),
            process_id: 1,
            held_bytes: 1,
        },
        RequestError::Unloaded,
        RequestError::Quitting,
        RequestError::InstanceGone { reason: name() },
    ];
    for error in &errors {
        match error {
            RequestError::Engine { .. }
            | RequestError::NoVariantRuns { .. }
            | RequestError::Busy { .. }
            | RequestError::ClientBusy { .. }
            | RequestError::TooLarge { .. }
            | RequestError::Blocked { .. }
            | RequestError::WorkerGone { .. }
            | RequestError::Shed { .. }
            | RequestError::Stuck { .. }
            | RequestError::Unloaded
            | RequestError::Quitting
            | RequestError::InstanceGone { .. } => {}
        }
    }
    let failed = errors.into_iter().map(|error| Outcome::Failed { error });
    let ended = [
        Outcome::Loaded {
            info: Box::new(info()),
        },
        Outcome::Finished {
            reason: FinishReason::Stop,
            stats: Stats {
                matched_stop: Some(1),
                mask_time: Duration::from_secs(1),
                ..Stats::default()
            },
        },
    ];
    ended.into_iter().chain(failed).collect()
}

fn logprob() -> Logprob {
    Logprob {
        token: 1,
        bytes: vec![1],
        logprob: 1.0,
    }
}

fn answers() -> Vec<ResponseEvent> {
    let tokens = [
        TokenEvent::Started {
            prompt_tokens: 1,
            cached_tokens: 1,
            dropped_messages: 1,
            unconstrained_tools: vec!["text".to_owned()],
        },
        TokenEvent::Prefill { done: 1, total: 1 },
        TokenEvent::Text {
            section: Section::Answer,
            text: "text".to_owned(),
            generated_tokens: 1,
            logprobs: Vec::new(),
        },
        TokenEvent::Text {
            section: Section::Answer,
            text: "text".to_owned(),
            generated_tokens: 1,
            logprobs: vec![TokenLogprobs {
                chosen: logprob(),
                top: vec![logprob()],
            }],
        },
        TokenEvent::ToolCall {
            index: 1,
            delta: ToolCallDelta::Begin {
                id: "text".to_owned(),
                name: "text".to_owned(),
            },
            generated_tokens: 1,
        },
        TokenEvent::ToolCall {
            index: 1,
            delta: ToolCallDelta::Arguments("text".to_owned()),
            generated_tokens: 1,
        },
        TokenEvent::ToolCall {
            index: 1,
            delta: ToolCallDelta::End,
            generated_tokens: 1,
        },
        TokenEvent::Pieces {
            pieces: vec![TokenPiece {
                id: 1,
                bytes: vec![1],
            }],
        },
    ];
    let progress = LoadProgress {
        done_bytes: 1,
        total_bytes: 1,
    };
    let mut all = vec![
        ResponseEvent::Queued {
            position: 1,
            blocked_by: None,
        },
        ResponseEvent::Loading {
            progress: Some(progress),
        },
    ];
    all.push(ResponseEvent::Embedded {
        n_tokens: 1,
        vector: vec![1.0],
    });
    let held = |because| ResponseEvent::Queued {
        position: 1,
        blocked_by: Some(because),
    };
    all.extend(limit_reasons().into_iter().map(held));
    all.extend(tokens.map(|event| ResponseEvent::Token { event }));
    let ended = |outcome| ResponseEvent::Ended { outcome };
    all.extend(outcomes().into_iter().map(ended));
    all
}

fn server_messages() -> Vec<ServerMessage> {
    let records = vec![status().last_unload.unwrap()];
    let mut messages = vec![
        ServerMessage::Status {
            status: Box::new(status()),
        },
        ServerMessage::Unloaded {
            number: 1,
            result: Ok(records),
        },
        ServerMessage::Unloaded {
            number: 1,
            result: Err(RequestError::Quitting),
        },
        ServerMessage::Unknown,
    ];
    let response = |event| ServerMessage::Response { id: ID, event };
    messages.extend(answers().into_iter().map(response));
    for message in &messages {
        match message {
            ServerMessage::Status { .. }
            | ServerMessage::Response { .. }
            | ServerMessage::Unloaded { .. }
            | ServerMessage::Unknown => {}
        }
    }
    messages
}

#[test]
fn messages_change_only_with_the_protocol_version() {
    let hellos = hellos();
    let (client_messages, server_messages) = (client_messages(), server_messages());
    let shapes: Vec<Value> = (hellos.iter().map(shape))
        .chain(client_messages.iter().map(shape))
        .chain(server_messages.iter().map(shape))
        .collect();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/instance/tests/shapes.json"
    );
    check(file.as_ref(), PROTOCOL, &shapes);
}

/// Programs of protocol 11 and 12.
#[test]
fn messages_without_clients_are_understood() {
    let request = request_for("chat", Work::Load);
    let mut older = serde_json::to_value(&request).unwrap();
    let mut forget = |place: &str, field: &str| {
        let fields = older.pointer_mut(place).and_then(Value::as_object_mut);
        assert!(fields.unwrap().remove(field).is_some(), "{field}");
    };
    for field in ["client", "class", "max_wait_seconds", "keep_alive"] {
        forget("", field);
    }
    forget("/model", "min_context_length");
    let read: crate::request::ModelRequest = serde_json::from_value(older).unwrap();
    assert_eq!(read, request);
    let busy = serde_json::json!({ "refused": "busy", "waiting": 8 });
    let retry_after = Duration::from_secs(1);
    let expected = RequestError::Busy {
        waiting: 8,
        retry_after,
    };
    assert_eq!(
        serde_json::from_value::<RequestError>(busy).unwrap(),
        expected
    );
}
