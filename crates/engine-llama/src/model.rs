//! A loaded model answering: text to tokens, and the engine room's loop round its decoder.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use transom_engine::generation;
use transom_engine::speculation::Speculation;
use transom_engine::{
    EngineError, FinishReason, GenerationParams, JobControl, LoadedModel, MemoryUse, ModelInfo,
    OpenReasoning, PreparedPrompt, Prompt, Sampler, Stats, TokenEvent, TokenSink, Trim,
};

use crate::decoder::{Decoder, Overflow};
use crate::memory;
use crate::native::Model;
use crate::session::{Reading, Session};
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
        let began = Instant::now();
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
        let reading = Reading {
            prompt: &prompt.tokens,
            conversation: params.conversation,
            dropped_messages: prompt.dropped_messages,
            may_shift: params.shift_context,
        };
        let decoder = Decoder::new(session, speculation, sampler, reading, overflow)?;
        let words = Detokenizer::new(parts.model.vocab());
        let job = generation::Job {
            prompt,
            params,
            max_tokens,
            chunk,
            began,
        };
        let (reason, stats) = generation::run(job, decoder, words, control, sink, on_token)?;
        let stats = Stats {
            peak_memory_bytes: self.memory().peak_bytes,
            ..stats
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok((reason, stats))
    }
}

fn too_long(text: &str) -> EngineError {
    EngineError::InvalidParameter {
        name: "prompt".into(),
        value: format!("{} bytes", text.len()),
        expected: "less than 2 GB".into(),
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
                let rendered = template.render(info, chat)?;
                let tokens = template.tokenize(&rendered, model.vocab());
                let tokens = tokens.ok_or_else(|| too_long(rendered.text()))?;
                (tokens, OpenReasoning::at_end_of(rendered.text()))
            }
            Prompt::Text(text) => {
                let tokens = model.vocab().tokenize(text, true);
                (tokens.ok_or_else(|| too_long(text))?, None)
            }
            Prompt::Tokens(tokens) => (tokens.clone(), None),
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
