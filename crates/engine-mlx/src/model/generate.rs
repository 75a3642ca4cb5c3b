//! Generates responses: tokenizes the prompt, and runs the engine crate's generation loop around
//! the decoder.

use std::borrow::Cow;
use std::time::{Instant, SystemTime};

use transom_engine::generation::{self, Detokenize};
use transom_engine::{
    Detokenizer, EngineError, FinishReason, GenerationParams, JobControl, OpenReasoning,
    PreparedPrompt, Prompt, Stats, TokenEvent, TokenSink,
};

use super::{MlxModel, Parts};
use crate::decoder::Decoder;
use crate::error::Context;
use crate::sampler::Sampler;

/// Renders and tokenizes `prompt`, and checks that it fits.
pub(super) fn prepare(parts: &Parts, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
    let (tokens, starts_in_reasoning) = match prompt {
        Prompt::Chat(chat) => {
            let template = parts.template.as_ref();
            let rendered = parts.info.render(template, chat, SystemTime::now())?;
            let tokens = parts.tokenizer.encode_prompt(&rendered)?;
            (tokens, OpenReasoning::at_end_of(rendered.text()))
        }
        Prompt::Text(text) => (parts.tokenizer.encode(text, true)?, None),
        Prompt::Tokens(tokens) => (tokens.clone(), None),
    };
    parts.info.check_prompt(&tokens)?;
    Ok(PreparedPrompt {
        tokens,
        starts_in_reasoning,
        dropped_messages: 0,
        system_tokens: 0,
    })
}

struct ResponseText<'a> {
    detokenizer: Detokenizer<'a>,
    end_tokens: &'a [u32],
}

impl Detokenize for ResponseText<'_> {
    fn is_end(&self, token: u32) -> bool {
        self.end_tokens.contains(&token)
    }

    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        self.detokenizer.push(token).into()
    }
}

impl MlxModel {
    /// Generates a response like [`transom_engine::LoadedModel::generate`], and calls `on_token`
    /// with every generated token before its text goes to `sink`, end-of-text tokens included.
    ///
    /// # Errors
    /// Those of [`transom_engine::LoadedModel::generate`].
    pub fn generate_tokens(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn TokenSink,
        on_token: &mut dyn FnMut(u32),
    ) -> Result<(FinishReason, Stats), EngineError> {
        let Self { parts, session, .. } = self;
        params.validate(parts.info.vocab_size)?;
        let began = Instant::now();
        let n_prompt = prompt.tokens.len();
        let n_free = parts.info.context_length.saturating_sub(n_prompt);
        let max_tokens = params.max_tokens.unwrap_or(n_free).min(n_free);
        let sampler = Sampler::new(&params.sampling, &prompt.tokens, parts.info.vocab_size);
        let decoder = Decoder::new(&parts.transformer, session, sampler, &prompt.tokens);
        let text = ResponseText {
            detokenizer: parts.tokenizer.detokenizer(),
            end_tokens: &parts.end_tokens,
        };
        let chunk = parts.prefill_chunk;
        let job = generation::Job {
            prompt,
            params,
            max_tokens,
            prefill_chunk: params
                .prefill_chunk
                .map_or(chunk, |requested| requested.min(chunk)),
            start: began,
        };
        let (reason, stats) = generation::run(job, decoder, text, control, sink, on_token)?;
        let stats = Stats {
            peak_memory_bytes: mlx_rs::memory::peak_memory().during("memory")? as u64,
            ..stats
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok((reason, stats))
    }
}
