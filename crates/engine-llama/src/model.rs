//! A loaded model: tokenizes prompts and runs the generation loop of the `engine` crate.

use std::ops::Range;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

use transom_engine::generation::{self, Generation, common_prefix_len};
use transom_engine::speculation::Speculation;
use transom_engine::{
    CachedConversation, ChatPrompt, ChatTemplate, Constraints, EngineError, FillIn, FinishReason,
    GenerationParams, JobControl, LoadedModel, MemoryUse, Message, ModelInfo, NextStep, OnDrop,
    OpenReasoning, PreparedPrompt, PreparedTools, Prompt, RenderedPrompt, ResponseId, Responses,
    Role, Sampler, SavableCache, SavedConversation, Scorer, Stats, TokenEvent, TokenInput,
    TokenPiece, TokenSink, Trim, fill_in,
};

use crate::decoder::{DecodeOptions, Decoder};
use crate::memory;
use crate::native::Model;
use crate::session::{Session, SessionPrompt};
use crate::state;
use crate::text::{self, Detokenizer, too_long};

/// Tokens at the start that a context shift always keeps. Models put unneeded attention on the
/// first tokens, and degrade without them (Xiao et al. 2023, Efficient Streaming Language Models
/// with Attention Sinks).
const SINK_TOKENS: usize = 4;

/// A response in progress.
type Response = Generation<Decoder<Box<Session>, Box<Speculation>>, Detokenizer>;

/// A model in memory. Created, used and dropped on one thread.
#[derive(Debug)]
pub(crate) struct LlamaModel {
    pub(crate) info: ModelInfo,
    pub(crate) model: Rc<Model>,
    pub(crate) draft_weight_bytes: u64,
    pub(crate) template: Option<ChatTemplate>,
    /// The session of the last response that ended with no other in progress; empty while responses are.
    pub(crate) session: Session,
    pub(crate) responses: Responses<Response>,
    /// See [`LoadedModel::set_queued`].
    pub(crate) n_queued: usize,
    /// `None` while a response uses it.
    pub(crate) speculation: Option<Box<Speculation>>,
    pub(crate) constraints: Constraints,
    /// The last field, so that it is dropped after everything else is freed.
    pub(crate) _trim_heap: OnDrop,
}

impl LlamaModel {
    /// Renders and tokenizes a conversation.
    fn tokenize_chat(&self, chat: &ChatPrompt) -> Result<(Vec<u32>, RenderedPrompt), EngineError> {
        let template = self.template.as_ref();
        let rendered = self.info.render(template, chat, SystemTime::now())?;
        let tokens = template.and_then(|template| {
            let vocab = self.model.vocab();
            vocab.tokenize_prompt(&rendered, template.control_tokens())
        });
        let tokens = tokens.ok_or_else(|| too_long(rendered.text()))?;
        Ok((tokens, rendered))
    }

    fn tokenize_fill_in(&self, text: &FillIn) -> Result<Vec<u32>, EngineError> {
        let vocab = self.model.vocab();
        let markers = vocab.fill_in_tokens().ok_or_else(fill_in::no_markers)?;
        let tokens = |text: &str| vocab.tokenize_text(text).ok_or_else(|| too_long(text));
        let (prefix, suffix) = (tokens(&text.prefix)?, tokens(&text.suffix)?);
        Ok(markers.prompt(&Vec::from_iter(vocab.start()), &prefix, &suffix))
    }

    /// Returns how many of `tokens`, those of `chat`, hold its system prompt: those that do not
    /// depend on the user's message.
    fn system_tokens(&self, chat: &ChatPrompt, tokens: &[u32]) -> usize {
        let system = chat.messages.iter();
        let system = system.take_while(|message| message.role == Role::System);
        let mut probe = ChatPrompt {
            messages: system.cloned().collect(),
            continue_final_message: false,
            ..chat.clone()
        };
        if probe.messages.is_empty() {
            return SINK_TOKENS.min(tokens.len());
        }
        let mut shared = tokens.len();
        for content in ["0", "x"] {
            probe.messages.push(Message::new(Role::User, content));
            let probed = self.tokenize_chat(&probe);
            let probed = probed.map_or_else(|_| Vec::new(), |(tokens, _)| tokens);
            shared = shared.min(common_prefix_len(tokens, &probed));
            probe.messages.pop();
        }
        shared.max(SINK_TOKENS.min(tokens.len()))
    }

    /// Returns true if a response with the session would share steps with those in progress.
    fn expects_seat(&self) -> bool {
        let others = self.responses.iter().map(Generation::decoder);
        let others = others.filter(|decoder| decoder.may_share_steps());
        self.session
            .expects_seat(others.map(Decoder::session), self.n_queued)
    }

    /// Lets responses share steps where that pays.
    fn arrange_seats(&mut self) -> Result<(), EngineError> {
        let is_only = self.responses.len() + self.n_queued == 1;
        let decoders = self.responses.iter_mut().map(Generation::decoder_mut);
        let sharing = decoders.filter(|decoder| decoder.may_share_steps());
        let mut sessions: Vec<_> = sharing.map(Decoder::session_mut).collect();
        self.session
            .arrange_seats(&mut sessions, self.n_queued, is_only)
    }
}

/// A shifted context has no end, so a response without a limit ends after the length of the
/// context.
fn max_tokens(info: &ModelInfo, n_prompt: usize, params: &GenerationParams) -> usize {
    let free = info.context_length.saturating_sub(n_prompt);
    if params.shift_context {
        params.max_tokens.unwrap_or(info.context_length)
    } else {
        params.max_tokens.unwrap_or(free).min(free)
    }
}

impl LoadedModel for LlamaModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        let continues_message = matches!(prompt, Prompt::Chat(chat) if chat.continue_final_message);
        let tools = match (prompt, &self.template) {
            (Prompt::Chat(chat), Some(template)) => {
                let vocab = self.model.vocab();
                PreparedTools::new(template, chat, |token| {
                    let tokens = vocab.tokenize(token, false)?;
                    tokens.first().copied().filter(|_| tokens.len() == 1)
                })?
            }
            _ => None,
        };
        let (tokens, starts_in_reasoning) = match prompt {
            Prompt::Chat(chat) => {
                let (tokens, rendered) = self.tokenize_chat(chat)?;
                let reasoning = OpenReasoning::at_end_of(rendered.text());
                (tokens, reasoning.filter(|_| !continues_message))
            }
            Prompt::Text(text) => {
                let tokens = self.model.vocab().tokenize(text, true);
                (tokens.ok_or_else(|| too_long(text))?, None)
            }
            Prompt::Tokens(tokens) => (tokens.clone(), None),
            Prompt::FillIn(text) => (self.tokenize_fill_in(text)?, None),
        };
        self.info.check_prompt(&tokens)?;
        let system_tokens = match prompt {
            Prompt::Chat(chat) => self.system_tokens(chat, &tokens),
            Prompt::Text(_) | Prompt::Tokens(_) | Prompt::FillIn(_) => 0,
        };
        Ok(PreparedPrompt {
            starts_in_reasoning,
            continues_message,
            system_tokens,
            tools,
            ..PreparedPrompt::new(tokens)
        })
    }

    fn pieces(&self, input: &TokenInput) -> Result<Vec<TokenPiece>, EngineError> {
        text::pieces(&self.info, self.model.vocab(), input)
    }

    fn begin(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
    ) -> Result<Option<ResponseId>, EngineError> {
        params.validate(self.info.vocab_size)?;
        let start = Instant::now();
        let (prompt, scorer) = Scorer::new(prompt, params);
        let prompt = prompt.into_owned();
        let n_prompt = prompt.tokens.len();
        let max_tokens = scorer.max_tokens(max_tokens(&self.info, n_prompt, params));
        let n_kept = params.shift_context.then_some(prompt.system_tokens);
        let sampler = Sampler::new(params.sampling.clone(), &prompt.tokens)?;
        let table = || Ok(text::token_table(self.model.vocab()));
        let constraint = prompt.compile_constraint(params, &mut self.constraints, table)?;
        let model = self.model.clone();
        let constraint = constraint.spelled_by(move |text| model.vocab().tokenize_text(text));
        let session_prompt = SessionPrompt {
            tokens: &prompt.tokens,
            conversation: params.conversation,
            dropped_messages: prompt.dropped_messages,
            may_shift: params.shift_context,
            is_private: params.is_private,
        };
        for response in self.responses.iter() {
            let running = response.decoder().session();
            self.session.park_copy_of(running, &session_prompt);
        }
        self.session.reuse(session_prompt)?;
        let is_reproducible = params.sampling.seed.is_some();
        if is_reproducible || !self.expects_seat() {
            self.session.reserve_expected()?;
        }
        let mut next = self.session.sibling();
        next.swap_shared(&mut self.session);
        let session = Box::new(std::mem::replace(&mut self.session, next));
        // Models with recurrent layers don't draft.
        let may_speculate = params.may_speculate() && !session.has_recurrent_state();
        let speculation = match may_speculate {
            true => self.speculation.take(),
            false => None,
        };
        let max_chunk = session.config().prefill_chunk;
        let check = constraint.check();
        let options = DecodeOptions {
            n_kept,
            scorer,
            writes_forced: params.writes_forced_text(),
            is_reproducible,
        };
        let tokens = &prompt.tokens;
        let decoder = Decoder::new(session, speculation, sampler, constraint, tokens, options);
        let job = generation::Job {
            max_tokens,
            prefill_chunk: params.prefill_chunk.map_or(max_chunk, |n| n.min(max_chunk)),
            constraint: check,
            ..generation::Job::new(prompt, params, control, start)
        };
        let detokenizer = Detokenizer::new(self.model.clone());
        let response = Generation::new(job, decoder, detokenizer);
        Ok(Some(self.responses.add(response)))
    }

    fn step(
        &mut self,
        id: ResponseId,
        sink: &mut dyn TokenSink,
    ) -> Result<Option<(FinishReason, Stats)>, EngineError> {
        self.arrange_seats()?;
        let response = self.responses.get_mut(id)?;
        self.session
            .swap_shared(response.decoder_mut().session_mut());
        let result = response.step(sink);
        self.session
            .swap_shared(response.decoder_mut().session_mut());
        let Some(end) = result.transpose() else {
            return Ok(None);
        };
        if let Some(ended) = self.responses.remove(id) {
            let (session, speculation) = ended.into_decoder().into_parts();
            // A response that memory pressure has stopped leaves nothing.
            let is_kept = matches!(end, Ok((reason, _)) if reason != FinishReason::Shed);
            if self.responses.is_empty() {
                self.session.replace(*session);
                self.session.pause_threads();
            } else if is_kept {
                self.session.park_ended(*session);
            } else {
                self.session.dismiss(*session);
            }
            self.speculation = self.speculation.take().or(speculation);
        }
        let (reason, stats) = end?;
        let stats = Stats {
            peak_memory_bytes: self.responses.peak_of_one(self.memory().peak_bytes),
            ..stats
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok(Some((reason, stats)))
    }

    fn set_queued(&mut self, n: usize) {
        self.n_queued = n;
    }

    fn next_step(&self, id: ResponseId) -> NextStep {
        match self.responses.get(id) {
            Some(response) if response.is_waiting() => NextStep::Wait,
            Some(response)
                if response.decoder().has_token()
                    || self.session.has_computed(response.decoder().session()) =>
            {
                NextStep::Take
            }
            _ => NextStep::Compute,
        }
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        let speculation = self.speculation.as_mut();
        let of_draft = speculation.map_or(0, |speculation| speculation.release_drafter());
        of_draft
            + match trim {
                Trim::KeepConversation => self.session.release_parked(),
                Trim::Everything => {
                    self.constraints.clear();
                    let n_bytes = self.session.cache_bytes() + self.session.parked_bytes();
                    self.session.release();
                    n_bytes
                }
            }
    }

    fn memory(&self) -> MemoryUse {
        let running = || self.responses.iter().map(Generation::decoder);
        let mut speculation = running().filter_map(Decoder::speculation);
        let speculation = self.speculation.as_deref().or_else(|| speculation.next());
        let drafter = speculation.and_then(Speculation::drafter);
        let of_draft = drafter.map_or(0, |drafter| drafter.kv_cache_bytes());
        let of_running = running().map(|decoder| decoder.session().cache_bytes());
        let in_use = MemoryUse {
            weight_bytes: self.model.n_bytes() + self.draft_weight_bytes,
            kv_cache_bytes: self.session.cache_bytes() + of_running.sum::<u64>() + of_draft,
            parked_bytes: self.session.parked_bytes(),
            ..MemoryUse::default()
        };
        MemoryUse {
            // The memory of a GPU is not part of the process's own count.
            peak_bytes: memory::peak_process_bytes().max(in_use.total_bytes()),
            ..in_use
        }
    }

    fn savable_cache(&mut self) -> Option<&mut dyn SavableCache> {
        Some(self)
    }
}

impl SavableCache for LlamaModel {
    fn conversations(&self) -> Vec<CachedConversation<'_>> {
        let conversations = self.session.conversations().into_iter();
        let described = conversations.map(|conversation| CachedConversation {
            id: conversation.id,
            tokens: &conversation.tokens,
        });
        described.collect()
    }

    fn has_blocks(&self) -> bool {
        self.session.has_blocks()
    }

    fn save_block(&self, index: usize, tokens: Range<usize>) -> Result<Vec<u8>, EngineError> {
        state::save_block(&self.session, &self.info, index, tokens)
    }

    fn save_head(&self, index: usize) -> Result<Vec<u8>, EngineError> {
        state::save_head(&self.session, &self.info, index)
    }

    fn restore(&mut self, saved: SavedConversation<'_>) -> Result<(), EngineError> {
        state::restore(&mut self.session, &self.info, saved)
    }
}
