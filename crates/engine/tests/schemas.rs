//! Constraints of the JSON Schema Test Suite's schemas, and of 500 of MaskBench's, with the vocabulary of
//! the starter model: what is valid can be written, and what is not cannot. It is written in one line, and
//! indented where the schema asks for white space. What is forced is spelled as the tokenizer spells it.
//!
//! `known.txt` beside the cases lists every schema that is refused, and every instance that is valid
//! but cannot be written, or can be written but is not valid. `TRANSOM_RECORD_SCHEMAS=1` records it.
//! `fixtures/make_schema_cases.py` and `fixtures/make_mask_bench_cases.py` make the cases.
#![cfg(feature = "test-support")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Value, json};
use transom_engine::test_support::{one_line, start_constraint, starter_tokens};
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
    tokenizer: Rc<Tokenizer>,
    constraints: Constraints,
    table: TokenTable,
    /// Texts with forced tokens that are not those of the tokenizer for the whole text.
    n_unnatural: usize,
}

impl Writer {
    fn new() -> Self {
        let (tokenizer, table) = starter_tokens().expect("the starter is in the repository");
        Self {
            tokenizer: Rc::new(tokenizer),
            constraints: Constraints::default(),
            table,
            n_unnatural: 0,
        }
    }

    /// Returns true if a response may be `text` and nothing else.
    fn may_write(&mut self, constraint: &Constraint, text: &str) -> Result<bool, EngineError> {
        let constraints = &mut self.constraints;
        let response = start_constraint(constraints, constraint, None, &self.table)?;
        let tokenizer = self.tokenizer.clone();
        let mut response = response.spelled_by(move |text| tokenizer.encode(text, false).ok());
        let mut forced = Vec::new().into_iter();
        let mut is_natural = true;
        for token in self.tokenizer.encode(text, false)? {
            if forced.as_slice().is_empty() {
                forced = response.forced(usize::MAX).into_iter();
            }
            let is_forced = forced.next();
            let is_allowed = |mask: &transom_engine::TokenMask| mask.allows(token);
            if response.is_complete() || !response.mask()?.is_some_and(is_allowed) {
                return Ok(false);
            }
            is_natural &= is_forced.is_none_or(|forced| forced == token);
            response.accept(token)?;
        }
        let may_end = |mask: &transom_engine::TokenMask| mask.allows(self.table.end_tokens[0]);
        let is_written = response.is_complete() || response.mask()?.is_some_and(may_end);
        self.n_unnatural += usize::from(is_written && !is_natural);
        Ok(is_written)
    }
}

/// Returns the constraint for a schema that asks for white space.
fn with_white_space(schema: &Value) -> Option<Constraint> {
    let mut map = schema.as_object()?.clone();
    let options = json!({ "whitespace_flexible": true });
    map.insert("x-guidance".to_owned(), options);
    Some(Constraint::on_answer(Grammar::JsonSchema(map.into())))
}

/// What the constraints of a folder's cases do.
#[derive(Default)]
struct Outcome {
    n_schemas: usize,
    /// Instances that are treated as they should be.
    n_right: usize,
    n_refused: usize,
    /// Valid instances that cannot be written.
    n_not_written: usize,
    /// Others that can.
    n_written: usize,
    /// Texts with forced tokens that are not those of the tokenizer for the whole text.
    n_unnatural: usize,
}

/// Writes all instances of the cases in a folder, and compares the exceptions with those that are known.
fn check(folder: &str) -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let fixture = |name: &str| root.join(folder).join(name);
    let cases = std::fs::read_to_string(fixture("cases.jsonl")).expect("it is in the repository");
    let cases = cases
        .lines()
        .map(|line| serde_json::from_str::<Case>(line).expect("the script wrote it"));
    let mut writer = Writer::new();
    let mut outcome = Outcome::default();
    let mut exceptions = BTreeSet::new();
    let mut keywords: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases {
        outcome.n_schemas += 1;
        let flexible = with_white_space(&case.schema);
        let constraint = Constraint::on_answer(Grammar::JsonSchema(case.schema));
        for (is_valid, description, instance) in case.tests {
            let name = &case.name;
            let may_write = writer.may_write(&constraint, &one_line(&instance));
            if let (Some(flexible), Ok(may_write)) = (&flexible, &may_write) {
                let text = serde_json::to_string_pretty(&instance).expect("it is JSON");
                let same = writer.may_write(flexible, &text);
                assert_eq!(same.as_ref(), Ok(may_write), "{name}: {description}");
            }
            match may_write {
                Ok(may_write) if may_write == is_valid => outcome.n_right += 1,
                Ok(true) => {
                    outcome.n_written += 1;
                    exceptions.insert(format!("invalid but written: {name}: {description}"));
                }
                Ok(false) => {
                    outcome.n_not_written += 1;
                    exceptions.insert(format!("valid but not written: {name}: {description}"));
                }
                Err(EngineError::InvalidConstraint { path, keyword, .. }) => {
                    outcome.n_refused += 1;
                    exceptions.insert(format!("refused: {name} ({keyword} at {path:?})"));
                    *keywords.entry(keyword).or_default() += 1;
                    break;
                }
                Err(error) => panic!("{name}: {description}: {error}"),
            }
        }
    }
    outcome.n_unnatural = writer.n_unnatural;
    for (keyword, n) in keywords {
        exceptions.insert(format!("number of schemas refused for {keyword:?}: {n}"));
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
    outcome
}

#[test]
fn instances_of_the_test_suite_can_be_written_if_they_are_valid() {
    let outcome = check("schemas");
    assert!(outcome.n_right > 400, "{}", outcome.n_right);
    assert_eq!(outcome.n_unnatural, 0);
}

#[test]
fn instances_of_mask_bench_can_be_written_if_they_are_valid() {
    let outcome = check("mask_bench");
    assert_eq!(outcome.n_schemas, 500);
    assert!(outcome.n_refused < 50, "{}", outcome.n_refused);
    assert!(outcome.n_right > 1700, "{}", outcome.n_right);
    assert_eq!((outcome.n_not_written, outcome.n_written), (0, 0));
    // The tokenizer may spell the start of a forced text otherwise together with the text before it.
    assert!(outcome.n_unnatural <= 10, "{}", outcome.n_unnatural);
}
