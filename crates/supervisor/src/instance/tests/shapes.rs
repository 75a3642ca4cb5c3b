//! Messages have the shapes that the number of the protocol stands for.
//!
//! Rule: each kind of message is here. The matches without a wildcard are there so that a new one
//! does not compile until it is added.

use serde_json::Value;
use transom_engine::test_support::shapes::{check, shape};
use transom_engine::{
    EngineError, KvCacheChoice, LoadProgress, MemoryNeed, MemoryUse, ModelInfo, SamplingParams,
    Section, Stats, TokenEvent,
};
use transom_engine_host::WorkerEnd;
use transom_signals::{MemoryPressure, SystemSignals, ThermalState};

use super::protocol::{Hello, PROTOCOL, ToClient, ToServer, Welcome};
use super::*;
use crate::answer::AnswerEvent;
use crate::core::Core;
use crate::governor::{Because, Limit, Restraint};
use crate::request::{AskId, Correction, Role};
use crate::status::{ModelStatus, PassedOver, QueuedAsk, UnloadReason, UnloadRecord};

const ID: AskId = AskId(1);

fn hellos() -> Vec<Hello> {
    let welcomes = [
        Welcome::From(ID),
        Welcome::Refused("why".to_owned()),
        Welcome::Closing,
    ];
    for welcome in &welcomes {
        match welcome {
            Welcome::From(_) | Welcome::Refused(_) | Welcome::Closing => {}
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

fn to_server() -> Vec<ToServer> {
    let mut generate = ask("chat");
    generate.model.context_length = Some(1);
    generate.model.kv_cache = KvCacheChoice::Small;
    generate.model.corrections = vec![Correction {
        path: "path".into(),
        bytes: 1,
    }];
    let load = ask_for("chat", Work::Load);
    let messages = vec![
        ToServer::Ask {
            id: ID,
            ask: Box::new(generate),
        },
        ToServer::Ask {
            id: ID,
            ask: Box::new(load),
        },
        ToServer::Cancel { id: ID },
        ToServer::Unload {
            number: 1,
            which: Unload::All,
        },
        ToServer::Unload {
            number: 1,
            which: Unload::Model("chat".to_owned()),
        },
        ToServer::Tune {
            tuning: Tuning::default(),
        },
        ToServer::Pause { is_paused: true },
        ToServer::ForgetConversations,
        ToServer::Unknown,
    ];
    for message in &messages {
        match message {
            ToServer::Ask { .. }
            | ToServer::Cancel { .. }
            | ToServer::Unload { .. }
            | ToServer::Tune { .. }
            | ToServer::Pause { .. }
            | ToServer::ForgetConversations
            | ToServer::Unknown => {}
        }
    }
    messages
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
        recommended_sampling: SamplingParams::default(),
    }
}

fn becauses() -> Vec<Because> {
    let all = vec![
        Because::Memory {
            pressure: MemoryPressure::Warning,
        },
        Because::Thrashing,
        Because::Heat {
            state: ThermalState::Serious,
        },
        Because::LowPower,
        Because::Battery,
        Because::SmallMachine,
        Because::Setting,
        Because::Paused,
    ];
    for because in &all {
        match because {
            Because::Memory { .. }
            | Because::Thrashing
            | Because::Heat { .. }
            | Because::LowPower
            | Because::Battery
            | Because::SmallMachine
            | Because::Setting
            | Because::Paused => {}
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
            because: Because::Thrashing,
        },
        UnloadReason::Asked,
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
            | UnloadReason::Asked
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
            ask: ID,
            is_stopping: true,
        },
    ];
    let unloading = |why| PhaseStatus::Unloading { why };
    phases.extend(unload_reasons().into_iter().map(unloading));
    let model = |phase| ModelStatus {
        id: "id".to_owned(),
        name: "name".to_owned(),
        role: Role::Chat,
        phase,
        info: Some(info()),
        need: Some(MemoryNeed::default()),
        memory: Some(MemoryUse::default()),
        footprint_bytes: Some(1),
        load_time: Some(Duration::ZERO),
        passed_over: vec![passed_over()],
        restored_tokens: 1,
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
    status.queue = vec![QueuedAsk {
        ask: ID,
        model: "name".to_owned(),
    }];
    status.signals = SystemSignals::default();
    let because = Because::LowPower;
    let restraint = |limit| Restraint { limit, because };
    status.allowance.restraints = limits.into_iter().map(restraint).collect();
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
        AskError::Engine {
            source: EngineError::EmptyPrompt,
        },
        AskError::NoFormRuns {
            name: name(),
            forms: vec![passed_over()],
        },
        AskError::Busy { waiting: 1 },
        AskError::TooLarge {
            name: name(),
            need: MemoryNeed::default(),
            budget_bytes: 1,
            in_use_bytes: 1,
            context_that_fits: Some(1),
        },
        AskError::Held {
            because: Because::Thrashing,
            retry_after: Duration::ZERO,
        },
        AskError::WorkerGone {
            end: WorkerEnd::AsTold,
            during: "loading".to_owned(),
        },
        AskError::Shed { name: name() },
        AskError::Stuck {
            name: name(),
            process_id: 1,
            held_bytes: 1,
        },
        AskError::Unloaded,
        AskError::Quitting,
        AskError::InstanceGone { reason: name() },
    ];
    for error in &errors {
        match error {
            AskError::Engine { .. }
            | AskError::NoFormRuns { .. }
            | AskError::Busy { .. }
            | AskError::TooLarge { .. }
            | AskError::Held { .. }
            | AskError::WorkerGone { .. }
            | AskError::Shed { .. }
            | AskError::Stuck { .. }
            | AskError::Unloaded
            | AskError::Quitting
            | AskError::InstanceGone { .. } => {}
        }
    }
    let failed = errors.into_iter().map(|error| Outcome::Failed { error });
    let ended = [
        Outcome::Loaded {
            info: Box::new(info()),
        },
        Outcome::Finished {
            reason: FinishReason::Stop,
            stats: Stats::default(),
        },
    ];
    ended.into_iter().chain(failed).collect()
}

fn answers() -> Vec<AnswerEvent> {
    let tokens = [
        TokenEvent::Started {
            prompt_tokens: 1,
            cached_tokens: 1,
            dropped_messages: 1,
        },
        TokenEvent::Prefill { done: 1, total: 1 },
        TokenEvent::Text {
            section: Section::Answer,
            text: "text".to_owned(),
            generated_tokens: 1,
        },
    ];
    let progress = LoadProgress {
        done_bytes: 1,
        total_bytes: 1,
    };
    let mut all = vec![
        AnswerEvent::Queued {
            position: 1,
            held: None,
        },
        AnswerEvent::Loading {
            progress: Some(progress),
        },
    ];
    let held = |because| AnswerEvent::Queued {
        position: 1,
        held: Some(because),
    };
    all.extend(becauses().into_iter().map(held));
    all.extend(tokens.map(|event| AnswerEvent::Token { event }));
    let ended = |outcome| AnswerEvent::Ended { outcome };
    all.extend(outcomes().into_iter().map(ended));
    all
}

fn to_client() -> Vec<ToClient> {
    let records = vec![status().last_unload.unwrap()];
    let mut messages = vec![
        ToClient::Status {
            status: Box::new(status()),
        },
        ToClient::Unloaded {
            number: 1,
            result: Ok(records),
        },
        ToClient::Unloaded {
            number: 1,
            result: Err(AskError::Quitting),
        },
        ToClient::Unknown,
    ];
    let answer = |event| ToClient::Answer { id: ID, event };
    messages.extend(answers().into_iter().map(answer));
    for message in &messages {
        match message {
            ToClient::Status { .. }
            | ToClient::Answer { .. }
            | ToClient::Unloaded { .. }
            | ToClient::Unknown => {}
        }
    }
    messages
}

#[test]
fn messages_between_programs_change_only_with_the_protocol() {
    let hellos = hellos();
    let (to_server, to_client) = (to_server(), to_client());
    let shapes: Vec<Value> = (hellos.iter().map(shape))
        .chain(to_server.iter().map(shape))
        .chain(to_client.iter().map(shape))
        .collect();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/instance/tests/shapes.json"
    );
    check(file.as_ref(), PROTOCOL, &shapes);
}
