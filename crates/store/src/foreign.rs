//! Conversations of other programs: ChatGPT's `conversations.json`, and lists of messages with
//! `role` and `content`, as the chat interfaces of most model servers take them.
//!
//! Rule: what has no text, such as instructions and calls of tools, is left out, and what follows it
//! follows what came before. Keys are made of what the file says, so that it is not taken in twice.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Ending, Speaker, Timestamp};
use crate::error::StoreError;
use crate::exchange::{Said, Talk};
use crate::import::refused;

/// A conversation of ChatGPT's export.
#[derive(Deserialize)]
struct Chat {
    title: Option<String>,
    create_time: Option<f64>,
    update_time: Option<f64>,
    mapping: HashMap<String, Node>,
    current_node: Option<String>,
    #[serde(alias = "id")]
    conversation_id: Option<String>,
}

#[derive(Deserialize)]
struct Node {
    message: Option<ChatMessage>,
    parent: Option<String>,
    #[serde(default)]
    children: Vec<String>,
}

#[derive(Deserialize)]
struct ChatMessage {
    author: Author,
    create_time: Option<f64>,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct Author {
    role: String,
}

/// `json` is the text of `value`.
pub(crate) fn talks(value: Value, json: &str, now: Timestamp) -> Result<Vec<Talk>, StoreError> {
    let has = |value: &Value, field: &str| value.get(field).is_some();
    match value {
        Value::Array(items) if items.iter().any(|item| has(item, "mapping")) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| chat(item, &format!("[{index}]"), json, now))
            .collect(),
        Value::Array(items) if items.iter().any(|item| has(item, "messages")) => items
            .iter()
            .enumerate()
            .map(|(index, item)| listed(item, &format!("[{index}]"), now))
            .collect(),
        Value::Array(items) if items.is_empty() => Ok(Vec::new()),
        Value::Array(items) => Ok(vec![list(&items, "", None, now)?]),
        item if has(&item, "mapping") => Ok(vec![chat(item, "the file", json, now)?]),
        item if has(&item, "messages") => Ok(vec![listed(&item, "", now)?]),
        _ => Err(refused(
            "line 1",
            "it is neither an export of Transom or ChatGPT nor a list of messages".to_string(),
        )),
    }
}

fn chat(value: Value, place: &str, json: &str, now: Timestamp) -> Result<Talk, StoreError> {
    let chat: Chat =
        serde_json::from_value(value).map_err(|error| refused(place, error.to_string()))?;
    let created_at = milliseconds(chat.create_time).unwrap_or(now.0);
    let shown = shown_nodes(&chat);
    let name = chat
        .conversation_id
        .clone()
        .unwrap_or_else(|| digest(&format!("{place} {json}")));
    let mut talk = Talk {
        key: format!("chatgpt:{name}"),
        title: chat.title.clone().unwrap_or_default(),
        is_pinned: false,
        created_at,
        updated_at: milliseconds(chat.update_time).unwrap_or(created_at),
        messages: Vec::new(),
    };
    let mut roots: Vec<&String> = chat
        .mapping
        .iter()
        .filter(|(_, node)| {
            let parent = node.parent.as_ref();
            parent.is_none_or(|parent| !chat.mapping.contains_key(parent))
        })
        .map(|(id, _)| id)
        .collect();
    roots.sort();
    let mut waiting: Vec<(&String, Option<u64>)> =
        roots.into_iter().rev().map(|id| (id, None)).collect();
    let mut seen = HashSet::new();
    while let Some((id, above)) = waiting.pop() {
        let Some(node) = chat.mapping.get(id).filter(|_| seen.insert(id)) else {
            continue;
        };
        let next = talk.messages.len() as u64 + 1;
        let said = node.message.as_ref().and_then(|message| {
            let mut said = chat_message(message, created_at)?;
            (said.id, said.parent) = (next, above);
            said.is_shown = shown.contains(id);
            Some(said)
        });
        let above = if said.is_some() { Some(next) } else { above };
        talk.messages.extend(said);
        // The last one in is the first one out.
        waiting.extend(node.children.iter().rev().map(|child| (child, above)));
    }
    Ok(talk)
}

/// The nodes on the path that was shown last.
fn shown_nodes(chat: &Chat) -> HashSet<String> {
    let mut shown = HashSet::new();
    let mut next = chat.current_node.as_ref();
    while let Some(id) = next.filter(|id| shown.insert((*id).clone())) {
        next = chat.mapping.get(id).and_then(|node| node.parent.as_ref());
    }
    shown
}

/// A message with text of a person or a model.
fn chat_message(message: &ChatMessage, created_at: i64) -> Option<Said> {
    let speaker = match message.author.role.as_str() {
        "user" => Speaker::User,
        "assistant" => Speaker::Assistant,
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
                true => String::new(),
                false => format!("```{language}\n{code}\n```"),
            }
        }
        _ => String::new(),
    };
    if is_hidden || text.is_empty() {
        return None;
    }
    let model = message.metadata["model_slug"].as_str();
    Some(Said {
        created_at: milliseconds(message.create_time).unwrap_or(created_at),
        model: model
            .filter(|_| speaker == Speaker::Assistant)
            .map(str::to_string),
        ..said(speaker, text)
    })
}

/// `{"title": …, "messages": […]}`.
fn listed(value: &Value, place: &str, now: Timestamp) -> Result<Talk, StoreError> {
    let below = |field: &str| match place {
        "" => field.to_string(),
        place => format!("{place}.{field}"),
    };
    let place = below("messages");
    let messages = value["messages"]
        .as_array()
        .ok_or_else(|| refused(&place, "a list of messages belongs here".to_string()))?;
    list(messages, &place, value["title"].as_str(), now)
}

/// `[{"role": "user", "content": "…"}, …]`.
fn list(
    items: &[Value],
    place: &str,
    title: Option<&str>,
    now: Timestamp,
) -> Result<Talk, StoreError> {
    let mut messages: Vec<Said> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let speaker = match item["role"].as_str() {
            Some("user" | "human") => Speaker::User,
            Some("assistant" | "model" | "ai") => Speaker::Assistant,
            Some("system" | "developer" | "tool" | "function") => continue,
            Some(other) => {
                let problem = format!("“{other}” is no role: user or assistant");
                return Err(refused(&format!("{place}.role"), problem));
            }
            None => {
                let problem = "a message needs a role: user or assistant".to_string();
                return Err(refused(&format!("{place}.role"), problem));
            }
        };
        let text = match &item["content"] {
            Value::String(text) => text.clone(),
            parts @ Value::Array(_) => parts_text(parts),
            // An answer that only calls a tool has none.
            Value::Null if item.get("content").is_some() => continue,
            _ => {
                let problem = "a message needs a content: text, or a list of parts".to_string();
                return Err(refused(&format!("{place}.content"), problem));
            }
        };
        let id = messages.len() as u64 + 1;
        messages.push(Said {
            id,
            parent: (id > 1).then(|| id - 1),
            created_at: now.0,
            ..said(speaker, text)
        });
    }
    let said: Vec<(Speaker, &str)> = messages
        .iter()
        .map(|said| (said.speaker, said.text.as_str()))
        .collect();
    Ok(Talk {
        key: format!("list:{}", digest(&format!("{title:?} {said:?}"))),
        title: title.unwrap_or_default().to_string(),
        is_pinned: false,
        created_at: now.0,
        updated_at: now.0,
        messages,
    })
}

fn said(speaker: Speaker, text: String) -> Said {
    Said {
        id: 0,
        parent: None,
        is_shown: true,
        speaker,
        created_at: 0,
        ending: Ending::Stop,
        model: None,
        stats: None,
        attachment: String::new(),
        reasoning: String::new(),
        text,
    }
}

/// The texts among parts that may also be pictures and sounds.
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

/// FNV-1a of 128 bits: the same in every version, and no two of a person's files share it.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        },
    );
    format!("{hash:032x}")
}
