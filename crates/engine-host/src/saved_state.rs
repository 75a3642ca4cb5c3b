//! The KV caches of conversations on disk, which one process of a model saves and a later one
//! restores.
//!
//! A conversation is in a description (its tokens and the names of the other files), a head and
//! blocks, each an encrypted file of its own. Files are never changed: a conversation that is saved
//! again keeps the blocks of the tokens that it still begins with, and gets a new description and
//! head. The parent decides where and how much, keeps the list of files, and removes those that no
//! conversation in the list needs any more.
//!
//! Rule: whatever is wrong with a file costs a prefill and nothing else. The description is renamed
//! while an engine reads the files, so files that crash the process are read once.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use transom_engine::generation::common_prefix_len;
use transom_engine::saved::{bad_saved_data, new_blocks};
use transom_engine::{
    CachedConversation, ConversationId, EngineError, LoadedModel, SavableCache,
    SavedConversation as SavedParts,
};

use crate::sealed_file::{self, StateKey};

/// A saved token is read in less than this fraction of the time of its prefill.
const MAX_READ_RATIO: usize = 8;

/// Extension of the description of a conversation that an engine is restoring.
const TAKEN: &str = "taken";

/// The folder with saved conversations, and those of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFolder {
    /// The folder.
    pub path: PathBuf,
    /// What the names of new files begin with. No other process has the same.
    pub prefix: String,
    /// The saved conversations of the model, the most recently used one first.
    pub conversations: Vec<SavedConversation>,
}

/// A conversation whose KV cache is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedConversation {
    /// The conversation, if its requests had an id.
    pub id: Option<ConversationId>,
    /// The key of its files, which no other conversation has.
    pub key: StateKey,
    /// The names of its files in the folder. The first is the description.
    pub files: Vec<String>,
    /// Number of tokens.
    pub n_tokens: usize,
}

/// The saved conversations of the loaded model.
pub(crate) struct SavedConversations {
    folder: PathBuf,
    prefix: String,
    n_files: usize,
    /// The most recently used one first.
    all: Vec<Saved>,
}

/// A saved conversation, and its description.
struct Saved {
    listed: SavedConversation,
    description: Description,
    /// The loaded model has restored or saved it. Blocks of a model that was loaded in another way, such as
    /// with another type of KV cache, must not be beside those of this one.
    is_of_this_load: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Description {
    tokens: Vec<u32>,
    head: String,
    blocks: Vec<Block>,
}

/// A block and the name of its file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Block {
    tokens: Range<usize>,
    file: String,
}

impl Saved {
    /// Returns true if all files exist: the parent may have removed them to make room for others.
    fn is_on_disk(&self, folder: &Path) -> bool {
        let mut files = self.listed.files.iter();
        files.all(|name| folder.join(name).exists())
    }
}

impl SavedConversations {
    /// Reads the descriptions of the conversations in `folder`. One that can't be read is left out.
    pub(crate) fn open(folder: SavedFolder) -> Self {
        let SavedFolder {
            path,
            prefix,
            conversations,
        } = folder;
        let described = conversations.into_iter().filter_map(|listed| {
            let description = describe(&path, &listed);
            let description = description
                .inspect_err(|error| tracing::warn!(%error, "a saved conversation is lost"))
                .ok()?;
            Some(Saved {
                listed,
                description,
                is_of_this_load: false,
            })
        });
        Self {
            all: described.collect(),
            folder: path,
            prefix,
            n_files: 0,
        }
    }

    /// Returns the number of tokens of the most recently used conversation; 0 if there is none.
    pub(crate) fn newest_tokens(&self) -> usize {
        let newest = self.all.first();
        newest.map_or(0, |saved| saved.description.tokens.len())
    }

    /// Drops the keys of this conversation, or of all.
    pub(crate) fn forget(&mut self, conversation: Option<ConversationId>) {
        let is_other = |saved: &Saved| conversation.is_some() && saved.listed.id != conversation;
        self.all.retain(is_other);
    }

    /// Restores the conversation with the most tokens of `prompt`, which becomes the current one, if
    /// no conversation in memory has as many of them. Calls `on_read` after each file.
    pub(crate) fn restore(
        &mut self,
        model: &mut dyn LoadedModel,
        prompt: &[u32],
        id: Option<ConversationId>,
        on_read: &dyn Fn(),
    ) {
        if self.all.is_empty() {
            return;
        }
        let context_length = model.info().context_length;
        let Some(cache) = model.savable_cache() else {
            return;
        };
        let in_memory = tokens_in_memory(cache, prompt);
        let candidates: Vec<Candidate> = self
            .all
            .iter()
            .map(|saved| Candidate {
                is_same: id.is_some() && saved.listed.id == id,
                n_tokens: saved.description.tokens.len(),
                n_shared: common_prefix_len(&saved.description.tokens, prompt),
            })
            .collect();
        let Some(index) = best(&candidates, in_memory, context_length) else {
            return;
        };
        let mut saved = self.all.remove(index);
        match restore_from(&self.folder, &saved, model, on_read) {
            Ok(()) => {
                let n_tokens = saved.description.tokens.len();
                tracing::info!(n_tokens, "restored a saved conversation");
                saved.is_of_this_load = true;
                self.all.insert(0, saved);
            }
            Err(error) => tracing::warn!(%error, "a saved conversation could not be restored"),
        }
    }

    /// Saves the conversations in memory with at most `max_bytes` new bytes, the most recently used
    /// ones first, until `is_stopped`, and calls `on_saved` with each that is on disk then. Returns
    /// the number of tokens that were written. Files of a conversation that was not completed stay:
    /// the parent counts and removes them.
    ///
    /// # Errors
    /// Those of the engine, and [`EngineError::BadFile`] if a file can't be written. Conversations
    /// before that are saved.
    pub(crate) fn save(
        &mut self,
        model: &mut dyn LoadedModel,
        max_bytes: u64,
        is_stopped: &dyn Fn() -> bool,
        on_saved: &mut dyn FnMut(SavedConversation),
    ) -> Result<usize, EngineError> {
        let Some(cache) = model.savable_cache() else {
            return Ok(0);
        };
        let cache: &dyn SavableCache = cache;
        let mut earlier = std::mem::take(&mut self.all);
        let mut writer = Writer {
            folder: &self.folder,
            prefix: &self.prefix,
            n_files: &mut self.n_files,
            left_bytes: max_bytes,
            is_stopped,
        };
        let mut n_written = 0;
        let mut failed = None;
        let all = &mut self.all;
        let mut on_disk = |saved: Option<Saved>| {
            if let Some(saved) = saved {
                on_saved(saved.listed.clone());
                all.push(saved);
            }
        };
        for (index, conversation) in cache.conversations().iter().enumerate() {
            let base = base_of(&earlier, conversation).map(|index| earlier.remove(index));
            let tokens = conversation.tokens;
            let is_saved = |saved: &Saved| {
                saved.description.tokens.starts_with(tokens) && saved.is_on_disk(&self.folder)
            };
            if tokens.is_empty() || base.as_ref().is_some_and(is_saved) {
                on_disk(base);
                continue;
            }
            let saved = writer.save(cache, index, conversation, base.as_ref());
            if let Ok(Some(_)) = &saved {
                n_written += tokens.len();
            }
            let (saved, error) = match saved {
                Ok(saved) => (saved.or(base), None),
                Err(error) => (base, Some(error)),
            };
            on_disk(saved);
            if error.is_some() {
                failed = error;
                break;
            }
        }
        self.all.append(&mut earlier);
        failed.map_or(Ok(n_written), Err)
    }
}

/// A saved conversation that a request may continue.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// It is the conversation of the request.
    is_same: bool,
    n_tokens: usize,
    /// Number of its tokens that the prompt begins with.
    n_shared: usize,
}

/// Returns the index of the conversation to restore: the one with the most tokens of the prompt, if
/// they are more than those in memory. Enough tokens of another conversation must be useful, because
/// all of them are read.
fn best(candidates: &[Candidate], in_memory: usize, context_length: usize) -> Option<usize> {
    let useful = candidates.iter().enumerate().filter(|(_, candidate)| {
        candidate.n_shared > in_memory
            && candidate.n_tokens <= context_length
            && (candidate.is_same || candidate.n_shared * MAX_READ_RATIO >= candidate.n_tokens)
    });
    // Of several, the most recently used one.
    let best = useful.rev().max_by_key(|(_, candidate)| candidate.n_shared);
    best.map(|(index, _)| index)
}

/// Returns the index of the saved conversation that `conversation` continues.
fn base_of(saved: &[Saved], conversation: &CachedConversation<'_>) -> Option<usize> {
    if conversation.id.is_some() {
        return saved
            .iter()
            .position(|saved| saved.listed.id == conversation.id);
    }
    let shared = |saved: &Saved| common_prefix_len(&saved.description.tokens, conversation.tokens);
    let without_id = saved.iter().enumerate().filter(|(_, saved)| {
        saved.listed.id.is_none() && 2 * shared(saved) >= saved.description.tokens.len()
    });
    let base = without_id.max_by_key(|(_, saved)| shared(saved));
    base.map(|(index, _)| index)
}

fn describe(folder: &Path, listed: &SavedConversation) -> io::Result<Description> {
    let missing = || io::Error::new(ErrorKind::NotFound, "it has no files");
    let name = listed.files.first().ok_or_else(missing)?;
    let json = sealed_file::read(&folder.join(name), name, &listed.key)?;
    serde_json::from_slice(&json).map_err(io::Error::other)
}

fn restore_from(
    folder: &Path,
    saved: &Saved,
    model: &mut dyn LoadedModel,
    on_read: &dyn Fn(),
) -> Result<(), EngineError> {
    let Saved {
        listed,
        description,
        ..
    } = saved;
    model.info().check_tokens(&description.tokens)?;
    let bad = |error: io::Error| EngineError::backend("reading a saved conversation", error);
    let read = |name: &str| {
        let bytes = sealed_file::read(&folder.join(name), name, &listed.key);
        on_read();
        bytes.map_err(bad)
    };
    let path = folder.join(listed.files.first().map_or("", String::as_str));
    let taken = path.with_added_extension(TAKEN);
    fs::rename(&path, &taken).map_err(bad)?;
    let Some(cache) = model.savable_cache() else {
        return Ok(());
    };
    let head = read(&description.head)?;
    let ranges: Vec<_> = description
        .blocks
        .iter()
        .map(|block| block.tokens.clone())
        .collect();
    cache.restore(SavedParts {
        id: listed.id,
        tokens: &description.tokens,
        head: &head,
        blocks: &ranges,
        read_block: &mut |index| match description.blocks.get(index) {
            Some(block) => read(&block.file),
            None => Err(bad_saved_data("it has too few blocks")),
        },
    })?;
    fs::rename(&taken, &path).map_err(bad)
}

/// Writes the files of a conversation.
struct Writer<'a> {
    folder: &'a Path,
    prefix: &'a str,
    n_files: &'a mut usize,
    left_bytes: u64,
    is_stopped: &'a dyn Fn() -> bool,
}

impl Writer<'_> {
    /// Saves a conversation and returns it; `None` if there is not enough room, or if it is to stop.
    /// Blocks of `base` with tokens of the beginning of the conversation are not written again.
    fn save(
        &mut self,
        cache: &dyn SavableCache,
        index: usize,
        conversation: &CachedConversation<'_>,
        base: Option<&Saved>,
    ) -> Result<Option<Saved>, EngineError> {
        let CachedConversation { id, tokens } = *conversation;
        let key = match base {
            Some(base) => base.listed.key.clone(),
            None => StateKey::random().ok_or_else(|| {
                EngineError::backend("saving a conversation", "the system has no random numbers")
            })?,
        };
        let mut blocks = match base {
            Some(base) if base.is_of_this_load => self.usable_blocks(&base.description, tokens),
            _ => Vec::new(),
        };
        let n_kept = blocks.len();
        let start = blocks.last().map_or(0, |block| block.tokens.end);
        if cache.has_blocks() {
            let new = new_blocks(start..tokens.len()).into_iter();
            blocks.extend(new.map(|tokens| Block {
                tokens,
                file: self.new_name(),
            }));
        }
        let description = Description {
            tokens: tokens.to_vec(),
            head: self.new_name(),
            blocks,
        };
        let new = &description.blocks[n_kept..];
        let json = serde_json::to_vec(&description);
        let json = json.map_err(|error| EngineError::backend("saving a conversation", error))?;
        let save_block = |block: &Block| cache.save_block(index, block.tokens.clone());
        let mut first_block = new.first().map(save_block).transpose()?;
        let head = cache.save_head(index)?;
        // Each token takes as much, so the first block shows the size of all but for the few bytes that
        // each block takes besides, and nothing is written in vain.
        let per_block = first_block.iter().zip(new).map(|(bytes, block)| {
            bytes.len() as u64 * (tokens.len() - start) as u64 / block.tokens.len() as u64
        });
        let n_bytes = (json.len() + head.len()) as u64 + per_block.sum::<u64>();
        let n_bytes = n_bytes + sealed_file::OVERHEAD_BYTES * (2 + new.len() as u64);
        if n_bytes > self.left_bytes || (self.is_stopped)() {
            return Ok(None);
        }
        let mut has_room = self.write(&key, &description.head, head)?;
        for block in new {
            if !has_room || (self.is_stopped)() {
                return Ok(None);
            }
            let bytes = first_block.take().map_or_else(|| save_block(block), Ok)?;
            has_room = self.write(&key, &block.file, bytes)?;
        }
        let name = self.new_name();
        if !has_room || !self.write(&key, &name, json)? {
            return Ok(None);
        }
        let mut files = vec![name, description.head.clone()];
        files.extend(description.blocks.iter().map(|block| block.file.clone()));
        let listed = SavedConversation {
            id,
            key,
            files,
            n_tokens: tokens.len(),
        };
        Ok(Some(Saved {
            listed,
            description,
            is_of_this_load: true,
        }))
    }

    /// Returns the blocks whose tokens `tokens` begins with, and whose files exist.
    fn usable_blocks(&self, base: &Description, tokens: &[u32]) -> Vec<Block> {
        let n_shared = common_prefix_len(&base.tokens, tokens);
        let is_usable =
            |block: &&Block| block.tokens.end <= n_shared && self.folder.join(&block.file).exists();
        base.blocks.iter().take_while(is_usable).cloned().collect()
    }

    /// Returns the name of a new file.
    fn new_name(&mut self) -> String {
        let name = format!("{}-{}", self.prefix, self.n_files);
        *self.n_files += 1;
        name
    }

    /// Writes a new file. Returns false if there is no room for it.
    fn write(&mut self, key: &StateKey, name: &str, bytes: Vec<u8>) -> Result<bool, EngineError> {
        let n_bytes = bytes.len() as u64 + sealed_file::OVERHEAD_BYTES;
        let Some(left_bytes) = self.left_bytes.checked_sub(n_bytes) else {
            return Ok(false);
        };
        self.left_bytes = left_bytes;
        sealed_file::write(self.folder, name, key, bytes)
            .map_err(|error| EngineError::bad_file(self.folder.join(name), error))?;
        Ok(true)
    }
}

/// Returns how many tokens of `prompt` a conversation in memory begins with, at most.
pub(crate) fn tokens_in_memory(cache: &dyn SavableCache, prompt: &[u32]) -> usize {
    let all = cache.conversations().into_iter();
    let in_common = all.map(|one| common_prefix_len(one.tokens, prompt));
    in_common.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
