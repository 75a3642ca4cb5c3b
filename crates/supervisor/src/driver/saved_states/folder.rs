//! The folder with saved KV caches: adds, lists and removes conversations.
//!
//! Rule: what is not in the index does not exist. The index is written before files are removed,
//! and after files were added; files that it does not name are removed. Nothing here returns an
//! error, because a KV cache that is lost only costs a prefill.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transom_engine_host::{SavedConversation, SavedFolder, StateKey};
use transom_keychain::Secrets;

use super::index::{Entry, INDEX, Index, Place, file_bytes, remove};
use super::plan::{Disk, Stored, plan_save};
use crate::saving::{Forgotten, Saving};

/// What the name of a description ends with while a process restores the conversation.
const TAKEN: &str = ".taken";

/// Most saved conversations. The list of a model's conversations is read at each load.
const MAX_CONVERSATIONS: usize = 64;

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
    /// The bytes that processes may still write, by the prefix of their files.
    granted: HashMap<String, u64>,
}

impl Folder {
    /// Opens the folder, which exists, and removes what its index does not have.
    pub(super) fn open(path: PathBuf, saving: Saving, now: Duration) -> Self {
        let secrets = saving.secrets.as_deref();
        let master = secrets.and_then(|secrets| master_key(secrets, &account(&path)));
        let mut index = Index::read(&path).unwrap_or_default();
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
            granted: HashMap::new(),
        };
        if folder.index.needs_new_master {
            folder.replace_master();
        }
        folder.remove_expired(now);
        folder.write_index();
        folder.remove_unlisted("");
        folder
    }

    /// Counts written bytes from zero if a new day has begun. Called before all other work.
    pub(super) fn begin_day(&mut self, now: Duration) {
        let today = now.as_secs() / DAY.as_secs();
        if self.index.day != today {
            self.index.day = today;
            self.index.written_bytes = 0;
        }
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

    /// Makes room for KV caches of about `bytes` bytes, which the process with this prefix saves.
    /// Returns how many bytes it may write until [`Folder::saving_ended`]; 0 if none, as at the end
    /// of a supervisor whose KV caches do not outlive it.
    pub(super) fn make_room(&mut self, prefix: &str, bytes: u64, is_at_end: bool) -> u64 {
        if is_at_end && self.master.is_none() {
            return 0;
        }
        let limits = &self.saving.limits;
        let Some(free_bytes) = limits.free_bytes.or_else(|| free_bytes(&self.path)) else {
            return 0;
        };
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
            granted_bytes: self.granted_bytes(),
        };
        let plan = plan_save(&stored, bytes.saturating_add(OVERHEAD_BYTES), disk, limits);
        if plan.max_bytes == 0 {
            tracing::info!(?disk, "no KV cache is saved now");
            return 0;
        }
        self.remove_at(&plan.removed);
        let granted = self.granted.entry(prefix.to_owned()).or_default();
        *granted = granted.saturating_add(plan.max_bytes);
        // If this program is killed now, all of it counts as written.
        self.write_index();
        plan.max_bytes
    }

    fn granted_bytes(&self) -> u64 {
        self.granted.values().copied().fold(0, u64::saturating_add)
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
        if self.index.conversations.len() >= MAX_CONVERSATIONS {
            let by_age = self.index.conversations.iter().enumerate();
            let oldest = by_age.min_by_key(|(_, entry)| entry.used_at);
            let oldest: Vec<usize> = oldest.map(|(index, _)| index).into_iter().collect();
            self.remove_at(&oldest);
        }
        let names: HashSet<&str> = entry.files.iter().map(|(name, _)| &**name).collect();
        let former = former.map_or_else(Vec::new, |former| former.files);
        let unused: Vec<String> = former
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !names.contains(&**name))
            .collect();
        self.index.conversations.push(entry);
        self.index.written_bytes = self.index.written_bytes.saturating_add(new_bytes);
        if let Some(granted) = self.granted.get_mut(prefix) {
            *granted = granted.saturating_sub(new_bytes);
        }
        self.write_index();
        for name in unused {
            remove(&self.path.join(name));
        }
    }

    /// Deletes conversations: their files, and their keys for good.
    pub(super) fn forget(&mut self, which: &Forgotten) {
        let removed = self.take_where(|entry| entry.is_of(which));
        // Also if none is saved now: the disk may still have an index with its key.
        self.replace_master();
        self.write_index();
        self.remove_files(&removed);
    }

    /// Handles that the process with this prefix has saved all that it was told to: removes files
    /// that it did not complete, which count as written.
    pub(super) fn saving_ended(&mut self, prefix: &str) {
        let removed_bytes = self.remove_unlisted(prefix);
        let written_bytes = &mut self.index.written_bytes;
        *written_bytes = written_bytes.saturating_add(removed_bytes);
        self.granted.remove(prefix);
        self.write_index();
    }

    /// Handles that the process with this prefix has ended: removes files that it did not complete,
    /// and conversations of its model that it could not read.
    pub(super) fn process_ended(&mut self, place: &Place, prefix: &str) {
        let path = self.path.clone();
        self.remove_where(|entry| entry.place == *place && !entry.is_complete(&path));
        self.saving_ended(prefix);
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

    /// Removes the conversations with these numbers.
    fn remove_at(&mut self, indices: &[usize]) {
        let mut index = 0..;
        self.remove_where(|_| index.next().is_some_and(|index| indices.contains(&index)));
    }

    fn remove_where(&mut self, is_removed: impl FnMut(&Entry) -> bool) {
        let removed = self.take_where(is_removed);
        if !removed.is_empty() {
            self.write_index();
            self.remove_files(&removed);
        }
    }

    fn take_where(&mut self, mut is_taken: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        let entries = std::mem::take(&mut self.index.conversations).into_iter();
        let (taken, kept) = entries.partition(|entry| is_taken(entry));
        self.index.conversations = kept;
        taken
    }

    fn remove_files(&self, entries: &[Entry]) {
        for (name, _) in entries.iter().flat_map(|entry| &entry.files) {
            remove(&self.path.join(name));
            remove(&self.path.join(format!("{name}{TAKEN}")));
        }
    }

    /// Replaces the master key, so that what the disk still has of former indexes opens nothing. A
    /// program without the keychain leaves that to the next one with it.
    fn replace_master(&mut self) {
        self.index.needs_new_master = true;
        let secrets = self.saving.secrets.as_deref();
        let (Some(secrets), Some(master)) = (secrets, StateKey::random()) else {
            return;
        };
        if self.master.is_none() {
            return;
        }
        if let Err(error) = secrets.set(&account(&self.path), &master.to_text()) {
            tracing::warn!(%error, "the key of saved KV caches was not replaced");
            return;
        }
        for entry in &mut self.index.conversations {
            let key = entry.key.as_ref();
            entry.sealed_key = key.and_then(|key| key.sealed_with(&master));
        }
        self.master = Some(master);
        self.index.needs_new_master = false;
    }

    /// Writes the index with the conversations whose keys outlive this program.
    fn write_index(&self) {
        let listed = self.index.conversations.iter();
        let written_bytes = self.index.written_bytes;
        let index = Index {
            day: self.index.day,
            written_bytes: written_bytes.saturating_add(self.granted_bytes()),
            needs_new_master: self.index.needs_new_master,
            conversations: listed
                .filter(|entry| entry.sealed_key.is_some())
                .cloned()
                .collect(),
        };
        index.write(&self.path);
    }

    /// Removes all files whose names begin with `prefix` and that are not in the index. Returns
    /// their bytes.
    fn remove_unlisted(&self, prefix: &str) -> u64 {
        let entries = self.index.conversations.iter();
        let names = entries.flat_map(|entry| entry.files.iter().map(|(name, _)| &**name));
        let listed: HashSet<&str> = names.chain([INDEX]).collect();
        let mut removed_bytes = 0;
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // A process may be restoring it.
            let original = name.strip_suffix(TAKEN);
            let is_taken = original.is_some_and(|original| {
                listed.contains(original) && !self.path.join(original).exists()
            });
            if name.starts_with(prefix) && !listed.contains(&*name) && !is_taken {
                removed_bytes += file_bytes(&entry.path()).unwrap_or(0);
                remove(&entry.path());
            }
        }
        removed_bytes
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

/// Returns true if a process with this prefix may give a new file this name.
fn is_new_name(name: &str, prefix: &str) -> bool {
    let number = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the bytes that this user can still write; `None` if the system does not report it.
///
/// Space that a Mac would have to clear does not count: a cache is not worth it.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests;
