use std::sync::Arc;

use transom_engine::{Role, Section};

use super::*;
use crate::load::load;
use crate::test_console::TestConsole;
use crate::test_engine::{Reply, TestEngine};
use transom_terminal::Interrupt;

/// Starts a chat and passes it to `test`.
fn with_chat<T>(
    engine: &TestEngine,
    interrupt: &Interrupt,
    streams: &mut TestConsole,
    test: impl FnOnce(&mut Chat, &mut TestConsole) -> T,
) -> T {
    let mut args = ChatArgs::default();
    args.model.model = Some("./scripted".into());
    let client = engine.client_with(interrupt);
    let loaded = load(&args.model, false, &client, &mut streams.console()).unwrap();
    test(&mut Chat::new(&args, &client, loaded), streams)
}

/// Handles the lines one after another. Returns the id of the conversation after each.
fn ids_after(lines: &[&str], engine: &TestEngine) -> Vec<Option<ConversationId>> {
    let streams = &mut TestConsole::default();
    with_chat(engine, &Interrupt::default(), streams, |chat, streams| {
        let ids = lines.iter().map(|line| {
            let next = chat.handle_line(line, &mut streams.console()).unwrap();
            assert!(next.is_continue());
            chat.params.conversation
        });
        ids.collect()
    })
}

/// Sends one message on a terminal, and presses Ctrl-C before piece `at` of the response.
fn interrupted_at(at: usize) -> (Vec<(Role, String)>, String) {
    let interrupt = Interrupt::default();
    let pressed = interrupt.clone();
    let press: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        pressed.press();
    });
    let engine = TestEngine::replying([Reply::Hooked(vec!["One", " two", " three"], at, press)]);
    let mut streams = TestConsole::default();
    streams.terminals.stdin = true;
    streams.terminals.stdout = true;
    let messages = with_chat(&engine, &interrupt, &mut streams, |chat, streams| {
        let next = chat.handle_line("Count", &mut streams.console()).unwrap();
        assert!(next.is_continue());
        chat.transcript.messages().into_iter()
    });
    let messages = messages.map(|message| (message.role, message.content));
    (messages.collect(), streams.err_text())
}

#[test]
fn ctrl_c_keeps_the_partial_response_in_the_conversation() {
    let (messages, err) = interrupted_at(2);
    assert_eq!(
        messages,
        [
            (Role::User, "Count".into()),
            (Role::Assistant, "One two".into())
        ]
    );
    assert_eq!(err, "(stopped)\n");
}

#[test]
fn a_message_canceled_before_its_first_token_is_removed() {
    let (messages, err) = interrupted_at(0);
    assert_eq!(messages, []);
    assert_eq!(err, "(stopped)\n");
}

#[test]
fn reset_changes_the_id_of_the_conversation() {
    let says = |text| Reply::Says(vec![(Section::Answer, text)]);
    let engine = TestEngine::replying([says("One"), says("Two")]);
    let ids = ids_after(&["Count", "Go on", "/reset"], &engine);
    assert!(ids[0].is_some());
    assert_eq!(ids[1], ids[0]);
    assert!(ids[2].is_some() && ids[2] != ids[0]);
    assert_ne!(ids_after(&["/reset"], &engine)[0], ids[2]);
}
