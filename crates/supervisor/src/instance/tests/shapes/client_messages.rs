//! Every kind of message that a client sends.

use transom_engine::{
    ChatPrompt, ConversationId, EmbedInput, FillIn, KvCacheChoice, Message, Prompt, TokenInput,
    ToolCall,
};

use super::protocol::ClientMessage;
use super::*;
use crate::request::{Correction, KeepAlive};

pub(super) fn client_messages() -> Vec<ClientMessage> {
    let mut generate = generate_request("chat");
    generate.model.context_length = Some(1);
    generate.model.kv_cache = KvCacheChoice::Small;
    generate.model.corrections = vec![Correction {
        path: "path".into(),
        bytes: 1,
    }];
    let call = ToolCall::new("id", "name", Value::Null);
    let called = Message {
        tool_calls: vec![call.clone()],
        ..Message::assistant("text")
    };
    let prompt = Prompt::Chat(ChatPrompt {
        messages: vec![called, Message::tool_result(&call, "text")],
        ..ChatPrompt::default()
    });
    let count = request_for("chat", Work::CountTokens(Box::new(prompt)));
    generate.model.min_context_length = Some(1);
    generate.client = ClientId::app();
    generate.class = Class::Background;
    generate.max_wait = Some(Duration::ZERO);
    let time = Duration::ZERO;
    generate.keep_alive = Some(KeepAlive::Idle { time });
    let mut load = request_for("chat", Work::Load);
    load.keep_alive = Some(KeepAlive::Forever);
    for keep_alive in [generate.keep_alive, load.keep_alive].into_iter().flatten() {
        match keep_alive {
            KeepAlive::Idle { .. } | KeepAlive::Forever => {}
        }
    }
    generate.model.drafts = generate.model.variants.clone();
    let inputs = vec![
        EmbedInput::Text("text".to_owned()),
        EmbedInput::Tokens(vec![1]),
    ];
    let embed = request_for("chat", Work::Embed(inputs));
    let fill_in = Prompt::FillIn(FillIn {
        prefix: "text".to_owned(),
        suffix: "text".to_owned(),
    });
    let count_fill_in = request_for("chat", Work::CountTokens(Box::new(fill_in)));
    let conversions = [
        TokenInput::Text {
            text: "text".to_owned(),
            add_special: true,
            parse_special: false,
        },
        TokenInput::Tokens(vec![1]),
    ];
    let conversions = conversions.map(|input| request_for("chat", Work::Tokenize(Box::new(input))));
    let more = conversions.into_iter().chain([count_fill_in]);
    let more = more.map(|request| ClientMessage::Request {
        id: ID,
        request: Box::new(request),
    });
    let mut messages = vec![
        ClientMessage::Request {
            id: ID,
            request: Box::new(count),
        },
        ClientMessage::Request {
            id: ID,
            request: Box::new(generate),
        },
        ClientMessage::Request {
            id: ID,
            request: Box::new(load),
        },
        ClientMessage::Request {
            id: ID,
            request: Box::new(embed),
        },
        ClientMessage::Cancel { id: ID },
        ClientMessage::Unload {
            number: 1,
            which: ModelSelector::All,
        },
        ClientMessage::Unload {
            number: 1,
            which: ModelSelector::Model("chat".to_owned()),
        },
        ClientMessage::SetTuning {
            tuning: Tuning::default(),
        },
        ClientMessage::SetPaused { is_paused: true },
        ClientMessage::ForgetConversations {
            conversation: Some(ConversationId(1)),
        },
        ClientMessage::Unknown,
    ];
    messages.extend(more);
    for message in &messages {
        match message {
            ClientMessage::Request { .. }
            | ClientMessage::Cancel { .. }
            | ClientMessage::Unload { .. }
            | ClientMessage::SetTuning { .. }
            | ClientMessage::SetPaused { .. }
            | ClientMessage::ForgetConversations { .. }
            | ClientMessage::Unknown => {}
        }
    }
    messages
}
