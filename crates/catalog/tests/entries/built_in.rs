//! Tests of the built-in catalog, and of its header, which explains the keys.
//!
//! Rule: the catalog has no error, and every entry has all that a person needs to choose.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use transom_catalog::Catalog;
use transom_catalog::entries::Tag;

use super::{FULL, read};

const LIST: &str = include_str!("../../../../models.toml");

#[test]
fn the_built_in_catalog_has_no_error_and_enough_models() {
    let list = read(LIST).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(*Catalog::built_in(), list);
    let installable = list.entries.iter().filter(|entry| entry.bundled.is_none());
    let n_models = installable.count();
    assert!(n_models >= 25, "{n_models} models can be installed");
    for tag in Tag::ALL {
        let has = list.entries.iter().any(|entry| entry.tags.contains(&tag));
        assert!(has, "no model is for {}", tag.name());
    }
}

#[test]
fn every_built_in_entry_has_what_a_person_needs_to_choose() {
    for entry in &Catalog::built_in().entries {
        let id = &entry.id;
        let texts = [&entry.family, &entry.description, &entry.license];
        assert!(texts.iter().all(|text| !text.is_empty()), "{id}");
        assert!(
            entry.description.ends_with('.'),
            "{id}: {}",
            entry.description
        );
        assert!(!entry.tags.is_empty(), "{id} has no tag");
        if entry.bundled.is_some() {
            continue;
        }
        assert!(entry.source.is_some(), "{id} has no model card");
        for variant in &entry.variants {
            let form = format!("{id}, {}", variant.quantization);
            assert!(variant.size_bytes().is_some(), "{form}: how large?");
        }
    }
}

#[test]
fn the_starter_is_where_the_catalog_says() {
    let list = Catalog::built_in();
    let bundled = list.find("starter").unwrap().bundled.as_ref().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(root.join(&bundled.path).join("config.json").is_file());
}

#[test]
fn every_embedding_model_says_what_it_reads_before_a_search() {
    let list = Catalog::built_in();
    let of = |id| {
        let entry = list.find(id).unwrap();
        (&*entry.query_prefix, &*entry.document_prefix)
    };
    for entry in &list.entries {
        let is_embedder = entry.tags.contains(&Tag::Embedding);
        assert_eq!(is_embedder, !entry.query_prefix.is_empty(), "{}", entry.id);
    }
    // The blank at the end and the line break are part of them.
    let gemma = ("task: search result | query: ", "title: none | text: ");
    assert_eq!(of("embeddinggemma-300m"), gemma);
    assert!(of("qwen3-embedding-0.6b").0.ends_with("\nQuery:"));
}

/// Returns the keys that the header documents: words that begin a line of its tables, also several.
fn documented() -> BTreeSet<String> {
    let header = LIST.lines().take_while(|line| line.starts_with('#'));
    let mut keys = BTreeSet::new();
    for line in header {
        // Keys are indented by two blanks, their descriptions by more.
        let Some(line) = line
            .strip_prefix("#   ")
            .filter(|line| !line.starts_with(' '))
        else {
            continue;
        };
        let names = line.split("  ").next().unwrap_or_default();
        let names = names.split([',', '*', ' ']).filter(|name| !name.is_empty());
        keys.extend(names.map(str::to_owned));
    }
    keys
}

/// Returns the keys that the reader knows. Its error for an unknown key lists them.
fn read_keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let tables = [
        "description =",
        "top_k =",
        "model_type = \"qwen3\"\nparameters = 7",
        "quantization = \"4-bit\"",
    ];
    for place in tables {
        let text = FULL.replacen(place, &format!("zzzzzzzz = 1\n{place}"), 1);
        let reason = read(&text).unwrap_err().reason;
        let known = reason
            .split("the keys are ")
            .nth(1)
            .unwrap_or_else(|| panic!("{reason}"));
        keys.extend(known.split(", ").map(str::to_owned));
    }
    keys
}

#[test]
fn the_header_explains_every_key_that_is_read_and_no_other() {
    // Tables have their own lines, and the keys of a file are explained with `files`.
    let tables = ["sampling", "architecture", "variant"].map(str::to_owned);
    let read: BTreeSet<String> = read_keys()
        .into_iter()
        .filter(|key| !tables.contains(key))
        .collect();
    assert!(read.len() > 35, "{read:?}");
    assert_eq!(documented(), read);
    for table in tables {
        assert!(
            LIST.contains(&format!("# [model.{table}]"))
                || LIST.contains(&format!("# [[model.{table}]]"))
        );
    }
}

#[test]
fn draft_models_are_used_for_large_models_on_large_machines() {
    let list = Catalog::built_in();
    let draft = |id: &str, gigabytes: u64| {
        let entry = list.find(id).unwrap();
        let draft = list.draft_of(entry, gigabytes << 30);
        draft.map(|draft| draft.id.as_str())
    };
    assert_eq!(draft("qwen3-14b", 32), Some("qwen3-0.6b"));
    assert_eq!(draft("qwen3-32b", 64), Some("qwen3-0.6b"));
    assert_eq!(draft("qwen3-32b", 24), None);
    assert_eq!(draft("qwen3-8b", 64), None);
    assert_eq!(draft("qwen3.5-27b", 64), None);
}

#[test]
fn a_draft_model_has_the_vocabulary_of_its_model() {
    let list = Catalog::built_in();
    for entry in &list.entries {
        let Some(draft) = entry.draft.as_deref().and_then(|id| list.find(id)) else {
            continue;
        };
        let tokens = |entry: &transom_catalog::Entry| entry.architecture.vocabulary;
        // Embedding tables are padded to round numbers, which differ by a few hundred rows.
        let difference = tokens(entry).abs_diff(tokens(draft));
        assert!(difference < 1024, "{} and its draft {}", entry.id, draft.id);
    }
}

#[test]
fn no_two_built_in_variants_have_the_same_files() {
    let mut seen = HashSet::new();
    for entry in &Catalog::built_in().entries {
        for variant in &entry.variants {
            let first = variant.files.first().map(|file| file.name.clone());
            let place = (
                variant.repository.clone(),
                variant.quantization.clone(),
                first,
            );
            assert!(seen.insert(place.clone()), "{}: {place:?}", entry.id);
        }
    }
}
