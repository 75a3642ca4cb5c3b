//! Saves the KV cache of a conversation in a file.
//!
//! The file has the format of llama.cpp's session files, because llama.cpp writes and reads those
//! layer by layer: the cache is never in memory twice. Our own data is in place of the session
//! file's tokens, as 32-bit words:
//!
//! | words | content |
//! |---|---|
//! | 1 | checksum of all other bytes of the file |
//! | 1 | length of the header in bytes |
//! | | the header, JSON, padded with spaces |
//! | `n_tokens` | tokens |
//! | | states of each checkpoint, padded with zeros |
//!
//! Rule: llama.cpp trusts the file, so the checksum is verified before llama.cpp reads it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transom_engine::{ConversationId, EngineError, ModelInfo};

use crate::device::describe_cache;
use crate::native::WORDS_OFFSET;
use crate::session::{CacheConfig, CachedConversation, Checkpoint, Session};

const VERSION: u32 = 2;

/// Maximum length of the header, in bytes.
const MAX_HEADER: usize = 4096;

/// Bytes up to the end of the checksum, which is the first word.
const FIXED_BYTES: usize = WORDS_OFFSET as usize + 4;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    transom_conversation: u32,
    model: Value,
    n_tokens: usize,
    n_exact: usize,
    conversation: Option<ConversationId>,
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
    })
}

/// Writes the conversation; see [`transom_engine::LoadedModel::save_state`].
pub(crate) fn save(session: &Session, info: &ModelInfo, path: &Path) -> Result<usize, EngineError> {
    let conversation = session.conversation();
    let n_tokens = conversation.tokens.len();
    if n_tokens == 0 {
        return Ok(0);
    }
    // Never overwrites a file, and is never readable for others.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .map_err(|error| EngineError::bad_file(path, error))?;
    let written = encode_words(&header(conversation, info, session.config()), conversation)
        .and_then(|words| write(session, &words, path));
    written.map_err(|error| {
        // An incomplete file is useless.
        let _ = fs::remove_file(path);
        EngineError::bad_file(path, error)
    })?;
    Ok(n_tokens)
}

fn header(conversation: &CachedConversation, info: &ModelInfo, config: &CacheConfig) -> Header {
    let checkpoints = conversation.checkpoints.iter();
    Header {
        transom_conversation: VERSION,
        model: identity(info, config),
        n_tokens: conversation.tokens.len(),
        n_exact: conversation.n_exact,
        conversation: conversation.id,
        dropped_messages: conversation.dropped_messages,
        checkpoints: checkpoints
            .map(|checkpoint| CheckpointHeader {
                n_tokens: checkpoint.n_tokens,
                n_bytes: checkpoint.states.len(),
            })
            .collect(),
    }
}

/// Returns our own data, with a checksum of 0.
fn encode_words(header: &Header, conversation: &CachedConversation) -> io::Result<Vec<u32>> {
    let mut json = serde_json::to_vec(header)?;
    json.resize(json.len().next_multiple_of(4), b' ');
    if json.len() > MAX_HEADER {
        let reason = format!("its header would have {} bytes", json.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut words = vec![0, json.len() as u32];
    words.extend(to_words(&json));
    words.extend(&conversation.tokens);
    for checkpoint in &conversation.checkpoints {
        words.extend(to_words(&checkpoint.states));
    }
    Ok(words)
}

fn write(session: &Session, words: &[u32], path: &Path) -> io::Result<()> {
    session.save_file(path, words)?;
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut start = [0; FIXED_BYTES];
    file.read_exact(&mut start)?;
    let mut hasher = Hasher::new();
    hasher.update(&start[..FIXED_BYTES - 4]);
    hash_rest(&mut file, &mut hasher)?;
    file.seek(SeekFrom::Start(WORDS_OFFSET))?;
    file.write_all(&hasher.finalize().to_ne_bytes())
}

/// Restores the conversation; see [`transom_engine::LoadedModel::restore_state`].
pub(crate) fn restore(
    session: &mut Session,
    info: &ModelInfo,
    path: &Path,
) -> Result<usize, EngineError> {
    let (n_words, conversation) = read(session, info, path)?;
    let n_tokens = conversation.tokens.len();
    if session.load_file(conversation, path, n_words)? {
        Ok(n_tokens)
    } else {
        Err(EngineError::bad_file(
            path,
            "llama.cpp does not take its contents",
        ))
    }
}

/// Checks the whole file. Returns the number of words and their contents.
fn read(
    session: &Session,
    info: &ModelInfo,
    path: &Path,
) -> Result<(usize, CachedConversation), EngineError> {
    let too_short = "it is not as long as it says";
    let bad = |reason: &str| EngineError::bad_file(path, reason);
    let failed = |error| EngineError::bad_file(path, error);
    let file = File::open(path).map_err(failed)?;
    let n_bytes = file.metadata().map_err(failed)?.len();
    let mut file = BufReader::new(file);
    let mut start = [0; FIXED_BYTES];
    file.read_exact(&mut start).map_err(failed)?;
    let fixed: Vec<u32> = to_words(&start).collect();
    let (n_words, checksum) = (fixed[2] as usize, fixed[3]);
    if n_words == 0 || WORDS_OFFSET + 4 * n_words as u64 > n_bytes {
        return Err(bad(too_short));
    }
    let mut bytes = vec![0; 4 * (n_words - 1)];
    file.read_exact(&mut bytes).map_err(failed)?;
    let mut reader = ByteReader(&bytes);
    let length = reader.take(4).and_then(|bytes| to_words(bytes).next());
    let length = length.map(|n| n as usize).filter(|n| *n <= MAX_HEADER);
    let json = length.and_then(|n| reader.take(n));
    let header = json.and_then(|json| serde_json::from_slice::<Header>(json).ok());
    let Some(header) = header else {
        return Err(bad("its header cannot be read"));
    };
    let expected = identity(info, session.config());
    if header.transom_conversation != VERSION || header.model != expected {
        return Err(bad("it belongs to another model or version"));
    }
    let mut hasher = Hasher::new();
    hasher.update(&start[..FIXED_BYTES - 4]);
    hasher.update(&bytes);
    hash_rest(&mut file, &mut hasher).map_err(failed)?;
    if hasher.finalize() != checksum {
        return Err(bad("its checksum is wrong"));
    }
    let conversation = reader.conversation(&header).ok_or_else(|| bad(too_short))?;
    if let Some(reason) = problem(&conversation, info) {
        return Err(bad(&reason));
    }
    Ok((n_words, conversation))
}

/// Returns why the model of `info` cannot use a conversation.
fn problem(conversation: &CachedConversation, info: &ModelInfo) -> Option<String> {
    let n_tokens = conversation.tokens.len();
    if n_tokens > info.context_length {
        return Some(format!(
            "it has {n_tokens} tokens, but the context holds {}",
            info.context_length
        ));
    }
    let is_unknown = |token: &u32| *token as usize >= info.vocab_size;
    if conversation.tokens.iter().any(is_unknown) {
        return Some("it has tokens that the model does not know".to_owned());
    }
    let checkpoints = conversation.checkpoints.iter();
    let last = checkpoints.map(|checkpoint| checkpoint.n_tokens).max();
    let last = last.unwrap_or(0).max(conversation.n_exact);
    (last > n_tokens).then(|| format!("it names token {last} of {n_tokens}"))
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(part)
    }

    /// Reads what the header announces; `None` if there are fewer or more bytes.
    fn conversation(mut self, header: &Header) -> Option<CachedConversation> {
        let tokens = self.take(header.n_tokens.checked_mul(4)?)?;
        let mut checkpoints = Vec::new();
        for checkpoint in &header.checkpoints {
            let states = self.take(checkpoint.n_bytes.checked_next_multiple_of(4)?)?;
            checkpoints.push(Checkpoint {
                n_tokens: checkpoint.n_tokens,
                states: states[..checkpoint.n_bytes].to_vec(),
            });
        }
        self.0.is_empty().then(|| CachedConversation {
            tokens: to_words(tokens).collect(),
            n_exact: header.n_exact,
            id: header.conversation,
            dropped_messages: header.dropped_messages,
            checkpoints,
        })
    }
}

/// Returns bytes as words in this machine's byte order, as llama.cpp writes them; the last word is
/// padded with zeros.
fn to_words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks(4).map(|part| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        u32::from_ne_bytes(word)
    })
}

fn hash_rest(file: &mut impl Read, hasher: &mut Hasher) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => hasher.update(&buffer[..n]),
        }
    }
}
