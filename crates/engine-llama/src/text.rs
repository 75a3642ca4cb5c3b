//! Tokenizes and detokenizes with the tokenizer and the chat template of the file.

use std::borrow::Cow;
use std::time::SystemTime;

use transom_engine::generation::Detokenize;
use transom_engine::text::REASONING_MARKERS;
use transom_engine::{
    ChatPrompt, ChatTemplate, EngineError, Message, ModelInfo, RenderedPrompt, Role,
};

use crate::files::ModelFiles;
use crate::native::Vocab;
use crate::session::common_prefix_len;

/// Tokens at the start that a context shift always keeps. Models put unneeded attention on the
/// first tokens, and degrade without them (Xiao et al. 2023, Efficient Streaming Language Models
/// with Attention Sinks).
const SINK_TOKENS: usize = 4;

#[derive(Debug)]
pub(crate) struct Template {
    template: Option<ChatTemplate>,
}

impl Template {
    /// Compiles the template, if the file has one.
    ///
    /// # Errors
    /// [`EngineError::Template`] for a syntax error.
    pub(crate) fn new(files: &ModelFiles, vocab: Vocab<'_>) -> Result<Self, EngineError> {
        let tokens = files.special_tokens().into_iter();
        let tokens = tokens.filter_map(|(name, id)| Some((name, vocab.spelling(id)?)));
        let source = files.facts.chat_template.as_deref();
        Ok(Self {
            template: source
                .map(|source| ChatTemplate::new(source, tokens, vocab.control_tokens()))
                .transpose()?,
        })
    }

    pub(crate) fn exists(&self) -> bool {
        self.template.is_some()
    }

    pub(crate) fn render(
        &self,
        info: &ModelInfo,
        chat: &ChatPrompt,
    ) -> Result<RenderedPrompt, EngineError> {
        info.render(self.template.as_ref(), chat, SystemTime::now())
    }

    /// Returns the tokens of a rendered prompt; `None` for texts of 2 GB and more.
    pub(crate) fn tokenize(&self, prompt: &RenderedPrompt, vocab: Vocab<'_>) -> Option<Vec<u32>> {
        let template = self.template.as_ref()?;
        vocab.tokenize_prompt(prompt, template.control_tokens())
    }

    /// Returns how many of `tokens`, a rendered `chat`, hold its system prompt: those that do not
    /// depend on the user's message.
    pub(crate) fn system_tokens(
        &self,
        info: &ModelInfo,
        chat: &ChatPrompt,
        tokens: &[u32],
        vocab: Vocab<'_>,
    ) -> usize {
        let system = chat.messages.iter();
        let system = system.take_while(|message| message.role == Role::System);
        let mut probe = ChatPrompt {
            messages: system.cloned().collect(),
            ..chat.clone()
        };
        if probe.messages.is_empty() {
            return SINK_TOKENS.min(tokens.len());
        }
        let mut shared = tokens.len();
        for content in ["0", "x"] {
            probe.messages.push(Message::new(Role::User, content));
            let rendered = self.render(info, &probe).ok();
            let probed = rendered.and_then(|prompt| self.tokenize(&prompt, vocab));
            let probed = probed.unwrap_or_default();
            shared = shared.min(common_prefix_len(tokens, &probed));
            probe.messages.pop();
        }
        shared.max(SINK_TOKENS.min(tokens.len()))
    }
}

#[derive(Debug)]
pub(crate) struct Detokenizer<'a> {
    vocab: Vocab<'a>,
    /// True if the next token is the first, whose leading space belongs to the prompt.
    is_at_start: bool,
    bytes: Vec<u8>,
}

impl<'a> Detokenizer<'a> {
    pub(crate) fn new(vocab: Vocab<'a>) -> Self {
        Self {
            vocab,
            is_at_start: vocab.is_sentencepiece(),
            bytes: Vec::new(),
        }
    }
}

impl Detokenize for Detokenizer<'_> {
    fn is_end(&self, token: u32) -> bool {
        self.vocab.is_end(token)
    }

    /// Control tokens have no bytes, except reasoning markers.
    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        self.bytes.clear();
        let is_marker = || {
            let spelling = self.vocab.spelling(token);
            spelling.is_some_and(|text| REASONING_MARKERS.contains(&text.as_str()))
        };
        let special = self.vocab.is_control(token) && is_marker();
        self.vocab
            .piece(token, self.is_at_start, special, &mut self.bytes);
        self.is_at_start &= self.bytes.is_empty();
        Cow::Borrowed(&self.bytes)
    }
}

#[cfg(test)]
mod tests;
