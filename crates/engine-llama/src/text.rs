//! Text to tokens and back, with the tokenizer and the chat template inside the file.

use std::borrow::Cow;
use std::time::SystemTime;

use transom_engine::generation::Spell;
use transom_engine::text::REASONING_MARKERS;
use transom_engine::{
    ChatPrompt, ChatTemplate, EngineError, Message, ModelInfo, RenderedPrompt, Role,
};

use crate::files::ModelFiles;
use crate::native::Vocab;
use crate::session::n_shared;

/// Tokens at the start that a context shift keeps in any case. Models put attention that belongs
/// nowhere onto the first tokens, and lose their way without them (Xiao et al. 2023, Efficient
/// Streaming Language Models with Attention Sinks).
const SINK_TOKENS: usize = 4;

/// The chat template of a file.
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

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.template.is_some()
    }

    /// Renders a conversation for the model that `info` is of.
    pub(crate) fn render(
        &self,
        info: &ModelInfo,
        chat: &ChatPrompt,
    ) -> Result<RenderedPrompt, EngineError> {
        info.render(self.template.as_ref(), chat, SystemTime::now())
    }

    /// The tokens of what this template rendered; `None` for texts of 2 GB and more.
    pub(crate) fn tokenize(&self, prompt: &RenderedPrompt, vocab: Vocab<'_>) -> Option<Vec<u32>> {
        let template = self.template.as_ref()?;
        vocab.tokenize_prompt(prompt, template.control_tokens())
    }

    /// How many of `tokens`, a rendered `chat`, hold its system prompt: those that stay the same
    /// whatever the user says.
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
        for said in ["0", "x"] {
            probe.messages.push(Message::new(Role::User, said));
            let rendered = self.render(info, &probe).ok();
            let probed = rendered.and_then(|prompt| self.tokenize(&prompt, vocab));
            let probed = probed.unwrap_or_default();
            shared = shared.min(n_shared(tokens, &probed));
            probe.messages.pop();
        }
        shared.max(SINK_TOKENS.min(tokens.len()))
    }
}

/// One answer's way from token ids to bytes.
#[derive(Debug)]
pub(crate) struct Detokenizer<'a> {
    vocab: Vocab<'a>,
    /// The next token is the first, whose leading space belongs to the prompt.
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

impl Spell for Detokenizer<'_> {
    fn is_end(&self, token: u32) -> bool {
        self.vocab.is_end(token)
    }

    /// Control tokens have no bytes.
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
