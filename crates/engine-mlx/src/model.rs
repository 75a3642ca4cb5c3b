//! A loaded model: generates responses with the engine crate's generation loop around the decoder.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::{Instant, SystemTime};

use transom_engine::generation::{self, Detokenize, Generation};
use transom_engine::speculation::Speculation;
use transom_engine::{
    CachedConversation, ChatTemplate, Constraints, Detokenizer, EmbedInput, Embedding, EngineError,
    FillIn, FillInTokens, FinishReason, GenerationParams, JobControl, LoadedModel, MemoryUse,
    ModelInfo, NextStep, OnDrop, OpenReasoning, ParkedState, PreparedPrompt, PreparedTools, Prompt,
    ResponseId, Responses, SavableCache, SavedConversation, Scorer, Stats, TokenEvent, TokenInput,
    TokenPiece, TokenSink, Tokenizer, Trim, embedding, fill_in,
};

use crate::decoder::{Decoder, ResponseOptions};
use crate::embedder::Embedder;
use crate::error::Context;
use crate::memory::{self, WiredMemory, release_unused_memory};
use crate::nn::{Positions, Transformer};
use crate::sampler::Sampler;
use crate::sessions::Sessions;
use crate::shared_steps::{SharedSteps, StepSharing};
use crate::state;

/// A model in memory. It must be created, used and dropped on one thread.
pub struct MlxModel {
    pub(crate) info: ModelInfo,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) transformer: Rc<Transformer>,
    /// `None` if the model generates text.
    pub(crate) embedder: Option<Embedder>,
    pub(crate) prefill_chunk: usize,
    /// Bytes that may be wired while a response runs.
    pub(crate) wired_limit: usize,
    pub(crate) weight_bytes: u64,
    /// Those of the last response that ended with no other in progress; their current one is empty while
    /// responses are.
    pub(crate) sessions: Sessions,
    pub(crate) responses: Responses<Response>,
    pub(crate) sharing: StepSharing,
    /// That of the responses in progress.
    pub(crate) wired: Weak<WiredMemory>,
    /// `None` if no step width pays on this device, and while a response uses it.
    pub(crate) speculation: Option<Box<Speculation>>,
    pub(crate) constraints: Constraints,
    /// How many tokens that a constraint forces a step reads at most.
    pub(crate) forced_step: usize,
    /// The last field, so that it is dropped after the arrays.
    pub(crate) _release: OnDrop,
}

/// A response in progress.
pub(crate) struct Response {
    generation: Generation<ResponseDecoder, ResponseText>,
    control: JobControl,
    /// Dropped after the generation, when the device is idle.
    _wired: Rc<WiredMemory>,
}

type ResponseDecoder = Decoder<Box<Sessions>, Box<Speculation>>;

impl Response {
    pub(crate) fn decoder(&self) -> &ResponseDecoder {
        self.generation.decoder()
    }

    fn can_share(&self) -> bool {
        self.decoder().can_share() && !self.control.is_stopped()
    }

    fn joins(&mut self) -> bool {
        self.can_share() && self.generation.decoder_mut().has_choice()
    }
}

struct ResponseText {
    detokenizer: Detokenizer,
    end_tokens: Vec<u32>,
}

impl Detokenize for ResponseText {
    fn is_end(&self, token: u32) -> bool {
        self.end_tokens.contains(&token)
    }

    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        self.detokenizer.push(token).into()
    }

    fn peek(&self, token: u32) -> Vec<u8> {
        self.detokenizer.clone().push(token)
    }
}

impl MlxModel {
    fn tokenize_fill_in(&self, text: &FillIn) -> Result<Vec<u32>, EngineError> {
        let markers = FillInTokens::find(|marker| self.tokenizer.token_to_id(marker));
        let markers = markers.ok_or_else(fill_in::no_markers)?;
        let start = self.tokenizer.start_tokens()?;
        let prefix = self.tokenizer.encode_plain(&text.prefix)?;
        let suffix = self.tokenizer.encode_plain(&text.suffix)?;
        Ok(markers.prompt(&start, &prefix, &suffix))
    }

    /// Sets when responses that are generated at the same time share their steps. By default they do if
    /// that is measured to be faster, and never with quantized weights on a CPU.
    pub fn set_shared_steps(&mut self, shared_steps: SharedSteps) {
        self.sharing.mode = shared_steps;
    }

    /// Queues what the response `id` needs for its next token, together with all other responses that
    /// can share a step, if that is faster.
    fn share_steps(&mut self, id: ResponseId) {
        // Two steps where none is queued: that of the token, and the one after it.
        while self.responses.get(id).is_some_and(Response::can_share) {
            let mut pays = |n| {
                let vocab_size = self.info.vocab_size;
                self.sharing.pays(n, &self.transformer, vocab_size)
            };
            // What a constraint allows is only computed for a step that may be shared.
            let n_able = self.responses.iter().filter(|one| one.can_share()).count();
            if !pays(n_able) || !self.responses.get_mut(id).is_ok_and(Response::joins) {
                return;
            }
            let all = self.responses.iter_mut();
            let sharing = all.filter_map(|one| one.joins().then(|| one.generation.decoder_mut()));
            let mut sharing: Vec<_> = sharing.collect();
            if !pays(sharing.len()) {
                return;
            }
            ResponseDecoder::queue_shared(&mut sharing);
        }
    }

    /// Returns the logits that follow each of `tokens`, one row of `vocab_size` per token. They are
    /// computed with an empty KV cache, to compare numerics.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::InvalidParameter`] for ids outside the
    /// vocabulary, [`EngineError::Backend`].
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, EngineError> {
        self.info.check_tokens(tokens)?;
        let ids = mlx_rs::Array::from_slice(tokens, &[tokens.len() as i32]);
        let mut caches = self.transformer.new_caches();
        let logits = self
            .transformer
            .logits(&ids, &mut [&mut caches], Positions::All)
            .and_then(|logits| logits.as_dtype(mlx_rs::Dtype::Float32)?.contiguous())
            .during("logits")?;
        let values = logits
            .try_as_slice::<f32>()
            .map_err(|error| EngineError::backend("logits", error))?;
        let rows = values.chunks(self.info.vocab_size);
        Ok(rows.map(<[f32]>::to_vec).collect())
    }
}

impl LoadedModel for MlxModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        if let Some(embedder) = &self.embedder {
            return Err(embedder.no_text());
        }
        let continues_message = matches!(prompt, Prompt::Chat(chat) if chat.continue_final_message);
        let tools = match (prompt, &self.template) {
            (Prompt::Chat(chat), Some(template)) => {
                PreparedTools::new(template, chat, |token| self.tokenizer.token_to_id(token))?
            }
            _ => None,
        };
        let (tokens, starts_in_reasoning) = match prompt {
            Prompt::Chat(chat) => {
                let template = self.template.as_ref();
                let rendered = self.info.render(template, chat, SystemTime::now())?;
                let tokens = self.tokenizer.encode_prompt(&rendered)?;
                let reasoning = OpenReasoning::at_end_of(rendered.text());
                (tokens, reasoning.filter(|_| !continues_message))
            }
            Prompt::Text(text) => (self.tokenizer.encode(text, true)?, None),
            Prompt::Tokens(tokens) => (tokens.clone(), None),
            Prompt::FillIn(text) => (self.tokenize_fill_in(text)?, None),
        };
        self.info.check_prompt(&tokens)?;
        Ok(PreparedPrompt {
            starts_in_reasoning,
            continues_message,
            tools,
            ..PreparedPrompt::new(tokens)
        })
    }

    fn pieces(&self, input: &TokenInput) -> Result<Vec<TokenPiece>, EngineError> {
        if let TokenInput::Tokens(tokens) = input {
            self.info.check_vocabulary(tokens)?;
        }
        self.tokenizer.pieces(input)
    }

    fn begin(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
    ) -> Result<Option<ResponseId>, EngineError> {
        let info = &self.info;
        params.validate(info.vocab_size)?;
        let start = Instant::now();
        memory::end_phase().during("memory")?;
        let (prompt, scorer) = Scorer::new(prompt, params);
        let prompt = prompt.into_owned();
        let n_free = info.context_length.saturating_sub(prompt.tokens.len());
        let chunk = self.prefill_chunk;
        let sampler = Sampler::new(&params.sampling, &prompt.tokens, info.vocab_size);
        let max_tokens = params.max_tokens.unwrap_or(n_free).min(n_free);
        let max_tokens = scorer.max_tokens(max_tokens);
        let wired = self.wired.upgrade();
        let wired = wired.unwrap_or_else(|| Rc::new(WiredMemory::new(self.wired_limit)));
        self.wired = Rc::downgrade(&wired);
        let table = || {
            let end_tokens = self.end_tokens.clone();
            self.tokenizer.token_table(info.vocab_size, end_tokens)
        };
        let constraint = prompt.compile_constraint(params, &mut self.constraints, table)?;
        let constraint = constraint.spelled_by(self.tokenizer.encoder());
        let check = constraint.check();
        let options = ResponseOptions {
            sampler,
            constraint,
            forced_step: match params.writes_forced_text() {
                true => self.forced_step,
                false => 0,
            },
            conversation: params.conversation,
            scorer,
        };
        // Models with recurrent layers don't draft.
        let may_speculate = params.may_speculate() && !self.sessions.current.has_states();
        let speculation = match may_speculate {
            true => self.speculation.take(),
            false => None,
        };
        let tokens = &prompt.tokens;
        for response in self.responses.iter() {
            let running = response.decoder().sessions();
            self.sessions.copy_from(running, tokens);
        }
        let idle = Sessions::new(&self.transformer, 0);
        let sessions = Box::new(std::mem::replace(&mut self.sessions, idle));
        let transformer = self.transformer.clone();
        let mut decoder = Decoder::new(transformer, sessions, speculation, tokens, options);
        self.sessions.swap_parked(decoder.sessions_mut());
        let text = ResponseText {
            detokenizer: self.tokenizer.detokenizer(),
            end_tokens: self.end_tokens.clone(),
        };
        let job = generation::Job {
            max_tokens,
            prefill_chunk: params.prefill_chunk.map_or(chunk, |n| n.min(chunk)),
            constraint: check,
            ..generation::Job::new(prompt, params, control, start)
        };
        Ok(Some(self.responses.add(Response {
            generation: Generation::new(job, decoder, text),
            control: control.clone(),
            _wired: wired,
        })))
    }

    fn step(
        &mut self,
        id: ResponseId,
        sink: &mut dyn TokenSink,
    ) -> Result<Option<(FinishReason, Stats)>, EngineError> {
        let is_alone = self.responses.len() == 1;
        self.share_steps(id);
        let generation = &mut self.responses.get_mut(id)?.generation;
        if !is_alone {
            generation.decoder_mut().resume();
        }
        self.sessions
            .swap_parked(generation.decoder_mut().sessions_mut());
        let result = generation.step(sink);
        self.sessions
            .swap_parked(generation.decoder_mut().sessions_mut());
        let Some(end) = result.transpose() else {
            return Ok(None);
        };
        if let Some(ended) = self.responses.remove(id) {
            let (sessions, speculation) = ended.generation.into_decoder().into_parts();
            // A response that memory pressure has stopped leaves nothing.
            let is_kept = matches!(end, Ok((reason, _)) if reason != FinishReason::Shed);
            if self.responses.is_empty() {
                self.sessions.replace(*sessions);
            } else if is_kept {
                self.sessions.park_ended(*sessions);
            }
            self.speculation = self.speculation.take().or(speculation);
        }
        let (reason, stats) = end?;
        let of_decode = memory::end_phase().during("memory")?;
        let of_one = |peak_bytes| self.responses.peak_of_one(peak_bytes);
        let stats = Stats {
            peak_memory_bytes: of_one(memory::peak()),
            prefill_peak_bytes: of_one(stats.prefill_peak_bytes),
            decode_peak_bytes: of_one(of_decode),
            ..stats
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok(Some((reason, stats)))
    }

    fn next_step(&self, id: ResponseId) -> NextStep {
        match self.responses.get(id) {
            Some(response) if response.generation.is_waiting() => NextStep::Wait,
            Some(response) if response.decoder().has_shared() => NextStep::Take,
            _ => NextStep::Compute,
        }
    }

    fn embed(
        &mut self,
        inputs: &[EmbedInput],
        control: &JobControl,
        sink: &mut dyn FnMut(Embedding),
    ) -> Result<(FinishReason, Stats), EngineError> {
        let info = &self.info;
        let Some(embedder) = &self.embedder else {
            return Err(embedding::not_an_embedding_model(info));
        };
        let tokenize =
            |input: &EmbedInput| embedder.tokenize(input, &self.tokenizer, &self.end_tokens);
        let inputs = inputs.iter().map(tokenize);
        let inputs = inputs.collect::<Result<Vec<_>, EngineError>>()?;
        let _wired = WiredMemory::new(self.wired_limit);
        let (reason, stats) = embedding::run(info, &inputs, control, sink, |tokens| {
            embedder.embed(&self.transformer, tokens, self.prefill_chunk, control)
        })?;
        let stats = Stats {
            peak_memory_bytes: memory::peak(),
            ..stats
        };
        Ok((reason, stats))
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        let before = self.memory();
        self.sessions.clear_parked();
        if let Some(speculation) = &mut self.speculation {
            speculation.release_drafter();
        }
        if trim == Trim::Everything {
            self.sessions.current.clear();
            self.constraints.clear();
        }
        release_unused_memory();
        let after = self.memory();
        before.total_bytes().saturating_sub(after.total_bytes())
    }

    fn memory(&self) -> MemoryUse {
        let running = || self.responses.iter().map(Response::decoder);
        let mut speculation = running().filter_map(Decoder::speculation);
        let speculation = self.speculation.as_deref().or_else(|| speculation.next());
        let drafter = speculation.and_then(Speculation::drafter);
        let of_draft = drafter.map_or(0, |drafter| drafter.kv_cache_bytes());
        let of_running = running().map(|decoder| decoder.sessions().current.bytes());
        MemoryUse {
            weight_bytes: self.weight_bytes,
            kv_cache_bytes: self.sessions.current.bytes() + of_running.sum::<u64>() + of_draft,
            parked_bytes: self.sessions.parked_bytes(),
            allocator_cache_bytes: mlx_rs::memory::cache_memory().unwrap_or(0) as u64,
            peak_bytes: memory::peak(),
        }
    }

    fn savable_cache(&mut self) -> Option<&mut dyn SavableCache> {
        Some(self)
    }
}

impl SavableCache for MlxModel {
    fn conversations(&self) -> Vec<CachedConversation<'_>> {
        let sessions = self.sessions.by_last_use().into_iter();
        let described = sessions.map(|session| CachedConversation {
            id: session.conversation(),
            tokens: session.tokens(),
        });
        described.collect()
    }

    fn has_blocks(&self) -> bool {
        self.sessions.current.has_growing_caches()
    }

    fn save_block(&self, index: usize, tokens: Range<usize>) -> Result<Vec<u8>, EngineError> {
        state::save_block(self.sessions.by_last_use()[index], tokens)
    }

    fn save_head(&self, index: usize) -> Result<Vec<u8>, EngineError> {
        let session = self.sessions.by_last_use()[index];
        state::save_head(session, &self.transformer, &self.info)
    }

    fn restore(&mut self, saved: SavedConversation<'_>) -> Result<(), EngineError> {
        // First, so that the memory never exceeds that of a full context and the parked ones.
        self.sessions.park_current(&self.transformer);
        self.sessions.current = state::restore(&self.transformer, &self.info, saved)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
