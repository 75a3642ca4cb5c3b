//! Asks, built up word by word. They are greedy unless a case says otherwise.

use transom_engine::{
    ChatPrompt, GenerationParams, Message, Prompt, Role, SamplingParams, Tokenizer, Truncation,
};
use transom_engine_host::wire::Request;

use crate::subject::Subject;

/// A request in the making.
#[derive(Clone)]
pub(crate) struct Ask(pub(crate) Request);

impl Ask {
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
            fit: Truncation::Disabled,
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

    /// A user's first message.
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

    /// Goes on until the context is full.
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

    pub(crate) fn fit(mut self, fit: Truncation) -> Self {
        self.0.fit = fit;
        self
    }

    /// Makes the model say exactly `tokens`, whatever its weights: each is biased above the next,
    /// and the penalty takes the bias of a token away once it was said. So they must differ from
    /// each other, and from the prompt's.
    pub(crate) fn saying(self, tokens: &[u32]) -> Self {
        for (index, token) in tokens.iter().enumerate() {
            assert!(!tokens[..index].contains(token), "{token} is said twice");
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

/// The tokenizer of the tiny model, which has a token for each byte and a few special ones.
pub(crate) fn tiny_tokenizer(subject: &Subject) -> Tokenizer {
    Tokenizer::from_folder(&subject.tiny_folder).unwrap()
}

/// The tiny model's tokens of `text`, markers such as `<think>` as one token.
pub(crate) fn tiny_tokens(subject: &Subject, text: &str) -> Vec<u32> {
    tiny_tokenizer(subject).encode(text, false).unwrap()
}

/// The tokens of a conversation as the tiny model's template renders it, in which special tokens are
/// text if they are part of what was said.
pub(crate) fn tiny_chat_tokens(subject: &Subject, turns: &[(Role, &str)]) -> Vec<u32> {
    let tokenizer = tiny_tokenizer(subject);
    let encode = |text: &str| tokenizer.encode(text, false).unwrap();
    let mut tokens = Vec::new();
    for (role, content) in turns {
        tokens.extend(encode(&format!("<|im_start|>{}\n", role.as_str())));
        // Each byte has its token, so a text can be cut anywhere.
        let parts: Vec<Vec<u32>> = content.split("<|").map(encode).collect();
        let cut = [encode("<"), encode("|")].concat();
        tokens.extend(parts.join(&cut[..]));
        tokens.extend(encode("<|im_end|>\n"));
    }
    tokens.extend(encode("<|im_start|>assistant\n"));
    tokens
}

/// How many tokens two prompts begin with alike.
pub(crate) fn n_shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
