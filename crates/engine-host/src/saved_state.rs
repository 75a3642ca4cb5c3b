//! The KV caches of a model on disk, which one process of a model saves and the next one restores.
//!
//! The child saves them at the unload and restores them after the next load; the parent decides
//! where, and has the key. The file has the conversations one after another, the most recently used
//! one first: a description, the head and the blocks, each an encrypted record.
//!
//! Rule: a file is complete or does not exist, because it is written next to its final path and
//! then renamed. It is renamed again before an engine reads it, so a file that crashes the process
//! is read only once.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use transom_engine::saved::{bad_saved_data, new_blocks};
use transom_engine::{
    CachedConversation, ConversationId, EngineError, LoadedModel, SavableCache, SavedConversation,
};

use crate::sealed_file::{SealedReader, SealedWriter, StateKey};

/// Extensions of a file that is being written or read.
const UNFINISHED: &str = "unfinished";
const TAKEN: &str = "taken";

/// Where a model's KV caches are saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The key that encrypts it.
    pub key: StateKey,
    /// Largest size of the file in bytes. Conversations that do not fit are not saved.
    pub max_bytes: u64,
}

/// Describes the records that follow.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    id: Option<ConversationId>,
    tokens: Vec<u32>,
    blocks: Vec<Range<usize>>,
}

/// Saves the KV caches of `model` to `file` and returns their number of tokens. If that is 0, there
/// is no file.
///
/// # Errors
/// The errors of [`SavableCache`], and [`EngineError::BadFile`] if the file cannot be written. No
/// file is left then.
pub(crate) fn save(model: &mut dyn LoadedModel, file: &StateFile) -> Result<usize, EngineError> {
    let Some(cache) = model.savable_cache() else {
        return Ok(0);
    };
    let unfinished = file.path.with_added_extension(UNFINISHED);
    remove(&unfinished);
    let saved = write(cache, &unfinished, file);
    let renamed = saved.and_then(|n_tokens| match n_tokens {
        0 => Ok(0),
        _ => fs::rename(&unfinished, &file.path)
            .map(|()| n_tokens)
            .map_err(|error| EngineError::bad_file(&file.path, error)),
    });
    if renamed.as_ref().map_or(true, |n_tokens| *n_tokens == 0) {
        remove(&unfinished);
    }
    renamed
}

fn write(cache: &dyn SavableCache, path: &Path, file: &StateFile) -> Result<usize, EngineError> {
    let failed = |error: io::Error| EngineError::bad_file(path, error);
    let conversations = cache.conversations();
    let conversations = conversations.iter().enumerate();
    let mut writer = SealedWriter::create(path, &file.key).map_err(failed)?;
    let mut n_tokens = 0;
    for (index, conversation) in conversations.filter(|(_, one)| !one.tokens.is_empty()) {
        let start = writer.n_bytes();
        let mut has_space = true;
        let records = records(cache, index, conversation);
        for record in records {
            let record = record?;
            let end = writer.n_bytes() + SealedWriter::record_bytes(record.len());
            has_space = end <= file.max_bytes;
            if !has_space {
                writer.truncate(start).map_err(failed)?;
                break;
            }
            writer.write(record).map_err(failed)?;
        }
        if has_space {
            n_tokens += conversation.tokens.len();
        }
    }
    Ok(n_tokens)
}

/// Returns the description, the head and the blocks of a conversation. Only one of them is in memory
/// at a time.
fn records(
    cache: &dyn SavableCache,
    index: usize,
    conversation: &CachedConversation<'_>,
) -> impl Iterator<Item = Result<Vec<u8>, EngineError>> {
    let CachedConversation { id, tokens } = *conversation;
    let blocks = match cache.has_blocks() {
        true => new_blocks(0..tokens.len()),
        false => Vec::new(),
    };
    let description = Description {
        id,
        tokens: tokens.to_vec(),
        blocks: blocks.clone(),
    };
    let description = serde_json::to_vec(&description)
        .map_err(|error| EngineError::backend("saving a conversation", error));
    let head = std::iter::once_with(move || cache.save_head(index));
    let blocks = blocks.into_iter();
    let blocks = blocks.map(move |tokens| cache.save_block(index, tokens));
    std::iter::once(description).chain(head).chain(blocks)
}

/// Restores the KV caches of `model` from `file`, if it exists, and returns the number of tokens of
/// the conversation that is current then. Removes the file in every case. A conversation that cannot
/// be restored costs a prefill.
///
/// # Errors
/// [`EngineError::BadFile`] if the file cannot be renamed or read.
pub(crate) fn restore(model: &mut dyn LoadedModel, file: &StateFile) -> Result<usize, EngineError> {
    let path = &file.path;
    let taken = path.with_added_extension(TAKEN);
    match fs::rename(path, &taken) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => {
            remove(path);
            return Err(EngineError::bad_file(path, error));
        }
    }
    let result = read(model, &taken, &file.key);
    remove(&taken);
    result.map_err(|error| EngineError::bad_file(path, error))
}

fn read(model: &mut dyn LoadedModel, path: &Path, key: &StateKey) -> io::Result<usize> {
    let mut reader = SealedReader::open(path, key)?;
    let mut positions = Vec::new();
    while !reader.is_at_end() {
        let description = describe(&mut reader)?;
        positions.push((reader.position(), description));
        let Some((_, description)) = positions.last() else {
            break;
        };
        for _ in 0..=description.blocks.len() {
            reader.skip()?;
        }
    }
    let mut n_tokens = 0;
    // The most recently used one last, so that it is the current one.
    for (position, description) in positions.into_iter().rev() {
        reader.seek(position)?;
        let restored = restore_conversation(model, &mut reader, &description);
        n_tokens = match restored {
            Ok(()) => description.tokens.len(),
            Err(error) => {
                tracing::warn!(%error, "a saved conversation could not be restored");
                0
            }
        };
    }
    Ok(n_tokens)
}

fn describe(reader: &mut SealedReader) -> io::Result<Description> {
    let json = reader.read()?;
    serde_json::from_slice(&json).map_err(io::Error::other)
}

fn restore_conversation(
    model: &mut dyn LoadedModel,
    reader: &mut SealedReader,
    description: &Description,
) -> Result<(), EngineError> {
    let bad = |error: io::Error| EngineError::backend("reading a saved conversation", error);
    let info = model.info();
    info.check_tokens(&description.tokens)?;
    let (n_tokens, context_length) = (description.tokens.len(), info.context_length);
    if n_tokens > context_length {
        let reason = format!("it has {n_tokens} tokens, but the context holds {context_length}");
        return Err(bad_saved_data(reason));
    }
    let Some(cache) = model.savable_cache() else {
        return Ok(());
    };
    let head = reader.read().map_err(bad)?;
    cache.restore(SavedConversation {
        id: description.id,
        tokens: &description.tokens,
        head: &head,
        blocks: &description.blocks,
        read_block: &mut |_| reader.read().map_err(bad),
    })
}

/// Removes the files of a process that ended while it wrote or read the saved KV caches at `path`.
pub fn remove_leftovers(path: &Path) {
    remove(&path.with_added_extension(UNFINISHED));
    remove(&path.with_added_extension(TAKEN));
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "saved KV caches could not be removed");
        }
    }
}
