//! The folder with saved KV caches and its index: what is saved, of which model and conversation,
//! and the key of each conversation, encrypted with a master key that is in the keychain.
//!
//! Rule: what is not in the index does not exist. The index is written before files are removed,
//! and after files were added; files that it does not name are removed. Nothing here returns an
//! error, because a KV cache that is lost only costs a prefill.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_engine::ConversationId;
use transom_engine_host::{SavedConversation, SavedFolder, StateKey};
use transom_keychain::Secrets;

use super::plan::{Disk, Stored, plan_save};
use crate::request::ModelSelector;
use crate::saving::{Forgotten, Saving};

/// The name of the index, and of a new one that is not complete.
const INDEX: &str = "index";
const NEW_INDEX: &str = "index.unfinished";

/// Largest index that is read, in bytes.
const MAX_INDEX_BYTES: u64 = 16 << 20;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Maximum time between two checks of the ages, because timers stop while the machine sleeps but
/// files get older.
const AGE_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Bytes that are written in addition to KV caches: tokens, descriptions and tags.
const OVERHEAD_BYTES: u64 = 16 << 20;

/// The folder, while this supervisor uses it.
pub(super) struct Folder {
    path: PathBuf,
    saving: Saving,
    /// Encrypts the keys in the index. `None` if there is no keychain: then new keys are in memory
    /// only.
    master: Option<StateKey>,
    index: Index,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    /// The day of `written_bytes`, counted from 1970.
    day: u64,
    /// Bytes that were written on this day.
    written_bytes: u64,
    conversations: Vec<Entry>,
}

/// The KV cache of a conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    place: Place,
    id: Option<ConversationId>,
    n_tokens: usize,
    /// When it was used last; time since 1970.
    used_at: Duration,
    /// The name and the size in bytes of each file.
    files: Vec<(String, u64)>,
    /// `None` if the key is in memory only.
    sealed_key: Option<Vec<u8>>,
    /// `None` if there is no master key that opens it. Its files still count.
    #[serde(skip)]
    key: Option<StateKey>,
}

/// What must be equal for a KV cache to be valid. The engine checks more precisely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The id of the model, as a hash.
    pub(super) model: String,
    /// Its files and the type of the KV cache, as a hash.
    pub(super) files: String,
}

impl Entry {
    fn bytes(&self) -> u64 {
        let bytes = self.files.iter().map(|(_, bytes)| bytes);
        bytes.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|(other, _)| other == name)
    }

    fn is_complete(&self, folder: &Path) -> bool {
        let is_there = |(name, bytes): &(String, u64)| {
            let is_name = Path::new(name)
                .file_name()
                .is_some_and(|file| file == name.as_str());
            is_name && file_bytes(&folder.join(name)) == Some(*bytes)
        };
        !self.files.is_empty() && self.files.iter().all(is_there)
    }

    fn is_of(&self, which: &Forgotten) -> bool {
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

impl Folder {
    /// Opens the folder, which exists, and removes what its index does not have.
    pub(super) fn open(path: PathBuf, saving: Saving, now: Duration) -> Self {
        let secrets = saving.secrets.as_deref();
        let master = secrets.and_then(|secrets| master_key(secrets, &account(&path)));
        let mut index = read_index(&path).unwrap_or_default();
        for entry in &mut index.conversations {
            let sealed = master.as_ref().zip(entry.sealed_key.as_deref());
            entry.key = sealed.and_then(|(master, sealed)| StateKey::opened_with(master, sealed));
        }
        // Without a keychain, another program may have the master key. With one, an entry that it
        // does not open can never be read.
        let is_usable = |entry: &Entry| entry.key.is_some() || master.is_none();
        index
            .conversations
            .retain(|entry| is_usable(entry) && entry.is_complete(&path));
        let mut folder = Self {
            path,
            saving,
            master,
            index,
        };
        folder.remove_expired(now);
        folder.write_index();
        folder.remove_unlisted("");
        folder
    }

    /// Returns the saved conversations for a model.
    pub(super) fn for_load(&self, place: &Place, prefix: &str) -> SavedFolder {
        let entries = self.index.conversations.iter();
        let mut entries: Vec<_> = entries.filter(|entry| entry.place == *place).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used_at));
        let listed = entries.into_iter().filter_map(|entry| {
            Some(SavedConversation {
                id: entry.id,
                key: entry.key.clone()?,
                files: entry.files.iter().map(|(name, _)| name.clone()).collect(),
                n_tokens: entry.n_tokens,
            })
        });
        SavedFolder {
            path: self.path.clone(),
            prefix: prefix.to_owned(),
            conversations: listed.collect(),
        }
    }

    /// Makes room for KV caches of about `bytes` bytes. Returns how many bytes may be written; 0 if
    /// none, as at the end of a supervisor whose KV caches do not outlive it.
    pub(super) fn make_room(&mut self, bytes: u64, is_at_end: bool, now: Duration) -> u64 {
        if is_at_end && self.master.is_none() {
            return 0;
        }
        let limits = &self.saving.limits;
        let Some(free_bytes) = limits.free_bytes.or_else(|| free_bytes(&self.path)) else {
            return 0;
        };
        let today = now.as_secs() / DAY.as_secs();
        if self.index.day != today {
            self.index.day = today;
            self.index.written_bytes = 0;
        }
        let entries = self.index.conversations.iter();
        let stored: Vec<_> = entries
            .map(|entry| Stored {
                bytes: entry.bytes(),
                used_at: u64::try_from(entry.used_at.as_millis()).unwrap_or(u64::MAX),
            })
            .collect();
        let disk = Disk {
            free_bytes,
            written_bytes: self.index.written_bytes,
        };
        let plan = plan_save(&stored, bytes.saturating_add(OVERHEAD_BYTES), disk, limits);
        if plan.max_bytes == 0 {
            let written_bytes = self.index.written_bytes;
            tracing::info!(free_bytes, written_bytes, "no KV cache is saved now");
        }
        let mut index = 0;
        self.remove_where(|_| {
            index += 1;
            plan.removed.contains(&(index - 1))
        });
        plan.max_bytes
    }

    /// Adds a conversation that a model has saved, in place of an earlier state of it. Ignores one
    /// whose new files do not begin with `prefix`, or are not there.
    pub(super) fn add(
        &mut self,
        place: &Place,
        prefix: &str,
        saved: SavedConversation,
        used_at: Duration,
    ) {
        let entries = &mut self.index.conversations;
        let is_same = |entry: &Entry| entry.key.as_ref() == Some(&saved.key);
        let former = entries.iter().position(is_same);
        let former = former.map(|index| entries.swap_remove(index));
        let mut new_bytes = 0;
        let mut files = Vec::new();
        for name in saved.files {
            let is_former = former.as_ref().is_some_and(|former| former.has(&name));
            let bytes = file_bytes(&self.path.join(&name));
            match bytes.filter(|_| is_former || is_new_name(&name, prefix)) {
                Some(bytes) => {
                    new_bytes += if is_former { 0 } else { bytes };
                    files.push((name, bytes));
                }
                None => {
                    tracing::warn!("a saved conversation is not complete");
                    entries.extend(former);
                    return;
                }
            }
        }
        let seal = || saved.key.sealed_with(self.master.as_ref()?);
        let sealed = former.as_ref().and_then(|former| former.sealed_key.clone());
        let entry = Entry {
            place: place.clone(),
            id: saved.id,
            n_tokens: saved.n_tokens,
            used_at,
            files,
            sealed_key: sealed.or_else(seal),
            key: Some(saved.key),
        };
        let names: HashSet<&str> = entry.files.iter().map(|(name, _)| &**name).collect();
        let former = former.map_or_else(Vec::new, |former| former.files);
        let unused: Vec<String> = former
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !names.contains(&**name))
            .collect();
        self.index.conversations.push(entry);
        self.index.written_bytes = self.index.written_bytes.saturating_add(new_bytes);
        self.write_index();
        for name in unused {
            remove(&self.path.join(name));
        }
    }

    /// Deletes conversations: their files, and their keys for good.
    pub(super) fn forget(&mut self, which: &Forgotten) {
        if self
            .index
            .conversations
            .iter()
            .any(|entry| entry.is_of(which))
        {
            self.replace_master(which);
            self.remove_where(|entry| entry.is_of(which));
        }
    }

    /// Handles that a process with this prefix has ended: removes files that it did not complete,
    /// and conversations of its model that it could not read.
    pub(super) fn process_ended(&mut self, place: &Place, prefix: &str) {
        let path = self.path.clone();
        self.remove_where(|entry| entry.place == *place && !entry.is_complete(&path));
        self.remove_unlisted(prefix);
    }

    /// Removes conversations that were not used for too long. Returns the time until the next check;
    /// `None` if there are none.
    pub(super) fn remove_expired(&mut self, now: Duration) -> Option<Duration> {
        let max_age = self.saving.limits.max_age;
        // An entry from the future, as after the clock was set back, is new.
        self.remove_where(|entry| now.saturating_sub(entry.used_at) >= max_age);
        let left = self
            .index
            .conversations
            .iter()
            .map(|entry| max_age.saturating_sub(now.saturating_sub(entry.used_at)));
        Some(left.min()?.min(AGE_CHECK_INTERVAL))
    }

    /// Removes the conversations whose keys are in memory only.
    pub(super) fn close(mut self) {
        self.remove_where(|entry| entry.sealed_key.is_none());
        self.write_index();
    }

    fn remove_where(&mut self, mut is_removed: impl FnMut(&Entry) -> bool) {
        let entries = std::mem::take(&mut self.index.conversations).into_iter();
        let (removed, kept): (Vec<_>, Vec<_>) = entries.partition(|entry| is_removed(entry));
        self.index.conversations = kept;
        if removed.is_empty() {
            return;
        }
        self.write_index();
        for (name, _) in removed.iter().flat_map(|entry| &entry.files) {
            remove(&self.path.join(name));
            remove(&self.path.join(name).with_added_extension("taken"));
        }
    }

    /// Replaces the master key, so that what the disk still has of the former index opens nothing.
    fn replace_master(&mut self, which: &Forgotten) {
        let Some(secrets) = self
            .saving
            .secrets
            .as_deref()
            .filter(|_| self.master.is_some())
        else {
            return;
        };
        let Some(master) = StateKey::random() else {
            return;
        };
        if let Err(error) = secrets.set(&account(&self.path), &master.to_text()) {
            tracing::warn!(%error, "the key of saved KV caches was not replaced");
            return;
        }
        let kept = self.index.conversations.iter_mut();
        for entry in kept.filter(|entry| !entry.is_of(which)) {
            let key = entry.key.as_ref();
            entry.sealed_key = key.and_then(|key| key.sealed_with(&master));
        }
        self.master = Some(master);
    }

    /// Writes the index. If that fails, there is none.
    fn write_index(&self) {
        let listed = self.index.conversations.iter();
        let index = Index {
            day: self.index.day,
            written_bytes: self.index.written_bytes,
            conversations: listed
                .filter(|entry| entry.sealed_key.is_some())
                .cloned()
                .collect(),
        };
        let path = self.path.join(INDEX);
        if index.conversations.is_empty() && index.written_bytes == 0 {
            return remove(&path);
        }
        let new = self.path.join(NEW_INDEX);
        let written = write_private(&new, &index).and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            tracing::warn!(%error, "the index of saved KV caches could not be written");
            remove(&path);
        }
    }

    /// Removes all files whose names begin with `prefix` and that are not in the index.
    fn remove_unlisted(&self, prefix: &str) {
        let entries = self.index.conversations.iter();
        let listed: HashMap<&str, u64> = entries
            .flat_map(|entry| entry.files.iter().map(|(name, bytes)| (&**name, *bytes)))
            .chain([(INDEX, 0)])
            .collect();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(prefix) && !listed.contains_key(&*name) {
                remove(&entry.path());
            }
        }
    }
}

/// The name of the master key in the keychain.
fn account(folder: &Path) -> String {
    format!("saved KV caches in {}", folder.display())
}

/// Returns the master key, which is created if there is none; `None` without a keychain.
fn master_key(secrets: &dyn Secrets, account: &str) -> Option<StateKey> {
    let found = secrets.get(account);
    let known = found.map(|text| text.and_then(|text| StateKey::from_text(&text)));
    let created = known.and_then(|known| match (known, StateKey::random()) {
        (Some(known), _) => Ok(Some(known)),
        (None, Some(new)) => secrets.set(account, &new.to_text()).map(|()| Some(new)),
        (None, None) => Ok(None),
    });
    created.unwrap_or_else(|error| {
        tracing::info!(%error, "saved KV caches are lost when this program ends");
        None
    })
}

fn read_index(folder: &Path) -> Option<Index> {
    let path = folder.join(INDEX);
    file_bytes(&path).filter(|bytes| *bytes <= MAX_INDEX_BYTES)?;
    let index = serde_json::from_slice(&fs::read(path).ok()?);
    index
        .inspect_err(|error| tracing::warn!(%error, "the index of saved KV caches is damaged"))
        .ok()
}

fn write_private(path: &Path, index: &Index) -> io::Result<()> {
    let json = serde_json::to_vec(index).map_err(io::Error::other)?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(&json)
}

/// Returns true if a process with this prefix may give a new file this name.
fn is_new_name(name: &str, prefix: &str) -> bool {
    let number = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the size of a regular file.
fn file_bytes(path: &Path) -> Option<u64> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Returns the bytes that this user can still write; `None` if the system does not report it.
///
/// Space that a Mac would have to clear does not count: a cache is not worth it.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a saved KV cache could not be removed");
        }
    }
}

#[cfg(test)]
mod tests;
