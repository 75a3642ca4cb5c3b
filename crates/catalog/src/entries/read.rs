//! Reads a catalog from TOML and checks that its models are consistent.
//!
//! Rule: the keys that are read are those of [`keys`], and the header of the built-in catalog explains
//! them; a test compares both.

mod architecture;
pub(super) mod keys;
mod variant;

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use toml::de::DeTable;

use super::table::{Document, Located, Table, displayable, new_spelling, suggestion};
use super::{Bundled, Catalog, CatalogError, Entry, Sampling, Tag};

/// A reference to a draft model, which is checked after all models are read.
struct Draft {
    of_parameters: u64,
    id: Located<String>,
}

/// Returns the entries without errors, and all errors, both in the order of the file. A draft model
/// may also be in `base`. `is_users` is true for the user's own catalog.
pub(super) fn list(
    text: &str,
    file: &Path,
    base: &Catalog,
    is_users: bool,
) -> (Vec<Entry>, Vec<CatalogError>) {
    let mut document = Document::new(text, file);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            document.wrong(at, not_toml(error.message()));
            return (Vec::new(), document.into_errors());
        }
    };
    let root = Table::new(root.get_ref(), 0, "the list");
    root.allow_only(&["model"], &mut document);
    let mut ids: HashMap<String, usize> = HashMap::new();
    let mut entries = Vec::new();
    let mut drafts = Vec::new();
    for table in root.tables("model", "[[model]]", "this model", &mut document) {
        let n_before = document.n_errors();
        let id = id(&table, &mut document);
        if let Some(id) = &id {
            check_unique(id, &mut ids, &mut document);
            check_not_bundled(id, base, is_users, &mut document);
        }
        let entry = entry(&table, id, is_users, &mut document);
        if let Some((entry, draft)) = entry.filter(|_| document.n_errors() == n_before) {
            drafts.extend(draft.map(|id| Draft {
                of_parameters: entry.architecture.parameters,
                id,
            }));
            entries.push(entry);
        }
    }
    for draft in &drafts {
        check_draft(draft, &entries, &ids, base, &mut document);
    }
    (entries, document.into_errors())
}

/// Returns the parser's message, for common errors in words for people who don't know TOML.
fn not_toml(message: &str) -> String {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    match what {
        "string values must be quoted" => "text must be in quotes: \"…\"".to_owned(),
        "invalid basic string" | "invalid literal string" => {
            "this text has no closing quote on its line".to_owned()
        }
        "key with no value" => "a key needs `=` and a value".to_owned(),
        "unexpected key or value" => "begin a new line here".to_owned(),
        "duplicate key" => "this key is repeated; remove one of the two".to_owned(),
        _ if what.starts_with("unclosed ") => format!("the closing {expected} is missing"),
        _ => {
            let visible = message.chars().filter(|c| !c.is_control());
            let visible: String = visible.take(200).collect();
            format!("this is not TOML: {visible}")
        }
    }
}

fn id(table: &Table<'_>, document: &mut Document<'_>) -> Option<Located<String>> {
    let found = table.text("id", document);
    let found = table.require("id", "\"my-model\"", found, document)?;
    let id = &found.value;
    let is_inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    let is_first = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_right = id.bytes().all(is_inner)
        && id.as_bytes().first().is_some_and(is_first)
        && id.len() <= 100
        && !id.contains("..");
    if !is_right {
        let reason = "`id` is what people type: at most 100 small letters a to z, digits, `.` and \
                      `-`, beginning with a letter or digit";
        document.wrong(found.at, reason);
        return None;
    }
    Some(found)
}

fn check_unique(
    id: &Located<String>,
    ids: &mut HashMap<String, usize>,
    document: &mut Document<'_>,
) {
    if let Some(&first) = ids.get(&id.value) {
        let line = document.line_of(first);
        let reason = format!(
            "`{}` is already the id of the model at line {line}",
            id.value
        );
        document.wrong(id.at, reason);
    } else {
        ids.insert(id.value.clone(), id.at);
    }
}

/// Checks that the user doesn't replace the model that comes with the program. A user's entry may
/// replace any other built-in one.
fn check_not_bundled(
    id: &Located<String>,
    base: &Catalog,
    is_users: bool,
    document: &mut Document<'_>,
) {
    let ships = |entry: &Entry| entry.bundled.is_some();
    if is_users && base.find(&id.value).is_some_and(ships) {
        let reason = format!(
            "`{}` is the model that comes with the program; choose another id",
            id.value
        );
        document.wrong(id.at, reason);
    }
}

/// Returns the entry of a table, with the position of its draft model; `None` after an error that
/// leaves the entry without a required value.
fn entry(
    table: &Table<'_>,
    id: Option<Located<String>>,
    is_users: bool,
    document: &mut Document<'_>,
) -> Option<(Entry, Option<Located<String>>)> {
    table.allow_only(&keys::MODEL, document);
    let name = table.text("name", document);
    let name = table.require("name", "\"My Model\"", name, document);
    let mut text = |key| table.text(key, document).map(|found| found.value);
    let (family, description) = (text("family"), text("description"));
    let license = license(table, document);
    let source = source(table, document);
    let tags = tags(table, document);
    let draft = table.text("draft", document);
    let unverified = unverified(table, &keys::of_model(), document);
    let sampling = sampling(table, document);
    let architecture = table.table("architecture", "[model.architecture]", document);
    let architecture = match architecture {
        Some(numbers) => architecture::read(&numbers, table.has("path"), document),
        None => {
            if !table.has("architecture") {
                let reason = "this model has no [model.architecture]; its numbers are in the \
                              model's own config.json";
                document.wrong(table.at, reason);
            }
            None
        }
    };
    let bundled = bundled(table, is_users, document);
    let variants = variant::read_all(table, architecture.as_ref(), document);
    if variants.is_empty() && bundled.is_none() && !table.has("variant") {
        let reason = "this model has no [[model.variant]], so it can't be downloaded";
        document.wrong(table.at, reason);
    }
    let architecture = architecture?;
    let entry = Entry {
        id: id?.value,
        name: name?.value,
        family: family.unwrap_or_default(),
        description: description.unwrap_or_default(),
        license: license.unwrap_or_default(),
        tags,
        context_length: architecture.context_length,
        source,
        architecture,
        sampling,
        draft: draft.as_ref().map(|draft| draft.value.clone()),
        variants,
        unverified,
        bundled,
        is_users,
    };
    Some((entry, draft))
}

/// Reads the license. Checks only the characters of an SPDX expression, not whether it exists.
fn license(table: &Table<'_>, document: &mut Document<'_>) -> Option<String> {
    let found = table.text("license", document)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-.+: ()".contains(c);
    if !found.value.chars().all(is_part) {
        let reason = "`license` must be an SPDX expression such as \"Apache-2.0\", or \
                      \"LicenseRef-\" with the name that its authors use";
        document.wrong(found.at, reason);
        return None;
    }
    Some(found.value)
}

fn source(table: &Table<'_>, document: &mut Document<'_>) -> Option<String> {
    let found = table.text("source", document)?;
    let rest = found.value.strip_prefix("https://");
    let is_address =
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
    if !is_address {
        document.wrong(
            found.at,
            "`source` must be an address that begins with https://",
        );
        return None;
    }
    Some(found.value)
}

fn tags(table: &Table<'_>, document: &mut Document<'_>) -> Vec<Tag> {
    let names = Tag::ALL.map(Tag::name);
    let mut tags = Vec::new();
    for found in table.texts("tags", document) {
        match Tag::ALL.into_iter().find(|tag| tag.name() == found.value) {
            Some(tag) if tags.contains(&tag) => {
                document.wrong(
                    found.at,
                    format!("the tag `{}` is listed twice", tag.name()),
                );
            }
            Some(tag) => tags.push(tag),
            None => {
                let reason = format!(
                    "there is no tag `{}`{}",
                    displayable(&found.value),
                    suggestion(&found.value, &names)
                        .unwrap_or_else(|| format!("; the tags are {}", names.join(", ")))
                );
                document.wrong(found.at, reason);
            }
        }
    }
    tags
}

/// Returns the keys of `known` that are listed as unverified.
fn unverified(table: &Table<'_>, known: &[&str], document: &mut Document<'_>) -> Vec<String> {
    let mut keys = Vec::new();
    for found in table.texts("unverified", document) {
        let last = found.value.rsplit('.').next().unwrap_or_default();
        if known.contains(&last) {
            keys.push(found.value);
            continue;
        }
        if let Some(new) = new_spelling(last).filter(|new| known.contains(new)) {
            keys.push(new.to_owned());
            continue;
        }
        let reason = format!(
            "`unverified` lists keys of this table, not `{}`{}",
            displayable(&found.value),
            suggestion(last, known).unwrap_or_default()
        );
        document.wrong(found.at, reason);
    }
    keys
}

fn sampling(table: &Table<'_>, document: &mut Document<'_>) -> Sampling {
    let Some(table) = table.table("sampling", "[model.sampling]", document) else {
        return Sampling::default();
    };
    table.allow_only(&keys::SAMPLING, document);
    let top_k = table.number("top_k", 0..=1_000_000, document);
    let mut fraction = |key, range| Some(table.fraction(key, range, document)?.value);
    // With 0, top_p would keep no token and the penalty would divide by zero.
    Sampling {
        temperature: fraction("temperature", 0.0..=5.0),
        top_p: fraction("top_p", 0.01..=1.0),
        top_k: top_k.map(|found| found.value),
        min_p: fraction("min_p", 0.0..=1.0),
        repetition_penalty: fraction("repetition_penalty", 0.01..=5.0),
    }
}

/// Returns the paths of the model that comes with the program, relative to the built-in catalog.
fn bundled(table: &Table<'_>, is_users: bool, document: &mut Document<'_>) -> Option<Bundled> {
    let mut path = |key| {
        let found = table.text(key, document)?;
        if is_users {
            let reason = format!(
                "`{key}` is for models that come with the program; add your own folder by its path"
            );
            document.wrong(found.at, reason);
            return None;
        }
        let path = PathBuf::from(&found.value);
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(is_below) {
            let reason = format!("`{key}` must be a path below the catalog's own folder");
            document.wrong(found.at, reason);
            return None;
        }
        Some(path)
    };
    let (folder, gguf) = (path("path"), path("gguf"));
    match folder {
        Some(path) => Some(Bundled { path, gguf }),
        None => {
            if !table.has("path") && gguf.is_some() {
                let reason = "`gguf` needs a `path`";
                document.wrong(table.at, reason);
            }
            None
        }
    }
}

/// Checks that a draft model is another, smaller model of the catalog.
fn check_draft(
    draft: &Draft,
    entries: &[Entry],
    ids: &HashMap<String, usize>,
    base: &Catalog,
    document: &mut Document<'_>,
) {
    let id = &draft.id.value;
    let own = entries.iter().find(|entry| entry.id == *id);
    // Of an entry with an error only the id is known.
    let found = own.or_else(|| base.find(id).filter(|_| !ids.contains_key(id)));
    if let Some(found) = found {
        if found.architecture.parameters >= draft.of_parameters {
            let reason = format!("a draft must be smaller than its model, and `{id}` is not");
            document.wrong(draft.id.at, reason);
        }
        return;
    }
    if ids.contains_key(id) {
        return;
    }
    let known = ids.keys().map(String::as_str);
    let known: Vec<&str> = known
        .chain(base.entries.iter().map(|entry| &*entry.id))
        .collect();
    let reason = format!(
        "no model has the id `{}`{}",
        displayable(id),
        suggestion(id, &known).unwrap_or_default()
    );
    document.wrong(draft.id.at, reason);
}
