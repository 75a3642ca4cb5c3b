//! The file and its folder: permissions, older and newer versions, damage, a full disk, missing
//! rights.
//!
//! Rule: whatever is wrong, the store either opens with everything that can be read, or says which
//! file it is and what to do. Nothing is lost.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use transom_store::{
    ConversationId, ConversationSettings, Ending, MessageId, MessageRole, NewMessage, Notice,
    Store, StoreError, StoreErrorKind, Timestamp,
};

const NOW: Timestamp = Timestamp(1_795_000_000_000);
const FILE: &str = "transom.db";

fn message(conversation: ConversationId, parent: Option<MessageId>, text: String) -> NewMessage {
    NewMessage {
        conversation,
        parent,
        role: MessageRole::User,
        text,
        attachment: String::new(),
        ending: Ending::Stop,
        model: None,
        created_at: NOW,
    }
}

fn fill(store: &Store, n_conversations: usize, n_messages: usize) {
    for c in 0..n_conversations {
        let id = store.create_conversation(NOW).unwrap();
        let mut parent = None;
        for m in 0..n_messages {
            let text = format!("text{c}x{m} {}", "and so on ".repeat(1 + m * m));
            parent = Some(store.add_message(message(id, parent, text)).unwrap());
        }
    }
}

/// Returns the first words of all messages of [`fill`] that can be reached and read.
fn read_all(store: &Store) -> Result<Vec<String>, StoreError> {
    let mut words = Vec::new();
    for conversation in store.conversations(0, 1000)? {
        let heads = store.path(conversation.id)?;
        let ids: Vec<MessageId> = heads.iter().map(|head| head.id).collect();
        for message in store.messages(&ids)? {
            words.extend(message.text.split(' ').next().map(str::to_string));
        }
    }
    Ok(words)
}

#[test]
fn a_new_store_is_private_and_opens_again() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let opened = Store::open(&folder, NOW).unwrap();
    assert_eq!(opened.notices, []);
    fill(&opened.store, 1, 3);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for file in fs::read_dir(&folder).unwrap() {
            assert_eq!(mode(&file.unwrap().path()) & 0o077, 0);
        }
    }
    drop(opened);
    let opened = Store::open(&folder, NOW).unwrap();
    assert_eq!(read_all(&opened.store).unwrap().len(), 3);
}

#[test]
fn two_handles_of_one_folder_share_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let one = Store::open(folder.path(), NOW).unwrap().store;
    let id = one.create_conversation(NOW).unwrap();
    let growing = NewMessage {
        ending: Ending::Writing,
        ..message(id, None, "so ".to_string())
    };
    let growing = one.add_message(growing).unwrap();
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert_eq!(
        opened.notices,
        [],
        "the answer of the first is not abandoned"
    );
    let other = opened.store;
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let store = if n % 2 == 0 {
                one.clone()
            } else {
                other.clone()
            };
            std::thread::spawn(move || {
                for _ in 0..50 {
                    store.append(growing, "", "x").unwrap();
                    store.add_message(message(id, None, n.to_string())).unwrap();
                    store.search("so", 0, 9).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    other.finish(growing, Ending::Stop, None).unwrap();
    let answer = one.message(growing).unwrap();
    assert_eq!(answer.text.len(), 203);
    assert_eq!(answer.siblings.len(), 201);
}

#[test]
fn a_file_of_format_1_opens_with_all_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let file = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    file.execute_batch(include_str!("fixtures/schema1.sql"))
        .unwrap();
    drop(file);
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert!(
        opened
            .notices
            .contains(&Notice::Interrupted { responses: 1 })
    );
    let store = opened.store;
    let tea = store.conversations(0, 9).unwrap().remove(0);
    assert_eq!(
        (&*tea.title, tea.is_pinned, tea.is_archived, tea.n_messages),
        ("Tea", true, false, 2)
    );
    let history = store.history(MessageId(3)).unwrap();
    assert_eq!(history[0].attachment, "A page on tea.");
    assert_eq!(
        (history[1].reasoning.as_str(), history[1].text.as_str()),
        ("Hm. ", "Black tea.")
    );
    assert_eq!(history[1].ending, Ending::Interrupted);
    let failure = "{\"code\":\"busy\"}".to_string();
    assert_eq!(
        store.message(MessageId(2)).unwrap().ending,
        Ending::Failed { failure }
    );
    assert_eq!(store.search("black tea", 0, 9).unwrap().len(), 1);
    assert!(store.settings().unwrap().general.pin_chat);
    assert_eq!(
        store.conversation_settings(tea.id).unwrap(),
        ConversationSettings::default()
    );
    store.set_model_if_unset(tea.id, "starter").unwrap();
}

/// Makes the file one of a newer version, with a part of it still in the log.
fn make_newer(folder: &Path, other: &Path) {
    drop(Store::open(folder, NOW).unwrap());
    let file = rusqlite::Connection::open(folder.join(FILE)).unwrap();
    file.execute_batch(
        "PRAGMA user_version = 99;
         UPDATE meta SET value = '99' WHERE key = 'schema';
         UPDATE meta SET value = '9.8.7' WHERE key = 'app';",
    )
    .unwrap();
    for name in [FILE, "transom.db-wal"] {
        fs::copy(folder.join(name), other.join(name)).unwrap();
    }
}

#[test]
fn a_file_of_a_newer_version_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    make_newer(folder.path(), other.path());
    let bytes = |name: &str| fs::read(other.path().join(name)).unwrap();
    let before = (bytes(FILE), bytes("transom.db-wal"));
    assert!(before.1.len() > 4096);
    for _ in 0..2 {
        let error = Store::open(other.path(), NOW).unwrap_err();
        assert_eq!(error.kind(), Some(StoreErrorKind::Newer), "{error:?}");
        let message = error.to_string();
        for part in ["9.8.7", "(format 99)", FILE] {
            assert!(message.contains(part), "{message}");
        }
        let after = (bytes(FILE), bytes("transom.db-wal"));
        assert!(after == before, "a later version's file was written to");
    }
}

#[test]
fn a_file_that_is_not_a_database_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join(FILE),
        "Not a database at all.".repeat(100),
    )
    .unwrap();
    let opened = Store::open(folder.path(), NOW).unwrap();
    let Notice::Recovered {
        damaged,
        messages: 0,
        ..
    } = &opened.notices[0]
    else {
        panic!("{:?}", opened.notices);
    };
    assert!(
        fs::read_to_string(damaged)
            .unwrap()
            .starts_with("Not a database")
    );
    let text = opened.notices[0].to_string();
    assert!(text.contains(damaged.to_str().unwrap()), "{text}");
    fill(&opened.store, 1, 2);
}

#[test]
fn the_error_for_a_folder_that_is_a_file_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = Store::open(&file, NOW).unwrap_err();
    assert_eq!(error.kind(), Some(StoreErrorKind::Folder), "{error:?}");
    assert!(
        error.to_string().contains(file.to_str().unwrap()),
        "{error}"
    );
    fs::create_dir(folder.path().join(FILE)).unwrap();
    let error = Store::open(folder.path(), NOW).unwrap_err();
    assert!(error.to_string().contains(FILE), "{error}");
}

/// Kinds of damage.
#[derive(Debug, Clone)]
enum Damage {
    Bytes(Vec<(prop::sample::Index, u8)>),
    Page(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Swapped(prop::sample::Index, prop::sample::Index),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        const PAGE: usize = 4096;
        let n_pages = bytes.len() / PAGE;
        match self {
            Self::Bytes(bad) => {
                for (at, value) in bad {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
            }
            Self::Page(at, value) => {
                let start = at.index(n_pages) * PAGE;
                bytes[start..start + PAGE].fill(*value);
            }
            Self::Cut(at) => bytes.truncate(1 + at.index(bytes.len() - 1)),
            Self::Swapped(a, b) => {
                let (a, b) = (a.index(n_pages) * PAGE, b.index(n_pages) * PAGE);
                for n in 0..PAGE {
                    bytes.swap(a + n, b + n);
                }
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => prop::collection::vec((index(), any::<u8>()), 1..60).prop_map(Damage::Bytes),
        4 => (index(), any::<u8>()).prop_map(|(at, value)| Damage::Page(at, value)),
        1 => index().prop_map(Damage::Cut),
        1 => (index(), index()).prop_map(|(a, b)| Damage::Swapped(a, b)),
    ]
}

fn sound_file() -> &'static [u8] {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), NOW).unwrap().store;
        fill(&store, 12, 12);
        drop(store);
        fs::read(folder.path().join(FILE)).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_damaged_file_is_kept_and_replaced_with_the_backup(damage in damage()) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = sound_file().to_vec();
        let backups = folder.path().join("backups");
        fs::create_dir(&backups).unwrap();
        fs::write(backups.join("transom-2026-11-21-125443.db"), &bytes).unwrap();
        damage.apply(&mut bytes);
        fs::write(folder.path().join(FILE), &bytes).unwrap();
        let opened = Store::open(folder.path(), NOW).unwrap();
        let store = opened.store;
        for notice in &opened.notices {
            if let Notice::Recovered { damaged, messages, .. } = notice {
                prop_assert!(fs::read(damaged).unwrap() == bytes);
                prop_assert_eq!(*messages, 144);
                prop_assert_eq!(read_all(&store).unwrap().len(), 144);
            }
        }
        // Damage that changes no structure is not noticed at once, but no call panics.
        let _ = read_all(&store);
        let _ = store.search("text3x4 and", 0, 100);
        let _ = store.export_json(None);
        let id = store.create_conversation(NOW);
        if let Ok(id) = id {
            let _ = store.add_message(message(id, None, "after".to_string()));
            let _ = store.delete(id);
        }
        // The next opening repairs what a call has noticed.
        drop(store);
        let opened = Store::open(folder.path(), NOW).unwrap();
        read_all(&opened.store).unwrap();
    }
}

/// Runs a test of this binary with a folder, as a user other than root.
#[cfg(unix)]
fn run_child(test: &str, folder: &Path, limit_blocks: Option<u32>) -> String {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let exe = std::env::current_exe().unwrap();
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("child");
    fs::copy(exe, &copy).unwrap();
    let limit = limit_blocks.map_or(String::new(), |n| format!("trap '' XFSZ; ulimit -f {n};"));
    let mut child = std::process::Command::new("sh");
    child.args(["-c", &format!("{limit} exec \"$0\" \"$@\"")]);
    child.arg(&copy).args(["--exact", test, "--nocapture"]);
    child.env(CHILD, folder).current_dir(place.path());
    if fs::metadata(place.path()).unwrap().uid() == 0 {
        let mut owned = vec![folder.to_path_buf()];
        owned.extend(
            fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path()),
        );
        for path in owned {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        child.uid(NOBODY).gid(NOBODY);
    }
    let output = child.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}

#[cfg(unix)]
const CHILD: &str = "TRANSOM_STORE_CHILD_OPENS";

/// The folder, in a child process.
#[cfg(unix)]
fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Not a test: opens a folder that it may not write to.
#[cfg(unix)]
#[test]
fn child_opens() {
    let Some(folder) = child_folder() else {
        return;
    };
    match Store::open(&folder, NOW) {
        Ok(opened) => println!("opened {:?}", opened.store),
        Err(error) => println!("refused {error:?} says: {error}"),
    }
}

#[cfg(unix)]
#[test]
fn the_error_for_missing_write_permission_names_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    fill(&Store::open(folder.path(), NOW).unwrap().store, 2, 3);
    let output = run_child("child_opens", folder.path(), None);
    assert!(output.contains("opened"), "the child can do it: {output}");
    let before = fs::read(folder.path().join(FILE)).unwrap();
    set(&folder.path().join(FILE), 0o400);
    let output = run_child("child_opens", folder.path(), None);
    assert!(
        output.contains("kind: ReadOnly") && output.contains("transom.db cannot be"),
        "{output}"
    );
    set(&folder.path().join(FILE), 0o600);
    set(folder.path(), 0o500);
    let output = run_child("child_opens", folder.path(), None);
    assert!(
        output.contains("kind: ReadOnly") && output.contains("cannot be written to"),
        "{output}"
    );
    set(folder.path(), 0o700);
    let after = fs::read(folder.path().join(FILE)).unwrap();
    assert!(after == before, "a refused file was written to");
    let empty = tempfile::tempdir().unwrap();
    set(empty.path(), 0o500);
    let output = run_child("child_opens", empty.path(), None);
    assert!(output.contains("kind: ReadOnly"), "{output}");
    let output = run_child("child_opens", &empty.path().join("."), None);
    assert!(output.contains(FILE), "{output}");
    set(empty.path(), 0o700);
}

/// Not a test: writes until the system lets no file grow any more.
#[cfg(unix)]
#[test]
fn child_writes_until_files_cannot_grow() {
    let Some(folder) = child_folder() else {
        return;
    };
    let store = Store::open(&folder, NOW).unwrap().store;
    let id = store.create_conversation(NOW).unwrap();
    for n in 0.. {
        let text = format!("text{n} {}", "and so on ".repeat(100));
        match store.add_message(message(id, None, text)) {
            Ok(message) => println!("\nkept {} text{n}", message.0),
            Err(error) => {
                println!("\nrefused {error}");
                break;
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn acknowledged_messages_are_kept_when_files_cannot_grow() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path(), NOW).unwrap());
    let output = run_child(
        "child_writes_until_files_cannot_grow",
        folder.path(),
        Some(4000),
    );
    let refused = output
        .lines()
        .find(|line| line.starts_with("refused"))
        .unwrap();
    assert!(refused.contains(FILE), "{refused}");
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let mut n_kept = 0;
    for line in output.lines().filter_map(|line| line.strip_prefix("kept ")) {
        let (id, word) = line.split_once(' ').unwrap();
        let message = store.message(MessageId(id.parse().unwrap())).unwrap();
        assert!(message.text.starts_with(&format!("{word} ")));
        n_kept += 1;
    }
    assert!(
        n_kept > 20,
        "{n_kept} messages were kept before “{refused}”"
    );
    assert!(store.search("text3", 0, 9).unwrap().len() == 1);
}
