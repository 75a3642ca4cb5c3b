//! One text or several, each as text or as token ids: the prompts of completions, and the inputs of
//! embeddings.

use serde_json::Value;
use transom_engine::EmbedInput;

use crate::error::ApiError;
use crate::json::Located;

/// Most token ids of a text. No context is as long.
pub(crate) const MAX_TOKEN_IDS: usize = 1 << 18;

/// Returns the inputs of a field: one, or an array of 1 to `most`.
///
/// # Errors
/// The value, or one of its elements, is neither a text nor an array of at most [`MAX_TOKEN_IDS`].
pub(crate) fn take(located: Located, most: usize) -> Result<Vec<EmbedInput>, ApiError> {
    let is_one = match &located.value {
        Value::String(_) => true,
        Value::Array(values) => values.first().is_some_and(Value::is_number),
        _ => false,
    };
    if is_one {
        return Ok(vec![input(located)?]);
    }
    let wrong = located.must_be(&format!(
        "a text, an array of token ids, or an array of 1 to {most} of them"
    ));
    match &located.value {
        Value::Array(values) if (1..=most).contains(&values.len()) => {}
        _ => return Err(wrong),
    }
    located.list()?.into_iter().map(input).collect()
}

fn input(located: Located) -> Result<EmbedInput, ApiError> {
    let wrong = located.must_be("a text or an array of at least one token id");
    match located.value {
        Value::String(text) => Ok(EmbedInput::Text(text)),
        Value::Array(_) => {
            let ids = token_ids(located)?;
            match ids.is_empty() {
                true => Err(wrong),
                false => Ok(EmbedInput::Tokens(ids)),
            }
        }
        _ => Err(wrong),
    }
}

/// Returns an array of token ids.
///
/// # Errors
/// The value is no array, has more than [`MAX_TOKEN_IDS`], or one is no whole number or too large.
pub(crate) fn token_ids(located: Located) -> Result<Vec<u32>, ApiError> {
    let ids = located.list_up_to(MAX_TOKEN_IDS, "token ids")?;
    ids.into_iter().map(token_id).collect()
}

fn token_id(located: Located) -> Result<u32, ApiError> {
    let id = located.integer(0..=i64::from(u32::MAX))?;
    Ok(u32::try_from(id).unwrap_or(u32::MAX))
}
