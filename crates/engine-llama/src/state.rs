//! A conversation's keys and values in a file.
//!
//! A line of JSON that says what it is, the tokens as little-endian `u32`, and llama.cpp's own form
//! of the cache. The checksum is there because llama.cpp trusts that form: a file that was damaged is
//! refused before llama.cpp sees it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use transom_engine::{EngineError, ModelInfo};

use crate::session::Session;

/// Version of the form.
const VERSION: u32 = 1;

/// Longest first line, in bytes.
const MAX_HEAD: u64 = 4096;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    transom_conversation: u32,
    model: Identity,
    n_tokens: usize,
    state_bytes: usize,
    crc32: u32,
}

/// What the cache's form depends on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    engine: String,
    name: String,
    architecture: String,
    n_parameters: u64,
    stored_as: String,
    computed_as: String,
}

impl Identity {
    fn of(info: &ModelInfo) -> Self {
        Self {
            engine: info.engine.clone(),
            name: info.name.clone(),
            architecture: info.architecture.clone(),
            n_parameters: info.n_parameters,
            stored_as: info.stored_as.clone(),
            computed_as: info.computed_as.clone(),
        }
    }
}

/// Writes the conversation; see [`transom_engine::LoadedModel::save_state`].
pub(crate) fn save(session: &Session, info: &ModelInfo, path: &Path) -> Result<usize, EngineError> {
    let Some(state) = session.state() else {
        return Ok(0);
    };
    let tokens = token_bytes(session.tokens());
    let head = Head {
        transom_conversation: VERSION,
        model: Identity::of(info),
        n_tokens: session.tokens().len(),
        state_bytes: state.len(),
        crc32: checksum(&tokens, &state),
    };
    // Never over a file that is there.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(|error| bad_file(path, error))?;
    write(file, &head, &tokens, &state).map_err(|error| {
        // Half a file is of no use to anybody.
        let _ = fs::remove_file(path);
        bad_file(path, error)
    })?;
    Ok(session.tokens().len())
}

fn write(file: File, head: &Head, tokens: &[u8], state: &[u8]) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    serde_json::to_writer(&mut file, head)?;
    file.write_all(b"\n")?;
    file.write_all(tokens)?;
    file.write_all(state)?;
    file.flush()
}

/// Takes it up again; see [`transom_engine::LoadedModel::restore_state`].
pub(crate) fn restore(
    session: &mut Session,
    info: &ModelInfo,
    path: &Path,
) -> Result<usize, EngineError> {
    let (head, rest) = read(path).map_err(|error| bad_file(path, error))?;
    if head.transom_conversation != VERSION || head.model != Identity::of(info) {
        return Err(bad_file(path, "it belongs to another model or version"));
    }
    let n_token_bytes = head.n_tokens.checked_mul(4);
    let split = n_token_bytes.and_then(|at| rest.split_at_checked(at));
    let Some((tokens, state)) = split.filter(|(_, state)| state.len() == head.state_bytes) else {
        return Err(bad_file(path, "it is not as long as it says"));
    };
    if checksum(tokens, state) != head.crc32 {
        return Err(bad_file(path, "its checksum is wrong"));
    }
    let tokens: Vec<u32> = tokens
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    if tokens.len() > info.context_length {
        return Err(bad_file(
            path,
            format!(
                "it has {} tokens, but the context holds {}",
                tokens.len(),
                info.context_length
            ),
        ));
    }
    if tokens
        .iter()
        .any(|&token| token as usize >= info.vocab_size)
    {
        return Err(bad_file(path, "it has tokens that the model does not know"));
    }
    let n_tokens = tokens.len();
    if session.set_state(tokens, state)? {
        Ok(n_tokens)
    } else {
        Err(bad_file(path, "llama.cpp does not take its contents"))
    }
}

fn read(path: &Path) -> std::io::Result<(Head, Vec<u8>)> {
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    file.by_ref().take(MAX_HEAD).read_until(b'\n', &mut line)?;
    let head = serde_json::from_slice(&line)?;
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    Ok((head, rest))
}

fn token_bytes(tokens: &[u32]) -> Vec<u8> {
    tokens
        .iter()
        .flat_map(|token| token.to_le_bytes())
        .collect()
}

fn checksum(tokens: &[u8], state: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(tokens);
    hasher.update(state);
    hasher.finalize()
}

fn bad_file(path: &Path, reason: impl ToString) -> EngineError {
    EngineError::BadFile {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
