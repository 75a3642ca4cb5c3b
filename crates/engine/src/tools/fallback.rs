//! A standard prompt for chat templates that know no tools: the tools are declared in the system
//! message, and calls and results are written as text, in the form of Hermes.

use serde_json::json;

use crate::chat::{ChatPrompt, Message, Role, ToolCall};

/// Returns the conversation without tools, which its texts describe instead.
pub(super) fn rewrite(chat: &ChatPrompt) -> ChatPrompt {
    let mut messages: Vec<Message> = Vec::new();
    for message in &chat.messages {
        match message.role {
            Role::Tool => {
                let text = format!("<tool_response>\n{}\n</tool_response>", message.content);
                // Results in a row are one message, because many templates let roles alternate.
                match messages.last_mut() {
                    Some(last) if last.content.ends_with("</tool_response>") => {
                        last.content.push('\n');
                        last.content.push_str(&text);
                    }
                    _ => messages.push(Message::user(text)),
                }
            }
            Role::Assistant if !message.tool_calls.is_empty() => {
                let calls = message.tool_calls.iter().map(call);
                let content = Some(message.content.clone()).filter(|text| !text.is_empty());
                let parts: Vec<String> = content.into_iter().chain(calls).collect();
                messages.push(Message::assistant(parts.join("\n")));
            }
            Role::System | Role::User | Role::Assistant => messages.push(message.clone()),
        }
    }
    if !chat.tools.is_empty() {
        let text = instructions(chat);
        match messages.first_mut() {
            Some(first) if first.role == Role::System => {
                first.content = format!("{}\n\n{text}", first.content);
            }
            _ => messages.insert(0, Message::system(text)),
        }
    }
    ChatPrompt {
        messages,
        tools: Vec::new(),
        ..chat.clone()
    }
}

/// Moves the system messages of a conversation to its first message of the user, for templates that
/// refuse system messages.
pub(super) fn without_system(chat: &ChatPrompt) -> ChatPrompt {
    let mut chat = chat.clone();
    let is_system = |message: &&Message| message.role == Role::System;
    let n_system = chat.messages.iter().take_while(is_system).count();
    let system = chat
        .messages
        .drain(..n_system)
        .map(|message| message.content);
    let system: Vec<String> = system.collect();
    match chat.messages.first_mut() {
        Some(first) if first.role == Role::User => {
            first.content = format!("{}\n\n{}", system.join("\n\n"), first.content);
        }
        _ => chat.messages.insert(0, Message::user(system.join("\n\n"))),
    }
    chat
}

fn call(call: &ToolCall) -> String {
    let json = json!({ "name": call.function.name, "arguments": call.function.arguments });
    format!("<tool_call>\n{json}\n</tool_call>")
}

fn instructions(chat: &ChatPrompt) -> String {
    let tools = chat.tools.iter().map(ToString::to_string);
    let tools: Vec<String> = tools.collect();
    format!(
        "You can call functions to help with the user's request. These are the functions, one per \
         line, as JSON:\n<tools>\n{}\n</tools>\n\nTo call a function, write a JSON object with its \
         name and its arguments between tags, and nothing after it:\n<tool_call>\n{{\"name\": \
         \"function_name\", \"arguments\": {{\"argument\": \"value\"}}}}\n</tool_call>\n\nThe results \
         come in the next message. Call a function only if it is needed; otherwise answer as usual.",
        tools.join("\n")
    )
}
