//! A loaded model answering: text to tokens, the loop, tokens to text, and the figures.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use transom_engine::text::{TextStream, ends_in_open_reasoning};
use transom_engine::{
    ChatTemplate, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel, MemoryUse,
    ModelInfo, PreparedPrompt, Prompt, Section, Stats, TokenEvent, TokenSink, Tokenizer, Trim,
};

use crate::decoder::{Decoder, Session};
use crate::error::Context;
use crate::memory::give_spare_memory_back;
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
        give_spare_memory_back();
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

/// Times of one answer.
#[derive(Default)]
struct Times {
    prefill: Duration,
    first_token: Duration,
    last_token: Duration,
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
        let start = Instant::now();
        let n_prompt = prompt.tokens.len();
        let room = parts.info.context_length.saturating_sub(n_prompt);
        let max_tokens = params.max_tokens.unwrap_or(room).min(room);
        let sampler = Sampler::new(&params.sampling, &prompt.tokens, parts.info.vocab_size);
        let mut decoder = Decoder::new(&parts.transformer, session, sampler, &prompt.tokens);
        let n_cached = decoder.n_cached();
        sink.on_event(TokenEvent::Started {
            prompt_tokens: n_prompt,
            cached_tokens: n_cached,
            dropped_messages: prompt.dropped_messages,
        });
        let chunk = parts.prefill_chunk;
        let chunk = params
            .prefill_chunk
            .map_or(chunk, |wanted| wanted.min(chunk));
        decoder.prefill(&prompt.tokens, chunk, control, |done| {
            give_spare_buffers_back(control);
            sink.on_event(TokenEvent::Prefill {
                done,
                total: n_prompt,
            });
        })?;
        let mut times = Times {
            prefill: start.elapsed(),
            ..Times::default()
        };
        let mut n_generated = 0;
        let mut text = TextStream::new(&params.stop, prompt.starts_in_reasoning);
        let mut detokenizer = parts.tokenizer.detokenizer();
        let mut emit = |section: Section, text: &str| {
            sink.on_event(TokenEvent::Text {
                section,
                text: text.to_owned(),
            });
        };
        let reason = loop {
            if let Some(reason) = control.stop_reason() {
                break reason;
            }
            if n_generated == max_tokens {
                break FinishReason::Length;
            }
            give_spare_buffers_back(control);
            let token = decoder.next(n_generated + 1 < max_tokens)?;
            times.last_token = start.elapsed();
            if n_generated == 0 {
                times.first_token = times.last_token;
            }
            on_token(token);
            if parts.end_tokens.contains(&token) && !params.ignore_end_of_text {
                break FinishReason::Stop;
            }
            n_generated += 1;
            if text.push(&detokenizer.push(token), &mut emit) {
                break FinishReason::Stop;
            }
        };
        // Settled before the caller is told: from here on nothing of this answer runs.
        drop(decoder);
        text.finish(&mut emit);
        let stats = Stats {
            prompt_tokens: n_prompt,
            cached_tokens: n_cached,
            generated_tokens: n_generated,
            drafted_tokens: 0,
            accepted_tokens: 0,
            shifted_tokens: 0,
            time_to_first_token: times.first_token,
            prefill_time: times.prefill,
            decode_time: times.last_token.saturating_sub(times.first_token),
            peak_memory_bytes: mlx_rs::memory::peak_memory().during("memory")? as u64,
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
                let text = self.parts.info.render(template, chat, SystemTime::now())?;
                let tokens = self.parts.tokenizer.encode(&text, false)?;
                (tokens, ends_in_open_reasoning(&text))
            }
            Prompt::Text(text) => (self.parts.tokenizer.encode(text, true)?, false),
            Prompt::Tokens(tokens) => (tokens.clone(), false),
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
        give_spare_memory_back();
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
        state::save(&self.session, &self.parts.info, path)
    }

    fn restore_state(&mut self, path: &Path) -> Result<usize, EngineError> {
        self.session = state::restore(&self.parts.transformer, &self.parts.info, path)?;
        Ok(self.session.tokens().len())
    }
}

fn give_spare_buffers_back(control: &JobControl) {
    if control.take_trim_request() {
        give_spare_memory_back();
    }
}
