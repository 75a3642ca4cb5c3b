//! Imports formats of other programs: ChatGPT's `conversations.json`, and lists of messages with
//! `role` and `content`, which most model servers use.
//!
//! Rule: messages without text, such as instructions and tool calls, are left out, and their
//! children follow their parents. Keys are computed from the file's content, so a conversation is
//! not imported twice.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Ending, MessageRole, Timestamp};
use crate::error::StoreError;
use crate::export_format::{ExportedConversation, ExportedMessage};
use crate::settings::ConversationSettings;

#[derive(Deserialize)]
struct ChatGptConversation {
    title: Option<String>,
    create_time: Option<f64>,
    update_time: Option<f64>,
    mapping: HashMap<String, ChatGptNode>,
    current_node: Option<String>,
    #[serde(alias = "id")]
    conversation_id: Option<String>,
}

#[derive(Deserialize)]
struct ChatGptNode {
    message: Option<ChatGptMessage>,
    parent: Option<String>,
    #[serde(default)]
    children: Vec<String>,
}

#[derive(Deserialize)]
struct ChatGptMessage {
    author: ChatGptAuthor,
    create_time: Option<f64>,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct ChatGptAuthor {
    role: String,
}

/// Converts any known format. `json` is the text of `value`.
pub(crate) fn conversations(
    value: Value,
    json: &str,
    now: Timestamp,
) -> Result<Vec<ExportedConversation>, StoreError> {
    let has = |value: &Value, field: &str| value.get(field).is_some();
    let place = |index: usize| format!("[{index}]");
    match value {
        Value::Array(items) if items.iter().any(|item| has(item, "mapping")) => (0..)
            .zip(items)
            .map(|(index, item)| chatgpt_conversation(item, &place(index), json, now))
            .collect(),
        Value::Array(items) if items.iter().any(|item| has(item, "messages")) => (0..)
            .zip(&items)
            .map(|(index, item)| titled_list(item, &place(index), now))
            .collect(),
        Value::Array(items) if items.is_empty() => Ok(Vec::new()),
        Value::Array(items) => Ok(vec![message_list(&items, "", None, now)?]),
        item if has(&item, "mapping") => {
            Ok(vec![chatgpt_conversation(item, "the file", json, now)?])
        }
        item if has(&item, "messages") => Ok(vec![titled_list(&item, "", now)?]),
        _ => Err(StoreError::import(
            "line 1",
            "it is neither an export of Transom or ChatGPT nor a list of messages",
        )),
    }
}

fn chatgpt_conversation(
    value: Value,
    place: &str,
    json: &str,
    now: Timestamp,
) -> Result<ExportedConversation, StoreError> {
    let chat: ChatGptConversation = serde_json::from_value(value)
        .map_err(|error| StoreError::import(place, error.to_string()))?;
    let created_at = milliseconds(chat.create_time).unwrap_or(now.0);
    let shown = shown_nodes(&chat);
    let name = chat
        .conversation_id
        .clone()
        .unwrap_or_else(|| digest(&format!("{place} {json}")));
    let mut exported = ExportedConversation {
        key: format!("chatgpt:{name}"),
        title: chat.title.clone().unwrap_or_default(),
        is_pinned: false,
        is_archived: false,
        created_at,
        updated_at: milliseconds(chat.update_time).unwrap_or(created_at),
        settings: ConversationSettings::default(),
        messages: Vec::new(),
    };
    let is_root = |node: &ChatGptNode| {
        let parent = node.parent.as_ref();
        parent.is_none_or(|parent| !chat.mapping.contains_key(parent))
    };
    let roots = chat.mapping.iter().filter(|(_, node)| is_root(node));
    let mut pending: Vec<(&String, Option<u64>)> = roots.map(|(id, _)| (id, None)).collect();
    // The last item in is the first one out.
    pending.sort();
    pending.reverse();
    let mut seen = HashSet::new();
    while let Some((id, parent)) = pending.pop() {
        let Some(node) = chat.mapping.get(id).filter(|_| seen.insert(id)) else {
            continue;
        };
        let next = exported.messages.len() as u64 + 1;
        let exported_message = node.message.as_ref().and_then(|message| {
            let mut exported_message = chatgpt_message(message, created_at)?;
            (exported_message.id, exported_message.parent) = (next, parent);
            exported_message.is_shown = shown.contains(id);
            Some(exported_message)
        });
        let parent = exported_message.as_ref().map(|_| next).or(parent);
        exported.messages.extend(exported_message);
        pending.extend(node.children.iter().rev().map(|child| (child, parent)));
    }
    Ok(exported)
}

/// Returns the nodes on the path that was shown last.
fn shown_nodes(chat: &ChatGptConversation) -> HashSet<String> {
    let mut shown = HashSet::new();
    let mut next = chat.current_node.as_ref();
    while let Some(id) = next.filter(|id| shown.insert((*id).clone())) {
        next = chat.mapping.get(id).and_then(|node| node.parent.as_ref());
    }
    shown
}

/// Converts a message with text of the user or the model.
fn chatgpt_message(message: &ChatGptMessage, created_at: i64) -> Option<ExportedMessage> {
    let role = match message.author.role.as_str() {
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        _ => return None,
    };
    let is_hidden = message.metadata["is_visually_hidden_from_conversation"] == Value::Bool(true);
    let kind = message.content["content_type"].as_str().unwrap_or("text");
    let text = match kind {
        "text" | "multimodal_text" => parts_text(&message.content["parts"]),
        "code" => {
            let code = message.content["text"].as_str().unwrap_or_default();
            let language = message.content["language"].as_str();
            let language = language.filter(|name| *name != "unknown").unwrap_or("");
            match code.is_empty() {
                true => return None,
                false => format!("```{language}\n{code}\n```"),
            }
        }
        _ => return None,
    };
    if is_hidden || text.is_empty() {
        return None;
    }
    let model = message.metadata["model_slug"].as_str();
    Some(ExportedMessage {
        created_at: milliseconds(message.create_time).unwrap_or(created_at),
        model: model
            .filter(|_| role == MessageRole::Assistant)
            .map(str::to_string),
        ..message_of(role, text)
    })
}

/// Converts `{"title": …, "messages": […]}`.
fn titled_list(
    value: &Value,
    place: &str,
    now: Timestamp,
) -> Result<ExportedConversation, StoreError> {
    let below = |field: &str| match place {
        "" => field.to_string(),
        place => format!("{place}.{field}"),
    };
    let place = below("messages");
    let messages = value["messages"]
        .as_array()
        .ok_or_else(|| StoreError::import(&place, "a list of messages belongs here"))?;
    message_list(messages, &place, value["title"].as_str(), now)
}

/// Converts `[{"role": "user", "content": "…"}, …]`.
fn message_list(
    items: &[Value],
    place: &str,
    title: Option<&str>,
    now: Timestamp,
) -> Result<ExportedConversation, StoreError> {
    let mut messages: Vec<ExportedMessage> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let role = match item["role"].as_str() {
            Some("user" | "human") => MessageRole::User,
            Some("assistant" | "model" | "ai") => MessageRole::Assistant,
            Some("system" | "developer" | "tool" | "function") => continue,
            Some(other) => {
                let problem = format!("“{other}” is not a role; use user or assistant");
                return Err(StoreError::import(&format!("{place}.role"), problem));
            }
            None => {
                let problem = "a message needs a role: user or assistant";
                return Err(StoreError::import(&format!("{place}.role"), problem));
            }
        };
        let text = match &item["content"] {
            Value::String(text) => text.clone(),
            parts @ Value::Array(_) => parts_text(parts),
            // A response that only calls a tool has no content.
            Value::Null if item.get("content").is_some() => continue,
            _ => {
                let problem = "a message needs a content: text, or a list of parts";
                return Err(StoreError::import(&format!("{place}.content"), problem));
            }
        };
        let id = messages.len() as u64 + 1;
        messages.push(ExportedMessage {
            id,
            parent: (id > 1).then(|| id - 1),
            created_at: now.0,
            ..message_of(role, text)
        });
    }
    let texts = messages.iter().map(|it| (it.role, it.text.as_str()));
    let texts: Vec<(MessageRole, &str)> = texts.collect();
    Ok(ExportedConversation {
        key: format!("list:{}", digest(&format!("{title:?} {texts:?}"))),
        title: title.unwrap_or_default().to_string(),
        is_pinned: false,
        is_archived: false,
        created_at: now.0,
        updated_at: now.0,
        settings: ConversationSettings::default(),
        messages,
    })
}

fn message_of(role: MessageRole, text: String) -> ExportedMessage {
    ExportedMessage {
        id: 0,
        parent: None,
        is_shown: true,
        role,
        created_at: 0,
        ending: Ending::Stop,
        model: None,
        stats: None,
        summary: None,
        attachment: String::new(),
        reasoning: String::new(),
        text,
    }
}

/// Returns the texts among parts that may also be images and audio.
fn parts_text(parts: &Value) -> String {
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = parts
        .iter()
        .filter_map(|part| part.as_str().or_else(|| part["text"].as_str()))
        .filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}

fn milliseconds(seconds: Option<f64>) -> Option<i64> {
    seconds
        .filter(|seconds| seconds.is_finite())
        .map(|seconds| (seconds * 1000.0) as i64)
}

/// FNV-1a with 128 bits: the same in every version, and without collisions among a user's files.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        },
    );
    format!("{hash:032x}")
}
