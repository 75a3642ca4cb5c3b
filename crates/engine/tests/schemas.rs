//! Constraints of the JSON Schema Test Suite's schemas, with the vocabulary of the starter model: what
//! is valid can be written, and what is not cannot.
//!
//! `fixtures/schemas/known.txt` lists every schema that is refused, and every instance that is valid
//! but cannot be written, or can be written but is not valid. `TRANSOM_RECORD_SCHEMAS=1` records it.
//! `fixtures/make_schema_cases.py` collects the cases.
#![cfg(feature = "test-support")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use transom_engine::test_support::{start_constraint, starter_tokens};
use transom_engine::{Constraint, Constraints, EngineError, Grammar, TokenTable, Tokenizer};

#[derive(Deserialize)]
struct Case {
    name: String,
    schema: Value,
    /// Whether it is valid, its description, and the instance.
    tests: Vec<(bool, String, Value)>,
}

/// Writes texts with the starter's tokens.
struct Writer {
    tokenizer: Tokenizer,
    constraints: Constraints,
    table: TokenTable,
}

impl Writer {
    fn new() -> Self {
        let (tokenizer, table) = starter_tokens().expect("the starter is in the repository");
        Self {
            tokenizer,
            constraints: Constraints::default(),
            table,
        }
    }

    /// Returns true if a response may be `text` and nothing else.
    fn may_write(&mut self, constraint: &Constraint, text: &str) -> Result<bool, EngineError> {
        let constraints = &mut self.constraints;
        let mut response = start_constraint(constraints, constraint, None, &self.table)?;
        for token in self.tokenizer.encode(text, false)? {
            let is_allowed = |mask: &transom_engine::TokenMask| mask.allows(token);
            if response.is_complete() || !response.mask()?.is_some_and(is_allowed) {
                return Ok(false);
            }
            response.accept(token)?;
        }
        let may_end = |mask: &transom_engine::TokenMask| mask.allows(self.table.end_tokens[0]);
        Ok(response.is_complete() || response.mask()?.is_some_and(may_end))
    }
}

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schemas");
    folder.join(name)
}

#[test]
fn valid_instances_can_be_written_and_others_cannot() {
    let cases = std::fs::read_to_string(fixture("cases.jsonl")).expect("it is in the repository");
    let cases = cases
        .lines()
        .map(|line| serde_json::from_str::<Case>(line).expect("the script wrote it"));
    let mut writer = Writer::new();
    let mut exceptions = BTreeSet::new();
    let mut n_written = 0;
    for case in cases {
        let constraint = Constraint::on_answer(Grammar::JsonSchema(case.schema));
        for (is_valid, description, instance) in case.tests {
            let name = &case.name;
            match writer.may_write(&constraint, &instance.to_string()) {
                Ok(may_write) if may_write == is_valid => n_written += 1,
                Ok(true) => {
                    _ = exceptions.insert(format!("invalid but written: {name}: {description}"))
                }
                Ok(false) => {
                    _ = exceptions.insert(format!("valid but not written: {name}: {description}"))
                }
                Err(EngineError::InvalidConstraint { path, keyword, .. }) => {
                    exceptions.insert(format!("refused: {name} ({keyword} at {path:?})"));
                    break;
                }
                Err(error) => panic!("{name}: {description}: {error}"),
            }
        }
    }
    let list = exceptions.iter().fold(String::new(), |mut list, line| {
        let _ = writeln!(list, "{line}");
        list
    });
    let path = fixture("known.txt");
    if std::env::var_os("TRANSOM_RECORD_SCHEMAS").is_some() {
        std::fs::write(&path, &list).expect("the folder is writable");
    }
    let known = std::fs::read_to_string(&path).expect("it is in the repository");
    let known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    let changed: Vec<&String> = exceptions.symmetric_difference(&known).collect();
    assert!(changed.is_empty(), "{changed:#?}");
    assert!(n_written > 400, "{n_written}");
}
