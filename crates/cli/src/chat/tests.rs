use transom_engine::Prompt;
use transom_engine::summary::with_summary;

use super::*;
use crate::failure;
use crate::test_console::TestConsole;
use crate::test_engine::{Reply, TestEngine};

/// Types `input`, and returns the exit code, standard output and standard error.
fn chat(args: &ChatArgs, input: &str, engine: &TestEngine) -> (u8, String, String) {
    let mut streams = TestConsole::typing(input);
    let mut console = streams.console();
    let mut args = args.clone();
    args.model.model = Some("./scripted".into());
    let result = run(&args, &engine.client(), &mut console);
    let code = failure::report(result, console.err);
    (code, streams.out_text(), streams.err_text())
}

fn chat_with(input: &str, engine: &TestEngine) -> (u8, String, String) {
    chat(&ChatArgs::default(), input, engine)
}

/// The texts that the model saw with its last prompt.
fn last_prompt(engine: &TestEngine) -> Vec<String> {
    match engine.last_prompt() {
        Some(Prompt::Chat(chat)) => {
            let messages = chat.messages.iter();
            messages.map(|message| message.content.clone()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_response_sees_the_conversation_so_far() {
    let engine = TestEngine::answering(&["Hello Ada.", "Ada."]);
    let (code, out, _) = chat_with("I am Ada.\n\nWho am I?\n", &engine);
    assert_eq!((code, &*out), (0, "Hello Ada.\nAda.\n"));
    assert_eq!(
        last_prompt(&engine),
        ["I am Ada.", "Hello Ada.", "Who am I?"]
    );
}

#[test]
fn reset_clears_the_conversation_but_not_the_system_prompt() {
    let engine = TestEngine::answering(&["1", "2"]);
    let (code, out, err) = chat_with("/system Be brief.\nOne\n/reset\nTwo\n/system\n", &engine);
    assert_eq!((code, &*out), (0, "1\n2\nBe brief.\n"));
    assert_eq!(last_prompt(&engine), ["Be brief.", "Two"]);
    assert!(err.contains("The conversation is cleared"));
}

#[test]
fn quit_ends_the_chat_immediately() {
    let engine = TestEngine::answering(&["never"]);
    let (code, out, _) = chat_with("/quit\nHello\n", &engine);
    assert_eq!((code, &*out), (0, ""));
}

#[test]
fn a_mistyped_command_gets_a_hint_and_a_double_slash_a_slash() {
    let engine = TestEngine::answering(&["ok"]);
    let (code, out, err) = chat_with("/rest\n//etc/hosts?\n", &engine);
    assert_eq!((code, &*out), (0, "ok\n"));
    assert!(err.contains("/rest is no command"), "{err}");
    assert_eq!(last_prompt(&engine), ["/etc/hosts?"]);
}

#[test]
fn a_failed_response_is_reported_and_the_chat_continues() {
    let engine = TestEngine::replying([
        Reply::Fails("out of luck"),
        Reply::Says(vec![(transom_engine::Section::Answer, "ok")]),
    ]);
    let (code, out, err) = chat_with("One\nTwo\n", &engine);
    assert_eq!((code, &*out), (1, "ok\n"));
    assert!(
        err.contains("transom: decode: out of luck; the model"),
        "{err}"
    );
    assert_eq!(last_prompt(&engine), ["Two"]);
}

#[test]
fn a_conversation_longer_than_the_context_drops_its_oldest_exchanges() {
    let mut engine = TestEngine::answering(&["a a a", "b b b", "c c c", "d"]);
    engine.info.context_length = 20;
    let args = ChatArgs {
        system: Some("Be brief.".into()),
        ..ChatArgs::default()
    };
    let (code, _, err) = chat(&args, "1 1 1\n2 2 2\n3 3 3\n4 4 4\n", &engine);
    assert_eq!(code, 0);
    assert_eq!(
        last_prompt(&engine),
        ["Be brief.", "3 3 3", "c c c", "4 4 4"]
    );
    let note = "the context of 20 tokens; the model no longer sees its 2 oldest exchanges.)";
    assert_eq!(err.matches(note).count(), 1, "{err}");
    assert_eq!(err.matches("no longer sees").count(), 1, "{err}");
}

#[test]
fn with_overflow_stop_a_conversation_longer_than_the_context_is_refused() {
    let mut engine = TestEngine::answering(&["a a a", "b b b", "c c c", "d"]);
    engine.info.context_length = 20;
    let args = ChatArgs {
        overflow: Overflow::Stop,
        ..ChatArgs::default()
    };
    let input = "1 1 1\n2 2 2\n3 3 3\n4 4 4\n/reset\n5 5 5\n";
    let (code, out, err) = chat(&args, input, &engine);
    assert_eq!((code, &*out), (1, "a a a\nb b b\nc c c\nd\n"));
    let message = "transom: the conversation has 21 tokens, but the context holds 20; /reset";
    assert!(err.contains(message), "{err}");
    assert_eq!(last_prompt(&engine), ["5 5 5"]);
    // A first message that is too long is not the conversation's fault.
    let engine = TestEngine {
        info: engine.info.clone(),
        ..TestEngine::answering(&[])
    };
    let (_, _, err) = chat(&args, &"word ".repeat(30), &engine);
    assert!(err.contains("the prompt has 30 tokens"), "{err}");
}

#[test]
fn with_overflow_summarize_the_model_gets_a_summary_of_what_was_dropped() {
    let engine = TestEngine::answering(&["a", "b", "c", "They spoke of words.", "d", "e"]);
    let args = ChatArgs {
        system: Some("Be brief.".into()),
        overflow: Overflow::Summarize,
        ..ChatArgs::default()
    };
    let long = "word ".repeat(300);
    let input = format!("{long}\n{long}\n{long}\nFour\n/reset\nFive\n");
    let (code, out, err) = chat(&args, &input, &engine);
    assert_eq!((code, &*out), (0, "a\nb\nc\nd\ne\n"));
    assert_eq!(err.matches("summarized the earlier").count(), 1, "{err}");
    assert_eq!(last_prompt(&engine), ["Be brief.", "Five"]);
    let prompts = engine.requests.prompts.lock().unwrap();
    let seen = |from_end: usize| match &prompts[prompts.len() - from_end] {
        Prompt::Chat(chat) => chat.messages.clone(),
        other => panic!("{other:?}"),
    };
    let system = with_summary(Some("Be brief."), "They spoke of words.");
    assert_eq!(seen(2)[0].content, system);
    assert_eq!(seen(2)[3].content, "Four");
    let [request] = &seen(3)[..] else {
        panic!("{:?}", seen(3));
    };
    assert!(request.content.contains("Assistant: b"), "{request:?}");
    assert!(!request.content.contains("Assistant: c"), "{request:?}");
}

#[test]
fn without_a_summary_the_chat_continues() {
    let says = |text| Reply::Says(vec![(transom_engine::Section::Answer, text)]);
    let replies = [says("a"), says("b"), says("c"), Reply::Fails("no luck")];
    let engine = TestEngine::replying(replies);
    let args = ChatArgs {
        overflow: Overflow::Summarize,
        ..ChatArgs::default()
    };
    let long = "word ".repeat(300);
    let input = format!("{long}\n{long}\n{long}\n");
    let (code, out, err) = chat(&args, &input, &engine);
    assert_eq!((code, &*out), (0, "a\nb\nc\n"));
    assert!(
        err.contains("were not summarized: decode: no luck"),
        "{err}"
    );
}

/// A response continues past the end of the context, and a note tells what was dropped.
#[test]
fn a_response_longer_than_the_context_continues_with_a_note() {
    let engine = TestEngine::replying([Reply::Shifts("On and on.", 500)]);
    let (code, out, err) = chat_with("Tell me a story\n", &engine);
    assert_eq!((code, &*out), (0, "On and on.\n"));
    assert!(
        err.contains("the model no longer sees how the conversation began.)"),
        "{err}"
    );
    assert!(!err.contains("the context is full"), "{err}");

    let engine = TestEngine::replying([Reply::Shifts("Short.", 0)]);
    let (_, _, err) = chat_with("Hi\n", &engine);
    assert!(!err.contains("no longer sees"), "{err}");
}

#[test]
fn a_message_that_is_too_long_is_refused_and_leaves_the_history_unchanged() {
    let mut engine = TestEngine::answering(&["a", "b"]);
    engine.info.context_length = 20;
    let long = "word ".repeat(30);
    let (code, out, err) = chat_with(&format!("1\n{long}\n2\n"), &engine);
    assert_eq!((code, &*out), (1, "a\nb\n"));
    assert!(err.contains("the prompt has 30 tokens"), "{err}");
    assert_eq!(last_prompt(&engine), ["1", "a", "2"]);
}

#[test]
fn save_writes_the_conversation_but_no_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.md");
    let engine = TestEngine::answering(&["Hello."]);
    let input = format!("Hi\n/save {0}\n/save {0}\n", file.display());
    let (code, _, err) = chat_with(&input, &engine);
    assert_eq!(code, 0);
    assert!(err.contains("Saved to") && err.contains("--force"), "{err}");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("## You\n\nHi\n"), "{text}");
}

#[test]
fn stats_show_the_last_response_and_the_memory() {
    let engine = TestEngine::answering(&["Hello."]);
    let (_, out, _) = chat_with("/stats\nHi there\n/stats\n", &engine);
    assert!(out.contains("none yet"), "{out}");
    assert!(out.contains("2 prompt tokens, 1 generated"), "{out}");
    assert!(out.contains("14 MB weights"), "{out}");
}

#[test]
fn a_model_without_a_chat_template_is_refused() {
    let mut engine = TestEngine::answering(&[]);
    engine.info.has_chat_template = false;
    let (code, _, err) = chat_with("Hi\n", &engine);
    assert_eq!(code, 3);
    assert!(err.contains("no chat template"), "{err}");
}

/// After an unload no message is lost.
#[test]
fn an_unloaded_model_is_loaded_again() {
    let engine = TestEngine::answering(&["1", "2"]);
    let client = engine.client();
    let mut args = ChatArgs::default();
    args.model.model = Some("./scripted".into());
    let mut streams = TestConsole::default();
    let loaded = load(&args.model, false, &client, &mut streams.console()).unwrap();
    let mut chat = Chat::new(&args, &client, loaded);
    let mut send = |text: &str| {
        let next = chat.handle_line(text, &mut streams.console());
        assert!(next.unwrap().is_continue());
    };
    send("One");
    let unload = client.handle().unwrap();
    let unload = unload.unload(transom_supervisor::ModelSelector::All);
    let unloaded = client.runtime().unwrap().block_on(unload).unwrap();
    assert_eq!(unloaded.len(), 1);
    send("/stats");
    send("Two");
    assert_eq!(engine.n_loads(), 2);
    let out = streams.out_text();
    assert!(out.contains("memory       none: unloaded"), "{out}");
    assert!(out.starts_with("1\n") && out.ends_with("2\n"), "{out}");
}
