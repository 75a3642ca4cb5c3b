//! A loaded model answering: text to tokens, and the engine room's loop round its decoder.

use std::borrow::Cow;
use std::path::Path;
use std::time::{Instant, SystemTime};

use transom_engine::generation::{self, Detokenize};
use transom_engine::{
    ChatTemplate, Detokenizer, EngineError, FinishReason, GenerationParams, JobControl,
    LoadedModel, MemoryUse, ModelInfo, OpenReasoning, PreparedPrompt, Prompt, Stats, TokenEvent,
    TokenSink, Tokenizer, Trim,
};

use crate::decoder::{Decoder, Session};
use crate::error::Context;
use crate::memory::release_spare_memory;
use crate::nn::{Transformer, Wanted};
use crate::sampler::Sampler;
use crate::state;

/// A model in memory. Born, used and dropped on one thread.
pub struct MlxModel {
    parts: Parts,
    session: Session,
    /// The last field, so that it is dropped when the arrays are free.
    _last: GiveBack,
}

/// Gives freed memory back to the system when it is dropped.
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        release_spare_memory();
    }
}

/// What a load produces.
pub(crate) struct Parts {
    pub(crate) info: ModelInfo,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) transformer: Transformer,
    pub(crate) prefill_chunk: usize,
    pub(crate) weight_bytes: u64,
}

/// An answer's way from token ids to bytes.
struct Words<'a> {
    detokenizer: Detokenizer<'a>,
    end_tokens: &'a [u32],
}

impl Detokenize for Words<'_> {
    fn is_end(&self, token: u32) -> bool {
        self.end_tokens.contains(&token)
    }

    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        self.detokenizer.push(token).into()
    }
}

impl MlxModel {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            session: Session::new(&parts.transformer),
            parts,
            _last: GiveBack,
        }
    }

    /// Logits that follow each of `tokens`, one row of `vocab_size` a token, computed with an empty
    /// KV cache; for comparing numerics.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::InvalidParameter`] for ids outside the
    /// vocabulary, [`EngineError::Backend`].
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, EngineError> {
        self.parts.info.check_tokens(tokens)?;
        let ids = mlx_rs::Array::from_slice(tokens, &[tokens.len() as i32]);
        let mut cache = self.parts.transformer.new_cache();
        let logits = self
            .parts
            .transformer
            .forward(&ids, &mut cache, Wanted::AllLogits)
            .and_then(|logits| logits.as_dtype(mlx_rs::Dtype::Float32)?.contiguous())
            .during("logits")?;
        let values = logits
            .try_as_slice::<f32>()
            .map_err(|error| EngineError::Backend {
                during: "logits".to_owned(),
                message: error.to_string(),
            })?;
        Ok(values
            .chunks(self.parts.info.vocab_size)
            .map(<[f32]>::to_vec)
            .collect())
    }

    /// As [`LoadedModel::generate`], and gives every generated token to `on_token` before its text
    /// goes to `sink`; end-of-text tokens are given too.
    ///
    /// # Errors
    /// As [`LoadedModel::generate`].
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
        let room = parts.info.context_length.saturating_sub(n_prompt);
        let max_tokens = params.max_tokens.unwrap_or(room).min(room);
        let sampler = Sampler::new(&params.sampling, &prompt.tokens, parts.info.vocab_size);
        let decoder = Decoder::new(&parts.transformer, session, sampler, &prompt.tokens);
        let words = Words {
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
                .map_or(chunk, |wanted| wanted.min(chunk)),
            start: began,
        };
        let (reason, stats) = generation::run(job, decoder, words, control, sink, on_token)?;
        let stats = Stats {
            peak_memory_bytes: mlx_rs::memory::peak_memory().during("memory")? as u64,
            ..stats
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok((reason, stats))
    }
}

impl LoadedModel for MlxModel {
    fn info(&self) -> &ModelInfo {
        &self.parts.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        let (tokens, starts_in_reasoning) = match prompt {
            Prompt::Chat(chat) => {
                let template = self.parts.template.as_ref();
                let rendered = self.parts.info.render(template, chat, SystemTime::now())?;
                let tokens = self.parts.tokenizer.encode_prompt(&rendered)?;
                (tokens, OpenReasoning::at_end_of(rendered.text()))
            }
            Prompt::Text(text) => (self.parts.tokenizer.encode(text, true)?, None),
            Prompt::Tokens(tokens) => (tokens.clone(), None),
        };
        self.parts.info.check_prompt(&tokens)?;
        Ok(PreparedPrompt {
            tokens,
            starts_in_reasoning,
            dropped_messages: 0,
            system_tokens: 0,
        })
    }

    fn generate(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError> {
        self.generate_tokens(prompt, params, control, sink, &mut |_| {})
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        let before = self.memory();
        if trim == Trim::Everything {
            self.session.clear();
        }
        release_spare_memory();
        let after = self.memory();
        let held = |memory: MemoryUse| memory.kv_cache_bytes + memory.allocator_cache_bytes;
        held(before).saturating_sub(held(after))
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            weight_bytes: self.parts.weight_bytes,
            kv_cache_bytes: self.session.bytes(),
            allocator_cache_bytes: mlx_rs::memory::cache_memory().unwrap_or(0) as u64,
            peak_bytes: mlx_rs::memory::peak_memory().unwrap_or(0) as u64,
        }
    }

    fn save_state(&self, path: &Path) -> Result<usize, EngineError> {
        state::save(
            &self.session,
            &self.parts.transformer,
            &self.parts.info,
            path,
        )
    }

    fn restore_state(&mut self, path: &Path) -> Result<usize, EngineError> {
        self.session = state::restore(&self.parts.transformer, &self.parts.info, path)?;
        Ok(self.session.tokens().len())
    }
}

#[cfg(test)]
mod tests;
