//! The index of saved KV caches: what is saved, of which model and conversation, and the key of each
//! conversation, encrypted with a master key that is in the keychain.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::ConversationId;
use transom_engine_host::StateKey;

use crate::request::ModelSelector;
use crate::saving::Forgotten;

/// The name of the index, and of a new one that is not complete.
pub(super) const INDEX: &str = "index";
pub(super) const NEW_INDEX: &str = "index.unfinished";

/// Largest index that is read, in bytes.
const MAX_INDEX_BYTES: u64 = 16 << 20;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Index {
    /// The day of `written_bytes`, counted from 1970.
    pub(super) day: u64,
    /// Bytes that were written on this day. In the file, also those that may still be written.
    pub(super) written_bytes: u64,
    /// True if something was deleted, but the master key is still the one from before.
    #[serde(default)]
    pub(super) needs_new_master: bool,
    pub(super) conversations: Vec<Entry>,
}

/// The KV cache of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) id: Option<ConversationId>,
    pub(super) n_tokens: usize,
    /// When it was used last; time since 1970.
    pub(super) used_at: Duration,
    /// The name and the size in bytes of each file.
    pub(super) files: Vec<(String, u64)>,
    /// `None` if the key is in memory only.
    pub(super) sealed_key: Option<Vec<u8>>,
    /// `None` if there is no master key that opens it. Its files still count.
    #[serde(skip)]
    pub(super) key: Option<StateKey>,
}

/// What must be equal for a KV cache to be valid. The engine checks more precisely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The id of the model, as a hash.
    pub(super) model: String,
    /// Its files and the type of the KV cache, as a hash.
    pub(super) files: String,
}

impl Index {
    /// Returns the index in `folder`; `None` if there is none, or it is damaged.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let json = transom_files::read(&folder.join(INDEX), MAX_INDEX_BYTES).ok()?;
        let index = serde_json::from_slice(&json);
        index
            .inspect_err(|error| tracing::warn!(%error, "the index of saved KV caches is damaged"))
            .ok()
    }

    /// Writes the index, unless it is empty. If that fails, there is none.
    pub(super) fn write(&self, folder: &Path) {
        let path = folder.join(INDEX);
        let empty = Self {
            day: self.day,
            ..Self::default()
        };
        if *self == empty {
            return remove(&path);
        }
        let new = folder.join(NEW_INDEX);
        let written = self.write_new(&new).and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            tracing::warn!(%error, "the index of saved KV caches could not be written");
            remove(&path);
        }
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let json = serde_json::to_vec(self).map_err(io::Error::other)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)?.write_all(&json)
    }
}

impl Entry {
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.files.iter().map(|(_, bytes)| bytes);
        bytes.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.iter().any(|(other, _)| other == name)
    }

    pub(super) fn is_complete(&self, folder: &Path) -> bool {
        let is_there = |(name, bytes): &(String, u64)| {
            let is_name = Path::new(name)
                .file_name()
                .is_some_and(|file| file == name.as_str());
            is_name && file_bytes(&folder.join(name)) == Some(*bytes)
        };
        !self.files.is_empty() && self.files.iter().all(is_there)
    }

    pub(super) fn is_of(&self, which: &Forgotten) -> bool {
        includes(which, &self.place.model, self.id)
    }
}

/// Returns true if `which` includes a conversation with a model, of which this is the hash.
pub(super) fn includes(which: &Forgotten, model: &str, id: Option<ConversationId>) -> bool {
    match which {
        Forgotten::Of(ModelSelector::All) => true,
        Forgotten::Of(ModelSelector::Model(other)) => super::hash_hex(other) == model,
        Forgotten::Conversation(other) => id == Some(*other),
    }
}

/// Returns the size of a regular file.
pub(super) fn file_bytes(path: &Path) -> Option<u64> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a saved KV cache could not be removed");
        }
    }
}
