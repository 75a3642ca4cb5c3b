//! Log probabilities in OpenAI's form: the field that asks for them, and their place in a choice.

use serde_json::{Map, Value, json};
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
    let n_top = take_n_top(fields)?;
    if !is_on && n_top > 0 {
        let message = "`top_logprobs` needs `logprobs: true`";
        return Err(ApiError::field("top_logprobs", message));
    }
    Ok(is_on.then_some(n_top))
}

/// Takes `top_logprobs`, 0 if it is left out.
///
/// # Errors
/// The number is outside its range.
pub(crate) fn take_n_top(fields: &mut Fields) -> Result<u8, ApiError> {
    let most = i64::from(MAX_TOP_LOGPROBS);
    let n_top = fields.integer("top_logprobs", 0..=most)?.unwrap_or(0);
    // The range was checked.
    Ok(u8::try_from(n_top).unwrap_or(MAX_TOP_LOGPROBS))
}

/// Returns `logprobs` of a choice of a chat.
pub(crate) fn of_chat(tokens: &[TokenLogprobs]) -> Value {
    json!({ "content": of_tokens(tokens), "refusal": null })
}

/// Returns an array of tokens with their log probabilities and their alternatives.
pub(crate) fn of_tokens(tokens: &[TokenLogprobs]) -> Value {
    let tokens = tokens.iter().map(|token| {
        let top = token.top.iter().map(with_bytes);
        let mut view = with_bytes(&token.chosen);
        view["top_logprobs"] = top.collect();
        view
    });
    tokens.collect()
}

/// The log probabilities of the text of a choice, in the form of OpenAI's older API: lists of equal
/// length, and where each token begins in the text, in characters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TextLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<Map<String, Value>>,
    text_offset: Vec<usize>,
    n_characters: usize,
}

impl TextLogprobs {
    /// Adds the next tokens.
    pub(crate) fn add(&mut self, tokens: &[TokenLogprobs]) {
        for TokenLogprobs { chosen, top } in tokens {
            // The chosen token is there even if others are more likely.
            let mut all = Map::new();
            for token in top.iter().chain([chosen]) {
                let entry = all.entry(text(token));
                entry.or_insert_with(|| json!(token.logprob));
            }
            let text = text(chosen);
            self.text_offset.push(self.n_characters);
            self.n_characters += text.chars().count();
            self.tokens.push(text);
            self.token_logprobs.push(chosen.logprob);
            self.top_logprobs.push(all);
        }
    }

    /// Returns the lists.
    pub(crate) fn view(&self) -> Value {
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        })
    }

    /// Returns the lists of the tokens since the last call.
    pub(crate) fn take(&mut self) -> Value {
        let view = self.view();
        let n_characters = self.n_characters;
        *self = Self {
            n_characters,
            ..Self::default()
        };
        view
    }
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
    fn tokens_of_a_text_have_their_places_and_the_chosen_one_is_listed() {
        let token = |text: &str, logprob| Logprob {
            token: 7,
            bytes: text.as_bytes().to_vec(),
            logprob,
        };
        let mut logprobs = TextLogprobs::default();
        let first = TokenLogprobs {
            chosen: token("hé", -2.0),
            top: vec![token("a", -0.25)],
        };
        let second = TokenLogprobs {
            chosen: token("llo", -0.5),
            top: vec![token("llo", -0.5)],
        };
        logprobs.add(&[first, second.clone()]);
        let expected = json!({
            "tokens": ["hé", "llo"],
            "token_logprobs": [-2.0, -0.5],
            "top_logprobs": [{ "a": -0.25, "hé": -2.0 }, { "llo": -0.5 }],
            "text_offset": [0, 2],
        });
        assert_eq!(logprobs.view(), expected);
        assert_eq!(logprobs.take(), expected);
        logprobs.add(&[second]);
        assert_eq!(logprobs.view()["text_offset"], json!([5]));
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
