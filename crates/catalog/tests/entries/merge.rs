//! Tests of merging a user's catalog into the built-in one, and of searching.
//!
//! Rule: entries that the user's catalog does not name stay as they are.

use std::path::Path;

use proptest::prelude::*;
use transom_catalog::{Catalog, Entry};

use super::{FULL, read};

const MINE: &str = "mine.toml";

/// Returns a catalog of models that differ only in their ids and names.
fn list(models: &[(String, String)]) -> String {
    let small = &FULL[FULL.find("[[model]]\nid = \"small\"").unwrap()..];
    let models = models.iter().map(|(id, name)| {
        let with_id = small.replace("id = \"small\"", &format!("id = \"{id}\""));
        with_id.replace("name = \"Small\"", &format!("name = \"{name}\""))
    });
    models.collect()
}

fn merged(base: &Catalog, text: &str) -> Catalog {
    base.merged_with(text, Path::new(MINE)).unwrap()
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.id).collect()
}

fn of(ids: &[&str], name: &str) -> String {
    let models = ids.iter().map(|id| ((*id).to_owned(), name.to_owned()));
    list(&models.collect::<Vec<_>>())
}

#[test]
fn an_entry_of_the_same_id_replaces_the_built_in_one() {
    let base = read(&of(&["a", "b", "c"], "Built in")).unwrap();
    let merged = merged(&base, &of(&["d", "b"], "Mine"));
    assert_eq!(ids(&merged.entries), ["a", "b", "c", "d"]);
    let mine = merged.entries.iter().map(|entry| entry.is_users);
    assert_eq!(mine.collect::<Vec<_>>(), [false, true, false, true]);
    assert_eq!(merged.find("B").unwrap().name, "Mine");
    assert_eq!(merged.find("e"), None);
}

#[test]
fn a_users_model_may_have_a_built_in_draft_model() {
    let base = read(&of(&["small"], "Built in")).unwrap();
    let big = &FULL[..FULL.find("[[model]]\nid = \"small\"").unwrap()];
    let merged = merged(&base, big);
    assert_eq!(merged.find("big").unwrap().draft.as_deref(), Some("small"));
    let alone = read(big).unwrap_err();
    assert_eq!(alone.reason, "no model has the id `small`");
}

#[test]
fn an_empty_catalog_changes_nothing_and_a_wrong_one_is_refused() {
    let base = read(FULL).unwrap();
    assert_eq!(merged(&base, ""), base);
    assert_eq!(merged(&base, "# nothing yet\n"), base);
    let error = base.merged_with("\n oops", Path::new(MINE)).unwrap_err();
    assert_eq!(error.file, Path::new(MINE));
    assert_eq!(error.line, 2);
}

#[test]
fn a_search_finds_all_words_anywhere_and_returns_names_first() {
    let list = read(FULL).unwrap();
    let found = |words: &str| {
        let found = list.search(words).into_iter();
        found.map(|entry| &*entry.id).collect::<Vec<_>>()
    };
    assert_eq!(found(""), ["big", "small"]);
    assert_eq!(found("BIG 7b"), ["big"]);
    assert_eq!(found("reasoning"), ["big"], "a tag");
    assert_eq!(found("owner/small"), ["small"], "a repository");
    assert_eq!(found("big small"), Vec::<&str>::new());
    assert_eq!(found("q8_0"), Vec::<&str>::new());
    // "Small" in a description does not come before a model with that name.
    let text = FULL.replace("For tests,", "For small tests,");
    let list = read(&text).unwrap();
    assert_eq!(list.search("small")[0].id, "small");
    assert_eq!(list.search("small").len(), 2);
}

fn models() -> impl Strategy<Value = Vec<(String, String)>> {
    let model = ("[a-e][a-c]?", "[A-Z][a-z]{2,8}");
    let unique = |models: Vec<(String, String)>| {
        let mut seen = std::collections::HashSet::new();
        let unique = models.into_iter().filter(|(id, _)| seen.insert(id.clone()));
        unique.collect::<Vec<_>>()
    };
    prop::collection::vec(model, 0..8).prop_map(unique)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn entries_that_a_users_catalog_does_not_name_are_never_lost(base in models(), mine in models()) {
        let list_of_base = read(&list(&base)).unwrap();
        let merged = merged(&list_of_base, &list(&mine));
        for entry in &list_of_base.entries {
            let is_named = mine.iter().any(|(id, _)| *id == entry.id);
            let now = merged.find(&entry.id).unwrap();
            prop_assert_eq!(now.is_users, is_named);
            prop_assert!(is_named || now == entry);
        }
        for (id, name) in &mine {
            prop_assert_eq!(&merged.find(id).unwrap().name, name);
        }
        let mut all = ids(&merged.entries);
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(all.len(), n, "each id once");
        let again = merged.merged_with(&list(&mine), Path::new(MINE)).unwrap();
        prop_assert_eq!(again, merged);
    }
}
