//! The stored settings: one JSON document that is read field by field.
//!
//! Rule: an unreadable field costs no other field. A change is refused only for what is wrong in
//! it, not for what was wrong before.

use rusqlite::Connection;
use serde_json::{Map, Value};

use super::Settings;
use super::fields;
use crate::error::StoreError;
use crate::schema;
use crate::setting_issue::SettingIssue;
use crate::store::{Flush, Store, query_one, text};

impl Store {
    /// Returns the settings, with defaults for everything that is not set.
    pub fn settings(&self) -> Result<Settings, StoreError> {
        self.read(|tx| Ok(read(&document(tx)?.value).0))
    }

    /// Changes settings with a JSON merge patch (RFC 7396), and returns the result. `null` resets a
    /// field to its default. Fields that this version does not know are kept.
    ///
    /// # Errors
    ///
    /// [`StoreError::Setting`] with the field and its allowed values. Nothing was changed.
    pub fn patch_settings(&self, patch: &Value) -> Result<Settings, StoreError> {
        if !patch.is_object() {
            let issue = fields::issue("settings", &patch.to_string(), "an object");
            return Err(StoreError::Setting(issue));
        }
        self.write(Flush::Now, |tx| {
            let old = document(tx)?;
            let mut new = old.value.clone();
            json_patch::merge(&mut new, patch);
            let (_, issues_before) = read(&old.value);
            let (settings, issues) = read(&new);
            let mut new_issues = issues
                .into_iter()
                .filter(|issue| !issues_before.contains(issue));
            if let Some(issue) = new_issues.next() {
                return Err(StoreError::Setting(issue));
            }
            if let Some(unreadable) = old.unreadable {
                schema::set_meta(tx, "unreadable_settings", &unreadable)?;
            }
            tx.execute(
                "INSERT OR REPLACE INTO setting (only, json) VALUES (1, ?1)",
                [new.to_string()],
            )?;
            Ok(settings)
        })
    }
}

pub(crate) fn issues(connection: &Connection) -> Result<Vec<SettingIssue>, StoreError> {
    let document = document(connection)?;
    Ok(match document.unreadable {
        Some(text) => vec![fields::issue("settings", &text, "a JSON object")],
        None => read(&document.value).1,
    })
}

struct Document {
    /// Always an object.
    value: Value,
    /// The stored text if it is not a JSON object.
    unreadable: Option<String>,
}

fn document(connection: &Connection) -> Result<Document, StoreError> {
    let sql = "SELECT json FROM setting WHERE only = 1";
    let stored = query_one(connection, sql, [], |row| text(row, 0))?;
    let value = stored.as_ref().map(|stored| serde_json::from_str(stored));
    Ok(match value {
        Some(Ok(Value::Object(mut fields))) => {
            // Earlier versions wrote this group with British spelling.
            if let Some(behavior) = fields.remove("behaviour") {
                fields.entry("behavior").or_insert(behavior);
            }
            Document {
                value: Value::Object(fields),
                unreadable: None,
            }
        }
        _ => Document {
            value: Value::Object(Map::new()),
            unreadable: stored,
        },
    })
}

fn read(value: &Value) -> (Settings, Vec<SettingIssue>) {
    let (valid, mut issues) = fields::valid(value);
    let settings = serde_json::from_value(valid).unwrap_or_else(|error| {
        // Only if the allowed values in `fields` and the types of the fields disagree.
        let allowed = format!("what this version knows ({error})");
        issues.push(fields::issue("settings", "what it is", &allowed));
        Settings::default()
    });
    (settings, issues)
}
