//! Conversations and messages, as other crates use them.
//!
//! Rule: each test opens its own store, in memory unless it tests files.

use transom_store::{
    Conversation, ConversationId, Ending, Message, MessageId, MessageRole, NewMessage, Store,
    StoreError, Timestamp,
};

const NOW: Timestamp = Timestamp(1_795_000_000_000);

fn question(conversation: ConversationId, parent: Option<MessageId>, text: &str) -> NewMessage {
    NewMessage::from_user(conversation, parent, text, NOW)
}

fn answer(conversation: ConversationId, parent: MessageId) -> NewMessage {
    NewMessage {
        role: MessageRole::Assistant,
        ending: Ending::Writing,
        model: Some("starter".to_string()),
        ..question(conversation, Some(parent), "")
    }
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message.text.as_str())
        .collect()
}

#[test]
fn a_response_grows_and_ends() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = store.add_message(question(id, None, "Why?")).unwrap();
    let begun = store.add_message(answer(id, asked)).unwrap();
    store.append(begun, "Let me see. ", "").unwrap();
    store.append(begun, "", "Because ").unwrap();
    store.append(begun, "Really. ", "of ärger.").unwrap();
    let growing = store.message(begun).unwrap();
    assert_eq!(growing.ending, Ending::Writing);
    assert_eq!(growing.text, "Because of ärger.");
    assert_eq!(growing.reasoning, "Let me see. Really. ");
    let stats = Some("{\"generated_tokens\":3}".to_string());
    store.finish(begun, Ending::Length, stats.clone()).unwrap();
    let ended = store.message(begun).unwrap();
    assert_eq!(
        ended,
        Message {
            ending: Ending::Length,
            stats,
            ..growing
        }
    );
    let path = store.path(id).unwrap();
    assert_eq!(path.len(), 2);
    assert_eq!((path[1].id, path[1].role), (begun, MessageRole::Assistant));
    assert_eq!(path[1].n_chars, 17 + 20);
    assert_eq!(store.conversation(id).unwrap().n_messages, 2);
    assert_eq!(
        texts(&store.history(begun).unwrap()),
        ["Why?", "Because of ärger."]
    );
}

#[test]
fn a_message_that_has_ended_cannot_be_changed() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = store.add_message(question(id, None, "Why?")).unwrap();
    let begun = store.add_message(answer(id, asked)).unwrap();
    let still = store.finish(begun, Ending::Writing, None);
    assert!(matches!(still, Err(StoreError::InvalidEnding(message)) if message == begun));
    let failure = "{\"code\":\"busy\"}".to_string();
    let failed = Ending::Failed { failure };
    store.finish(begun, failed.clone(), None).unwrap();
    assert_eq!(store.message(begun).unwrap().ending, failed);
    assert!(matches!(
        store.append(begun, "", "x"),
        Err(StoreError::NotWriting(_))
    ));
    assert!(matches!(
        store.finish(begun, Ending::Stop, None),
        Err(StoreError::NotWriting(_))
    ));
    assert!(matches!(
        store.append(MessageId(99), "", "x"),
        Err(StoreError::NoMessage(_))
    ));
}

#[test]
fn a_response_that_is_continued_grows_again() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = store.add_message(question(id, None, "Why?")).unwrap();
    let said = store.add_message(answer(id, asked)).unwrap();
    store.append(said, "Hm.", "Because of").unwrap();
    let stats = Some("{}".to_owned());
    store.finish(said, Ending::Length, stats).unwrap();
    assert_eq!(store.search("because", 0, 9).unwrap().len(), 1);

    store.reopen(said).unwrap();
    let open = store.message(said).unwrap();
    assert_eq!((&*open.text, &*open.reasoning), ("Because of", "Hm."));
    assert_eq!((open.ending, open.stats), (Ending::Writing, None));
    assert!(store.search("because", 0, 9).unwrap().is_empty());
    assert!(matches!(store.reopen(said), Err(StoreError::NoMessage(_))));

    store.append(said, "", " moonlight").unwrap();
    store.finish(said, Ending::Stop, None).unwrap();
    let ended = store.message(said).unwrap();
    assert_eq!(
        (&*ended.text, &*ended.reasoning),
        ("Because of moonlight", "Hm.")
    );
    assert_eq!(store.path(id).unwrap()[1].n_chars, 23);
    assert_eq!(store.search("because moonlight", 0, 9).unwrap().len(), 1);
    assert!(matches!(store.reopen(asked), Err(StoreError::NoMessage(_))));
}

#[test]
fn the_text_of_a_response_can_be_replaced() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = store.add_message(question(id, None, "Why?")).unwrap();
    let said = store.add_message(answer(id, asked)).unwrap();
    let early = store.replace_text(said, "Too early");
    assert!(matches!(early, Err(StoreError::NoMessage(_))));
    store.append(said, "Hm.", "Because of sunlight").unwrap();
    store.finish(said, Ending::Length, None).unwrap();
    store.replace_text(said, "It is moonlight").unwrap();
    let edited = store.message(said).unwrap();
    assert_eq!(
        (&*edited.text, &*edited.reasoning),
        ("It is moonlight", "Hm.")
    );
    assert_eq!(edited.ending, Ending::Length);
    assert_eq!(store.path(id).unwrap()[1].n_chars, 18);
    assert!(store.search("sunlight", 0, 9).unwrap().is_empty());
    assert_eq!(store.search("moonlight", 0, 9).unwrap().len(), 1);
    let refused = store.replace_text(asked, "No");
    assert!(matches!(refused, Err(StoreError::NoMessage(_))));
}

#[test]
fn an_edit_adds_a_version_and_the_old_one_can_be_shown_again() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let first = store.add_message(question(id, None, "one")).unwrap();
    let second = store.add_message(question(id, Some(first), "two")).unwrap();
    let third = store
        .add_message(question(id, Some(second), "three"))
        .unwrap();
    let edited = store
        .add_message(question(id, Some(first), "zwei"))
        .unwrap();
    assert_eq!(store.message(edited).unwrap().siblings, [second, edited]);
    let shown = |store: &Store| -> Vec<MessageId> {
        store.path(id).unwrap().iter().map(|head| head.id).collect()
    };
    assert_eq!(shown(&store), [first, edited]);
    store.show_branch(second).unwrap();
    assert_eq!(shown(&store), [first, second, third]);
    assert_eq!(store.conversation(id).unwrap().n_messages, 3);
    let restarted = store.add_message(question(id, None, "eins")).unwrap();
    assert_eq!(shown(&store), [restarted]);
    store.show_branch(first).unwrap();
    assert_eq!(shown(&store), [first, second, third]);
}

#[test]
fn the_parent_of_a_message_is_in_its_conversation() {
    let store = Store::in_memory().unwrap();
    let one = store.create_conversation(NOW).unwrap();
    let other = store.create_conversation(NOW).unwrap();
    let first = store.add_message(question(one, None, "one")).unwrap();
    let elsewhere = store.add_message(question(other, Some(first), "two"));
    assert!(matches!(elsewhere, Err(StoreError::NoMessage(parent)) if parent == first));
    let nowhere = store.add_message(question(one, Some(MessageId(99)), "two"));
    assert!(matches!(nowhere, Err(StoreError::NoMessage(MessageId(99)))));
    let gone = store.add_message(question(ConversationId(99), None, "two"));
    assert!(matches!(
        gone,
        Err(StoreError::NoConversation(ConversationId(99)))
    ));
    assert_eq!(store.path(other).unwrap(), []);
}

#[test]
fn the_list_has_pinned_conversations_first_then_the_newest() {
    let store = Store::in_memory().unwrap();
    let ids: Vec<_> = (0..4)
        .map(|n| store.create_conversation(Timestamp(n)).unwrap())
        .collect();
    let later = NewMessage {
        created_at: Timestamp(10),
        ..question(ids[1], None, "late")
    };
    store.add_message(later).unwrap();
    store.pin(ids[0], true).unwrap();
    let listed = |offset, limit| -> Vec<ConversationId> {
        let listed = store.conversations(offset, limit).unwrap();
        listed.iter().map(|one| one.id).collect()
    };
    assert_eq!(listed(0, 10), [ids[0], ids[1], ids[3], ids[2]]);
    assert_eq!(listed(1, 2), [ids[1], ids[3]]);
    let blank = store.search("  ", 0, 2).unwrap();
    assert_eq!(blank[0].conversation.id, ids[0]);
    assert!(matches!(
        store.pin(ConversationId(99), true),
        Err(StoreError::NoConversation(_))
    ));
}

#[test]
fn an_archived_conversation_is_found_and_comes_back_with_a_new_message() {
    let store = Store::in_memory().unwrap();
    let old = store.create_conversation(NOW).unwrap();
    store.rename(old, "Tea").unwrap();
    let asked = talk(&store, old, &["black"]);
    let new = store.create_conversation(NOW).unwrap();
    store.pin(old, true).unwrap();
    store.archive(old, true).unwrap();
    let lists = || {
        let ids = |list: Vec<Conversation>| list.iter().map(|one| one.id).collect::<Vec<_>>();
        let archived = store.archived_conversations(0, 9).unwrap();
        (ids(store.conversations(0, 9).unwrap()), ids(archived))
    };
    assert_eq!(lists(), (vec![new], vec![old]));
    assert_eq!(store.archived_conversations(1, 9).unwrap(), []);
    assert_eq!(store.search("", 0, 9).unwrap().len(), 1);
    for words in ["tea", "black"] {
        let found = &store.search(words, 0, 9).unwrap()[0].conversation;
        assert_eq!((found.id, found.is_archived), (old, true));
    }
    let copy = store.duplicate(old, "Copy", NOW).unwrap();
    assert!(!store.conversation(copy).unwrap().is_archived);
    store.delete(copy).unwrap();

    store.archive(old, false).unwrap();
    assert_eq!(lists(), (vec![new, old], vec![]));
    assert!(!store.conversation(old).unwrap().is_pinned);
    store.archive(old, true).unwrap();
    let next = question(old, Some(asked[0]), "green");
    store.add_message(next).unwrap();
    assert_eq!(lists(), (vec![new, old], vec![]));

    store.archive(old, true).unwrap();
    store.clear_history().unwrap();
    assert_eq!(lists(), (vec![], vec![]));
    let refused = store.archive(ConversationId(99), true);
    assert!(matches!(refused, Err(StoreError::NoConversation(_))));
}

#[test]
fn an_automatic_title_is_set_once_and_a_rename_any_time() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    assert!(store.set_title_if_empty(id, " First ").unwrap());
    assert!(!store.set_title_if_empty(id, "Second").unwrap());
    assert_eq!(store.conversation(id).unwrap().title, "First");
    store.rename(id, "a\u{202e}b\u{1b}c\nd").unwrap();
    assert_eq!(store.conversation(id).unwrap().title, "a�b�c d");
    store.rename(id, "Third").unwrap();
    assert_eq!(store.conversation(id).unwrap().title, "Third");
    assert_eq!(store.search("first", 0, 9).unwrap(), []);
    assert_eq!(store.search("third", 0, 9).unwrap().len(), 1);
}

#[test]
fn a_deleted_conversation_does_not_exist_and_its_id_is_not_reused() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = store.add_message(question(id, None, "Why?")).unwrap();
    let begun = store.add_message(answer(id, asked)).unwrap();
    store.delete(id).unwrap();
    assert!(matches!(
        store.append(begun, "", "x"),
        Err(StoreError::NoMessage(_))
    ));
    assert!(matches!(
        store.conversation(id),
        Err(StoreError::NoConversation(_))
    ));
    assert_eq!(store.messages(&[asked, begun]).unwrap(), []);
    assert_eq!(store.search("why", 0, 9).unwrap(), []);
    let next = store.create_conversation(NOW).unwrap();
    assert!(next > id);
    assert!(store.add_message(question(next, None, "x")).unwrap() > begun);
    store.clear_history().unwrap();
    assert_eq!(store.conversations(0, 9).unwrap(), []);
}

#[test]
fn messages_are_returned_in_the_requested_order() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let first = store
        .add_message(question(id, None, "one"))
        .expect("the store works");
    let second = store
        .add_message(question(id, Some(first), "two"))
        .expect("the store works");
    let found = store
        .messages(&[second, MessageId(99), first])
        .expect("the store works");
    assert_eq!(texts(&found), ["two", "one"]);
}

/// Returns the texts of the path that is shown.
fn shown(store: &Store, id: ConversationId) -> Vec<String> {
    let path = store.path(id).expect("the store works").into_iter();
    path.map(|head| store.message(head.id).expect("the store works").text)
        .collect()
}

/// Adds questions with their responses to the end of the path.
fn talk(store: &Store, id: ConversationId, questions: &[&str]) -> Vec<MessageId> {
    let mut parent = store
        .path(id)
        .expect("the store works")
        .last()
        .map(|head| head.id);
    let mut asked = Vec::new();
    for text in questions {
        let one = store
            .add_message(question(id, parent, text))
            .expect("the store works");
        let said = store.add_message(answer(id, one)).expect("the store works");
        store
            .append(said, "", &format!("{text}!"))
            .expect("the store works");
        store
            .finish(said, Ending::Stop, Some("{}".to_owned()))
            .expect("the store works");
        asked.push(one);
        parent = Some(said);
    }
    asked
}

#[test]
fn messages_after_a_deleted_exchange_move_up() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = talk(&store, id, &["one", "two", "three"]);
    // Another version of the second question, with another third one.
    let parent = store.message(asked[1]).unwrap().parent;
    store
        .add_message(question(id, parent, "two again"))
        .unwrap();
    talk(&store, id, &["four"]);
    store.show_branch(asked[1]).unwrap();
    assert_eq!(
        shown(&store, id),
        ["one", "one!", "two", "two!", "three", "three!"]
    );

    store.delete_exchange(asked[1]).unwrap();
    assert_eq!(shown(&store, id), ["one", "one!", "three", "three!"]);
    assert_eq!(store.conversation(id).unwrap().n_messages, 4);
    assert!(store.search("two", 0, 9).unwrap().is_empty());
    assert_eq!(store.search("three", 0, 9).unwrap().len(), 1);
    let third = store.message(asked[2]).unwrap();
    assert_eq!(third.siblings.len(), 2, "the other branch is kept");
    store.show_branch(third.siblings[1]).unwrap();
    assert_eq!(shown(&store, id), ["one", "one!", "four", "four!"]);

    store.delete_exchange(asked[0]).unwrap();
    assert_eq!(shown(&store, id), ["four", "four!"]);
    assert_eq!(talk(&store, id, &["five"]).len(), 1);
    assert_eq!(shown(&store, id), ["four", "four!", "five", "five!"]);
}

#[test]
fn statistics_that_count_deleted_or_replaced_text_are_removed() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = talk(&store, id, &["one", "two", "three", "four"]);
    let have_stats = || -> Vec<bool> {
        let responses = store.path(id).unwrap().into_iter();
        let responses = responses.filter(|head| head.role == MessageRole::Assistant);
        let stats = responses.map(|head| store.message(head.id).unwrap().stats);
        stats.map(|stats| stats.is_some()).collect()
    };
    assert_eq!(have_stats(), [true; 4]);
    store.delete_exchange(asked[2]).unwrap();
    assert_eq!(have_stats(), [true, true, false]);
    let said = store.path(id).unwrap()[3].id;
    store.replace_text(said, "Two!").unwrap();
    assert_eq!(have_stats(), [true, false, false]);
}

#[test]
fn the_last_exchange_can_be_deleted() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = talk(&store, id, &["one", "two"]);
    let said = store.path(id).unwrap()[1].id;
    let refused = store.delete_exchange(said);
    assert!(matches!(refused, Err(StoreError::NoMessage(_))));
    store.delete_exchange(asked[1]).unwrap();
    assert_eq!(shown(&store, id), ["one", "one!"]);
    store.delete_exchange(asked[0]).unwrap();
    assert!(store.path(id).unwrap().is_empty());
    assert_eq!(store.conversation(id).unwrap().n_messages, 0);
    talk(&store, id, &["three"]);
    assert_eq!(shown(&store, id), ["three", "three!"]);
}

#[test]
fn a_copy_has_all_branches_and_is_independent() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    store.rename(id, "Talk").unwrap();
    store.pin(id, true).unwrap();
    let asked = talk(&store, id, &["one", "two"]);
    store.add_message(question(id, None, "other")).unwrap();
    store.show_branch(asked[0]).unwrap();

    let copy = store.duplicate(id, "Talk copy", NOW).unwrap();
    assert_ne!(copy, id);
    assert_eq!(shown(&store, copy), shown(&store, id));
    let copied = store.conversation(copy).unwrap();
    assert_eq!((&*copied.title, copied.is_pinned), ("Talk copy", false));
    let first = store.path(copy).unwrap()[0].id;
    assert_eq!(store.message(first).unwrap().siblings.len(), 2);
    store.delete(id).unwrap();
    assert_eq!(shown(&store, copy), ["one", "one!", "two", "two!"]);
}

#[test]
fn ids_of_temporary_conversations_are_in_no_file() {
    let store = Store::temporary().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let asked = talk(&store, id, &["one"])[0];
    assert!(id.is_temporary() && asked.is_temporary());
    store.clear_history().unwrap();
    let next = store.create_conversation(NOW).unwrap();
    assert!(next > id, "an id is never reused");
    let kept = Store::in_memory().unwrap();
    let id = kept.create_conversation(NOW).unwrap();
    let asked = talk(&kept, id, &["one"])[0];
    assert!(!id.is_temporary() && !asked.is_temporary());
}

#[test]
fn summaries_belong_to_a_path_and_leave_with_the_texts_that_they_cover() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    assert_eq!(store.summaries(id).unwrap(), []);
    talk(&store, id, &["one", "two", "three"]);
    let path = store.path(id).unwrap().into_iter();
    let messages: Vec<MessageId> = path.map(|head| head.id).collect();
    let set = |at: usize, text: &str| store.set_summary(messages[at], text).unwrap();
    let found = || store.summaries(id).unwrap();
    set(3, " Both. ");
    set(1, "The first.");
    let both = [
        (messages[1], "The first.".to_owned()),
        (messages[3], "Both.".to_owned()),
    ];
    assert_eq!(found(), both);
    assert_eq!(
        store.message(messages[3]).unwrap().summary.as_deref(),
        Some("Both.")
    );
    // Another branch has only those above it.
    let edited = store
        .add_message(question(id, Some(messages[1]), "zwei"))
        .unwrap();
    assert_eq!(found(), both[..1]);
    store.show_branch(messages[5]).unwrap();
    assert_eq!(found(), both);
    store
        .replace_text(messages[3], "Another response.")
        .unwrap();
    assert_eq!(found(), both[..1]);
    set(3, "Both again.");
    store.reopen(messages[3]).unwrap();
    assert_eq!(found(), both[..1]);
    store.finish(messages[3], Ending::Stop, None).unwrap();
    set(5, "All.");
    store.delete_exchange(messages[0]).unwrap();
    assert_eq!(found(), []);
    let missing = store.set_summary(messages[0], "Gone.");
    assert!(matches!(missing, Err(StoreError::NoMessage(_))));
    // A removed one is remembered as removed.
    set(5, "");
    assert_eq!(found(), []);
    let removed = store.message(messages[5]).unwrap().summary;
    assert_eq!(removed.as_deref(), Some(""));
    assert_eq!(store.message(edited).unwrap().summary, None);
}
