use std::path::PathBuf;

use rusqlite::Connection;

use super::*;
use crate::conversation::{ConversationId, Ending, MessageRole, NewMessage};
use crate::schema::MIGRATIONS;

const NOW: Timestamp = Timestamp(1_795_000_000_000);

/// A migration that a next version might add.
const NEXT: &str = "ALTER TABLE conversation ADD COLUMN color TEXT NOT NULL DEFAULT 'blue';";

fn next() -> Vec<&'static str> {
    [MIGRATIONS, &[NEXT]].concat()
}

fn say(store: &Store, text: &str) -> ConversationId {
    let id = store.create_conversation(NOW).unwrap();
    let message = NewMessage::from_user(id, None, text, NOW);
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
fn an_older_file_is_backed_up_and_then_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "kept");
    drop(store);
    let opened = open(folder.path(), NOW, &next()).unwrap();
    let [Notice::BackedUp { backup }] = &opened.notices[..] else {
        panic!("{:?}", opened.notices);
    };
    assert_eq!(texts(&opened.store), ["kept"]);
    let color = |file: &PathBuf| -> rusqlite::Result<String> {
        let file = Connection::open(file)?;
        file.query_row("SELECT color FROM conversation", [], |row| row.get(0))
    };
    assert_eq!(color(&folder.path().join(FILE)).unwrap(), "blue");
    assert!(color(backup).is_err(), "the copy is as the file was");
    drop(opened.store);
    assert_eq!(open(folder.path(), NOW, &next()).unwrap().notices, []);
    // The backup is a store of the older version.
    let older = tempfile::tempdir().unwrap();
    fs::copy(backup, older.path().join(FILE)).unwrap();
    assert_eq!(
        texts(&Store::open(older.path(), NOW).unwrap().store),
        ["kept"]
    );
}

#[test]
fn a_failed_migration_does_not_change_the_file() {
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

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn backups(folder: &Path) -> Vec<PathBuf> {
    crate::backup::all(&folder.join(FILE))
}

#[test]
fn one_backup_a_day_is_made_and_seven_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    for day in 0..9 {
        say(&store, &format!("day {day}"));
        let now = Timestamp(NOW.0 + day * DAY_MS);
        let made = store.back_up_if_due(now).unwrap().unwrap();
        assert_eq!(backups(folder.path()).last(), Some(&made));
        let later = Timestamp(now.0 + DAY_MS - 1000);
        assert_eq!(store.back_up_if_due(later).unwrap(), None);
    }
    let kept = backups(folder.path());
    assert_eq!(kept.len(), 7);
    // The oldest remaining backup is from the third day, and an intact store.
    let other = tempfile::tempdir().unwrap();
    fs::copy(&kept[0], other.path().join(FILE)).unwrap();
    let opened = Store::open(other.path(), NOW).unwrap();
    assert_eq!(opened.notices, []);
    assert_eq!(texts(&opened.store), ["day 0", "day 1", "day 2"]);
    assert_eq!(opened.store.search("day", 0, 9).unwrap().len(), 3);
}

/// A backup is a chat as it was on its day, until the chat is deleted.
#[test]
fn the_former_text_of_an_edited_response_stays_in_the_backup_of_its_chat() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = say(&store, "question");
    let question = store.path(id).unwrap()[0].id;
    let response = NewMessage {
        role: MessageRole::Assistant,
        ending: Ending::Writing,
        ..NewMessage::from_user(id, Some(question), "", NOW)
    };
    let response = store.add_message(response).unwrap();
    store.append(response, "", "former").unwrap();
    store.finish(response, Ending::Stop, None).unwrap();
    let backup = store.back_up_if_due(NOW).unwrap().unwrap();
    store.replace_text(response, "edited").unwrap();
    let in_backup = |text: &str| -> i64 {
        let backup = Connection::open(&backup).unwrap();
        let find = "SELECT COUNT(*) FROM body WHERE text = ?1";
        backup.query_row(find, [text], |row| row.get(0)).unwrap()
    };
    assert_eq!((in_backup("former"), in_backup("edited")), (1, 0));
    store.delete(id).unwrap();
    assert_eq!(in_backup("former"), 0);
}

#[test]
fn a_clock_set_back_does_not_stop_backups() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    store.back_up_if_due(NOW).unwrap().unwrap();
    let before = Timestamp(NOW.0 - 30 * DAY_MS);
    assert!(store.back_up_if_due(before).unwrap().is_some());
}

#[test]
fn backups_before_migrations_are_made_and_removed_with_a_deleted_chat() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = say(&store, "kept");
    say(&store, "other");
    drop(store);
    let mut migrations = MIGRATIONS.to_vec();
    for n in 0..9 {
        migrations.push("SELECT 1;");
        let now = Timestamp(NOW.0 + n * 1000);
        let opened = open(folder.path(), now, &migrations).unwrap();
        assert!(matches!(opened.notices[..], [Notice::BackedUp { .. }]));
    }
    assert_eq!(backups(folder.path()).len(), 7);
    let store = open(folder.path(), NOW, &migrations).unwrap().store;
    store.delete(id).unwrap();
    assert_eq!(backups(folder.path()).len(), 0);
}

/// Overwrites the first page of a table or an index.
fn break_page_of(folder: &Path, name: &str) {
    let path = folder.join(FILE);
    let file = Connection::open(&path).unwrap();
    let find = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: usize = file
        .query_row(find, [name], |row| row.get::<_, u32>(0))
        .unwrap() as usize;
    drop(file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
}

fn say_much(folder: &Path) -> Store {
    let store = Store::open(folder, NOW).unwrap().store;
    for n in 0..200 {
        say(&store, &format!("{n} {}", "x".repeat(200)));
    }
    store
}

#[test]
fn a_damaged_file_is_restored_from_its_newest_intact_backup() {
    let folder = tempfile::tempdir().unwrap();
    let store = say_much(folder.path());
    store.back_up_if_due(NOW).unwrap();
    say(&store, "later");
    let broken = store.back_up_if_due(Timestamp(NOW.0 + DAY_MS)).unwrap();
    drop(store);
    fs::write(broken.unwrap(), "no copy at all").unwrap();
    break_page_of(folder.path(), "body");
    let damaged_bytes = fs::read(folder.path().join(FILE)).unwrap();
    let opened = open(folder.path(), NOW, &next()).unwrap();
    let [
        Notice::Recovered {
            damaged,
            conversations: 200,
            messages: 200,
            backed_up_at: Some(at),
            ..
        },
        Notice::BackedUp { .. },
    ] = &opened.notices[..]
    else {
        panic!("{:?}", opened.notices);
    };
    assert_eq!(at.0 / 1000, NOW.0 / 1000);
    assert!(fs::read(damaged).unwrap() == damaged_bytes);
    let text = opened.notices[0].to_string();
    assert!(text.contains("backup of 2026-"), "{text}");
    assert_eq!(texts(&opened.store).len(), 200);
    assert_eq!(opened.store.search("x", 0, 999).unwrap().len(), 200);
}

#[test]
fn a_damaged_file_without_a_backup_is_kept_and_replaced_with_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    drop(say_much(folder.path()));
    break_page_of(folder.path(), "body");
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert!(matches!(
        opened.notices[..],
        [Notice::Recovered {
            messages: 0,
            backed_up_at: None,
            ..
        }]
    ));
    say(&opened.store, "new");
    assert_eq!(texts(&opened.store), ["new"]);
}

#[test]
fn a_backup_of_an_older_format_completes_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = say_much(folder.path());
    store.back_up_if_due(NOW).unwrap();
    drop(store);
    drop(open(folder.path(), NOW, &next()).unwrap());
    break_page_of(folder.path(), "body");
    let opened = open(folder.path(), NOW, &next()).unwrap();
    assert!(
        matches!(
            opened.notices[..],
            [Notice::Recovered {
                conversations: 200,
                messages: 200,
                ..
            }]
        ),
        "{:?}",
        opened.notices
    );
    assert_eq!(texts(&opened.store).len(), 200);
}

#[test]
fn a_damaged_index_loses_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let store = say_much(folder.path());
    drop(store);
    break_page_of(folder.path(), "message_by_parent");
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert!(matches!(
        opened.notices[..],
        [Notice::Recovered {
            conversations: 200,
            messages: 200,
            backed_up_at: None,
            ..
        }]
    ));
    assert_eq!(texts(&opened.store).len(), 200);
}

#[test]
fn tables_are_compared_by_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "kept");
    drop(store);
    // The same table in another spelling, as another version of SQLite may write it.
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    file.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'CREATE TABLE body (', 'CREATE TABLE \"body\"(')
         WHERE name = 'body';",
    )
    .unwrap();
    drop(file);
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert_eq!(opened.notices, []);
    drop(opened);
    let file = Connection::open(folder.path().join(FILE)).unwrap();
    file.execute_batch("ALTER TABLE body DROP COLUMN attachment")
        .unwrap();
    drop(file);
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert!(matches!(opened.notices[..], [Notice::Recovered { .. }]));
}

#[test]
fn an_interrupted_recovery_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let store = Store::open(folder.path(), NOW).unwrap().store;
    say(&store, "saved");
    drop(store);
    // The new file is complete, and the damaged one with its log has not been replaced yet.
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
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let limit = |pages: u32| {
        let writer = store.inner.writer.lock();
        let set = writer
            .connection
            .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, u32>(0));
        set.unwrap()
    };
    limit(120);
    let id = store.create_conversation(NOW).unwrap();
    let mut messages = Vec::new();
    let error = loop {
        let message = NewMessage {
            conversation: id,
            parent: messages.last().copied(),
            role: MessageRole::Assistant,
            text: format!("{} {}", messages.len(), "words ".repeat(300)),
            attachment: String::new(),
            ending: Ending::Writing,
            model: None,
            created_at: NOW,
        };
        match store.add_message(message) {
            Ok(message) => messages.push(message),
            Err(error) => break error,
        }
        if let Err(error) = store.append(messages[messages.len() - 1], "", "more") {
            break error;
        }
    };
    assert_eq!(error.kind(), Some(StoreErrorKind::Full), "{error:?}");
    assert!(error.to_string().contains("transom.db"), "{error}");
    assert!(messages.len() > 20, "{} messages", messages.len());
    assert_eq!(store.path(id).unwrap().len(), messages.len());
    // With free space, the response continues.
    limit(10_000);
    let last = messages[messages.len() - 1];
    store.append(last, "", " and more").unwrap();
    store.finish(last, Ending::Stop, None).unwrap();
    assert!(store.message(last).unwrap().text.ends_with("and more"));
    drop(store);
    let opened = Store::open(folder.path(), NOW).unwrap();
    let responses = u32::try_from(messages.len() - 1).unwrap();
    assert_eq!(opened.notices, [Notice::Interrupted { responses }]);
}

#[test]
fn an_index_with_other_rules_is_rebuilt() {
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
