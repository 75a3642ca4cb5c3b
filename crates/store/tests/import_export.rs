//! Exported conversations can be imported again, and so can files of other programs.
//!
//! Rule: a refused import leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use proptest::prelude::*;
use transom_store::{
    AttachedText, ConversationId, ConversationSettings, Ending, MessageId, MessageRole, NewMessage,
    Overflow, Store, StoreError, Timestamp, attached_text,
};

const NOW: Timestamp = Timestamp(1_795_000_000_000);

/// A change of a conversation.
#[derive(Debug, Clone)]
enum Step {
    /// Adds a message below the one with this index, or a first message.
    Add(
        Option<prop::sample::Index>,
        MessageRole,
        [String; 3],
        Ending,
    ),
    Show(prop::sample::Index),
    Rename(String),
    Pin(bool),
}

/// Returns two attached texts as they are stored.
fn attached() -> String {
    let attached = [
        (Some("a `b`\n-->.md"), "> c\n"),
        (None, "<!-- transom end -->"),
    ];
    let attached = attached.map(|(name, text)| AttachedText {
        name: name.map(str::to_owned),
        text: text.to_owned(),
    });
    attached_text::join(&attached)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n]{0,40}",
        "\\PC{0,12}",
        "(\\\\{0,2}<!-- transom (text|message [{][}]|x) -->\n?){1,2}",
        Just("> quoted\n\n\n".to_string()),
        Just("\r\n--> \\<!-- transom end -->\r".to_string()),
        Just(attached()),
        Just(String::new()),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        Just(Ending::Stop),
        Just(Ending::Length),
        Just(Ending::Canceled),
        Just(Ending::Shed),
        Just(Ending::Interrupted),
        text().prop_map(|failure| Ending::Failed { failure }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let role = prop_oneof![Just(MessageRole::User), Just(MessageRole::Assistant)];
    prop_oneof![
        8 => (any::<Option<prop::sample::Index>>(), role, [text(), text(), text()], ending())
            .prop_map(|(parent, role, texts, ending)| Step::Add(parent, role, texts, ending)),
        2 => any::<prop::sample::Index>().prop_map(Step::Show),
        1 => text().prop_map(Step::Rename),
        1 => any::<bool>().prop_map(Step::Pin),
    ]
}

fn live(store: &Store, steps: &[Step]) -> ConversationId {
    let id = store.create_conversation(NOW).unwrap();
    let mut messages: Vec<MessageId> = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::Add(parent, role, [reasoning, text, attachment], ending) => {
                let parent = parent.filter(|_| !messages.is_empty());
                let message = store
                    .add_message(NewMessage {
                        conversation: id,
                        parent: parent.map(|index| *index.get(&messages)),
                        role: *role,
                        text: String::new(),
                        attachment: attachment.clone(),
                        ending: Ending::Writing,
                        model: (n % 2 == 0).then(|| "a > b".to_string()),
                        created_at: Timestamp(NOW.0 + n as i64),
                    })
                    .unwrap();
                store.append(message, reasoning, text).unwrap();
                let stats = (n % 3 == 0).then(|| format!("{{\"n\":{n}}}"));
                store.finish(message, ending.clone(), stats).unwrap();
                messages.push(message);
            }
            Step::Show(index) if !messages.is_empty() => {
                store.show_branch(*index.get(&messages)).unwrap();
            }
            Step::Show(_) => {}
            Step::Rename(title) => store.rename(id, title).unwrap(),
            Step::Pin(is_pinned) => store.pin(id, *is_pinned).unwrap(),
        }
    }
    id
}

/// Returns what is shown, without ids.
fn shown(store: &Store, id: ConversationId) -> Vec<(MessageRole, String, String, String, Ending)> {
    let heads = store.path(id).unwrap();
    let ids: Vec<MessageId> = heads.iter().map(|head| head.id).collect();
    let messages = store.messages(&ids).unwrap().into_iter();
    messages
        .map(|one| {
            (
                one.role,
                one.text,
                one.reasoning,
                one.attachment,
                one.ending,
            )
        })
        .collect()
}

#[test]
fn the_settings_of_a_conversation_are_exported_and_copied() {
    let settings = ConversationSettings {
        model: Some("qwen3-4b@Q4_K_M".to_string()),
        instructions: Some("Answer in one sentence.".to_string()),
        temperature: Some(0.7),
        context_length: Some(2048),
        thinking: Some(true),
        overflow: Overflow::Stop,
    };
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation_with(NOW, &settings).unwrap();
    let copy = store.duplicate(id, "Copy", NOW).unwrap();
    assert_eq!(store.conversation_settings(copy).unwrap(), settings);

    let imported = |json: &str| {
        let other = Store::in_memory().unwrap();
        other.import(json, NOW).unwrap();
        let id = other.conversations(0, 9).unwrap()[0].id;
        other.conversation_settings(id).unwrap()
    };
    let json = store.export_json(Some(id)).unwrap();
    assert_eq!(imported(&json), settings);
    // An invalid value costs no other value.
    let hot = json.replace("\"temperature\": 0.7", "\"temperature\": 70");
    let expected = ConversationSettings {
        temperature: None,
        ..settings
    };
    assert_eq!(imported(&hot), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn an_export_is_imported_unchanged(
        lives in prop::collection::vec(prop::collection::vec(step(), 0..14), 1..3),
    ) {
        let store = Store::in_memory().unwrap();
        let ids: Vec<_> = lives.iter().map(|steps| live(&store, steps)).collect();
        let json = store.export_json(None).unwrap();
        let other = Store::in_memory().unwrap();
        prop_assert_eq!(other.import(&json, NOW).unwrap(), lives.len());
        prop_assert_eq!(other.export_json(None).unwrap(), json.clone());
        let mut listed = other.conversations(0, 9).unwrap();
        listed.sort_by_key(|one| one.id);
        for (id, copy) in ids.iter().zip(listed) {
            let original = store.conversation(*id).unwrap();
            prop_assert_eq!(shown(&other, copy.id), shown(&store, *id));
            prop_assert_eq!((copy.title, copy.n_messages), (original.title, original.n_messages));
        }
        prop_assert_eq!(other.import(&json, NOW).unwrap(), 0);
        prop_assert_eq!(store.import(&json, NOW).unwrap(), 0);
        prop_assert_eq!(store.export_json(None).unwrap(), json);
    }

    #[test]
    fn the_markdown_of_a_path_is_imported_unchanged(
        steps in prop::collection::vec(step(), 0..14),
    ) {
        let store = Store::in_memory().unwrap();
        let id = live(&store, &steps);
        let markdown = store.export_markdown(id).unwrap();
        let other = Store::in_memory().unwrap();
        prop_assert_eq!(other.import(&markdown, NOW).unwrap(), 1);
        let copy = other.conversations(0, 9).unwrap()[0].id;
        prop_assert_eq!(shown(&other, copy), shown(&store, id));
        prop_assert_eq!(other.export_markdown(copy).unwrap(), markdown.clone());
        prop_assert_eq!(store.import(&markdown, NOW).unwrap(), 0);
    }

    #[test]
    fn importing_any_text_never_panics_or_stops_halfway(text in "[\\PC\n]{0,80}") {
        let store = Store::in_memory().unwrap();
        for text in [text.clone(), format!("[{text}]"), format!("<!-- transom {text} -->")] {
            if store.import(&text, NOW).is_err() {
                prop_assert_eq!(store.conversations(0, 9).unwrap(), []);
            }
            store.clear_history().unwrap();
        }
    }
}

#[test]
fn an_import_adds_messages_that_are_missing() {
    let store = Store::in_memory().unwrap();
    let id = live(&store, &[]);
    let say = |store: &Store, id, parent, text: &str| {
        let message = NewMessage::from_user(id, parent, text, NOW);
        store.add_message(message).unwrap()
    };
    let first = say(&store, id, None, "one");
    let json = store.export_json(Some(id)).unwrap();
    let other = Store::in_memory().unwrap();
    other.import(&json, NOW).unwrap();
    let copy = other.conversations(0, 9).unwrap()[0].id;
    let copied = other.path(copy).unwrap()[0].id;
    say(&other, copy, Some(copied), "two");
    say(&store, id, Some(first), "zwei");
    assert_eq!(
        store
            .import(&other.export_json(None).unwrap(), NOW)
            .unwrap(),
        1
    );
    let found = store.search("two", 0, 9).unwrap();
    let snippet = found[0].snippet.as_ref().unwrap();
    assert_eq!(store.message(snippet.message).unwrap().parent, Some(first));
    assert_eq!(shown(&store, id)[1].1, "zwei", "what is shown stays");
}

#[test]
fn a_chatgpt_export_is_imported_with_its_branches() {
    let json = r#"[{
        "title": "Tea", "create_time": 1700000000.5, "update_time": 1700000100.0,
        "conversation_id": "c-1", "current_node": "a2",
        "mapping": {
            "root": {"id": "root", "message": null, "parent": null, "children": ["sys"]},
            "sys": {"message": {"author": {"role": "system"}, "content": {"content_type": "text", "parts": [""]}},
                    "parent": "root", "children": ["q"]},
            "q": {"message": {"author": {"role": "user"}, "create_time": 1700000001.0,
                              "content": {"content_type": "text", "parts": ["Which tea?"]}},
                  "parent": "sys", "children": ["a1", "tool"]},
            "a1": {"message": {"author": {"role": "assistant"}, "content": {"content_type": "text", "parts": ["Green."]},
                               "metadata": {"model_slug": "gpt-4o"}}, "parent": "q", "children": []},
            "tool": {"message": {"author": {"role": "tool"}, "content": {"content_type": "text", "parts": ["…"]}},
                     "parent": "q", "children": ["a2"]},
            "a2": {"message": {"author": {"role": "assistant"},
                               "content": {"content_type": "multimodal_text", "parts": [{"asset_pointer": "x"}, "Black."]}},
                   "parent": "tool", "children": []}
        }
    }]"#;
    let store = Store::in_memory().unwrap();
    assert_eq!(store.import(json, NOW).unwrap(), 1);
    let found = store.conversations(0, 9).unwrap().remove(0);
    assert_eq!(
        (found.title.as_str(), found.created_at.0),
        ("Tea", 1_700_000_000_500)
    );
    let texts: Vec<_> = shown(&store, found.id)
        .into_iter()
        .map(|one| one.1)
        .collect();
    assert_eq!(texts, ["Which tea?", "Black."]);
    let answer = store.path(found.id).unwrap()[1].id;
    let siblings = store.message(answer).unwrap().siblings;
    let other = store.messages(&siblings).unwrap().remove(0);
    assert_eq!(
        (other.text.as_str(), other.model.as_deref()),
        ("Green.", Some("gpt-4o"))
    );
    assert_eq!(store.import(json, Timestamp(NOW.0 + 1)).unwrap(), 0);
}

#[test]
fn lists_of_messages_are_imported() {
    let list = r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}]"#;
    let store = Store::in_memory().unwrap();
    assert_eq!(store.import(list, NOW).unwrap(), 1);
    assert_eq!(store.import(list, Timestamp(NOW.0 + 5)).unwrap(), 0);
    let id = store.conversations(0, 9).unwrap()[0].id;
    let texts: Vec<_> = shown(&store, id).into_iter().map(|one| one.1).collect();
    assert_eq!(texts, ["Hi", "Hello."]);
    let named = format!("{{\"title\": \"Greeting\", \"messages\": {list}}}");
    assert_eq!(store.import(&named, NOW).unwrap(), 1);
    assert_eq!(store.search("greeting", 0, 9).unwrap().len(), 1);
}

#[test]
fn a_refused_import_names_the_place() {
    let ours = |messages: &str| {
        format!(
            "{{\"format\": \"transom-conversations\", \"version\": 1, \"conversations\": [\n{{\"key\": \"k\", \"created_at\": 1, \"updated_at\": 1, \"messages\": [{messages}]}}]}}"
        )
    };
    let first = r#"{"id": 1, "speaker": "user", "created_at": 1, "ending": "stop", "text": "x"}"#;
    let orphan = r#"{"id": 2, "parent": 9, "speaker": "user", "created_at": 1, "ending": "stop", "text": "x"}"#;
    let cases = [
        ("{\n\"a\": }".to_string(), "line 2"),
        ("{\"a\": 1}".to_string(), "neither an export"),
        (
            "Hello.".to_string(),
            "not a conversation that Transom exported",
        ),
        (
            r#"[{"role": "user", "content": "x"}, {"role": "robot"}]"#.to_string(),
            "[1].role",
        ),
        (r#"[{"role": "user"}]"#.to_string(), "[0].content"),
        (r#"{"messages": 3}"#.to_string(), "messages"),
        (r#"[{"mapping": 3}]"#.to_string(), "[0]"),
        (r#"{"format": "other", "version": 1}"#.to_string(), "other"),
        (
            r#"{"format": "transom-conversations", "version": 7}"#.to_string(),
            "format 7",
        ),
        (
            ours(&format!("{first}, {first}")),
            "conversations[0].messages[1].id",
        ),
        (
            ours(&format!("{first}, {orphan}")),
            "conversations[0].messages[1].parent",
        ),
        (ours("{\"id\": 1}"), "line 2"),
        ("# T\n\n<!-- transom message {} -->".to_string(), "line 3"),
    ];
    for (text, place) in cases {
        let store = Store::in_memory().unwrap();
        let error = store.import(&text, NOW).unwrap_err();
        assert!(matches!(error, StoreError::Import { .. }), "{error:?}");
        assert!(error.to_string().contains(place), "{text}: {error}");
        assert_eq!(store.conversations(0, 9).unwrap(), []);
    }
}

#[test]
fn markdown_to_paste_has_only_what_readers_see() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    store.rename(id, "Talk").unwrap();
    let question = NewMessage {
        attachment: attached(),
        ..NewMessage::from_user(id, None, "Why?", NOW)
    };
    let asked = store.add_message(question.clone()).unwrap();
    let answer = NewMessage {
        parent: Some(asked),
        role: MessageRole::Assistant,
        text: "Because.".to_owned(),
        attachment: String::new(),
        model: Some("starter".to_owned()),
        ..question
    };
    store.add_message(answer).unwrap();
    let expected = "# Talk\n\n## You\n\n`a 'b' -->.md`\n\n> > c\n>\n\n> <!-- transom end -->\n\n\
                    Why?\n\n## Assistant (starter)\n\nBecause.\n\n";
    assert_eq!(store.readable_markdown(id).unwrap(), expected);
}

#[test]
fn an_archived_conversation_is_imported_to_the_archive() {
    let store = Store::in_memory().unwrap();
    let id = live(&store, &[]);
    store.archive(id, true).unwrap();
    let n_archived = |export: &str| {
        let other = Store::in_memory().unwrap();
        assert_eq!(other.import(export, NOW).unwrap(), 1);
        other.archived_conversations(0, 9).unwrap().len()
    };
    let json = store.export_json(None).unwrap();
    let markdown = store.export_markdown(id).unwrap();
    assert_eq!((n_archived(&json), n_archived(&markdown)), (1, 1));
    // Older versions wrote no such field.
    let old_json = json.replace("\"is_archived\": true,", "");
    let old_markdown = markdown.replace("\"is_archived\":true,", "");
    assert!(old_json != json && old_markdown != markdown);
    assert_eq!((n_archived(&old_json), n_archived(&old_markdown)), (0, 0));
}

#[test]
fn summaries_are_exported_and_copied() {
    let store = Store::in_memory().unwrap();
    let id = store.create_conversation(NOW).unwrap();
    let question = NewMessage::from_user(id, None, "One?", NOW);
    let question = store.add_message(question).unwrap();
    let second = NewMessage::from_user(id, Some(question), "Two?", NOW);
    store.add_message(second).unwrap();
    let summary = "About tea.\n<!-- transom end -->";
    store.set_summary(question, summary).unwrap();

    let check = |store: &Store, id| {
        let summaries = store.summaries(id).unwrap();
        let texts: Vec<&str> = summaries.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, [summary]);
        assert_eq!(summaries[0].0, store.path(id).unwrap()[0].id);
    };
    check(&store, store.duplicate(id, "Copy", NOW).unwrap());
    let json = store.export_json(Some(id)).unwrap();
    let markdown = store.export_markdown(id).unwrap();
    for export in [&json, &markdown] {
        let other = Store::in_memory().unwrap();
        other.import(export, NOW).unwrap();
        let copy = other.conversations(0, 9).unwrap()[0].id;
        check(&other, copy);
        let shown: Vec<String> = shown(&other, copy).into_iter().map(|one| one.1).collect();
        assert_eq!(shown, ["One?", "Two?"]);
    }
    let readable = store.readable_markdown(id).unwrap();
    let block = "One?\n\n<details><summary>Summary of earlier messages</summary>\n\nAbout tea.";
    assert!(readable.contains(block), "{readable}");
}
