//! Log probabilities in OpenAI's form: the field that asks for them, and their place in a choice.

use serde_json::{Value, json};
use transom_engine::logprobs::MAX_TOP_LOGPROBS;
use transom_engine::{Logprob, TokenLogprobs};

use crate::error::ApiError;
use crate::json::Fields;

/// Takes `logprobs` and `top_logprobs` of a chat. Returns the number of most likely tokens that each
/// token comes with; `None` without log probabilities.
///
/// # Errors
/// A value is outside its range, or there are alternatives of tokens without log probabilities.
pub(crate) fn take(fields: &mut Fields) -> Result<Option<u8>, ApiError> {
    let is_on = fields.flag("logprobs")?.unwrap_or(false);
    let most = i64::from(MAX_TOP_LOGPROBS);
    let n_top = fields.integer("top_logprobs", 0..=most)?.unwrap_or(0);
    if !is_on && n_top > 0 {
        let message = "`top_logprobs` needs `logprobs: true`";
        return Err(ApiError::field("top_logprobs", message));
    }
    // The range was checked.
    Ok(is_on.then(|| u8::try_from(n_top).unwrap_or(MAX_TOP_LOGPROBS)))
}

/// Returns `logprobs` of a choice of a chat.
pub(crate) fn of_chat(tokens: &[TokenLogprobs]) -> Value {
    let content = tokens.iter().map(|token| {
        let top = token.top.iter().map(with_bytes);
        let mut view = with_bytes(&token.chosen);
        view["top_logprobs"] = top.collect();
        view
    });
    json!({ "content": content.collect::<Vec<_>>(), "refusal": null })
}

/// Returns the text of a token. A token that ends inside a character has a replacement character
/// there; its bytes are exact.
pub(crate) fn text(token: &Logprob) -> String {
    String::from_utf8_lossy(&token.bytes).into_owned()
}

fn with_bytes(token: &Logprob) -> Value {
    json!({
        "token": text(token),
        "logprob": token.logprob,
        "bytes": token.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_need_log_probabilities() {
        let read = |body: Value| take(&mut Fields::parse(body.to_string().as_bytes()).unwrap());
        for (body, expected) in [
            (json!({}), None),
            (json!({ "logprobs": false, "top_logprobs": 0 }), None),
            (json!({ "logprobs": true }), Some(0)),
            (json!({ "logprobs": true, "top_logprobs": 20 }), Some(20)),
        ] {
            assert_eq!(read(body), Ok(expected));
        }
        for (body, param) in [
            (json!({ "logprobs": 1 }), "logprobs"),
            (json!({ "top_logprobs": 1 }), "top_logprobs"),
            (
                json!({ "logprobs": true, "top_logprobs": 21 }),
                "top_logprobs",
            ),
            (
                json!({ "logprobs": true, "top_logprobs": -1 }),
                "top_logprobs",
            ),
        ] {
            assert_eq!(read(body).unwrap_err().param.as_deref(), Some(param));
        }
    }

    #[test]
    fn half_a_character_keeps_its_bytes() {
        let token = |bytes: &[u8], logprob| Logprob {
            token: 7,
            bytes: bytes.to_vec(),
            logprob,
        };
        let view = of_chat(&[TokenLogprobs {
            chosen: token(&[0xc3], -0.5),
            top: vec![token(b"a", -0.25), token(&[0xc3], -0.5)],
        }]);
        let half = json!({ "token": "\u{fffd}", "logprob": -0.5, "bytes": [0xc3] });
        let a = json!({ "token": "a", "logprob": -0.25, "bytes": [97] });
        let mut expected = half.clone();
        expected["top_logprobs"] = json!([a, half]);
        assert_eq!(view, json!({ "content": [expected], "refusal": null }));
    }
}
