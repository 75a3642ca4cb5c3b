//! Making a conversation fit the context: its oldest exchanges go, the system prompt and the newest
//! message stay.
//!
//! It stands on the engine's side of the process boundary, where tokens can be counted, so that an
//! ask is one message and not a conversation about lengths.

use serde::{Deserialize, Serialize};

use crate::chat::{ChatPrompt, Message, Role};
use crate::contract::{LoadedModel, PreparedPrompt, Prompt};
use crate::error::EngineError;

/// What to do with a conversation that outgrew the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The prompt must fit as it is.
    #[default]
    Whole,
    /// Leave out the oldest exchanges.
    DropOldest {
        /// Tokens to keep free for the answer; a quarter of the context if that is less.
        room: usize,
        /// Tokens of context that the machine can afford now. Exchanges are left out to stay
        /// within it, but a prompt that cannot be shortened may exceed it.
        affordable: Option<usize>,
    },
}

/// As [`LoadedModel::prepare`], after leaving out what `fit` allows.
///
/// # Errors
/// As [`LoadedModel::prepare`]; [`EngineError::PromptTooLong`] when nothing is left to leave out.
pub fn prepare(
    model: &dyn LoadedModel,
    prompt: &Prompt,
    fit: Fit,
) -> Result<PreparedPrompt, EngineError> {
    let (Prompt::Chat(chat), Fit::DropOldest { room, affordable }) = (prompt, fit) else {
        return model.prepare(prompt);
    };
    let context_length = model.info().context_length;
    let context_length = affordable.map_or(context_length, |n| n.min(context_length));
    let wanted = context_length - room.min(context_length / 4);
    let prepared = |n_dropped: usize| {
        let prepared = model.prepare(&Prompt::Chat(without_oldest(chat, n_dropped)))?;
        Ok(PreparedPrompt {
            dropped_messages: n_dropped,
            ..prepared
        })
    };
    let is_too_long = |result: &Result<PreparedPrompt, EngineError>| match result {
        Ok(prepared) => prepared.tokens.len() > wanted,
        Err(error) => matches!(error, EngineError::PromptTooLong { .. }),
    };
    let whole = prepared(0);
    let steps = droppable(chat);
    if steps.is_empty() || !is_too_long(&whole) {
        return whole;
    }
    // Reading a long conversation takes a while, and the more is left out the shorter it is: so the
    // fewest exchanges are found by halving. The last step is taken whatever comes of it.
    let (mut least, mut most) = (0, steps.len() - 1);
    let mut of_most = None;
    while least < most {
        let middle = (least + most) / 2;
        let result = prepared(steps[middle]);
        if is_too_long(&result) {
            least = middle + 1;
        } else {
            (most, of_most) = (middle, Some(result));
        }
    }
    of_most.unwrap_or_else(|| prepared(steps[most]))
}

fn n_system(chat: &ChatPrompt) -> usize {
    let is_system = |message: &&Message| message.role == Role::System;
    chat.messages.iter().take_while(is_system).count()
}

/// How many messages behind the leading system prompt may be left out: those of the oldest exchange,
/// of the two oldest, and so on. An exchange ends at the next user's message; the newest stays.
fn droppable(chat: &ChatPrompt) -> Vec<usize> {
    let turns = chat.messages[n_system(chat)..].iter().enumerate().skip(1);
    turns
        .filter(|(_, message)| message.role == Role::User)
        .map(|(at, _)| at)
        .collect()
}

fn without_oldest(chat: &ChatPrompt, n_dropped: usize) -> ChatPrompt {
    let mut chat = chat.clone();
    let n_system = n_system(&chat);
    chat.messages.drain(n_system..n_system + n_dropped);
    chat
}

#[cfg(all(test, feature = "test-support"))]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::contract::{
        Engine, GenerationParams, JobControl, Limits, MemoryUse, ModelInfo, ModelSource, TokenSink,
        Trim,
    };
    use crate::event::{FinishReason, Stats};
    use crate::test_support::ScriptedEngine;

    /// Counts how often a prompt is rendered and tokenised.
    struct Counted {
        model: Box<dyn LoadedModel>,
        n_prepared: Cell<usize>,
    }

    impl LoadedModel for Counted {
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

        fn save_state(&self, path: &Path) -> Result<usize, EngineError> {
            self.model.save_state(path)
        }

        fn restore_state(&mut self, path: &Path) -> Result<usize, EngineError> {
            self.model.restore_state(path)
        }
    }

    /// A model with one token a byte, lines of a conversation joined by one more.
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

    const DROP_ROOM: usize = 4;
    const DROP: Fit = Fit::DropOldest {
        room: DROP_ROOM,
        affordable: None,
    };

    fn text(prepared: &PreparedPrompt) -> String {
        let bytes = prepared.tokens.iter().map(|&token| token as u8).collect();
        String::from_utf8(bytes).expect("one byte a token")
    }

    #[test]
    fn what_fits_is_left_whole() {
        let prepared = prepare(&*model(100), &long_conversation(), DROP).unwrap();
        assert_eq!(prepared.dropped_messages, 0);
        assert!(text(&prepared).contains("first question"));
    }

    #[test]
    fn the_oldest_exchanges_go_and_the_system_prompt_stays() {
        let prepared = prepare(&*model(50), &long_conversation(), DROP).unwrap();
        assert_eq!(prepared.dropped_messages, 2);
        assert_eq!(
            text(&prepared),
            "sys\nsecond question\nsecond answer\nthird"
        );
        let prepared = prepare(&*model(20), &long_conversation(), DROP).unwrap();
        assert_eq!(prepared.dropped_messages, 4);
        assert_eq!(text(&prepared), "sys\nthird");
    }

    #[test]
    fn a_very_long_conversation_is_read_a_few_times_and_not_once_an_exchange() {
        let mut lines = vec![(Role::System, "sys".to_owned())];
        for n in 0..300 {
            lines.push((Role::User, format!("question {n:03}")));
            lines.push((Role::Assistant, format!("answer {n:03}")));
        }
        lines.push((Role::User, "last".to_owned()));
        let lines: Vec<(Role, &str)> = lines.iter().map(|(role, text)| (*role, &**text)).collect();
        let prompt = conversation(&lines);
        for context_length in [40, 100, 1000, 5000, 100_000] {
            let model = Counted {
                model: model(context_length),
                n_prepared: Cell::new(0),
            };
            let prepared = prepare(&model, &prompt, DROP).unwrap();
            // An exchange takes 24 bytes, with the ends of its lines.
            let room = context_length - DROP_ROOM - "sys\nlast".len();
            let n_kept = (room / 24).min(300);
            assert_eq!(prepared.dropped_messages, 2 * (300 - n_kept));
            let n_prepared = model.n_prepared.get();
            assert!(n_prepared <= 11, "{context_length}: {n_prepared} times");
        }
    }

    #[test]
    fn a_conversation_that_must_be_whole_is_refused() {
        let result = prepare(&*model(50), &long_conversation(), Fit::Whole);
        assert!(matches!(result, Err(EngineError::PromptTooLong { .. })));
    }

    #[test]
    fn the_newest_message_is_refused_when_it_alone_is_too_long() {
        let prompt = conversation(&[(Role::System, "sys"), (Role::User, "a long question")]);
        let result = prepare(&*model(10), &prompt, DROP);
        assert!(matches!(result, Err(EngineError::PromptTooLong { .. })));
    }

    #[test]
    fn what_the_machine_can_afford_shortens_but_never_refuses() {
        let fit = |affordable| Fit::DropOldest {
            room: 4,
            affordable: Some(affordable),
        };
        let prepared = prepare(&*model(100), &long_conversation(), fit(50)).unwrap();
        assert_eq!(prepared.dropped_messages, 2);
        let prepared = prepare(&*model(100), &long_conversation(), fit(5)).unwrap();
        assert_eq!(prepared.dropped_messages, 4);
        assert_eq!(text(&prepared), "sys\nthird");
    }
}
