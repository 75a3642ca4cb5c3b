mod limits;

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;
use transom_engine::ConversationId;
use transom_keychain::{MemorySecrets, SecretsError};

use super::super::index::NEW_INDEX;
use super::*;
use crate::request::ModelSelector;
use crate::saving::SavingLimits;

const HOUR: Duration = Duration::from_secs(3600);
const NOW: Duration = Duration::from_secs(20_000 * 24 * 3600);

/// A keychain that can be read, but not changed, as one that is locked later.
#[derive(Debug)]
struct LockedSecrets(Arc<dyn Secrets>);

impl Secrets for LockedSecrets {
    fn get(&self, account: &str) -> Result<Option<transom_keychain::Secret>, SecretsError> {
        self.0.get(account)
    }

    fn set(&self, _: &str, _: &str) -> Result<(), SecretsError> {
        Err(SecretsError::Refused("locked".to_owned()))
    }

    fn delete(&self, _: &str) -> Result<(), SecretsError> {
        Err(SecretsError::Refused("locked".to_owned()))
    }
}

/// A keychain that refuses everything, as one without a user.
#[derive(Debug)]
struct NoSecrets;

impl Secrets for NoSecrets {
    fn get(&self, _: &str) -> Result<Option<transom_keychain::Secret>, SecretsError> {
        Err(SecretsError::Unavailable("no session".to_owned()))
    }

    fn set(&self, _: &str, _: &str) -> Result<(), SecretsError> {
        Err(SecretsError::Unavailable("no session".to_owned()))
    }

    fn delete(&self, _: &str) -> Result<(), SecretsError> {
        Err(SecretsError::Unavailable("no session".to_owned()))
    }
}

fn place(model: &str) -> Place {
    Place {
        model: super::super::hash_hex(model),
        files: "files".to_owned(),
    }
}

/// A folder on the disk, and the keychain.
struct Disk {
    folder: TempDir,
    saving: Saving,
}

impl Disk {
    fn new(secrets: Option<Arc<dyn Secrets>>) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            saving: Saving {
                limits: SavingLimits {
                    max_bytes: 64 << 20,
                    ..SavingLimits::on_a_large_disk()
                },
                secrets,
            },
        }
    }

    fn with_keychain() -> Self {
        Self::new(Some(Arc::new(MemorySecrets::default())))
    }

    fn open(&self, now: Duration) -> Folder {
        Folder::open(self.folder.path().to_owned(), self.saving.clone(), now)
    }

    /// Opens the folder as a program with other access to the keychain.
    fn open_with(&self, secrets: Option<Arc<dyn Secrets>>) -> Folder {
        let saving = Saving {
            secrets,
            ..self.saving.clone()
        };
        Folder::open(self.folder.path().to_owned(), saving, NOW)
    }

    /// Returns the master key.
    fn master(&self) -> StateKey {
        let secrets = self.saving.secrets.as_deref().unwrap();
        let text = secrets.get(&account(self.folder.path())).unwrap().unwrap();
        StateKey::from_text(&text).unwrap()
    }

    /// Writes files of a new conversation with the model `chat`, as the process with this prefix.
    fn write(&self, id: u64, prefix: &str, n_files: usize, n_bytes: usize) -> SavedConversation {
        let names = (0..n_files).map(|number| {
            let name = format!("{prefix}-{id}{number}");
            fs::write(self.folder.path().join(&name), vec![id as u8; n_bytes]).unwrap();
            name
        });
        SavedConversation {
            id: Some(ConversationId(id)),
            key: StateKey::random().unwrap(),
            files: names.collect(),
            n_tokens: 9,
        }
    }

    fn save(&self, folder: &mut Folder, id: u64, now: Duration) -> SavedConversation {
        let saved = self.write(id, "p", 2, 10);
        folder.add(&place("chat"), "p", saved.clone(), now);
        saved
    }

    /// Returns the content of every file by its name.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let files = entries.map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        });
        files.collect()
    }

    /// Returns the names of all files but the index, in order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != INDEX).collect();
        names.sort();
        names
    }
}

fn ids(folder: &Folder) -> Vec<u64> {
    let found = folder.for_load(&place("chat"), "p").conversations;
    found.iter().map(|saved| saved.id.unwrap().0).collect()
}

#[test]
fn conversations_are_found_again_after_a_restart() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    let older = disk.save(&mut folder, 1, NOW - HOUR);
    let newer = disk.save(&mut folder, 2, NOW);
    folder.close();
    let folder = disk.open(NOW + HOUR);
    let found = folder.for_load(&place("chat"), "q");
    assert_eq!(found.conversations, [newer, older]);
    assert!(ids(&folder) == [2, 1] && disk.names().len() == 4);
    assert!(
        folder
            .for_load(&place("other"), "q")
            .conversations
            .is_empty()
    );
    let other_files = Place {
        files: "changed".to_owned(),
        ..place("chat")
    };
    assert!(folder.for_load(&other_files, "q").conversations.is_empty());
}

#[test]
fn without_a_keychain_nothing_outlives_the_program() {
    for secrets in [None, Some(Arc::new(NoSecrets) as Arc<dyn Secrets>)] {
        let disk = Disk::new(secrets);
        let mut folder = disk.open(NOW);
        disk.save(&mut folder, 1, NOW);
        assert_eq!(ids(&folder), [1]);
        assert_eq!(folder.make_room("p", 1, true), 0, "at the end");
        folder.close();
        assert!(disk.names().is_empty());
        // Also if the program was killed.
        let mut folder = disk.open(NOW);
        disk.save(&mut folder, 1, NOW);
        assert!(ids(&disk.open(NOW)).is_empty() && disk.names().is_empty());
    }
}

/// As the command line does, which does not ask for the keychain, while the app is closed.
#[test]
fn a_program_without_the_keychain_keeps_what_another_one_has_saved() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    disk.save(&mut folder, 1, NOW);
    disk.save(&mut folder, 2, NOW);
    folder.close();
    let mut folder = disk.open_with(None);
    assert!(ids(&folder).is_empty(), "it cannot read them");
    disk.save(&mut folder, 3, NOW);
    folder.forget(&Forgotten::Conversation(ConversationId(2)));
    folder.close();
    assert_eq!(ids(&disk.open(NOW)), [1]);
    assert_eq!(disk.names().len(), 2);
}

#[test]
fn a_deleted_conversation_cannot_be_read_again() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    let deleted = disk.save(&mut folder, 1, NOW);
    let kept = disk.save(&mut folder, 2, NOW);
    let before = disk.files();
    folder.forget(&Forgotten::Conversation(ConversationId(1)));
    let after = disk.files();
    for name in &deleted.files {
        assert!(!after.contains_key(name), "{name} is still there");
    }
    assert!(kept.files.iter().all(|name| after[name] == before[name]));
    assert_eq!(ids(&folder), [2]);
    folder.close();
    // Whoever recovers the removed files and the former index finds no key that opens them.
    for (name, bytes) in &before {
        fs::write(disk.folder.path().join(name), bytes).unwrap();
    }
    let recovered: Index = serde_json::from_slice(&before[INDEX]).unwrap();
    let master = disk.master();
    for entry in &recovered.conversations {
        let sealed = entry.sealed_key.as_deref().unwrap();
        assert_eq!(StateKey::opened_with(&master, sealed), None);
    }
    assert!(ids(&disk.open(NOW)).is_empty());
    let keys = [deleted.key, kept.key];
    let is_in_plain_text = |bytes: &[u8], key: &StateKey| {
        let key = key.to_text();
        bytes
            .windows(16)
            .any(|window| window == &key.as_bytes()[..16])
    };
    let index = &before[INDEX];
    assert!(!keys.iter().any(|key| is_in_plain_text(index, key)));
}

/// The app deletes a chat while a program without the keychain owns the supervisor, or while the
/// keychain is locked.
#[test]
fn a_master_key_that_could_not_be_replaced_is_replaced_at_the_next_start() {
    let disk = Disk::with_keychain();
    disk.save(&mut disk.open(NOW), 1, NOW);
    let locked: Arc<dyn Secrets> = Arc::new(LockedSecrets(disk.saving.secrets.clone().unwrap()));
    for secrets in [None, Some(locked), Some(Arc::new(NoSecrets))] {
        disk.save(&mut disk.open(NOW), 2, NOW);
        let old = disk.master();
        let mut folder = disk.open_with(secrets);
        folder.forget(&Forgotten::Conversation(ConversationId(2)));
        folder.close();
        assert_eq!(disk.master(), old);
        assert_eq!(ids(&disk.open(NOW)), [1]);
        assert_ne!(disk.master(), old, "the former index still opens keys");
        let new = disk.master();
        assert_eq!(ids(&disk.open(NOW)), [1]);
        assert_eq!(disk.master(), new, "once");
    }
}

/// Its files and the index with its key are removed, but the disk may still have them.
#[test]
fn a_chat_that_was_saved_earlier_cannot_be_read_again_either() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    disk.save(&mut folder, 1, NOW);
    let former = disk.files()[INDEX].clone();
    folder.remove_expired(NOW + disk.saving.limits.max_age);
    folder.forget(&Forgotten::Conversation(ConversationId(1)));
    let recovered: Index = serde_json::from_slice(&former).unwrap();
    let sealed = recovered.conversations[0].sealed_key.as_deref().unwrap();
    assert_eq!(StateKey::opened_with(&disk.master(), sealed), None);
}

#[test]
fn conversations_of_a_model_or_all_can_be_deleted() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    let model = |name: &str| Forgotten::Of(ModelSelector::Model(name.to_owned()));
    disk.save(&mut folder, 1, NOW);
    let other = disk.write(2, "p", 1, 10);
    folder.add(&place("other"), "p", other, NOW);
    folder.forget(&model("third"));
    assert_eq!(disk.names().len(), 3);
    folder.forget(&model("chat"));
    assert_eq!(disk.names(), ["p-20"]);
    folder.forget(&Forgotten::ALL);
    assert!(disk.names().is_empty());
}

#[test]
fn a_conversation_that_is_saved_again_keeps_the_files_that_it_still_needs() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    let first = disk.write(1, "p", 3, 1000);
    folder.add(&place("chat"), "p", first.clone(), NOW);
    assert_eq!(folder.index.written_bytes, 3000);
    let mut second = disk.write(1, "q", 2, 100);
    second.files.push(first.files[2].clone());
    second.key = first.key;
    folder.add(&place("chat"), "q", second.clone(), NOW + HOUR);
    assert_eq!(disk.names(), ["p-12", "q-10", "q-11"]);
    assert_eq!(folder.index.written_bytes, 3200, "only new files count");
    assert_eq!(folder.for_load(&place("chat"), "r").conversations, [second]);
}

#[test]
fn files_of_others_and_missing_files_are_not_added() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    let saved = disk.save(&mut folder, 1, NOW);
    for name in [
        "p-missing",
        "p-100",
        "../p-10",
        "q-0",
        "index",
        &*saved.files[0],
    ] {
        let stolen = SavedConversation {
            key: StateKey::random().unwrap(),
            files: vec![name.to_owned()],
            ..saved.clone()
        };
        folder.add(&place("chat"), "q", stolen, NOW);
        assert_eq!(folder.for_load(&place("chat"), "q").conversations.len(), 1);
    }
}

#[test]
fn what_the_index_does_not_have_is_removed_at_the_start() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    let saved = disk.save(&mut folder, 1, NOW);
    let incomplete = disk.save(&mut folder, 2, NOW);
    folder.close();
    let path = |name: &str| disk.folder.path().join(name);
    for left in ["q-0", "p-10.taken", NEW_INDEX, "conversation"] {
        fs::write(path(left), "left").unwrap();
    }
    fs::write(path(&incomplete.files[1]), "cut").unwrap();
    let folder = disk.open(NOW);
    assert_eq!(ids(&folder), [1]);
    assert_eq!(disk.names(), saved.files);
    for damaged in ["", "{", "[]", "null"] {
        fs::write(path(INDEX), damaged).unwrap();
        assert!(ids(&disk.open(NOW)).is_empty() && disk.names().is_empty());
        disk.write(3, "p", 1, 1);
    }
}

#[test]
fn what_a_process_did_not_complete_or_could_not_read_is_removed_at_its_end() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    disk.save(&mut folder, 1, NOW);
    let taken = disk.save(&mut folder, 2, NOW);
    let path = |name: &str| disk.folder.path().join(name);
    let description = path(&taken.files[0]);
    fs::rename(&description, description.with_added_extension("taken")).unwrap();
    fs::write(path("q-0"), "incomplete").unwrap();
    fs::write(path("r-0"), "of another process").unwrap();
    folder.process_ended(&place("other"), "s");
    assert_eq!(disk.names().len(), 6);
    folder.process_ended(&place("chat"), "q");
    assert_eq!(ids(&folder), [1]);
    assert_eq!(disk.names(), ["p-10", "p-11", "r-0"]);
}

#[test]
fn what_a_process_did_not_complete_is_removed_after_it_has_saved_and_counts_as_written() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    assert!(folder.make_room("p", 100, false) > 100);
    let restored = disk.save(&mut folder, 1, NOW);
    let path = |name: &str| disk.folder.path().join(name);
    fs::write(path("p-9"), [0; 70]).unwrap();
    let description = path(&restored.files[0]);
    let taken = description.with_added_extension("taken");
    fs::rename(&description, &taken).unwrap();
    folder.saving_ended("p");
    assert_eq!(disk.names(), ["p-10.taken", "p-11"], "it is being restored");
    fs::rename(&taken, &description).unwrap();
    assert_eq!(ids(&folder), [1]);
    assert_eq!(folder.index.written_bytes, 20 + 70);
    fs::write(path("p-9"), [0; 5]).unwrap();
    folder.process_ended(&place("chat"), "p");
    assert_eq!(folder.index.written_bytes, 20 + 70 + 5);
    folder.close();
    assert_eq!(disk.open(NOW).index.written_bytes, 20 + 70 + 5);
}

#[test]
fn conversations_expire() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    assert_eq!(folder.remove_expired(NOW), None, "nothing to wait for");
    disk.save(&mut folder, 1, NOW);
    let max_age = disk.saving.limits.max_age;
    assert_eq!(folder.remove_expired(NOW), Some(HOUR));
    let late = NOW + max_age - HOUR / 2;
    assert_eq!(folder.remove_expired(late), Some(HOUR / 2));
    assert_eq!(folder.remove_expired(NOW - HOUR), Some(HOUR), "the clock");
    assert_eq!(ids(&folder), [1]);
    assert_eq!(folder.remove_expired(NOW + max_age), None);
    assert!(disk.names().is_empty());
    disk.save(&mut folder, 2, NOW);
    folder.close();
    assert!(ids(&disk.open(NOW + max_age)).is_empty());
}

#[test]
fn room_is_made_by_age_and_bytes_are_counted_by_day() {
    let mut disk = Disk::with_keychain();
    disk.saving.limits.max_daily_bytes = 1000;
    let mut folder = disk.open(NOW);
    assert_eq!(folder.make_room("p", 1, false), 1000);
    for id in 1..=4 {
        let saved = disk.write(id, "p", 1, 100);
        folder.add(&place("chat"), "p", saved, NOW + Duration::from_secs(id));
    }
    folder.saving_ended("p");
    assert_eq!(folder.make_room("p", 1, false), 600);
    folder.saving_ended("p");
    folder.close();
    let mut folder = disk.open(NOW);
    let again = folder.make_room("p", 1, false);
    assert_eq!(again, 600, "also after a restart");
    folder.saving_ended("p");
    folder.begin_day(NOW + DAY);
    assert_eq!(folder.make_room("p", 1, false), 1000);
    folder.saving_ended("p");
    folder.saving.limits.max_bytes = 1300;
    assert_eq!(folder.make_room("p", 1, true), 1000);
    folder.saving_ended("p");
    assert_eq!(ids(&folder), [4, 3, 2], "the oldest one made room");
    folder.saving.limits.free_bytes = Some(0);
    assert_eq!(folder.make_room("p", 1, false), 0);
    assert_eq!(ids(&folder), [4, 3, 2]);
}

#[test]
fn processes_that_save_at_the_same_time_share_the_limits() {
    let mut disk = Disk::with_keychain();
    disk.saving.limits.max_bytes = OVERHEAD_BYTES + 1000;
    let mut folder = disk.open(NOW);
    assert_eq!(folder.make_room("p", 100, false), OVERHEAD_BYTES + 100);
    assert_eq!(folder.make_room("q", 100, false), 900);
    assert_eq!(folder.make_room("p", 100, false), 0, "it saves again");
    // What it has written is no longer what it may write.
    let saved = disk.write(1, "p", 1, 300);
    folder.add(&place("chat"), "p", saved, NOW);
    assert_eq!(folder.granted["p"], OVERHEAD_BYTES - 200);
    folder.saving_ended("p");
    folder.process_ended(&place("chat"), "q");
    assert_eq!(folder.make_room("q", 100, false), OVERHEAD_BYTES + 100);
    assert_eq!(ids(&folder), [1]);
    // If this program is killed now, nobody knows what the process has written.
    drop(folder);
    let written_bytes = disk.open(NOW).index.written_bytes;
    assert_eq!(written_bytes, 300 + OVERHEAD_BYTES + 100);
}

#[test]
fn the_number_of_conversations_is_limited() {
    let disk = Disk::with_keychain();
    let mut folder = disk.open(NOW);
    for id in 0..=MAX_CONVERSATIONS as u64 {
        let saved = disk.write(id, "p", 1, 1);
        folder.add(&place("chat"), "p", saved, NOW + Duration::from_secs(id));
    }
    let left = ids(&folder);
    assert_eq!((left.len(), left.last()), (MAX_CONVERSATIONS, Some(&1)));
    assert_eq!(disk.names().len(), MAX_CONVERSATIONS);
}
