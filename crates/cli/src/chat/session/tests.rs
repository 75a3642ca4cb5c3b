use std::sync::Arc;

use transom_engine::{Role, Section};

use super::*;
use crate::load::load;
use crate::test_console::TestConsole;
use crate::test_engine::{Reply, TestEngine};

/// Takes the lines one after another. Returns the id of the conversation after each.
fn ids_after(lines: &[&str], engine: &TestEngine) -> Vec<Option<ConversationId>> {
    let interrupt = Interrupt::detached();
    let mut args = ChatArgs::default();
    args.model.model = Some("./scripted".into());
    let link = engine.link();
    let mut streams = TestConsole::default();
    let loaded = load(
        &args.model,
        false,
        &link,
        &mut streams.console(),
        &interrupt,
    )
    .unwrap();
    let mut chat = Chat::new(&args, &link, loaded);
    let took = lines.iter().map(|line| {
        let next = chat.take(line, &mut streams.console(), &interrupt).unwrap();
        assert_eq!(next, Next::GoOn);
        chat.params.conversation
    });
    took.collect()
}

/// Asks one question on a terminal, during whose answer Ctrl-C is pressed before piece `at`.
fn interrupted_at(at: usize) -> (Vec<(Role, String)>, String) {
    let interrupt = Interrupt::detached();
    let pressed = interrupt.clone();
    let press: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        pressed.press();
    });
    let engine = TestEngine::replying([Reply::Hooked(vec!["One", " two", " three"], at, press)]);
    let mut args = ChatArgs::default();
    args.model.model = Some("./scripted".into());
    let link = engine.link();
    let mut streams = TestConsole::default();
    streams.terminals.stdin = true;
    streams.terminals.stdout = true;
    let loaded = load(
        &args.model,
        false,
        &link,
        &mut streams.console(),
        &interrupt,
    )
    .unwrap();
    let mut chat = Chat::new(&args, &link, loaded);
    let next = chat
        .take("Count", &mut streams.console(), &interrupt)
        .unwrap();
    assert_eq!(next, Next::GoOn);
    let said = chat.transcript.messages().into_iter();
    (
        said.map(|message| (message.role, message.content))
            .collect(),
        streams.err_text(),
    )
}

#[test]
fn ctrl_c_keeps_the_partial_answer_in_the_conversation() {
    let (said, err) = interrupted_at(2);
    assert_eq!(
        said,
        [
            (Role::User, "Count".into()),
            (Role::Assistant, "One two".into())
        ]
    );
    assert_eq!(err, "(stopped)\n");
}

#[test]
fn a_message_stopped_before_its_first_word_leaves_no_trace() {
    let (said, err) = interrupted_at(0);
    assert_eq!(said, []);
    assert_eq!(err, "(stopped)\n");
}

#[test]
fn a_conversation_keeps_its_id_until_it_starts_anew() {
    let says = |text| Reply::Says(vec![(Section::Answer, text)]);
    let engine = TestEngine::replying([says("One"), says("Two")]);
    let ids = ids_after(&["Count", "Go on", "/reset"], &engine);
    assert!(ids[0].is_some());
    assert_eq!(ids[1], ids[0]);
    assert!(ids[2].is_some() && ids[2] != ids[0]);
    assert_ne!(ids_after(&["/reset"], &engine)[0], ids[2]);
}
