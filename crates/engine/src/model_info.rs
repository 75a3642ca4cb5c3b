//! What is known of a loaded model.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::chat::ChatPrompt;
use crate::error::EngineError;
use crate::sampling::SamplingParams;
use crate::template::{ChatTemplate, RenderedPrompt};
use crate::tools;

/// A loaded model, and how it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Display name: the name of the folder or file.
    pub name: String,
    /// The architecture as its files spell it: `qwen3`, `llama`, ….
    pub architecture: String,
    /// The engine that runs the model, such as `mlx`.
    pub engine: String,
    /// Number of parameters, counted from the weights.
    pub n_parameters: u64,
    /// The format of the weights in the files, such as `4-bit, group 64`.
    pub stored_as: String,
    /// How the engine computes with the weights, such as `dense f32 on the CPU`.
    pub computed_as: String,
    /// Context length in tokens: the smaller one of the model's limit and the caller's.
    pub context_length: usize,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// True if the model has a chat template.
    pub has_chat_template: bool,
    /// Sampling parameters that the model's authors recommend (`generation_config.json`), else our
    /// defaults.
    pub recommended_sampling: SamplingParams,
    /// Display name of the draft model that is loaded beside the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
}

impl ModelInfo {
    /// Checks that `tokens` are in the vocabulary.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`]; [`EngineError::InvalidParameter`] for ids outside the
    /// vocabulary.
    pub fn check_tokens(&self, tokens: &[u32]) -> Result<(), EngineError> {
        match tokens.is_empty() {
            true => Err(EngineError::EmptyPrompt),
            false => self.check_vocabulary(tokens),
        }
    }

    /// Checks that all of `tokens`, if there are any, are in the vocabulary.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] for ids outside the vocabulary.
    pub fn check_vocabulary(&self, tokens: &[u32]) -> Result<(), EngineError> {
        let is_unknown = |token: &&u32| **token as usize >= self.vocab_size;
        match tokens.iter().find(is_unknown) {
            None => Ok(()),
            Some(token) => Err(EngineError::invalid_parameter(
                "token",
                token,
                "below the model's vocabulary size",
            )),
        }
    }

    /// Checks that `tokens` are in the vocabulary and leave space for a response.
    ///
    /// # Errors
    /// Those of [`ModelInfo::check_tokens`], and [`EngineError::PromptTooLong`].
    pub fn check_prompt(&self, tokens: &[u32]) -> Result<(), EngineError> {
        self.check_tokens(tokens)?;
        if tokens.len() < self.context_length {
            return Ok(());
        }
        Err(EngineError::PromptTooLong {
            prompt_tokens: tokens.len(),
            context_length: self.context_length,
        })
    }

    /// Logs that the model was loaded.
    pub fn log_loaded(&self) {
        tracing::info!(
            model = self.name,
            architecture = self.architecture,
            stored = self.stored_as,
            computed = self.computed_as,
            context_length = self.context_length,
            draft = self.draft,
            "model loaded"
        );
    }

    /// Renders a conversation with `template`, the model's chat template, if it has one. Tools that
    /// the template does not know are declared by a standard prompt.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`]; [`EngineError::Template`] if the model has no template; the
    /// errors of [`ChatTemplate::render`].
    pub fn render(
        &self,
        template: Option<&ChatTemplate>,
        chat: &ChatPrompt,
        now: SystemTime,
    ) -> Result<RenderedPrompt, EngineError> {
        if chat.messages.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let template = template.ok_or_else(|| EngineError::Template {
            reason: format!(
                "{} has none, so it cannot chat; it only continues text",
                self.name
            ),
        })?;
        tools::render(template, chat, now)
    }
}
