use std::path::PathBuf;

use rusqlite::Connection;

use super::*;
use crate::conversation::{ConversationId, Ending, NewMessage, Speaker};
use crate::schema::MIGRATIONS;

const NOW: Timestamp = Timestamp(1_795_000_000_000);

/// What a next version might do.
const NEXT: &str = "ALTER TABLE conversation ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue';";

fn next() -> Vec<&'static str> {
    [MIGRATIONS, &[NEXT]].concat()
}

fn say(store: &Store, text: &str) -> ConversationId {
    let id = store.create_conversation(NOW).unwrap();
    let message = NewMessage::said(id, None, text, NOW);
    store.add_message(message).unwrap();
    id
}

fn texts(store: &Store) -> Vec<String> {
    let mut texts = Vec::new();
    for conversation in store.conversations(0, 1000).unwrap() {
        for head in store.path(conversation.id).unwrap() {
            texts.push(store.message(head.id).unwrap().text);
        }
    }
    texts.sort();
    texts
}

#[test]
fn an_older_file_is_copied_and_then_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "kept");
    drop(store);
    let opened = open(folder.path(), NOW, &next()).unwrap();
    let [Notice::BackedUp { backup }] = &opened.notices[..] else {
        panic!("{:?}", opened.notices);
    };
    assert_eq!(texts(&opened.store), ["kept"]);
    let colour = |file: &PathBuf| -> rusqlite::Result<String> {
        let file = Connection::open(file)?;
        file.query_row("SELECT colour FROM conversation", [], |row| row.get(0))
    };
    assert_eq!(colour(&folder.path().join(FILE)).unwrap(), "blue");
    assert!(colour(backup).is_err(), "the copy is as the file was");
    drop(opened.store);
    assert_eq!(open(folder.path(), NOW, &next()).unwrap().notices, []);
    // The copy is a store of the older version.
    let older = tempfile::tempdir().unwrap();
    fs::copy(backup, older.path().join(FILE)).unwrap();
    assert_eq!(
        texts(&Store::open(older.path(), NOW).unwrap().store),
        ["kept"]
    );
}

#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "kept");
    drop(store);
    let broken = [MIGRATIONS, &[NEXT, "CREATE TABLE x (y); nonsense"]].concat();
    let error = open(folder.path(), NOW, &broken).unwrap_err();
    assert!(error.to_string().contains(FILE), "{error}");
    let opened = open(folder.path(), NOW, &next()).unwrap();
    assert_eq!(opened.notices, [], "the first of the two was made");
    assert_eq!(texts(&opened.store), ["kept"]);
}

#[test]
fn the_last_few_copies_are_kept_until_something_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = say(&store, "kept");
    say(&store, "other");
    drop(store);
    let mut migrations = MIGRATIONS.to_vec();
    for n in 0..5 {
        migrations.push("SELECT 1;");
        let opened = open(folder.path(), Timestamp(NOW.0 + n), &migrations).unwrap();
        assert!(matches!(opened.notices[..], [Notice::BackedUp { .. }]));
    }
    let backups = folder.path().join("backups");
    let count = || fs::read_dir(&backups).unwrap().count();
    assert_eq!(count(), 3);
    let store = open(folder.path(), NOW, &migrations).unwrap().store;
    store.delete(id).unwrap();
    assert_eq!(count(), 0);
}

#[test]
fn a_damaged_older_file_is_saved_and_then_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    for n in 0..200 {
        say(&store, &format!("{n} {}", "x".repeat(200)));
    }
    drop(store);
    let path = folder.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 4096;
    bytes[last..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let opened = open(folder.path(), NOW, &next()).unwrap();
    assert!(matches!(
        opened.notices[..],
        [
            Notice::Recovered {
                messages: 150..,
                ..
            },
            Notice::BackedUp { .. }
        ]
    ));
}

#[test]
fn a_file_of_which_nothing_is_left_comes_back_from_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "kept");
    drop(store);
    drop(open(folder.path(), NOW, &next()).unwrap());
    let path = folder.path().join(FILE);
    fs::write(&path, "This was a database. ".repeat(1000)).unwrap();
    let opened = open(folder.path(), NOW, &next()).unwrap();
    let Notice::Recovered {
        damaged, backup, ..
    } = &opened.notices[0]
    else {
        panic!("{:?}", opened.notices);
    };
    assert!(backup.is_some());
    assert!(fs::read_to_string(damaged).unwrap().starts_with("This was"));
    assert_eq!(texts(&opened.store), ["kept"]);
}

#[test]
fn a_recovery_that_was_cut_short_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "saved");
    drop(store);
    // The new file is whole and the damaged one with its log still stands in its place.
    fs::rename(&path, folder.path().join("transom.db-new")).unwrap();
    fs::write(&path, "damaged").unwrap();
    fs::write(folder.path().join("transom.db-wal"), "damaged as well").unwrap();
    fs::write(folder.path().join("transom.db-part"), "left over").unwrap();
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert_eq!(opened.notices, []);
    assert_eq!(texts(&opened.store), ["saved"]);
    assert!(!folder.path().join("transom.db-part").exists());
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let limit = |pages: u32| {
        let writer = lock(&store.inner.writer);
        let set = writer
            .connection
            .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, u32>(0));
        set.unwrap()
    };
    limit(120);
    let id = store.create_conversation(NOW).unwrap();
    let mut said = Vec::new();
    let error = loop {
        let message = NewMessage {
            conversation: id,
            parent: said.last().copied(),
            speaker: Speaker::Assistant,
            text: format!("{} {}", said.len(), "words ".repeat(300)),
            attachment: String::new(),
            ending: Ending::Writing,
            model: None,
            created_at: NOW,
        };
        match store.add_message(message) {
            Ok(message) => said.push(message),
            Err(error) => break error,
        }
        if let Err(error) = store.append(said[said.len() - 1], "", "more") {
            break error;
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("transom.db"), "{error}");
    assert!(said.len() > 20, "{} messages", said.len());
    assert_eq!(store.path(id).unwrap().len(), said.len());
    // Space comes back, and the answer goes on where it was.
    limit(10_000);
    let last = said[said.len() - 1];
    store.append(last, "", " and more").unwrap();
    store.finish(last, Ending::Stop, None).unwrap();
    assert!(store.message(last).unwrap().text.ends_with("and more"));
    drop(store);
    let opened = Store::open(folder.path(), NOW).unwrap();
    let answers = u32::try_from(said.len() - 1).unwrap();
    assert_eq!(opened.notices, [Notice::Interrupted { answers }]);
}

#[test]
fn an_index_of_other_rules_is_built_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = say(&store, "needle");
    store.rename(id, "haystack").unwrap();
    store
        .write(Flush::Now, |tx| {
            tx.execute("INSERT INTO search (search) VALUES ('delete-all')", [])?;
            schema::set_meta(tx, "search", "older rules")
        })
        .unwrap();
    assert_eq!(store.search("needle", 0, 9).unwrap(), []);
    drop(store);
    let store = Store::open(folder.path(), NOW).unwrap().store;
    assert_eq!(store.search("needle", 0, 9).unwrap().len(), 1);
    assert_eq!(store.search("haystack", 0, 9).unwrap().len(), 1);
}
