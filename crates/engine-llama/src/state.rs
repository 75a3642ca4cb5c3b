//! Saves the KV cache of a conversation as bytes and restores it.
//!
//! llama.cpp returns the contents of a cache only as a whole, so there are no blocks. The head is
//!
//! | bytes | content |
//! |---|---|
//! | | llama.cpp's own form of the cache, see [`crate::native::Context::state`] |
//! | | states of each checkpoint |
//! | | our own data, JSON |
//! | 4 | length of this JSON |
//!
//! Our data is at the end, so that the cache is copied only once.
//!
//! Rule: llama.cpp trusts its bytes, so the caller has verified that they are those that were saved.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transom_engine::saved::bad_saved_data;
use transom_engine::{EngineError, ModelInfo, SavedConversation};

use crate::device::describe_cache;
use crate::session::{CacheConfig, CachedConversation, Checkpoint, Session};

const VERSION: u32 = 4;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    transom_conversation: u32,
    model: Value,
    n_tokens: usize,
    n_exact: usize,
    dropped_messages: usize,
    checkpoints: Vec<CheckpointHeader>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct CheckpointHeader {
    n_tokens: usize,
    n_bytes: usize,
}

/// Returns the properties of the model that the cache depends on. The number of threads is not one
/// of them.
fn identity(info: &ModelInfo, config: &CacheConfig) -> Value {
    json!({
        "engine": info.engine,
        "name": info.name,
        "architecture": info.architecture,
        "n_parameters": info.n_parameters,
        "stored_as": info.stored_as,
        "cache": describe_cache(config.cache_type, config.flash_attention),
        "is_for_long_text": config.is_for_long_text,
    })
}

/// Returns the head of the `index`-th of [`Session::conversations`]; see
/// [`transom_engine::SavableCache::save_head`].
pub(crate) fn save_head(
    session: &Session,
    info: &ModelInfo,
    index: usize,
) -> Result<Vec<u8>, EngineError> {
    let failed = |reason: String| EngineError::backend("saving a conversation", reason);
    let (conversation, state) = session
        .copy(index)
        .ok_or_else(|| failed("llama.cpp does not return its cache".to_owned()))?;
    let header = header(conversation, info, session.config());
    let json = serde_json::to_vec(&header).map_err(|error| failed(error.to_string()))?;
    let mut head = state.into_owned();
    head.reserve_exact(conversation.checkpoint_bytes() as usize + json.len() + 4);
    for checkpoint in &conversation.checkpoints {
        head.extend(&checkpoint.states);
    }
    head.extend(&json);
    head.extend((json.len() as u32).to_le_bytes());
    Ok(head)
}

fn header(conversation: &CachedConversation, info: &ModelInfo, config: &CacheConfig) -> Header {
    let checkpoints = conversation.checkpoints.iter();
    Header {
        transom_conversation: VERSION,
        model: identity(info, config),
        n_tokens: conversation.tokens.len(),
        n_exact: conversation.n_exact,
        dropped_messages: conversation.dropped_messages,
        checkpoints: checkpoints
            .map(|checkpoint| CheckpointHeader {
                n_tokens: checkpoint.n_tokens,
                n_bytes: checkpoint.states.len(),
            })
            .collect(),
    }
}

/// Restores a conversation; see [`transom_engine::SavableCache::restore`].
pub(crate) fn restore(
    session: &mut Session,
    info: &ModelInfo,
    saved: &SavedConversation<'_>,
) -> Result<(), EngineError> {
    let mut rest = saved.head;
    let length = rest.split_off(rest.len().saturating_sub(4)..);
    let length = length.and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
    let json = length.and_then(|length| take_last(&mut rest, length as usize));
    let header = json.and_then(|json| serde_json::from_slice::<Header>(json).ok());
    let header = header.ok_or_else(|| bad_saved_data("its header cannot be read"))?;
    let expected = identity(info, session.config());
    if header.transom_conversation != VERSION || header.model != expected {
        return Err(bad_saved_data("it belongs to another model or version"));
    }
    let positions = header
        .checkpoints
        .iter()
        .map(|checkpoint| checkpoint.n_tokens);
    let last = positions.max().unwrap_or(0).max(header.n_exact);
    if header.n_tokens != saved.tokens.len() || last > header.n_tokens {
        let reason = format!("it names token {last} of {}", saved.tokens.len());
        return Err(bad_saved_data(reason));
    }
    let mut checkpoints = Vec::new();
    for checkpoint in header.checkpoints.iter().rev() {
        let states = take_last(&mut rest, checkpoint.n_bytes);
        let states = states.ok_or_else(|| bad_saved_data("it is too short"))?;
        checkpoints.push(Checkpoint {
            n_tokens: checkpoint.n_tokens,
            states: states.to_vec(),
        });
    }
    checkpoints.reverse();
    let conversation = CachedConversation {
        tokens: saved.tokens.to_vec(),
        n_exact: header.n_exact,
        id: saved.id,
        dropped_messages: header.dropped_messages,
        checkpoints,
    };
    session.restore_saved(conversation, rest)
}

fn take_last<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let start = bytes.len().checked_sub(n)?;
    bytes.split_off(start..)
}
