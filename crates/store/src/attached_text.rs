//! The texts that a person attached to a message, as one text in the database.
//!
//! Rule: [`split`] returns the texts that were [`join`]ed. A single text without a name is stored as
//! it is, others as JSON.

use serde::{Deserialize, Serialize};

/// A text that a person attached to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct AttachedText {
    /// The name of the file; `None` for selected, copied or pasted text.
    pub name: Option<String>,
    /// The text.
    pub text: String,
}

/// Returns the texts as [`crate::Message::attachment`] has them. A single empty one without a name is
/// left out.
pub fn join(texts: &[AttachedText]) -> String {
    match texts {
        [] => String::new(),
        [AttachedText { name: None, text }] if parse(text).is_none() => text.clone(),
        texts => serde_json::to_string(texts).expect("texts are always JSON"),
    }
}

/// Returns the texts in a [`crate::Message::attachment`].
pub fn split(stored: &str) -> Vec<AttachedText> {
    if stored.is_empty() {
        return Vec::new();
    }
    let unnamed = || {
        vec![AttachedText {
            name: None,
            text: stored.to_owned(),
        }]
    };
    parse(stored).unwrap_or_else(unnamed)
}

/// Returns the names and texts as one text, for the search.
pub(crate) fn readable(stored: &str) -> String {
    let texts = split(stored).into_iter();
    let parts = texts.flat_map(|attached| attached.name.into_iter().chain([attached.text]));
    parts.collect::<Vec<_>>().join("\n")
}

fn parse(stored: &str) -> Option<Vec<AttachedText>> {
    let texts: Vec<AttachedText> = serde_json::from_str(stored).ok()?;
    (!texts.is_empty()).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[(Option<&str>, &str)], stored: &str) {
        let texts: Vec<AttachedText> = texts
            .iter()
            .map(|&(name, text)| AttachedText {
                name: name.map(str::to_owned),
                text: text.to_owned(),
            })
            .collect();
        assert_eq!(join(&texts), stored);
        assert_eq!(split(stored), texts);
    }

    #[test]
    fn joined_texts_are_split_again() {
        check(&[], "");
        check(&[(None, "let x = 1;\n")], "let x = 1;\n");
        check(&[(None, "[]")], "[]");
        check(
            &[(Some("a \"b\".md"), "# A\n")],
            r##"[{"name":"a \"b\".md","text":"# A\n"}]"##,
        );
        check(
            &[(Some("a.md"), "</text>"), (None, " ")],
            r#"[{"name":"a.md","text":"</text>"},{"name":null,"text":" "}]"#,
        );
    }

    #[test]
    fn a_text_that_looks_like_joined_ones_stays_one() {
        check(
            &[(None, r#"[{"text":"A"}]"#)],
            r#"[{"name":null,"text":"[{\"text\":\"A\"}]"}]"#,
        );
    }

    #[test]
    fn names_and_texts_are_readable_without_the_format() {
        let stored = r##"[{"name":"a.md","text":"# A"},{"name":null,"text":"B"}]"##;
        assert_eq!(readable(stored), "a.md\n# A\nB");
        assert_eq!(readable("just text"), "just text");
        assert_eq!(readable(""), "");
    }
}
