//! `POST /tokenize` and `POST /detokenize`, in the form of llama.cpp: the tokens of a text, and the
//! text of tokens. Programs use them to cut texts, and for the ids of `logit_bias`.

use axum::response::Response;
use serde_json::{Value, json};
use transom_engine::{TokenInput, TokenPiece};

use super::openai::blame;
use super::{inputs, json_text, keep_alive};
use crate::door::Caller;
use crate::error::ApiError;
use crate::generation::convert_tokens;
use crate::json::Fields;

/// Longest text, in bytes. Each token takes many times its size in memory.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// `POST /tokenize`
pub(super) async fn tokenize(caller: Caller, mut fields: Fields) -> Result<Response, ApiError> {
    let name = fields.required("model")?.text()?;
    let content = fields.required("content")?;
    let too_long = content.must_be(&format!("a text of at most {MAX_TEXT_BYTES} bytes"));
    let text = content.text()?;
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long);
    }
    let input = TokenInput::Text {
        text,
        add_special: fields.flag("add_special")?.unwrap_or(false),
        parse_special: fields.flag("parse_special")?.unwrap_or(true),
    };
    let with_pieces = fields.flag("with_pieces")?.unwrap_or(false);
    let view = |pieces: &[TokenPiece]| {
        let tokens = pieces.iter().map(|token| match with_pieces {
            true => json!({ "id": token.id, "piece": piece(&token.bytes) }),
            false => token.id.into(),
        });
        // Each token is written at once, because an array of them takes many times the memory of its text.
        let mut text = String::from(r#"{"tokens":["#);
        for (index, token) in tokens.enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&token.to_string());
        }
        text.push_str("]}");
        text
    };
    convert(&caller, &name, fields, input, view).await
}

/// `POST /detokenize`
pub(super) async fn detokenize(caller: Caller, mut fields: Fields) -> Result<Response, ApiError> {
    let name = fields.required("model")?.text()?;
    let tokens = fields.required("tokens")?;
    let input = TokenInput::Tokens(inputs::token_ids(tokens)?);
    let view = |pieces: &[TokenPiece]| {
        let bytes: Vec<u8> = pieces
            .iter()
            .flat_map(|token| token.bytes.iter().copied())
            .collect();
        json!({ "content": String::from_utf8_lossy(&bytes) }).to_string()
    };
    convert(&caller, &name, fields, input, view).await
}

/// Converts `input` with the tokenizer of a model of any kind.
async fn convert(
    caller: &Caller,
    name: &str,
    mut fields: Fields,
    input: TokenInput,
    view: impl Fn(&[TokenPiece]) -> String,
) -> Result<Response, ApiError> {
    let keep_alive = keep_alive::take(&mut fields)?;
    fields.finish();
    let model = caller.state.models.find_any(name, None).await?;
    let pieces = convert_tokens(&model, input, caller, keep_alive).await;
    let pieces = pieces.map_err(|error| blame(error, "tokens"))?;
    Ok(json_text(view(&pieces)))
}

/// Returns the text of a token, or its bytes if they are part of a character.
fn piece(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.into(),
    }
}
