//! The tables and their migrations.
//!
//! Rule: a released migration is never changed; new ones are appended. `user_version` and
//! `meta.schema` both contain the number of applied migrations, so a damaged header can be told
//! from a file of a newer version. Newer versions keep the table `meta`.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;
use crate::store::{execute, query_all, query_one, text};

/// Entry *n* migrates from schema *n* to *n* + 1.
pub(crate) const MIGRATIONS: &[&str] = &[
    CONVERSATIONS,
    CONVERSATION_SETTINGS,
    THINKING_AND_OVERFLOW,
    SUMMARIES,
    ARCHIVE,
    WRITTEN_TITLES,
];

/// All branches are in one table of messages that point to their parents. `shown_child` stores
/// which child was last shown at a fork. `depth` counts from 1, so the length of a path is known
/// without walking it, and every walk ends, even with damaged pointers.
///
/// Long texts are in `body`, so the list of a conversation reads only small rows. A response that
/// is being written grows in `piece` and is joined once, when it ends.
///
/// `search` contains only the index and no copy of the texts: row *n* is message *n*, row -*n* the
/// title of conversation *n*. `ascii` splits only at spaces, because `normalize` has made the
/// words. Prefixes of one and two letters have their own index, because very many words have them.
const CONVERSATIONS: &str = "
CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16)))),
    title TEXT NOT NULL DEFAULT '',
    is_pinned INTEGER NOT NULL DEFAULT 0 CHECK (is_pinned IN (0, 1)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    leaf INTEGER REFERENCES message (id) DEFERRABLE INITIALLY DEFERRED
) STRICT;
CREATE INDEX conversation_by_time ON conversation (is_pinned DESC, updated_at DESC, id DESC);
CREATE INDEX conversation_by_leaf ON conversation (leaf);

CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    parent INTEGER REFERENCES message (id) DEFERRABLE INITIALLY DEFERRED,
    shown_child INTEGER,
    depth INTEGER NOT NULL CHECK (depth > 0),
    speaker TEXT NOT NULL CHECK (speaker IN ('user', 'assistant')),
    ending TEXT NOT NULL CHECK (ending IN
        ('writing', 'stop', 'length', 'cancelled', 'shed', 'failed', 'interrupted')),
    n_chars INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    model TEXT
) STRICT;
CREATE INDEX message_by_parent ON message (parent, conversation);
CREATE INDEX message_by_conversation ON message (conversation);
CREATE INDEX message_in_writing ON message (id) WHERE ending = 'writing';

CREATE TABLE body (
    message INTEGER PRIMARY KEY REFERENCES message (id),
    text TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    attachment TEXT NOT NULL,
    failure TEXT,
    stats TEXT
) STRICT;

CREATE TABLE piece (
    message INTEGER NOT NULL REFERENCES message (id),
    seq INTEGER NOT NULL,
    is_reasoning INTEGER NOT NULL CHECK (is_reasoning IN (0, 1)),
    text TEXT NOT NULL,
    PRIMARY KEY (message, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE setting (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    json TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE search USING fts5 (
    title, text, attachment, content = '', tokenize = 'ascii', prefix = '1 2'
);
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
";

/// Settings of single conversations: NULL for what the settings of the model say.
const CONVERSATION_SETTINGS: &str = "
ALTER TABLE conversation ADD COLUMN model TEXT;
ALTER TABLE conversation ADD COLUMN instructions TEXT;
ALTER TABLE conversation ADD COLUMN temperature REAL;
ALTER TABLE conversation ADD COLUMN context_length INTEGER;
";

/// `thinking` is 1 if the model of a conversation reasons, 0 if not, NULL for what the settings of
/// the model say. `overflow` is what happens when the conversation outgrows its context, NULL for
/// the default.
const THINKING_AND_OVERFLOW: &str = "
ALTER TABLE conversation ADD COLUMN thinking INTEGER;
ALTER TABLE conversation ADD COLUMN overflow TEXT;
";

/// `summary` stands for all messages from the first one to this one. It is empty if the user removed
/// it, and NULL if there never was one. A message has one path above it, so each branch has its own
/// summaries.
const SUMMARIES: &str = "
ALTER TABLE body ADD COLUMN summary TEXT;
";

/// An archived conversation is only in the list of archived ones, and in searches.
const ARCHIVE: &str = "
ALTER TABLE conversation ADD COLUMN is_archived INTEGER NOT NULL DEFAULT 0
    CHECK (is_archived IN (0, 1));
";

/// `is_title_written` is 1 if a model wrote the title, from the first question. A person's title and one
/// that is derived from a question have 0.
const WRITTEN_TITLES: &str = "
ALTER TABLE conversation ADD COLUMN is_title_written INTEGER NOT NULL DEFAULT 0;
";

/// Returns the schema version of an opened file; 0 for an empty one.
pub(crate) fn version(connection: &Connection) -> Result<u32, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Applies the missing migrations, each in its own transaction.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let found = version(connection)?;
    for (index, migration) in migrations.iter().enumerate().skip(found as usize) {
        let next = u32::try_from(index + 1).expect("fewer migrations than a u32 counts");
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(migration)?;
        set_meta(&tx, "schema", &next.to_string())?;
        set_meta(&tx, "app", env!("CARGO_PKG_VERSION"))?;
        tx.pragma_update(None, "user_version", next)?;
        tx.commit()?;
    }
    Ok(())
}

/// Returns true if the file has all tables of these migrations with their columns. The search
/// tables are SQLite's own, and are rebuilt if they do not work.
pub(crate) fn has_tables(connection: &Connection, migrations: &[&str]) -> Result<bool, StoreError> {
    let mut made = Connection::open_in_memory()?;
    migrate(&mut made, migrations)?;
    let found = columns(connection, "main")?;
    Ok(columns(&made, "main")?.is_subset(&found))
}

/// Returns the tables of a database of the connection, without those of the search, and the names
/// of their columns.
pub(crate) fn tables(
    connection: &Connection,
    database: &str,
) -> Result<BTreeMap<String, BTreeSet<String>>, StoreError> {
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (table, column, ..) in columns(connection, database)? {
        tables.entry(table).or_default().insert(column);
    }
    Ok(tables)
}

/// A column: table, name, type, whether it is `NOT NULL`, position in the primary key.
type Column = (String, String, String, bool, u32);

fn columns(connection: &Connection, database: &str) -> Result<BTreeSet<Column>, StoreError> {
    let sql = format!(
        "SELECT t.name, c.name, c.type, c.\"notnull\", c.pk
         FROM {database}.sqlite_schema t JOIN pragma_table_info(t.name, '{database}') c
         WHERE t.type = 'table' AND t.name NOT LIKE 'search%'
         AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    );
    let columns = query_all(connection, &sql, [], |row| {
        let (table, name, kind) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
        Ok((table, name, kind, row.get(3)?, row.get(4)?))
    })?;
    Ok(columns.into_iter().collect())
}

pub(crate) fn meta(connection: &Connection, key: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    query_one(connection, sql, [key], |row| text(row, 0))
}

pub(crate) fn set_meta(connection: &Connection, key: &str, value: &str) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
    execute(connection, sql, [key, value]).map(drop)
}
