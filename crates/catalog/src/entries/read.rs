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
use super::{Bundled, Catalog, CatalogError, CatalogErrorCode, Entry, Sampling, Tag};

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
    let document = Document::new(text, file);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let reason = not_toml(error.message());
            document.report(CatalogErrorCode::Syntax, at, "", reason);
            return (Vec::new(), document.into_errors());
        }
    };
    let root = Table::root(root.get_ref(), &document);
    root.allow_only(&["model"]);
    let mut ids: HashMap<String, usize> = HashMap::new();
    let mut entries = Vec::new();
    let mut drafts = Vec::new();
    for table in root.tables("model", "[[model]]", "this model") {
        let n_before = document.n_errors();
        let id = id(&table);
        if let Some(id) = &id {
            check_unique(id, &mut ids, &document);
            if is_users {
                check_not_bundled(id, base, &document);
            }
        }
        let entry = entry(&table, id, is_users);
        if let Some((entry, draft)) = entry.filter(|_| document.n_errors() == n_before) {
            drafts.extend(draft.map(|id| Draft {
                of_parameters: entry.architecture.parameters,
                id,
            }));
            entries.push(entry);
        }
    }
    for draft in &drafts {
        check_draft(draft, &entries, &ids, base, &document);
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

fn id(table: &Table<'_>) -> Option<Located<String>> {
    let is_inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    let is_first = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let found = table.required_text("id", "\"my-model\"");
    let reason = "`id` is what people type: at most 100 small letters a to z, digits, `.` and \
                  `-`, beginning with a letter or digit";
    table.check("id", found, reason, |id| {
        id.bytes().all(is_inner)
            && id.as_bytes().first().is_some_and(is_first)
            && id.len() <= 100
            && !id.contains("..")
    })
}

fn check_unique(id: &Located<String>, ids: &mut HashMap<String, usize>, document: &Document<'_>) {
    let Located { value, at } = id;
    if let Some(&first) = ids.get(value) {
        let line = document.line_of(first);
        let reason = format!("`{value}` is already the id of the model at line {line}");
        document.report(CatalogErrorCode::Duplicate, *at, "id", reason);
    } else {
        ids.insert(value.clone(), *at);
    }
}

/// Checks that the user doesn't replace the model that comes with the program. A user's entry may
/// replace any other built-in one.
fn check_not_bundled(id: &Located<String>, base: &Catalog, document: &Document<'_>) {
    let Located { value, at } = id;
    if base
        .find(value)
        .is_some_and(|entry| entry.bundled.is_some())
    {
        let reason =
            format!("`{value}` is the model that comes with the program; choose another id");
        document.wrong(*at, "id", reason);
    }
}

/// Returns the entry of a table, with the position of its draft model; `None` after an error that
/// leaves the entry without a required value.
fn entry(
    table: &Table<'_>,
    id: Option<Located<String>>,
    is_users: bool,
) -> Option<(Entry, Option<Located<String>>)> {
    table.allow_only(&keys::MODEL);
    let name = table.required_text("name", "\"My Model\"");
    let text = |key| table.text(key).map(|found| found.value);
    let (family, description) = (text("family"), text("description"));
    let (license, source) = (license(table), source(table));
    let tags = tags(table);
    let draft = table.text("draft");
    let prefix = |key| prefix(table, key, &tags);
    let (query_prefix, document_prefix) = (prefix("query_prefix"), prefix("document_prefix"));
    let min_dimensions = min_dimensions(table, &tags);
    let unverified = unverified(table, &keys::of_model());
    let sampling = sampling(table);
    let architecture = match table.table("architecture", "[model.architecture]") {
        Some(numbers) => architecture::read(&numbers),
        None => {
            if !table.has("architecture") {
                let reason = "this model has no [model.architecture]; its numbers are in the \
                              model's own config.json";
                table.missing("architecture", reason);
            }
            None
        }
    };
    let bundled = bundled(table, is_users);
    let variants = variant::read_all(table, architecture.as_ref());
    if variants.is_empty() && bundled.is_none() && !table.has("variant") {
        let reason = "this model has no [[model.variant]], so it can't be downloaded";
        table.missing("variant", reason);
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
        query_prefix,
        document_prefix,
        min_dimensions,
        draft: draft.as_ref().map(|draft| draft.value.clone()),
        variants,
        unverified,
        bundled,
        is_users,
    };
    Some((entry, draft))
}

/// Reads the license. Checks only the characters of an SPDX expression, not whether it exists.
fn license(table: &Table<'_>) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-.+: ()".contains(c);
    let reason = "`license` must be an SPDX expression such as \"Apache-2.0\", or \
                  \"LicenseRef-\" with the name that its authors use";
    let found = table.check("license", table.text("license"), reason, |text| {
        text.chars().all(is_part)
    });
    Some(found?.value)
}

fn source(table: &Table<'_>) -> Option<String> {
    let reason = "`source` must be an address that begins with https://";
    let found = table.check("source", table.text("source"), reason, |text| {
        let rest = text.strip_prefix("https://");
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
    });
    Some(found?.value)
}

fn tags(table: &Table<'_>) -> Vec<Tag> {
    let names = Tag::ALL.map(Tag::name);
    let mut tags = Vec::new();
    for Located { value, at } in table.texts("tags") {
        match Tag::ALL.into_iter().find(|tag| tag.name() == value) {
            Some(tag) if tags.contains(&tag) => {
                let reason = format!("the tag `{value}` is listed twice");
                table.wrong(at, "tags", reason);
            }
            Some(tag) => tags.push(tag),
            None => {
                let all = || format!("; the tags are {}", names.join(", "));
                let hint = suggestion(&value, &names).unwrap_or_else(all);
                let reason = format!("there is no tag `{}`{hint}", displayable(&value));
                table.wrong(at, "tags", reason);
            }
        }
    }
    tags
}

/// Returns what an embedding model reads before a text.
fn prefix(table: &Table<'_>, key: &str, tags: &[Tag]) -> String {
    let reason = format!("`{key}` is for models with the tag `embedding`");
    let found = table.check(key, table.exact_text(key), &reason, |_| {
        tags.contains(&Tag::Embedding)
    });
    found.map(|found| found.value).unwrap_or_default()
}

/// Returns to how few numbers the vectors of an embedding model may be cut; 0 if they may not.
fn min_dimensions(table: &Table<'_>, tags: &[Tag]) -> u64 {
    let key = "min_dimensions";
    let Some(found) = table.number(key, 1..=1_000_000) else {
        return 0;
    };
    if !tags.contains(&Tag::Embedding) {
        let reason = format!("`{key}` is for models with the tag `embedding`");
        table.wrong(found.at, key, reason);
    }
    found.value
}

/// Returns the keys of `known` that are listed as unverified.
fn unverified(table: &Table<'_>, known: &[&str]) -> Vec<String> {
    let mut keys = Vec::new();
    for Located { value, at } in table.texts("unverified") {
        let last = value.rsplit('.').next().unwrap_or_default();
        if known.contains(&last) {
            keys.push(value);
        } else if let Some(new) = new_spelling(last).filter(|new| known.contains(new)) {
            keys.push(new.to_owned());
        } else {
            let hint = suggestion(last, known).unwrap_or_default();
            let shown = displayable(&value);
            let reason = format!("`unverified` lists keys of this table, not `{shown}`{hint}");
            table.wrong(at, "unverified", reason);
        }
    }
    keys
}

fn sampling(table: &Table<'_>) -> Sampling {
    let Some(table) = table.table("sampling", "[model.sampling]") else {
        return Sampling::default();
    };
    table.allow_only(&keys::SAMPLING);
    let top_k = table.number("top_k", 0..=1_000_000);
    // With 0, top_p would keep no token and the penalty would divide by zero.
    Sampling {
        temperature: table.fraction("temperature", 0.0..=5.0),
        top_p: table.fraction("top_p", 0.01..=1.0),
        top_k: top_k.map(|found| found.value),
        min_p: table.fraction("min_p", 0.0..=1.0),
        repetition_penalty: table.fraction("repetition_penalty", 0.01..=5.0),
    }
}

/// Returns the paths of the model that comes with the program, relative to the built-in catalog.
fn bundled(table: &Table<'_>, is_users: bool) -> Option<Bundled> {
    let path = |key| {
        let found = table.text(key)?;
        if is_users {
            let reason = format!(
                "`{key}` is for models that come with the program; add your own folder by its path"
            );
            table.wrong(found.at, key, reason);
            return None;
        }
        let path = PathBuf::from(&found.value);
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(is_below) {
            let reason = format!("`{key}` must be a path below the catalog's own folder");
            table.wrong(found.at, key, reason);
            return None;
        }
        Some(path)
    };
    let (folder, gguf) = (path("path"), path("gguf"));
    if folder.is_none() && !table.has("path") && gguf.is_some() {
        table.missing("path", "`gguf` needs a `path`");
    }
    Some(Bundled {
        path: folder?,
        gguf,
    })
}

/// Checks that a draft model is another, smaller model of the catalog.
fn check_draft(
    draft: &Draft,
    entries: &[Entry],
    ids: &HashMap<String, usize>,
    base: &Catalog,
    document: &Document<'_>,
) {
    let Located { value: id, at } = &draft.id;
    let own = entries.iter().find(|entry| entry.id == *id);
    // Of an entry with an error only the id is known.
    let found = own.or_else(|| base.find(id).filter(|_| !ids.contains_key(id)));
    let reason = match found {
        Some(found) if found.architecture.parameters < draft.of_parameters => return,
        Some(_) => format!("a draft must be smaller than its model, and `{id}` is not"),
        None if ids.contains_key(id) => return,
        None => {
            let known = ids.keys().map(String::as_str);
            let known: Vec<&str> = known
                .chain(base.entries.iter().map(|entry| &*entry.id))
                .collect();
            let hint = suggestion(id, &known).unwrap_or_default();
            format!("no model has the id `{}`{hint}", displayable(id))
        }
    };
    document.wrong(*at, "draft", reason);
}
