//! Search queries as users type them: unfinished words, other accents, other scripts.
//!
//! Rule: any text is a valid query and never an error.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use proptest::prelude::*;
use transom_store::{
    AttachedText, ConversationId, Ending, FoundConversation, MessageRole, NewMessage, Store,
    Timestamp, attached_text,
};

const NOW: Timestamp = Timestamp(1_795_000_000_000);
const NONE: [usize; 0] = [];

fn say(store: &Store, id: ConversationId, text: &str, attachment: &str) {
    say_as(MessageRole::User, store, id, text, attachment);
}

fn say_as(role: MessageRole, store: &Store, id: ConversationId, text: &str, attachment: &str) {
    let parent = store.path(id).unwrap().last().map(|head| head.id);
    let message = NewMessage {
        conversation: id,
        parent,
        role,
        text: text.to_string(),
        attachment: attachment.to_string(),
        ending: Ending::Stop,
        model: None,
        created_at: NOW,
    };
    store.add_message(message).unwrap();
}

/// Creates a conversation for each text.
fn with(texts: &[&str]) -> (Store, Vec<ConversationId>) {
    let store = Store::in_memory().unwrap();
    let ids = texts.iter().map(|text| {
        let id = store.create_conversation(NOW).unwrap();
        say(&store, id, text, "");
        id
    });
    let ids = ids.collect();
    (store, ids)
}

/// Returns which of the texts are found.
fn found(store: &Store, ids: &[ConversationId], query: &str) -> Vec<usize> {
    let found = store.search(query, 0, 100).unwrap();
    let place = |one: &FoundConversation| ids.iter().position(|id| *id == one.conversation.id);
    let mut found: Vec<usize> = found.iter().filter_map(place).collect();
    found.sort_unstable();
    found
}

/// Returns the snippet with its matches in brackets.
fn snippet(store: &Store, query: &str) -> String {
    let found = store.search(query, 0, 1).unwrap().remove(0);
    let pieces = found.snippet.unwrap().pieces.into_iter();
    pieces
        .map(|(text, is_word)| if is_word { format!("[{text}]") } else { text })
        .collect()
}

#[test]
fn english_words_and_prefixes() {
    let (store, ids) = with(&[
        "How do I bake bread?",
        "Breadth first search",
        "The search for bread",
    ]);
    assert_eq!(found(&store, &ids, "bread"), [0, 1, 2]);
    assert_eq!(found(&store, &ids, "BREAD search"), [2]);
    assert_eq!(found(&store, &ids, "search bread"), [1, 2]);
    assert_eq!(found(&store, &ids, "bread s"), [2]);
    assert_eq!(
        found(&store, &ids, "bre search"),
        NONE,
        "only the last word is unfinished"
    );
    assert_eq!(found(&store, &ids, "baking"), NONE);
}

#[test]
fn german_words_with_and_without_umlauts() {
    let (store, ids) = with(&["Die Straße über die Brücke", "Ärger im Büro", "Apfel"]);
    assert_eq!(found(&store, &ids, "strasse"), [0]);
    assert_eq!(found(&store, &ids, "STRASSE"), [0]);
    assert_eq!(found(&store, &ids, "Straße brück"), [0]);
    assert_eq!(found(&store, &ids, "arger buro"), [1]);
    assert_eq!(found(&store, &ids, "a\u{308}rger"), [1]);
}

#[test]
fn french_words_with_and_without_accents() {
    let (store, ids) = with(&["L’été dernier à Besançon", "Un cœur d’artichaut", "Ete"]);
    assert_eq!(found(&store, &ids, "ete"), [0, 2]);
    assert_eq!(found(&store, &ids, "ÉTÉ besancon"), [0]);
    assert_eq!(found(&store, &ids, "coeur"), [1]);
    assert_eq!(found(&store, &ids, "l'été"), [0]);
}

#[test]
fn chinese_words_of_any_length() {
    let (store, ids) = with(&[
        "如何学习机器学习模型？",
        "今天天气很好",
        "学校在哪里",
        "模型学习",
    ]);
    assert_eq!(found(&store, &ids, "学习"), [0, 3]);
    assert_eq!(found(&store, &ids, "机器学习"), [0]);
    assert_eq!(found(&store, &ids, "天气"), [1]);
    assert_eq!(found(&store, &ids, "学"), [0, 2, 3]);
    assert_eq!(found(&store, &ids, "习学"), NONE);
    assert_eq!(found(&store, &ids, "模型 学习"), [0, 3]);
}

#[test]
fn japanese_words_of_any_length_and_width() {
    let (store, ids) = with(&[
        "東京へ行きたいです",
        "京都の天気",
        "ガイドブックを読む",
        "カイド",
    ]);
    assert_eq!(found(&store, &ids, "東京"), [0]);
    assert_eq!(found(&store, &ids, "行き"), [0]);
    assert_eq!(found(&store, &ids, "京"), [0, 1]);
    assert_eq!(found(&store, &ids, "ｶﾞｲﾄﾞ"), [2]);
    assert_eq!(
        found(&store, &ids, "ガイド"),
        [2],
        "voicing marks are no accents"
    );
}

#[test]
fn korean_and_mixed_scripts() {
    let (store, ids) = with(&["안녕하세요 세계", "学习Rust语言", "ＲＵＳＴ"]);
    assert_eq!(found(&store, &ids, "안녕"), [0]);
    assert_eq!(found(&store, &ids, "rust"), [1, 2]);
    assert_eq!(found(&store, &ids, "Rust语言"), [1]);
}

#[test]
fn punctuation_is_never_an_error() {
    let (store, ids) = with(&["foo_bar(baz) OR NOT \"quoted\" C++"]);
    for query in [
        "\"",
        "'",
        "foo_bar",
        "\"quoted",
        "baz)",
        "(",
        "NOT",
        "OR",
        "AND NOT",
        "*",
        "foo*",
        "text:foo",
        "^foo",
        "{a}",
        "c++",
        "foo AND",
        "NEAR(foo bar)",
        "-foo",
        "\0foo",
        "foo\\",
        "; DROP TABLE",
    ] {
        store.search(query, 0, 10).unwrap();
    }
    assert_eq!(found(&store, &ids, "foo_bar(baz)"), [0]);
    assert_eq!(found(&store, &ids, "\"quoted\""), [0]);
    assert_eq!(found(&store, &ids, "c++"), [0]);
    assert_eq!(
        found(&store, &ids, "?!"),
        NONE,
        "nothing but punctuation finds nothing"
    );
}

#[test]
fn titles_rank_first_and_attachments_are_found() {
    let (store, ids) = with(&[
        "lemon lemon tea with lemon",
        "about nothing",
        "something else",
    ]);
    store.rename(ids[1], "Lemon cake").unwrap();
    say(
        &store,
        ids[2],
        "Sum this up:",
        "A page about lemons, and\nmore.",
    );
    let listed = store.search("lemon", 0, 10).unwrap();
    let order: Vec<_> = listed.iter().map(|one| one.conversation.id).collect();
    assert_eq!(order, [ids[1], ids[0], ids[2]]);
    assert_eq!(listed[0].snippet, None, "the title has it");
    let page = store.search("lemon", 1, 1).unwrap();
    assert_eq!(page[0].conversation.id, ids[0]);
    assert_eq!(
        snippet(&store, "page lemon"),
        "A [page] about [lemons], and more."
    );
}

#[test]
fn attachments_are_found_by_name_and_text_but_not_by_their_format() {
    let (store, ids) = with(&["first"]);
    let attached = [
        ("minutes.pdf", "We met."),
        ("plan.md", "A \"trip\" to Rome."),
    ];
    let attached = attached.map(|(name, text)| AttachedText {
        name: Some(name.to_owned()),
        text: text.to_owned(),
    });
    say(
        &store,
        ids[0],
        "Compare them",
        &attached_text::join(&attached),
    );
    assert_eq!(found(&store, &ids, "minutes"), [0]);
    let whole = "minutes.pdf We met. plan.md A \"trip\" to [Rome].";
    assert_eq!(snippet(&store, "rome"), whole);
    for of_format in ["name", "text"] {
        assert_eq!(found(&store, &ids, of_format), NONE);
    }
}

#[test]
fn a_conversation_with_the_words_in_several_messages_ranks_last() {
    let (store, ids) = with(&["rust", "the borrow checker of rust", "borrow"]);
    say(&store, ids[0], "what is a borrow?", "");
    store.rename(ids[2], "Rust").unwrap();
    let listed = store.search("rust borrow", 0, 10).unwrap();
    let order: Vec<_> = listed.iter().map(|one| one.conversation.id).collect();
    assert_eq!(order[0], ids[1]);
    assert_eq!(order.len(), 3);
    let by_title = listed
        .iter()
        .find(|one| one.conversation.id == ids[2])
        .unwrap();
    let pieces = &by_title.snippet.as_ref().unwrap().pieces;
    assert_eq!(*pieces, [("borrow".to_string(), true)]);
}

#[test]
fn snippets_show_the_words_with_their_context() {
    let long = format!(
        "{} the Größe\nof   a “window” {}",
        "before ".repeat(50),
        "after ".repeat(50)
    );
    let (store, _) = with(&[&long]);
    let shown = snippet(&store, "grosse win");
    assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
    assert!(
        shown.contains("the [Größe] of a “[window]” after"),
        "{shown}"
    );
    assert!(shown.len() < 300, "{shown}");
}

#[test]
fn snippets_of_responses_are_plain_text() {
    let (store, ids) = with(&["first"]);
    let answer = "# Bread\n\nUse **half the yeast** and `warm` water.\n\n\
                  | a | b |\n|---|---|\n| salt | 5 g |\n\n1. [rise](https://example.org/oven)";
    say_as(MessageRole::Assistant, &store, ids[0], answer, "");
    let whole = snippet(&store, "half yeast");
    assert_eq!(
        whole,
        "Bread Use [half] the [yeast] and warm water. a b salt 5 g rise "
    );
    assert!(snippet(&store, "oven").contains("example.org/[oven]"));
    say(&store, ids[0], "my **bold** question", "");
    assert!(snippet(&store, "bold").contains("**[bold]** question"));
}

#[test]
fn a_growing_response_is_found_when_it_ends() {
    let (store, ids) = with(&["question"]);
    let parent = store.path(ids[0]).unwrap()[0].id;
    let answer = NewMessage {
        conversation: ids[0],
        parent: Some(parent),
        role: MessageRole::Assistant,
        text: String::new(),
        attachment: String::new(),
        ending: Ending::Writing,
        model: None,
        created_at: NOW,
    };
    let answer = store.add_message(answer).unwrap();
    store.append(answer, "secret", "zebra").unwrap();
    assert_eq!(found(&store, &ids, "zebra"), NONE);
    store.finish(answer, Ending::Canceled, None).unwrap();
    assert_eq!(found(&store, &ids, "zebra"), [0]);
    assert_eq!(
        found(&store, &ids, "secret"),
        NONE,
        "thoughts are not searched"
    );
}

proptest! {
    #[test]
    fn any_text_is_a_valid_query(query in "\\PC{0,30}", text in "\\PC{0,60}") {
        let (store, _) = with(&[&text]);
        let found = store.search(&query, 0, 10).unwrap();
        for (piece, is_word) in found.into_iter().filter_map(|one| one.snippet).flat_map(|one| one.pieces) {
            prop_assert!(!piece.is_empty() && (!is_word || text.contains(&piece)), "{:?}", piece);
        }
    }

    #[test]
    fn every_word_between_spaces_finds_its_text(text in "[a-zA-ZäöüßéÇ学习が.,_\" -]{1,40}") {
        let (store, ids) = with(&[&text]);
        for piece in text.split_whitespace().filter(|piece| piece.chars().any(char::is_alphanumeric)) {
            prop_assert_eq!(found(&store, &ids, piece), [0], "{}", piece);
            let listed = store.search(piece, 0, 1).unwrap();
            prop_assert!(listed[0].snippet.as_ref().unwrap().pieces.iter().any(|piece| piece.1));
        }
    }
}
