//! The options that say what a response must match.

use std::path::Path;

use clap::Args;
use transom_engine::{Constraint, Grammar};

use crate::{Failure, Result};

/// The largest schema file, in bytes.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// The value of `--schema` for any JSON.
const ANY: &str = "any";

/// What the response must match. The model can then write nothing else.
#[derive(Debug, Clone, Default, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Response")]
pub(crate) struct ConstraintArgs {
    /// Respond with JSON that is valid under the JSON Schema in FILE, or with any JSON
    #[arg(long, value_name = "FILE|any")]
    pub(crate) schema: Option<String>,

    /// Respond with a text that this regular expression matches as a whole
    #[arg(long, value_name = "REGEX")]
    pub(crate) regex: Option<String>,

    /// Respond with one of these texts, which commas separate
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub(crate) choice: Vec<String>,
}

impl ConstraintArgs {
    /// Returns the constraint, which is checked before a model is loaded; `None` without an option.
    pub(crate) fn read(&self) -> Result<Option<Constraint>> {
        let grammar = match (&self.schema, &self.regex, self.choice.as_slice()) {
            (Some(any), ..) if any == ANY => Grammar::Json,
            (Some(path), ..) => Grammar::JsonSchema(read_schema(Path::new(path))?),
            (_, Some(pattern), _) => Grammar::Regex(pattern.clone()),
            (.., []) => return Ok(None),
            (.., choices) => Grammar::Choice(choices.to_vec()),
        };
        let constraint = Constraint::on_answer(grammar);
        constraint.check()?;
        Ok(Some(constraint))
    }
}

fn read_schema(path: &Path) -> Result<serde_json::Value> {
    let failed = |error: String| {
        let path = path.display();
        Failure::Usage(format!("--schema {path}: {error}"))
    };
    let bytes = transom_files::read(path, MAX_SCHEMA_BYTES);
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(format!("not valid JSON: {error}")))
}
