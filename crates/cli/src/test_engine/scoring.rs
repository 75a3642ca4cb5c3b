//! The scores of a text: every word has the same log probability.

use transom_engine::{GenerationParams, Logprob, Prompt, Section, TokenEvent, TokenLogprobs};

/// The log probability of every word.
pub(crate) const LOGPROB: f32 = -0.5;

/// Returns the events of a scored text, one for each word but the first.
pub(super) fn events(prompt: &Prompt, params: &GenerationParams) -> Vec<TokenEvent> {
    let (Prompt::Text(text), Some(score)) = (prompt, &params.score) else {
        return Vec::new();
    };
    let words = text.split_inclusive(char::is_whitespace).skip(1);
    let also = score.tokens.iter().map(Vec::as_slice);
    let also = also.chain(std::iter::repeat(&[][..]));
    let event = |(index, (word, also)): (usize, (&str, &[u32]))| {
        let scored = |token: u32| Logprob {
            token,
            bytes: word.as_bytes().to_vec(),
            logprob: LOGPROB,
        };
        let token = word.len() as u32;
        let top = std::iter::once(token).chain(also.iter().copied());
        TokenEvent::Text {
            section: Section::Answer,
            text: word.to_owned(),
            generated_tokens: index + 1,
            logprobs: vec![TokenLogprobs {
                chosen: scored(token),
                top: top.map(scored).collect(),
            }],
        }
    };
    words.zip(also).enumerate().map(event).collect()
}
