//! The options that say what a response must match, and the requests for it.

use std::path::Path;

use clap::Args;
use transom_engine::{
    CheckedResponse, Constraint, FinishReason, GenerationParams, Grammar, Prompt, ResponseCheck,
};
use transom_supervisor::{Outcome, RequestError};

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

/// What a response must match.
#[derive(Debug)]
pub(crate) enum Expected {
    /// A grammar, which holds the response, or nothing.
    Held(Option<Constraint>),
    /// A schema. The response is checked.
    Valid(Box<CheckedResponse>),
}

impl ConstraintArgs {
    /// Returns what the response must match, which is checked before a model is loaded.
    pub(crate) fn read(&self) -> Result<Expected> {
        let grammar = match (&self.schema, &self.regex, self.choice.as_slice()) {
            (Some(any), ..) if any == ANY => Grammar::Json,
            (Some(path), ..) => {
                let schema = read_schema(Path::new(path))?;
                return Ok(Expected::Valid(Box::new(CheckedResponse::new(schema)?)));
            }
            (_, Some(pattern), _) => Grammar::Regex(pattern.clone()),
            (.., []) => return Ok(Expected::Held(None)),
            (.., choices) => Grammar::Choice(choices.to_vec()),
        };
        let constraint = Constraint::on_answer(grammar);
        constraint.check()?;
        Ok(Expected::Held(Some(constraint)))
    }
}

impl Expected {
    /// Returns the next request for the response.
    pub(crate) fn request(
        &self,
        prompt: &Prompt,
        params: &GenerationParams,
    ) -> (Prompt, GenerationParams) {
        let constraint = match self {
            Self::Held(constraint) => constraint.clone(),
            Self::Valid(response) => return response.request(prompt, params),
        };
        let params = GenerationParams {
            constraint,
            ..params.clone()
        };
        (prompt.clone(), params)
    }

    /// Returns true if the answer may be followed by a better one.
    pub(crate) fn is_checked(&self) -> bool {
        matches!(self, Self::Valid(_))
    }

    /// Returns true if the model must be told the schema, because nothing else holds it.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Self::Valid(response) if !response.is_held())
    }

    /// Returns true if the request failed because its schema cannot be held, but the next one is
    /// checked instead.
    pub(crate) fn falls_back(&mut self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (
                Self::Valid(response),
                Outcome::Failed {
                    error: RequestError::Engine { source },
                },
            ) => response.falls_back(source),
            _ => false,
        }
    }

    /// Checks the answer of a response that ended for `reason`.
    pub(crate) fn check(&mut self, answer: &str, reason: FinishReason) -> ResponseCheck {
        match self {
            Self::Held(Some(_)) if reason != FinishReason::Stop => {
                ResponseCheck::Invalid("it ended before it was complete".to_owned())
            }
            Self::Held(_) => ResponseCheck::Valid,
            Self::Valid(response) => response.check(answer, reason),
        }
    }
}

/// Reads the file of `--schema`.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read or is no JSON.
pub(crate) fn read_schema(path: &Path) -> Result<serde_json::Value> {
    let failed = |error: String| {
        let path = path.display();
        Failure::Usage(format!("--schema {path}: {error}"))
    };
    let bytes = transom_files::read(path, MAX_SCHEMA_BYTES);
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(format!("not valid JSON: {error}")))
}
