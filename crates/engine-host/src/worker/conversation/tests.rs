use transom_engine::{EngineError, MemoryUse, Trim};

use super::*;

fn greeted() -> Conversation {
    let mut conversation = Conversation::default();
    let hello = Report::Hello { protocol: PROTOCOL };
    assert_eq!(conversation.hear(hello), Ok(Heard::Greeting));
    conversation
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

const UNLOAD: Command = Command::Unload { state: None };

#[test]
fn a_greeting_is_due_first_then_only_what_was_asked() {
    let mut conversation = Conversation::default();
    assert_eq!(conversation.due(), Due::Greeting);
    let mut conversation_greeted = greeted();
    assert_eq!(conversation_greeted.due(), Due::Nothing);
    conversation_greeted.ask(&TRIM);
    conversation_greeted.ask(&UNLOAD);
    assert_eq!(conversation_greeted.due(), Due::Answer);
    assert!(conversation_greeted.hear(trimmed()).is_ok());
    assert_eq!(conversation_greeted.due(), Due::Answer);
    let unloaded = Report::Unloaded { footprint: None };
    assert!(conversation_greeted.hear(unloaded).is_ok());
    assert_eq!(conversation_greeted.due(), Due::Nothing);
    assert!(conversation.hear(trimmed()).is_err());
}

#[test]
fn another_version_says_that_the_program_was_replaced() {
    let mut conversation = Conversation::default();
    let hello = Report::Hello {
        protocol: PROTOCOL + 1,
    };
    let reason = conversation.hear(hello).unwrap_err();
    assert!(reason.contains("replaced"), "{reason}");
    assert!(reason.contains("restart"), "{reason}");
}

#[test]
fn what_was_not_asked_is_out_of_turn() {
    assert!(greeted().hear(trimmed()).is_err());
    let mut conversation = greeted();
    conversation.ask(&UNLOAD);
    assert!(conversation.hear(trimmed()).is_err());
}

#[test]
fn the_end_of_another_job_is_out_of_turn() {
    let ended = |job| Report::JobEnded {
        job: JobId(job),
        result: Err(EngineError::EmptyPrompt),
    };
    let mut conversation = greeted();
    conversation.asked.push_back(Asked::Generate(JobId(1)));
    assert!(conversation.hear(ended(2)).is_err());
    assert!(conversation.hear(ended(1)).is_ok());
    assert!(conversation.hear(ended(1)).is_err());
}
