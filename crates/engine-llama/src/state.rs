//! Saves the KV cache of a conversation as bytes and restores it.
//!
//! If all layers attend to all tokens, the cache is in blocks of consecutive tokens, and the head has only
//! what is known about the conversation. llama.cpp can copy other caches only as a whole, so there
//! are no blocks, and the head is
//!
//! | bytes | content |
//! |---|---|
//! | | llama.cpp's own form of the cache, see [`crate::native::Context::state`] |
//! | | states of each checkpoint |
//! | | our own data, JSON |
//! | 4 | length of this JSON |
//!
//! A block is llama.cpp's own form of the cache as if it had no other tokens, and our own data. Our data is
//! at the end, so that the cache is copied only once.
//!
//! Rule: a block is kept when the conversation is saved again, beside a new head. So what is true of its
//! keys and values is in the block and not only in the head: the model, the type of the cache, and how many
//! of them are exact. Tokens that were computed after text that is no longer there may be read
//! again later, and then only the head knows of exact ones.
//!
//! Rule: llama.cpp trusts its bytes, so the caller has verified that they are those that were saved.

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transom_engine::saved::{BLOCK_TOKENS, bad_saved_data};
use transom_engine::{EngineError, ModelInfo, SavedConversation};

use crate::device::describe_cache;
use crate::native::{Context, take_first_error};
use crate::session::{CacheConfig, CachedConversation, Checkpoint, Session};

const VERSION: u32 = 5;

const SAVING: &str = "saving a conversation";

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

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct BlockHeader {
    transom_block: u32,
    model: Value,
    tokens: Range<usize>,
    /// See [`CachedConversation::n_exact`]; within the block.
    n_exact: usize,
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

/// Returns a block of the `index`-th of [`Session::conversations`]; see
/// [`transom_engine::SavableCache::save_block`].
pub(crate) fn save_block(
    session: &Session,
    info: &ModelInfo,
    index: usize,
    tokens: Range<usize>,
) -> Result<Vec<u8>, EngineError> {
    let (conversation, block) = session
        .copy_block(index, tokens.clone())
        .ok_or_else(not_copied)?;
    let header = BlockHeader {
        transom_block: VERSION,
        model: identity(info, session.config()),
        n_exact: conversation.n_exact.clamp(tokens.start, tokens.end) - tokens.start,
        tokens,
    };
    with_json(block, &header)
}

/// Returns the head of the `index`-th of [`Session::conversations`]; see
/// [`transom_engine::SavableCache::save_head`].
pub(crate) fn save_head(
    session: &Session,
    info: &ModelInfo,
    index: usize,
) -> Result<Vec<u8>, EngineError> {
    let (conversation, mut head) = match session.has_blocks() {
        true => {
            let conversations = session.conversations();
            (
                *conversations.get(index).ok_or_else(not_copied)?,
                Vec::new(),
            )
        }
        false => {
            let (conversation, state) = session.copy(index).ok_or_else(not_copied)?;
            (conversation, state.into_owned())
        }
    };
    head.reserve_exact(conversation.checkpoint_bytes() as usize);
    for checkpoint in &conversation.checkpoints {
        head.extend(&checkpoint.states);
    }
    with_json(head, &header(conversation, info, session.config()))
}

fn not_copied() -> EngineError {
    let reason = take_first_error();
    let reason = reason
        .as_deref()
        .unwrap_or("llama.cpp does not return its cache");
    EngineError::backend(SAVING, reason)
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

fn with_json(mut bytes: Vec<u8>, header: &impl Serialize) -> Result<Vec<u8>, EngineError> {
    let json = serde_json::to_vec(header);
    let json = json.map_err(|error| EngineError::backend(SAVING, error))?;
    bytes.reserve_exact(json.len() + 4);
    bytes.extend(&json);
    bytes.extend((json.len() as u32).to_le_bytes());
    Ok(bytes)
}

/// Returns our own data, and the bytes before it.
fn split_json<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<(T, &[u8]), EngineError> {
    let length = take_last(&mut bytes, 4);
    let length = length.and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
    let json = length.and_then(|length| take_last(&mut bytes, length as usize));
    let header = json.and_then(|json| serde_json::from_slice(json).ok());
    let header = header.ok_or_else(|| bad_saved_data("its header cannot be read"))?;
    Ok((header, bytes))
}

fn take_last<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let start = bytes.len().checked_sub(n)?;
    bytes.split_off(start..)
}

/// Restores a conversation; see [`transom_engine::SavableCache::restore`].
pub(crate) fn restore(
    session: &mut Session,
    info: &ModelInfo,
    saved: SavedConversation<'_>,
) -> Result<(), EngineError> {
    let (header, mut rest) = split_json::<Header>(saved.head)?;
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
    let mut end = 0;
    for block in saved.blocks {
        if block.is_empty() || std::mem::replace(&mut end, block.end) != block.start {
            return Err(bad_saved_data("its blocks do not follow each other"));
        }
    }
    let n_in_blocks = match session.has_blocks() {
        true => saved.tokens.len(),
        false => 0,
    };
    if end != n_in_blocks || rest.is_empty() != session.has_blocks() {
        return Err(bad_saved_data("its parts are those of another form"));
    }
    if !session.has_blocks() {
        let n_bytes = rest.len() as u64;
        return session.restore_saved(conversation, n_bytes, |context, _| {
            let is_restored = context.set_state(0, rest);
            is_restored.then_some(()).ok_or_else(refused)
        });
    }
    let block_bytes = BLOCK_TOKENS as u64 * session.config().bytes_per_token;
    session.restore_saved(conversation, block_bytes, |context, conversation| {
        for (index, tokens) in saved.blocks.iter().enumerate() {
            let block = (saved.read_block)(index)?;
            let n_exact = append_block(context, &expected, tokens, &block)?;
            if n_exact < tokens.len() {
                conversation.n_exact = conversation.n_exact.min(tokens.start + n_exact);
            }
        }
        Ok(())
    })
}

/// Restores a block. Returns how many of its tokens are exact.
fn append_block(
    context: &mut Context,
    model: &Value,
    tokens: &Range<usize>,
    block: &[u8],
) -> Result<usize, EngineError> {
    let (header, state) = split_json::<BlockHeader>(block)?;
    if header.transom_block != VERSION || header.model != *model || header.tokens != *tokens {
        return Err(bad_saved_data("a block belongs to another model or place"));
    }
    match context.append_block(tokens, state) {
        true => Ok(header.n_exact),
        false => Err(refused()),
    }
}

fn refused() -> EngineError {
    let reason = take_first_error();
    bad_saved_data(reason.as_deref().unwrap_or("llama.cpp refuses it"))
}
