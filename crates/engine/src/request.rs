//! The request of a generation: the prompt and its parameters.

use std::hash::{BuildHasher, Hasher, RandomState};

use serde::{Deserialize, Serialize};

use crate::chat::ChatPrompt;
use crate::constraint::Constraint;
use crate::error::EngineError;
use crate::fill_in::FillIn;
use crate::logprobs::MAX_TOP_LOGPROBS;
use crate::sampling::SamplingParams;
use crate::text::OpenReasoning;
use crate::tools::PreparedTools;

/// The input of a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Prompt {
    /// A conversation, rendered with the model's chat template.
    Chat(ChatPrompt),
    /// Text to continue as it is, after the leading special tokens that the tokenizer adds.
    Text(String),
    /// Token ids to continue as they are, for benchmarks and parity tests.
    Tokens(Vec<u32>),
    /// Text around a gap that the response fills.
    FillIn(FillIn),
}

/// A tokenized prompt that fits the loaded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPrompt {
    /// Token ids; never empty, always fewer than the context length.
    pub tokens: Vec<u32>,
    /// The reasoning section that the template opened and did not close (`<think>`), if any. The
    /// response starts inside it.
    pub starts_in_reasoning: Option<OpenReasoning>,
    /// The prompt ends inside a message, whose text the response continues.
    pub continues_message: bool,
    /// Number of messages after the system prompt that were dropped because they do not fit (see
    /// [`crate::truncation`]).
    pub dropped_messages: usize,
    /// Number of tokens at the start that hold the system prompt. A context shift keeps them.
    pub system_tokens: usize,
    /// The tools that the response may call, if any.
    pub tools: Option<PreparedTools>,
    /// Reading the prompt saves no checkpoints, so a KV cache that rewinds only to checkpoints keeps those
    /// of the prompt before.
    pub keeps_checkpoints: bool,
}

impl PreparedPrompt {
    /// Returns a prompt of these tokens: no conversation, so nothing else is known of it.
    pub fn new(tokens: Vec<u32>) -> Self {
        Self {
            tokens,
            starts_in_reasoning: None,
            continues_message: false,
            dropped_messages: 0,
            system_tokens: 0,
            tools: None,
            keeps_checkpoints: false,
        }
    }
}

/// Parameters of a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationParams {
    /// How tokens are sampled.
    pub sampling: SamplingParams,
    /// Maximum number of generated tokens; `None` means until the context is full.
    pub max_tokens: Option<usize>,
    /// Strings that end the response. The response does not contain them.
    pub stop: Vec<String>,
    /// What the response must match. End-of-text tokens are allowed only where it is complete.
    pub constraint: Option<Constraint>,
    /// Continues after end-of-text tokens, for benchmarks.
    pub ignore_end_of_text: bool,
    /// Maximum number of tokens per prefill step, if it is less than that of the limits of the model.
    pub prefill_chunk: Option<usize>,
    /// Allows speculative decoding where it is faster. The distribution of responses stays the
    /// same, but rounding may differ. Responses with a seed must be reproducible, so they never use
    /// it.
    pub speculate: bool,
    /// After a complete response to a conversation, while nothing else is to be done, reads what the
    /// conversation's next turn will begin with, so that it is in the KV cache then. See
    /// [`GenerationParams::may_read_ahead`].
    pub read_ahead: bool,
    /// Reports the model's log probability of each token, with this number of most likely tokens at
    /// its place, from 0 to [`MAX_TOP_LOGPROBS`]; see [`crate::logprobs`]. Such a response is
    /// generated one token after another.
    pub logprobs: Option<u8>,
    /// Scores the prompt instead of generating a response. Needs [`Self::logprobs`], which may then be
    /// up to [`MAX_SCORED_TOKENS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<ScorePrompt>,
    /// If the context is full before the response is complete: drops the older half of the tokens
    /// after the system prompt and continues, instead of ending with [`FinishReason::Length`](crate::event::FinishReason::Length).
    /// Engines and models that cannot shift their cache end anyway. Also allows the engine to move
    /// cached tokens if messages before them were dropped since the last request of the same
    /// [`Self::conversation`].
    pub shift_context: bool,
    /// The conversation that the prompt belongs to. Cached tokens that were computed after text
    /// that is no longer in the prompt are reused only within one conversation; without an id they
    /// never are.
    pub conversation: Option<ConversationId>,
    /// The conversation must not be written to the disk. The engine keeps its KV cache in memory,
    /// and the supervisor does not save it.
    pub is_private: bool,
}

impl GenerationParams {
    /// Returns true if speculative decoding is allowed: it was not turned off, log probabilities are
    /// not reported, and there is no seed. The draft length depends on the duration of steps, and
    /// steps over several tokens round differently, but a response with a seed must be reproducible.
    pub fn may_speculate(&self) -> bool {
        self.speculate && self.sampling.seed.is_none() && self.logprobs.is_none()
    }

    /// Returns true if the next turn may be read ahead: it was asked for, and there is no seed. Whether
    /// there was time for it changes how the next prompt is divided into steps, which round differently.
    pub fn may_read_ahead(&self) -> bool {
        self.read_ahead && self.sampling.seed.is_none()
    }

    /// Returns true if text that a constraint forces is written without sampling its tokens. They
    /// depend only on the constraint and on the tokens before, so a response with a seed stays
    /// reproducible. Each reported log probability needs a step of its own.
    pub fn writes_forced_text(&self) -> bool {
        self.logprobs.is_none()
    }

    /// Checks every parameter, including those of sampling.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`], which names the parameter as the command line does.
    pub fn validate(&self, vocab_size: usize) -> Result<(), EngineError> {
        self.sampling.validate(vocab_size)?;
        for (name, value) in [
            ("max-tokens", self.max_tokens),
            ("prefill-chunk", self.prefill_chunk),
        ] {
            if value == Some(0) {
                return Err(EngineError::invalid_parameter(name, 0, "at least 1"));
            }
        }
        if self.stop.iter().any(String::is_empty) {
            let expected = "a text that is not empty";
            return Err(EngineError::invalid_parameter("stop", "\"\"", expected));
        }
        if self.constraint.is_some() && (self.ignore_end_of_text || self.score.is_some()) {
            let name = match self.score {
                Some(_) => "score",
                None => "ignore-end-of-text",
            };
            let expected = "left out where the response is constrained";
            return Err(EngineError::invalid_parameter(name, true, expected));
        }
        let most = match self.score {
            Some(_) => MAX_SCORED_TOKENS,
            None => MAX_TOP_LOGPROBS,
        };
        match self.logprobs {
            None if self.score.is_some() => Err(EngineError::invalid_parameter(
                "logprobs",
                "not given",
                "a number, because the prompt is to be scored",
            )),
            Some(n) if n > most => Err(EngineError::invalid_parameter(
                "logprobs",
                n,
                "from 0 to 20",
            )),
            _ => Ok(()),
        }
    }
}

impl Default for GenerationParams {
    /// Default sampling, no limits, speculative decoding allowed, no reading ahead, no context
    /// shift, no conversation.
    fn default() -> Self {
        Self {
            sampling: SamplingParams::default(),
            max_tokens: None,
            stop: Vec::new(),
            constraint: None,
            ignore_end_of_text: false,
            prefill_chunk: None,
            speculate: true,
            read_ahead: false,
            logprobs: None,
            score: None,
            shift_context: false,
            conversation: None,
            is_private: false,
        }
    }
}

/// The most tokens at a place whose log probabilities a scored text may ask for.
pub const MAX_SCORED_TOKENS: u8 = u8::MAX;

/// Asks for the scores of the prompt instead of a response: only the first token of the prompt is
/// processed as a prompt, and the others are the response. Nothing is sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScorePrompt {
    /// Tokens to report at each place, after the most likely ones: the first list is for the second
    /// token of the prompt. Places without a list get only the most likely ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Vec<u32>>,
}

/// Identifies a conversation in all its requests. Never reused for another conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConversationId(pub u64);

impl ConversationId {
    /// Returns an id for a conversation that is not stored.
    pub fn random() -> Self {
        // Every hasher of the standard library starts with random keys.
        Self(RandomState::new().build_hasher().finish())
    }
}
