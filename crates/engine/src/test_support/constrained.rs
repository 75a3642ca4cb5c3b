//! Token tables and the start of constrained responses.

use std::path::Path;

use serde_json::Value;

use crate::constraint::{Constraint, Constraints, ResponseConstraint, TokenTable, TokenText};
use crate::error::EngineError;
use crate::job_control::JobControl;
use crate::text::OpenReasoning;
use crate::tokenizer::Tokenizer;

/// Number of tokens and the end-of-text token in the starter's `config.json`.
const STARTER_TOKENS: usize = 16_384;
const STARTER_END: u32 = 2;

/// Returns a table with one token per byte, then these special tokens. The last one ends the text.
pub fn byte_table(special: &[&str]) -> TokenTable {
    let bytes = (0..=255).map(|byte| TokenText::Text(vec![byte]));
    let special = special.iter().chain(&["<end>"]);
    let special = special.map(|name| TokenText::Special((*name).to_owned()));
    let tokens: Vec<TokenText> = bytes.chain(special).collect();
    TokenTable {
        end_tokens: vec![tokens.len() as u32 - 1],
        tokens,
        strips_first_space: false,
    }
}

/// Returns the tokenizer of the starter model and its tokens.
///
/// # Errors
/// The starter is not in the repository.
pub fn starter_tokens() -> Result<(Tokenizer, TokenTable), EngineError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    let tokenizer = Tokenizer::from_folder(&folder)?;
    let table = tokenizer.token_table(STARTER_TOKENS, vec![STARTER_END])?;
    Ok((tokenizer, table))
}

/// Returns JSON in the layout of constrained responses.
pub fn one_line(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(one_line).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(&**key), one_line(value))
            };
            let pairs: Vec<String> = map.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        _ => value.to_string(),
    }
}

/// Returns the constraint of a response before its first token. `open` is the reasoning section that the
/// prompt has opened.
///
/// # Errors
/// [`EngineError::InvalidConstraint`].
pub fn start_constraint(
    constraints: &mut Constraints,
    constraint: &Constraint,
    open: Option<OpenReasoning>,
    table: &TokenTable,
) -> Result<ResponseConstraint, EngineError> {
    let table = || Ok(table.clone());
    let mut started = constraints.compile(Some(constraint), open, true, table)?;
    started.resolve(&JobControl::new())?;
    Ok(started)
}
