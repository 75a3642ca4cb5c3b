use std::sync::Arc;

use transom_engine::Role;

use super::*;
use crate::load::load;
use crate::test_console::TestConsole;
use crate::test_engine::{Reply, TestEngine};

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
