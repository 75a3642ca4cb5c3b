//! A builder of requests, which are greedy by default.

use transom_engine::{
    ChatPrompt, GenerationParams, Message, Prompt, Role, SamplingParams, Tokenizer, Truncation,
};
use transom_engine_host::wire::Request;

use crate::subject::Subject;

/// A request that is being built.
#[derive(Clone)]
pub(crate) struct TestRequest(pub(crate) Request);

impl TestRequest {
    fn new(prompt: Prompt) -> Self {
        let params = GenerationParams {
            sampling: SamplingParams {
                temperature: 0.0,
                ..SamplingParams::default()
            },
            max_tokens: Some(24),
            ..GenerationParams::default()
        };
        Self(Request {
            prompt,
            truncation: Truncation::Disabled,
            params,
        })
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::new(Prompt::Text(text.to_owned()))
    }

    pub(crate) fn tokens(tokens: impl IntoIterator<Item = u32>) -> Self {
        Self::new(Prompt::Tokens(tokens.into_iter().collect()))
    }

    pub(crate) fn chat(turns: &[(Role, &str)]) -> Self {
        Self::new(Prompt::Chat(chat(turns)))
    }

    /// Creates a request with one user message.
    pub(crate) fn user(text: &str) -> Self {
        Self::chat(&[(Role::User, text)])
    }

    pub(crate) fn params(mut self, change: impl FnOnce(&mut GenerationParams)) -> Self {
        change(&mut self.0.params);
        self
    }

    pub(crate) fn sampling(self, change: impl FnOnce(&mut SamplingParams)) -> Self {
        self.params(|params| change(&mut params.sampling))
    }

    pub(crate) fn max_tokens(self, n_tokens: usize) -> Self {
        self.params(|params| params.max_tokens = Some(n_tokens))
    }

    /// Removes the token limit and ignores the end of text.
    pub(crate) fn endless(self) -> Self {
        self.params(|params| {
            params.max_tokens = None;
            params.ignore_end_of_text = true;
        })
    }

    pub(crate) fn seeded(self, temperature: f32, seed: u64) -> Self {
        self.sampling(|sampling| {
            sampling.temperature = temperature;
            sampling.top_p = 1.0;
            sampling.seed = Some(seed);
        })
    }

    pub(crate) fn stop(self, stop: &[&str]) -> Self {
        self.params(|params| params.stop = stop.iter().map(|text| (*text).to_owned()).collect())
    }

    pub(crate) fn truncation(mut self, truncation: Truncation) -> Self {
        self.0.truncation = truncation;
        self
    }

    /// Forces the model to generate exactly `tokens`, whatever its weights: each token has a higher
    /// bias than the next, and the repetition penalty removes the bias of a token after it was
    /// generated. So the tokens must differ from each other and from those of the prompt.
    pub(crate) fn forcing(self, tokens: &[u32]) -> Self {
        for (index, token) in tokens.iter().enumerate() {
            assert!(!tokens[..index].contains(token), "{token} is there twice");
        }
        let bias = (1..=tokens.len()).rev().map(|rank| 1000.0 * rank as f32);
        let bias = tokens.iter().copied().zip(bias).collect();
        self.max_tokens(tokens.len()).sampling(|sampling| {
            sampling.temperature = 0.0;
            sampling.repetition_penalty = 1e6;
            sampling.logit_bias = bias;
        })
    }
}

pub(crate) fn chat(turns: &[(Role, &str)]) -> ChatPrompt {
    let messages = turns.iter().map(|(role, text)| Message::new(*role, *text));
    ChatPrompt {
        messages: messages.collect(),
        ..ChatPrompt::default()
    }
}

/// Returns the tokenizer of the tiny model, which has one token per byte and a few special tokens.
pub(crate) fn tiny_tokenizer(subject: &Subject) -> Tokenizer {
    Tokenizer::from_folder(&subject.tiny_folder).unwrap()
}

/// Returns the tokens of `text` for the tiny model, with markers such as `<think>` as one token.
pub(crate) fn tiny_tokens(subject: &Subject, text: &str) -> Vec<u32> {
    tiny_tokenizer(subject).encode(text, false).unwrap()
}

/// Returns the tokens of a conversation as the template of the tiny model renders it. Special
/// tokens in messages are plain text.
pub(crate) fn tiny_chat_tokens(subject: &Subject, turns: &[(Role, &str)]) -> Vec<u32> {
    let tokenizer = tiny_tokenizer(subject);
    let encode = |text: &str| tokenizer.encode(text, false).unwrap();
    let mut tokens = Vec::new();
    for (role, content) in turns {
        tokens.extend(encode(&format!("<|im_start|>{}\n", role.as_str())));
        // Each byte is a token, so text can be split anywhere.
        let parts: Vec<Vec<u32>> = content.split("<|").map(encode).collect();
        let cut = [encode("<"), encode("|")].concat();
        tokens.extend(parts.join(&cut[..]));
        tokens.extend(encode("<|im_end|>\n"));
    }
    tokens.extend(encode("<|im_start|>assistant\n"));
    tokens
}

/// Returns the number of tokens at the start that two prompts share.
pub(crate) fn n_shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
