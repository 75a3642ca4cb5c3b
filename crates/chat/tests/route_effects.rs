//! What routes save: tokens that a request does not contain, and room for the response.
//!
//! A conversation of 20 turns, then a message with a text of some length, in a context of 8,192 tokens.
//! Lengths are in bytes of UTF-8, four to a token. `cargo test -p transom-chat --test route_effects --
//! --nocapture` prints the table of `docs/benchmarks.md`.

#![expect(clippy::unwrap_used, reason = "a failure of the store ends the test")]

use transom_chat::request::routed_request;
use transom_chat::routing::Route;
use transom_engine::{ModelInfo, Prompt, Role, SamplingParams, Truncation};
use transom_store::{
    AttachedText, Ending, Message, MessageId, MessageRole, ModelSettings, NewMessage, Overflow,
    Store, Timestamp, attached_text,
};

const CONTEXT: usize = 8192;
const BYTES_PER_TOKEN: usize = 4;
const N_TURNS: usize = 20;

/// Tokens of the texts that are worked on.
const TEXTS: [usize; 5] = [250, 1000, 2000, 2300, 3000];

/// The room that is kept free for a response has at most this share of the context, and a conversation
/// that does not fit is cut to this share of what fits, as in `transom_engine::truncation`.
const MAX_RESERVED: usize = CONTEXT / 4;
const KEPT_PERCENT: usize = 60;

/// What a request of a route contains.
#[derive(Debug, Clone, Copy)]
struct Sent {
    prompt_tokens: usize,
    /// Tokens of the instructions of the route and of the last message.
    own_tokens: usize,
}

impl Sent {
    /// Tokens that the response may have before the beginning of the conversation leaves the context.
    fn room(self) -> usize {
        CONTEXT - self.prompt_tokens
    }
}

/// Returns the tokens of a usual response to a text of so many tokens.
fn response_tokens(route: Route, text_tokens: usize) -> usize {
    match route {
        Route::Rewrite | Route::Translate => text_tokens * 11 / 10,
        Route::Extract => text_tokens / 2,
        Route::Code => 1500,
        Route::Chat | Route::Summarize | Route::Question => 250,
    }
}

fn info() -> ModelInfo {
    ModelInfo {
        name: "model".to_owned(),
        architecture: "qwen3".to_owned(),
        engine: "test".to_owned(),
        n_parameters: 1,
        stored_as: String::new(),
        computed_as: String::new(),
        context_length: CONTEXT,
        vocab_size: 1,
        has_chat_template: true,
        draft: None,
        recommended_sampling: SamplingParams::default(),
    }
}

/// Returns a conversation that ends with a question about a text of so many tokens.
fn path(n_turns: usize, text_tokens: usize) -> Vec<Message> {
    let store = Store::temporary().unwrap();
    let id = store.create_conversation(Timestamp(1)).unwrap();
    let mut last: Option<MessageId> = None;
    for _ in 0..n_turns {
        let question = "What else should I know about it? ".repeat(4);
        let asked = NewMessage::from_user(id, last, question, Timestamp(2));
        let asked = store.add_message(asked).unwrap();
        let answer = NewMessage {
            conversation: id,
            parent: Some(asked),
            role: MessageRole::Assistant,
            text: "It has a long history, and people disagree about it. ".repeat(16),
            attachment: String::new(),
            ending: Ending::Stop,
            model: None,
            created_at: Timestamp(3),
        };
        last = Some(store.add_message(answer).unwrap());
    }
    let attached = AttachedText {
        name: None,
        text: "word".repeat(text_tokens * BYTES_PER_TOKEN / 4),
    };
    let asked = NewMessage {
        attachment: attached_text::join(&[attached]),
        ..NewMessage::from_user(id, last, "Please do this.".to_owned(), Timestamp(4))
    };
    let asked = store.add_message(asked).unwrap();
    store.history(asked).unwrap()
}

/// Returns what `route` sends, after the oldest exchanges were dropped to make the reserved room.
fn sent(path: &[Message], route: Route) -> Sent {
    let settings = ModelSettings::default();
    let request = routed_request(path, &settings, Overflow::DropOldest, route, &info());
    let (
        Prompt::Chat(chat),
        Truncation::DropOldest {
            response_tokens, ..
        },
    ) = (request.prompt, request.truncation)
    else {
        panic!("a conversation that may be shortened");
    };
    let tokens = |text: &str| text.len().div_ceil(BYTES_PER_TOKEN);
    let is_system = |role| role == Role::System;
    let n_system = chat
        .messages
        .iter()
        .filter(|one| is_system(one.role))
        .count();
    let mut messages: Vec<usize> = chat
        .messages
        .iter()
        .map(|one| tokens(&one.content))
        .collect();
    let own_tokens = messages[..n_system].iter().sum::<usize>() + messages[messages.len() - 1];
    let fitting = CONTEXT - response_tokens.min(MAX_RESERVED);
    if messages.iter().sum::<usize>() > fitting {
        let kept = fitting * KEPT_PERCENT / 100;
        while messages.len() > n_system + 2 && messages.iter().sum::<usize>() > kept {
            messages.drain(n_system..n_system + 2);
        }
    }
    Sent {
        prompt_tokens: messages.iter().sum(),
        own_tokens,
    }
}

/// The routes that are listed here pay off in tokens. The others change only how a response is written.
#[test]
fn routes_save_prefill_and_responses_that_outgrow_the_context() {
    println!("| route | text | prompt, chat | prompt | saved | response | room, chat | room |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut n_cut = std::collections::BTreeMap::new();
    for route in Route::ALL.into_iter().filter(|route| *route != Route::Chat) {
        for text in TEXTS {
            let path = path(N_TURNS, text);
            let (chat, own) = (sent(&path, Route::Chat), sent(&path, route));
            let response = response_tokens(route, text);
            let saved = 100.0 * (1.0 - own.prompt_tokens as f64 / chat.prompt_tokens as f64);
            println!(
                "| {} | {text} | {} | {} | {saved:.0} % | {response} | {} | {} |",
                route.name(),
                chat.prompt_tokens,
                own.prompt_tokens,
                chat.room(),
                own.room()
            );
            let cut = n_cut.entry(route).or_insert((0, 0));
            cut.0 += usize::from(response > chat.room());
            cut.1 += usize::from(response > own.room());
            if matches!(route, Route::Rewrite | Route::Translate) {
                assert_eq!(own.prompt_tokens, own.own_tokens, "no history is sent");
                assert!(text > 250 || saved > 90.0, "{saved}");
            }
        }
    }
    println!("{n_cut:?}");
    for route in [Route::Rewrite, Route::Translate, Route::Code] {
        let (of_chat, of_route) = n_cut[&route];
        assert!(of_chat > 0, "{route:?}: the cases are too easy");
        assert_eq!(of_route, 0, "{route:?}");
    }
}
