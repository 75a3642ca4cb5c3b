use transom_engine::{EngineError, MemoryUse, Trim};

use super::*;

fn after_hello() -> ProtocolState {
    let mut state = ProtocolState::default();
    let hello = Report::Hello { protocol: PROTOCOL };
    assert_eq!(state.receive(hello), Ok(Received::Hello));
    state
}

fn trimmed() -> Report {
    Report::Trimmed {
        bytes: 1,
        memory: MemoryUse::default(),
    }
}

const TRIM: Command = Command::Trim {
    trim: Trim::Everything,
};

const UNLOAD: Command = Command::Unload { save: None };

#[test]
fn a_hello_is_awaited_first_and_then_only_responses_to_commands() {
    let mut state = ProtocolState::default();
    assert_eq!(state.awaited(), Awaited::Hello);
    let mut started = after_hello();
    assert_eq!(started.awaited(), Awaited::Nothing);
    started.sent(&TRIM);
    started.sent(&UNLOAD);
    assert_eq!(started.awaited(), Awaited::Response);
    assert!(started.receive(trimmed()).is_ok());
    assert_eq!(started.awaited(), Awaited::Response);
    let unloaded = Report::Unloaded { footprint: None };
    assert!(started.receive(unloaded).is_ok());
    assert_eq!(started.awaited(), Awaited::Nothing);
    assert!(state.receive(trimmed()).is_err());
}

#[test]
fn another_protocol_version_means_that_the_program_was_replaced() {
    let mut state = ProtocolState::default();
    let hello = Report::Hello {
        protocol: PROTOCOL + 1,
    };
    let reason = state.receive(hello).unwrap_err();
    assert!(reason.contains("replaced"), "{reason}");
    assert!(reason.contains("restart"), "{reason}");
}

#[test]
fn a_report_without_its_command_is_an_error() {
    assert!(after_hello().receive(trimmed()).is_err());
    let mut state = after_hello();
    state.sent(&UNLOAD);
    assert!(state.receive(trimmed()).is_err());
}

fn ended(job: u64) -> Report {
    Report::JobEnded {
        job: JobId(job),
        result: Err(EngineError::EmptyPrompt),
    }
}

fn progress(job: u64) -> Report {
    Report::Event {
        job: JobId(job),
        event: TokenEvent::Prefill { done: 1, total: 2 },
    }
}

#[test]
fn the_end_of_another_job_is_an_error() {
    let mut state = after_hello();
    state.pending.push_back(Pending::Generate(JobId(1)));
    assert!(state.receive(ended(2)).is_err());
    assert!(state.receive(ended(1)).is_ok());
    assert!(state.receive(ended(1)).is_err());
}

#[test]
fn jobs_that_follow_each_other_may_end_in_any_order() {
    let mut state = after_hello();
    let jobs = [1, 2].map(|job| Pending::Generate(JobId(job)));
    state.pending.extend(jobs);
    state.sent(&TRIM);
    state.pending.push_back(Pending::Generate(JobId(3)));
    assert!(state.receive(progress(2)).is_ok());
    assert!(state.receive(progress(1)).is_ok());
    assert!(state.receive(ended(2)).is_ok());
    assert!(state.clone().receive(progress(2)).is_err(), "it has ended");
    assert!(state.clone().receive(trimmed()).is_err(), "a job runs");
    assert!(
        state.clone().receive(progress(3)).is_err(),
        "it follows the trim"
    );
    assert!(state.receive(ended(1)).is_ok());
    assert!(state.receive(trimmed()).is_ok());
    assert!(state.receive(progress(3)).is_ok());
    assert!(state.receive(ended(3)).is_ok());
    assert_eq!(state.awaited(), Awaited::Nothing);
}
