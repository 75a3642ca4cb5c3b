//! A loaded model answering: text to tokens, the loop, tokens to text, and the figures.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use transom_engine::speculation::Speculation;
use transom_engine::text::{TextStream, ends_in_open_reasoning};
use transom_engine::{
    EngineError, FinishReason, GenerationParams, JobControl, LoadedModel, MemoryUse, ModelInfo,
    PreparedPrompt, Prompt, Sampler, Section, Stats, TokenEvent, TokenSink, Trim,
};

use crate::decoder::{Decoder, Next, Overflow};
use crate::memory;
use crate::native::Model;
use crate::session::Session;
use crate::state;
use crate::text::{Detokenizer, Template};

/// A model in memory. Born, used and dropped on one thread.
#[derive(Debug)]
pub struct LlamaModel {
    parts: Parts,
    /// The last field, so that it is dropped when all else is free.
    _last: GiveBack,
}

/// Gives freed memory back to the system when it is dropped.
#[derive(Debug)]
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        memory::trim_heap();
    }
}

/// What a load produces.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) info: ModelInfo,
    pub(crate) model: Rc<Model>,
    pub(crate) template: Template,
    pub(crate) session: Session,
    pub(crate) speculation: Speculation,
}

/// Times of one answer.
#[derive(Default)]
struct Times {
    prefill: Duration,
    first_token: Duration,
    last_token: Duration,
}

impl LlamaModel {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts,
            _last: GiveBack,
        }
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
        let parts = &mut self.parts;
        params.validate(parts.info.vocab_size)?;
        let start = Instant::now();
        let n_prompt = prompt.tokens.len();
        let max_tokens = max_tokens(&parts.info, n_prompt, params);
        let overflow = if params.shift_context {
            Overflow::Shift {
                n_kept: prompt.system_tokens,
            }
        } else {
            Overflow::End
        };
        let sampler = Sampler::new(params.sampling.clone(), &prompt.tokens)?;
        // How much is guessed depends on how long steps take, and steps over several tokens round
        // differently: whoever gives a seed wants the same answer again.
        let may_guess = params.speculate && params.sampling.seed.is_none();
        let speculation = may_guess.then_some(&mut parts.speculation);
        let chunk = parts.session.plan().prefill_chunk;
        let chunk = params.prefill_chunk.map_or(chunk, |most| most.min(chunk));
        let session = &mut parts.session;
        let mut decoder = Decoder::new(session, speculation, sampler, &prompt.tokens, overflow);
        let n_cached = decoder.n_cached();
        sink.on_event(TokenEvent::Started {
            prompt_tokens: n_prompt,
            cached_tokens: n_cached,
            dropped_messages: prompt.dropped_messages,
        });
        decoder.prefill(&prompt.tokens, chunk, control, |done| {
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
        let vocab = parts.model.vocab();
        let mut detokenizer = Detokenizer::new(vocab);
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
            if control.take_trim_request() {
                memory::trim_heap();
            }
            let token = match decoder.next(max_tokens - n_generated, control)? {
                Next::Token(token) => token,
                Next::Full => break FinishReason::Length,
                Next::Stopped => break control.stop_reason().unwrap_or(FinishReason::Length),
            };
            times.last_token = start.elapsed();
            if n_generated == 0 {
                times.first_token = times.last_token;
            }
            on_token(token);
            if vocab.is_end(token) && !params.ignore_end_of_text {
                break FinishReason::Stop;
            }
            n_generated += 1;
            if text.push(detokenizer.push(token), &mut emit) {
                break FinishReason::Stop;
            }
        };
        let counts = decoder.counts();
        // Settled before the caller is told: from here on nothing of this answer runs.
        drop(decoder);
        text.finish(&mut emit);
        let stats = Stats {
            prompt_tokens: n_prompt,
            cached_tokens: n_cached,
            generated_tokens: n_generated,
            drafted_tokens: counts.drafted,
            accepted_tokens: counts.accepted,
            shifted_tokens: counts.shifted,
            time_to_first_token: times.first_token,
            prefill_time: times.prefill,
            decode_time: times.last_token.saturating_sub(times.first_token),
            peak_memory_bytes: self.memory().peak_bytes,
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok((reason, stats))
    }

    fn tokenize(&self, text: &str, add_special: bool) -> Result<Vec<u32>, EngineError> {
        let tokens = self.parts.model.vocab().tokenize(text, add_special);
        tokens.ok_or_else(|| EngineError::InvalidParameter {
            name: "prompt".into(),
            value: format!("{} bytes", text.len()),
            expected: "less than 2 GB".into(),
        })
    }
}

/// A shifted context has no end, so an answer that is not bounded ends after a context's length.
fn max_tokens(info: &ModelInfo, n_prompt: usize, params: &GenerationParams) -> usize {
    let room = info.context_length.saturating_sub(n_prompt);
    if params.shift_context {
        params.max_tokens.unwrap_or(info.context_length)
    } else {
        params.max_tokens.unwrap_or(room).min(room)
    }
}

impl LoadedModel for LlamaModel {
    fn info(&self) -> &ModelInfo {
        &self.parts.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        let Parts {
            info,
            model,
            template,
            ..
        } = &self.parts;
        let (tokens, starts_in_reasoning) = match prompt {
            Prompt::Chat(chat) => {
                let text = template.render(info, chat)?;
                (self.tokenize(&text, false)?, ends_in_open_reasoning(&text))
            }
            Prompt::Text(text) => (self.tokenize(text, true)?, false),
            Prompt::Tokens(tokens) => (tokens.clone(), false),
        };
        info.check_prompt(&tokens)?;
        let system_tokens = match prompt {
            Prompt::Chat(chat) => template.system_tokens(info, chat, &tokens, model.vocab()),
            Prompt::Text(_) | Prompt::Tokens(_) => 0,
        };
        Ok(PreparedPrompt {
            tokens,
            starts_in_reasoning,
            dropped_messages: 0,
            system_tokens,
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
        match trim {
            Trim::KeepConversation => {
                memory::trim_heap();
                0
            }
            Trim::Everything => {
                let held = self.parts.session.cache_bytes();
                self.parts.session.give_back();
                held
            }
        }
    }

    fn memory(&self) -> MemoryUse {
        let weight_bytes = self.parts.model.n_bytes();
        let kv_cache_bytes = self.parts.session.cache_bytes();
        MemoryUse {
            weight_bytes,
            kv_cache_bytes,
            allocator_cache_bytes: 0,
            // What a GPU holds is not in the process's own count.
            peak_bytes: memory::peak_process_bytes().max(weight_bytes + kv_cache_bytes),
        }
    }

    fn save_state(&self, path: &Path) -> Result<usize, EngineError> {
        state::save(&self.parts.session, &self.parts.info, path)
    }

    fn restore_state(&mut self, path: &Path) -> Result<usize, EngineError> {
        state::restore(&mut self.parts.session, &self.parts.info, path)
    }
}
