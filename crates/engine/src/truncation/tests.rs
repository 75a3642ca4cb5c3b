use std::cell::Cell;

use super::*;
use crate::chat::ToolCall;
use crate::contract::{Engine, Limits, MemoryUse, ModelSource, TokenSink, Trim};
use crate::event::{FinishReason, Stats};
use crate::job_control::JobControl;
use crate::model_info::ModelInfo;
use crate::request::GenerationParams;
use crate::test_support::ScriptedEngine;

/// Counts how often a prompt is rendered and tokenized.
struct CountingModel {
    model: Box<dyn LoadedModel>,
    n_prepared: Cell<usize>,
}

impl LoadedModel for CountingModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        self.n_prepared.update(|n| n + 1);
        self.model.prepare(prompt)
    }

    fn generate(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError> {
        self.model.generate(prompt, params, control, sink)
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        self.model.trim(trim)
    }

    fn memory(&self) -> MemoryUse {
        self.model.memory()
    }
}

/// A model with one token per byte, and one more between messages.
fn model(context_length: usize) -> Box<dyn LoadedModel> {
    let source = ModelSource {
        path: "scripted".into(),
    };
    let limits = Limits {
        context_length,
        ..Limits::default()
    };
    let engine = ScriptedEngine::default();
    let loaded = engine.load(&source, &limits, &JobControl::new(), &mut |_| {});
    loaded.expect("the script loads")
}

fn conversation(lines: &[(Role, &str)]) -> Prompt {
    let messages = lines.iter().map(|(role, text)| Message::new(*role, *text));
    Prompt::Chat(ChatPrompt {
        messages: messages.collect(),
        ..ChatPrompt::default()
    })
}

fn long_conversation() -> Prompt {
    conversation(&[
        (Role::System, "sys"),
        (Role::User, "first question"),
        (Role::Assistant, "first answer"),
        (Role::User, "second question"),
        (Role::Assistant, "second answer"),
        (Role::User, "third"),
    ])
}

const RESPONSE_TOKENS: usize = 4;
const DROP: Truncation = Truncation::DropOldest {
    response_tokens: RESPONSE_TOKENS,
    context_limit: None,
};

fn text(prepared: &PreparedPrompt) -> String {
    let bytes = prepared.tokens.iter().map(|&token| token as u8).collect();
    String::from_utf8(bytes).expect("one byte a token")
}

#[test]
fn a_conversation_that_fits_is_not_shortened() {
    let prepared = prepare(&*model(100), &long_conversation(), DROP).unwrap();
    assert_eq!(prepared.dropped_messages, 0);
    assert!(text(&prepared).contains("first question"));
}

/// The conversation has 67 tokens, 39 without its first exchange, and 9 without both.
#[test]
fn the_oldest_exchanges_are_dropped_to_60_percent_and_the_system_prompt_is_kept() {
    let last_two = "sys\nsecond question\nsecond answer\nthird";
    for (context_length, n_dropped, expected) in [
        (70, 2, last_two),
        (69, 2, last_two),
        // 39 tokens are more than 60 % of 64.
        (68, 4, "sys\nthird"),
        (20, 4, "sys\nthird"),
        // The newest exchange is kept, although it is more than 60 %.
        (13, 4, "sys\nthird"),
    ] {
        let prepared = prepare(&*model(context_length), &long_conversation(), DROP).unwrap();
        assert_eq!(prepared.dropped_messages, n_dropped, "{context_length}");
        assert_eq!(text(&prepared), expected, "{context_length}");
    }
    let whole = prepare(&*model(71), &long_conversation(), DROP).unwrap();
    assert_eq!(whole.dropped_messages, 0);
}

/// A turn of a conversation, in tokens.
#[derive(Debug)]
struct Turn {
    n_dropped: usize,
    n_prompt: usize,
    /// Tokens of the prompt that the previous turn did not begin with.
    n_processed: usize,
}

/// Takes turns of these sizes in a context of 1,000 tokens. Dropped messages are left out of the next
/// turns.
fn take_turns(sizes: &[usize]) -> Vec<Turn> {
    let model = model(1000);
    let truncation = Truncation::DropOldest {
        response_tokens: 100,
        context_limit: None,
    };
    let mut chat = ChatPrompt {
        messages: vec![Message::new(Role::System, "sys")],
        ..ChatPrompt::default()
    };
    let mut cached: Vec<u32> = Vec::new();
    let mut turns = Vec::new();
    for (n, size) in sizes.iter().enumerate() {
        // The number makes each question different.
        let question = format!("{n:05}{}", "q".repeat(size / 2 - 6));
        chat.messages.push(Message::new(Role::User, question));
        let prepared = prepare(&*model, &Prompt::Chat(chat.clone()), truncation).expect("it fits");
        let (tokens, n_dropped) = (prepared.tokens, prepared.dropped_messages);
        chat.messages.drain(1..=n_dropped);
        let both = cached.iter().zip(&tokens);
        let n_shared = both.take_while(|(before, now)| before == now).count();
        turns.push(Turn {
            n_dropped,
            n_prompt: tokens.len(),
            n_processed: tokens.len() - n_shared,
        });
        let response = "a".repeat(size / 2 - 1);
        cached = tokens;
        cached.extend(format!("\n{response}").bytes().map(u32::from));
        chat.messages.push(Message::new(Role::Assistant, response));
    }
    turns
}

/// Turns have about 500 tokens in a context of 8,192, on this scale.
#[test]
fn a_full_context_is_processed_again_in_at_most_two_of_ten_turns() {
    for sizes in [vec![60; 60], [60, 90, 30, 70, 40].repeat(12)] {
        let turns = take_turns(&sizes);
        assert!(turns.iter().all(|turn| turn.n_prompt <= 900), "{turns:?}");
        let first_cut = turns.iter().position(|turn| turn.n_dropped > 0);
        let first_cut = first_cut.expect("the conversation outgrows the context");
        assert!(first_cut < 20, "{turns:?}");
        for ten in turns[first_cut..].windows(10) {
            let is_again = |turn: &&Turn| turn.n_processed * 100 > turn.n_prompt * 30;
            assert!(ten.iter().filter(is_again).count() <= 2, "{ten:?}");
        }
    }
}

#[test]
fn a_very_long_conversation_is_tokenized_only_a_few_times() {
    let mut lines = vec![(Role::System, "sys".to_owned())];
    for n in 0..300 {
        lines.push((Role::User, format!("question {n:03}")));
        lines.push((Role::Assistant, format!("answer {n:03}")));
    }
    lines.push((Role::User, "last".to_owned()));
    let lines: Vec<(Role, &str)> = lines.iter().map(|(role, text)| (*role, &**text)).collect();
    let prompt = conversation(&lines);
    for context_length in [40, 100, 1000, 5000, 100_000] {
        let model = CountingModel {
            model: model(context_length),
            n_prepared: Cell::new(0),
        };
        let prepared = prepare(&model, &prompt, DROP).unwrap();
        // An exchange takes 24 bytes, with its line breaks.
        let room = context_length - RESPONSE_TOKENS;
        let n_that_fit = |tokens: usize| (tokens - "sys\nlast".len()) / 24;
        let n_kept = match n_that_fit(room) {
            n if n >= 300 => 300,
            _ => n_that_fit(room * 60 / 100),
        };
        assert_eq!(prepared.dropped_messages, 2 * (300 - n_kept));
        let n_prepared = model.n_prepared.get();
        assert!(n_prepared <= 11, "{context_length}: {n_prepared} times");
    }
}

/// A question, a call of a tool, its result and the response; `between` comes before the result.
fn with_call(between: &[Message]) -> Vec<Message> {
    let call = ToolCall::new("id1", "f", serde_json::json!({}));
    let called = Message {
        tool_calls: vec![call.clone()],
        ..Message::assistant("")
    };
    let mut messages = vec![Message::user("first question, which is long"), called];
    messages.extend_from_slice(between);
    messages.push(Message::tool_result(&call, "result"));
    messages.push(Message::assistant("answer"));
    messages
}

#[test]
fn a_tool_call_is_dropped_together_with_its_result() {
    let drop_from = |mut messages: Vec<Message>| {
        messages.push(Message::user("second"));
        let chat = ChatPrompt {
            messages,
            ..ChatPrompt::default()
        };
        prepare(&*model(50), &Prompt::Chat(chat), DROP)
    };
    let prepared = drop_from(with_call(&[])).unwrap();
    assert_eq!(prepared.dropped_messages, 4);
    assert_eq!(text(&prepared), "second");
    // A message that came while the tool ran is no end of the exchange, although the rest after it
    // would fit.
    let prepared = drop_from(with_call(&[Message::user("and?")])).unwrap();
    assert_eq!(prepared.dropped_messages, 5);
    assert_eq!(text(&prepared), "second");
    // Some programs use the same id in every exchange.
    let twice = [with_call(&[]), with_call(&[])].concat();
    assert_eq!(drop_from(twice).unwrap().dropped_messages, 8);
    let chat = ChatPrompt {
        messages: [with_call(&[]), with_call(&[])].concat(),
        ..ChatPrompt::default()
    };
    assert_eq!(drop_counts(&chat), [4]);
}

#[test]
fn a_long_conversation_is_refused_if_truncation_is_disabled() {
    let result = prepare(&*model(50), &long_conversation(), Truncation::Disabled);
    assert!(matches!(result, Err(EngineError::PromptTooLong { .. })));
}

#[test]
fn a_newest_message_that_alone_is_too_long_is_refused() {
    let prompt = conversation(&[(Role::System, "sys"), (Role::User, "a long question")]);
    let result = prepare(&*model(10), &prompt, DROP);
    assert!(matches!(result, Err(EngineError::PromptTooLong { .. })));
}

#[test]
fn the_context_limit_shortens_a_conversation_but_never_refuses_it() {
    let truncation = |context_limit| Truncation::DropOldest {
        response_tokens: 4,
        context_limit: Some(context_limit),
    };
    let prepared = prepare(&*model(100), &long_conversation(), truncation(69)).unwrap();
    assert_eq!(prepared.dropped_messages, 2);
    let prepared = prepare(&*model(100), &long_conversation(), truncation(5)).unwrap();
    assert_eq!(prepared.dropped_messages, 4);
    assert_eq!(text(&prepared), "sys\nthird");
}
