//! Deleted text is in no file.
//!
//! Rule: the tests read the raw bytes of every file in the folder, and do not rely on the store.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use transom_store::{ConversationId, Ending, MessageRole, NewMessage, Store, Timestamp};

const NOW: Timestamp = Timestamp(1_795_000_000_000);

/// Returns a word that no other text contains, so its bytes can be found in files.
fn word(conversation: usize, n: usize) -> String {
    let mut state = (conversation * 1000 + n) as u64 ^ 0x5851_f42d_4c95_7f2d;
    let letters = (0..14).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 59) as u8 % 26)
    });
    letters.collect()
}

fn add_conversation(store: &Store, number: usize, n_messages: usize) -> ConversationId {
    let id = store.create_conversation(NOW).unwrap();
    store.rename(id, &word(number, 900)).unwrap();
    let mut parent = None;
    for n in 0..n_messages {
        let is_question = n % 2 == 0;
        let text: Vec<String> = (0..8).map(|k| word(number, n * 8 + k)).collect();
        let message = NewMessage {
            conversation: id,
            parent,
            role: if is_question {
                MessageRole::User
            } else {
                MessageRole::Assistant
            },
            text: text.join(" "),
            attachment: if is_question {
                word(number, 901)
            } else {
                String::new()
            },
            ending: if is_question {
                Ending::Stop
            } else {
                Ending::Writing
            },
            model: None,
            created_at: NOW,
        };
        let message = store.add_message(message).unwrap();
        if !is_question {
            store
                .append(message, &word(number, 902), &word(number, 903))
                .unwrap();
            store
                .finish(message, Ending::Stop, Some(word(number, 904)))
                .unwrap();
        }
        parent = Some(message);
    }
    id
}

fn all_words(number: usize, n_messages: usize) -> Vec<String> {
    let numbers = (0..n_messages * 8).chain(900..=904);
    numbers.map(|n| word(number, n)).collect()
}

/// Returns which of the words are in any file below the folder.
fn found(folder: &Path, words: &[String]) -> HashSet<String> {
    let mut found = HashSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(self::found(&path, words));
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        // The index leaves out what a word shares with its neighbor, so parts of words count too.
        let pieces: HashSet<&[u8]> = bytes.windows(8).collect();
        let has = |word: &&String| {
            let word = word.as_bytes();
            pieces.contains(&word[..8]) || pieces.contains(&word[word.len() - 8..])
        };
        found.extend(words.iter().filter(has).cloned());
    }
    found
}

#[test]
fn a_deleted_conversation_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let ids: Vec<_> = (0..40)
        .map(|number| add_conversation(&store, number, 20))
        .collect();
    let backups = folder.path().join("backups");
    fs::create_dir_all(&backups).unwrap();
    fs::write(backups.join("transom-format0.db"), word(7, 3)).unwrap();
    assert!(
        found(folder.path(), &all_words(7, 20)).len() > 150,
        "the test sees what is there"
    );
    let copy = store.back_up_if_due(NOW).unwrap().unwrap();
    for number in [7, 20, 39] {
        store.delete(ids[number]).unwrap();
        let left = found(folder.path(), &all_words(number, 20));
        assert!(left.is_empty(), "of {number}: {left:?}");
    }
    let others = found(&backups, &all_words(8, 20));
    assert_eq!(
        others.len(),
        all_words(8, 20).len(),
        "the copy keeps the others"
    );
    let other = tempfile::tempdir().unwrap();
    fs::copy(&copy, other.path().join("transom.db")).unwrap();
    let copied = Store::open(other.path(), NOW).unwrap();
    assert_eq!(copied.notices, []);
    assert_eq!(copied.store.conversations(0, 99).unwrap().len(), 37);
    assert_eq!(copied.store.search(&word(8, 5), 0, 9).unwrap().len(), 1);
    let kept = store.search(&word(8, 5), 0, 9).unwrap();
    assert_eq!(kept[0].conversation.id, ids[8]);
    drop(store);
    let opened = Store::open(folder.path(), NOW).unwrap();
    assert_eq!(opened.notices, []);
    assert_eq!(opened.store.conversations(0, 99).unwrap().len(), 37);
}

/// A process that is killed while it makes a backup leaves an unfinished copy.
#[test]
fn a_deleted_conversation_is_in_no_unfinished_backup() {
    let folder = tempfile::tempdir().unwrap();
    let backups = folder.path().join("backups");
    let store = || Store::open(folder.path(), NOW).unwrap().store;
    let leave = || {
        fs::create_dir_all(&backups).unwrap();
        for end in ["part", "part-journal"] {
            fs::write(
                backups
                    .join("transom-2026-11-21-125443")
                    .with_extension(end),
                word(1, 0),
            )
            .unwrap();
        }
    };
    let left = || found(folder.path(), &[word(1, 0)]);
    let id = add_conversation(&store(), 2, 2);
    leave();
    assert_eq!(left().len(), 1, "the test sees what is there");
    let store = store();
    assert_eq!(left(), HashSet::new(), "after the opening");
    leave();
    store.back_up_if_due(NOW).unwrap().unwrap();
    assert_eq!(left(), HashSet::new(), "after a backup");
    leave();
    store.delete(id).unwrap();
    assert_eq!(left(), HashSet::new(), "after a deletion");
    leave();
    store.clear_history().unwrap();
    assert_eq!(left(), HashSet::new(), "after the history was cleared");
}

/// If the store can't delete a conversation, it can be deleted again, so the backups come first.
#[test]
fn a_conversation_leaves_the_backups_before_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = add_conversation(&store, 1, 2);
    store.back_up_if_due(NOW).unwrap().unwrap();
    let backups = folder.path().join("backups");
    // The check at the end of a transaction fails while a row refers to the conversation.
    let connection = rusqlite::Connection::open(folder.path().join("transom.db")).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE refusing (
                 id INTEGER REFERENCES conversation (id) DEFERRABLE INITIALLY DEFERRED
             );
             INSERT INTO refusing SELECT id FROM conversation;",
        )
        .unwrap();
    store.delete(id).unwrap_err();
    assert_eq!(store.conversations(0, 9).unwrap().len(), 1);
    assert_eq!(found(&backups, &all_words(1, 2)), HashSet::new());
    connection.execute_batch("DROP TABLE refusing").unwrap();
    store.delete(id).unwrap();
    assert_eq!(found(folder.path(), &all_words(1, 2)), HashSet::new());
}

#[test]
fn a_deleted_exchange_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = add_conversation(&store, 1, 6);
    store.back_up_if_due(NOW).unwrap().unwrap();
    let question = store.path(id).unwrap()[2].id;
    store.delete_exchange(question).unwrap();
    let words: Vec<_> = (16..32).map(|n| word(1, n)).collect();
    assert_eq!(found(folder.path(), &words), HashSet::new());
    assert_eq!(store.search(&word(1, 40), 0, 9).unwrap().len(), 1);
    assert_eq!(store.path(id).unwrap().len(), 4);
}

#[test]
fn an_old_title_and_an_unfinished_response_are_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    let id = add_conversation(&store, 1, 2);
    let parent = store.path(id).unwrap()[0].id;
    let growing = NewMessage {
        conversation: id,
        parent: Some(parent),
        role: MessageRole::Assistant,
        text: word(2, 0),
        attachment: String::new(),
        ending: Ending::Writing,
        model: None,
        created_at: NOW,
    };
    let growing = store.add_message(growing).unwrap();
    store.append(growing, &word(2, 1), &word(2, 2)).unwrap();
    store.rename(id, "other").unwrap();
    store.delete(id).unwrap();
    let mut words = all_words(1, 2);
    words.extend((0..3).map(|n| word(2, n)));
    assert_eq!(found(folder.path(), &words), HashSet::new());
}

#[test]
fn a_cleared_history_is_in_no_file_and_settings_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), NOW).unwrap().store;
    for number in 0..10 {
        add_conversation(&store, number, 10);
    }
    store
        .patch_settings(&serde_json::json!({"model": "kept"}))
        .unwrap();
    store.back_up_if_due(NOW).unwrap().unwrap();
    fs::write(folder.path().join("transom-damaged-2026.db"), word(3, 3)).unwrap();
    store.clear_history().unwrap();
    for number in 0..10 {
        assert_eq!(found(folder.path(), &all_words(number, 10)), HashSet::new());
    }
    assert_eq!(store.settings().unwrap().model.as_deref(), Some("kept"));
    add_conversation(&store, 11, 2);
    assert_eq!(store.search(&word(11, 0), 0, 9).unwrap().len(), 1);
}
