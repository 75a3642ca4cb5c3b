//! Reads every row of a damaged file that can be read.
//!
//! A table is read from its beginning until a page is broken, then from its end, and what lies
//! between row by row: a row on a sound page is found even if its neighbours are not. Rows to which
//! no page leads any more are looked for on every page.
//!
//! Rule: nothing is believed of the damaged file but rows that fit the tables of a new one. Of
//! texts with broken characters, the others are kept.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, Statement, Transaction};

use crate::error::StoreError;
use crate::{carve, schema};

/// In an order in which what is pointed to comes first. The search index is built anew.
const TABLES: [&str; 5] = ["conversation", "message", "body", "piece", "setting"];

/// A gap of more rows is not walked through one by one.
const MAX_GAP: i64 = 2_000_000;

/// How a table is walked.
#[derive(Clone, Copy)]
enum Walk {
    Forwards,
    Backwards,
    /// One row.
    At(i64),
}

/// Copies what can be read of `damaged` into the empty database `target`, which gets the schema of
/// the damaged one.
pub(crate) fn copy(
    damaged: &Path,
    target: &mut Connection,
    migrations: &[&str],
) -> Result<(), StoreError> {
    let source = connect(damaged);
    let version = source
        .as_ref()
        .ok()
        .and_then(|source| version(source, migrations.len()))
        .unwrap_or(migrations.len());
    schema::migrate(target, &migrations[..version])?;
    // Rows come without those that they point to; that is mended afterwards.
    target.pragma_update(None, "foreign_keys", false)?;
    let tx = target.transaction()?;
    for table in TABLES {
        if let Ok(source) = &source
            && let Some(columns) = shared_columns(source, &tx, table)?
        {
            copy_table(source, &tx, table, &columns)?;
        }
    }
    carve(damaged, &tx)?;
    tx.commit()?;
    Ok(())
}

/// Adds the rows that are on some page and were not found otherwise. Which table a row is of is told
/// by its number of columns; the first is the row's id, which SQLite keeps apart and writes as
/// `NULL`.
fn carve(damaged: &Path, target: &Transaction<'_>) -> Result<(), StoreError> {
    let mut inserts = HashMap::new();
    for table in TABLES.into_iter().filter(|table| *table != "piece") {
        let columns = columns(target, table)?;
        inserts.insert(columns.len(), insert(target, table, &columns)?);
    }
    carve::rows(damaged, |id, mut values| {
        if values.first() != Some(&Value::Null) {
            return Ok(());
        }
        let Some(insert) = inserts.get_mut(&values.len()) else {
            return Ok(());
        };
        values[0] = Value::Integer(id);
        match insert.execute(rusqlite::params_from_iter(values)) {
            Err(error) if !is_about_the_row(&error) => Err(Stopped::Target(error)),
            _ => Ok(()),
        }
    })
    .or_else(|stopped| match stopped {
        Stopped::Target(error) => Err(error.into()),
        // The rest of the file cannot be read; what was found is kept.
        Stopped::Source(error) => {
            tracing::warn!(%error, "the damaged file cannot be read to its end");
            Ok(())
        }
    })
}

/// Why the pages were not read to the end.
enum Stopped {
    Source(io::Error),
    Target(rusqlite::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

/// A row that breaks a rule of the new table is damaged, and left out.
fn insert<'a>(
    target: &'a Transaction<'_>,
    table: &str,
    columns: &[String],
) -> Result<Statement<'a>, StoreError> {
    let names = columns.join(", ");
    let marks = vec!["?"; columns.len()].join(", ");
    Ok(target.prepare(&format!(
        "INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
    ))?)
}

fn connect(damaged: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(damaged, flags)?;
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Tables that can be understood are read even if others cannot.
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    source.pragma_update(None, "query_only", true)?;
    Ok(source)
}

/// The version on which the two places agree, or that either of them can mean.
fn version(source: &Connection, known: usize) -> Option<usize> {
    let plausible = |version: usize| (1..=known).contains(&version).then_some(version);
    let noted = schema::meta(source, "schema").ok().flatten();
    noted
        .and_then(|noted| plausible(noted.parse().ok()?))
        .or_else(|| plausible(schema::version(source).ok()? as usize))
}

/// The columns of a table of ours that the damaged file has as well; `None` if it lacks the table.
fn shared_columns(
    source: &Connection,
    target: &Transaction<'_>,
    table: &str,
) -> Result<Option<Vec<String>>, StoreError> {
    let ours = columns(target, table)?;
    let theirs = columns(source, table).unwrap_or_default();
    let shared: Vec<String> = ours
        .into_iter()
        .filter(|column| theirs.contains(column))
        .collect();
    Ok((!shared.is_empty()).then_some(shared))
}

fn columns(connection: &Connection, table: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

fn copy_table(
    source: &Connection,
    target: &Transaction<'_>,
    table: &str,
    columns: &[String],
) -> Result<(), StoreError> {
    let mut insert = insert(target, table, columns)?;
    let mut keep = |row: &Row<'_>| -> rusqlite::Result<Option<i64>> {
        let values = (1..=columns.len()).map(|index| row.get_ref(index).map(owned));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        // On a page of another table this can be anything.
        let position = row.get_ref(0)?.as_i64().ok();
        match insert.execute(rusqlite::params_from_iter(values)) {
            Err(error) if !is_about_the_row(&error) => Err(error),
            _ => Ok(position),
        }
    };
    let (position, order) = match table {
        "piece" => ("message", "message, seq"),
        _ => ("rowid", "rowid"),
    };
    let names = columns.join(", ");
    let select = format!("SELECT {position}, {names} FROM {table}");
    let backwards = order.replace(',', " DESC,") + " DESC";
    let mut walk = |walk: Walk| -> Result<Walked, StoreError> {
        let sql = match walk {
            Walk::Forwards => format!("{select} ORDER BY {order}"),
            Walk::Backwards => format!("{select} ORDER BY {backwards}"),
            Walk::At(at) => format!("{select} WHERE {position} = {at}"),
        };
        read_rows(source, &sql, &mut keep)
    };
    let start = walk(Walk::Forwards)?;
    if !start.is_cut_short {
        return Ok(());
    }
    let end = walk(Walk::Backwards)?;
    let first = start.last.unwrap_or(0);
    let last = match end.last {
        Some(last) => last,
        None => largest_id(source, table).unwrap_or(first + 10_000),
    };
    for at in first..=last.min(first.saturating_add(MAX_GAP)) {
        walk(Walk::At(at))?;
    }
    Ok(())
}

/// How far a walk came.
struct Walked {
    /// The last row that was read.
    last: Option<i64>,
    is_cut_short: bool,
}

/// Errors of the damaged file end the walk; those of the new one are the caller's.
fn read_rows(
    source: &Connection,
    sql: &str,
    keep: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<Option<i64>>,
) -> Result<Walked, StoreError> {
    let mut walked = Walked {
        last: None,
        is_cut_short: true,
    };
    let Ok(mut statement) = source.prepare_cached(sql) else {
        return Ok(walked);
    };
    let Ok(mut rows) = statement.query([]) else {
        return Ok(walked);
    };
    loop {
        match rows.next() {
            Ok(Some(row)) => walked.last = keep(row)?.or(walked.last),
            Ok(None) => {
                walked.is_cut_short = false;
                return Ok(walked);
            }
            Err(_) => return Ok(walked),
        }
    }
}

/// The largest id that was ever given, as SQLite notes it.
fn largest_id(source: &Connection, table: &str) -> Option<i64> {
    let of = match table {
        "body" | "piece" => "message",
        other => other,
    };
    source
        .query_row(
            "SELECT seq FROM sqlite_sequence WHERE name = ?1",
            [of],
            |row| row.get(0),
        )
        .ok()
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        other => Value::try_from(other).unwrap_or(Value::Null),
    }
}

/// A value that the new table does not take.
fn is_about_the_row(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    matches!(
        error.sqlite_error_code(),
        Some(Code::ConstraintViolation | Code::TypeMismatch | Code::TooBig)
    )
}
