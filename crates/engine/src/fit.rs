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
    let mut chat = chat.clone();
    let mut dropped_messages = 0;
    loop {
        let result = model.prepare(&Prompt::Chat(chat.clone()));
        let is_too_long = match &result {
            Ok(prepared) => prepared.tokens.len() > wanted,
            Err(error) => matches!(error, EngineError::PromptTooLong { .. }),
        };
        match (is_too_long, drop_oldest_exchange(&mut chat)) {
            (true, n_dropped) if n_dropped > 0 => dropped_messages += n_dropped,
            _ => {
                return result.map(|prepared| PreparedPrompt {
                    dropped_messages,
                    ..prepared
                });
            }
        }
    }
}

/// Removes the oldest exchange: the messages between the leading system prompt and the second
/// user's message. Returns how many they were; none when only the newest exchange is left.
fn drop_oldest_exchange(chat: &mut ChatPrompt) -> usize {
    let is_user = |message: &Message| message.role == Role::User;
    let n_system = chat
        .messages
        .iter()
        .take_while(|message| message.role == Role::System)
        .count();
    let turns = &chat.messages[n_system..];
    let Some(next) = turns.iter().skip(1).position(is_user) else {
        return 0;
    };
    let n_dropped = next + 1;
    chat.messages.drain(n_system..n_system + n_dropped);
    n_dropped
}

#[cfg(all(test, feature = "test-support"))]
mod tests {
    use super::*;
    use crate::contract::{Engine, JobControl, Limits, ModelSource};
    use crate::test_support::ScriptedEngine;

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

    const DROP: Fit = Fit::DropOldest {
        room: 4,
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
