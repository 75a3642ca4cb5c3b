//! What the tests of this and other crates share: a scripted engine, the reference distribution of
//! sampling, token tables for constraints, and the shapes of messages.
//!
//! The engine has no weights and no randomness: a [`Script`] contains the tokens of each response, and
//! where it fails or waits. Everything else is as in a real engine: the order of events, stop
//! strings and reasoning (with the real [`crate::text_stream::TextStream`]), limits and cancellation.

mod constrained;
mod distribution;
mod recorded_log;
mod scripted_response;
pub mod shapes;

pub use constrained::{byte_table, one_line, start_constraint, starter_tokens};
pub use recorded_log::RecordedLog;

use std::ops::Range;
use std::sync::Arc;

use scripted_response::ScriptedResponse;

use transom_files::file_name;
use transom_fit::MemoryNeed;

use crate::contract::{
    Engine, Limits, LoadProgress, LoadedModel, MemoryUse, ModelSource, TokenSink, Trim,
};
use crate::embedding::{self, EmbedInput, Embedding, not_an_embedding_model};
use crate::error::EngineError;
use crate::event::{FinishReason, Section, Stats, TokenEvent};
use crate::generation::common_prefix_len;
use crate::job_control::JobControl;
use crate::model_info::ModelInfo;
use crate::request::{ConversationId, GenerationParams, PreparedPrompt, Prompt};
use crate::responses::{ResponseId, Responses};
use crate::sampling::SamplingParams;
use crate::saved::{self, CachedConversation, SavableCache, SavedConversation, bad_saved_data};
use crate::text::OpenReasoning;

/// Size of every scripted model's weights.
pub const WEIGHT_BYTES: u64 = 1_000_000;

/// The behavior of a scripted engine.
#[derive(Clone, Default)]
pub struct Script {
    /// Makes every load fail with this error.
    pub load_error: Option<EngineError>,
    /// Makes every prompt end inside a reasoning section.
    pub starts_in_reasoning: bool,
    /// Makes every model an embedding model. The vector of a text is its number of tokens and 1, with
    /// length 1.
    pub embeds: bool,
    /// The responses of a loaded model, in order; after the last one it starts over.
    pub responses: Vec<Vec<Step>>,
}

/// A step of a response.
#[derive(Clone)]
pub enum Step {
    /// Generates a token with these bytes.
    Token(Vec<u8>),
    /// Fails.
    Fail(EngineError),
    /// Calls the test on the engine's thread, in the step of the token before it. The test may wait or cancel
    /// the job.
    Call(Arc<dyn Fn() + Send + Sync>),
}

impl Script {
    /// Creates a script whose only response is `tokens`.
    pub fn responding<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = T>) -> Self {
        Self {
            responses: vec![
                tokens
                    .into_iter()
                    .map(|token| Step::Token(token.as_ref().to_vec()))
                    .collect(),
            ],
            ..Self::default()
        }
    }
}

/// Records the tokens and the events of a response.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    /// All tokens, including end-of-text tokens.
    pub tokens: Vec<u32>,
    /// All events.
    pub events: Vec<TokenEvent>,
}

impl Recorder {
    /// Returns the text of a section.
    pub fn text(&self, wanted: Section) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            TokenEvent::Text { section, text, .. } if *section == wanted => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Returns parameters for greedy tokens until the context is full.
pub fn greedy_params() -> GenerationParams {
    GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        ignore_end_of_text: true,
        ..GenerationParams::default()
    }
}

/// Begins a response to a prompt of these tokens.
///
/// # Panics
/// Panics if the prompt does not fit or the model does not begin a response.
pub fn begin(model: &mut dyn LoadedModel, prompt: &[u32], params: &GenerationParams) -> ResponseId {
    begin_with(model, prompt, params, &JobControl::new())
}

/// Begins a response that `control` can stop, like [`begin`].
///
/// # Panics
/// As [`begin`] does.
pub fn begin_with(
    model: &mut dyn LoadedModel,
    prompt: &[u32],
    params: &GenerationParams,
    control: &JobControl,
) -> ResponseId {
    let prompt = model.prepare(&Prompt::Tokens(prompt.to_vec()));
    let prompt = prompt.expect("the prompt fits");
    let begun = model.begin(&prompt, params, control);
    begun.expect("it begins").expect("it takes turns")
}

/// Takes the turns of one response up to its first token.
///
/// # Panics
/// Panics if a step fails or the response ends before it.
pub fn step_to_first_token(model: &mut dyn LoadedModel, id: ResponseId) {
    let mut recorder = Recorder::default();
    while recorder.tokens.is_empty() {
        assert_eq!(model.step(id, &mut recorder), Ok(None));
    }
}

/// Takes turns until all responses have ended at their length. Returns their tokens and statistics.
///
/// # Panics
/// Panics if a step fails or a response ends otherwise.
pub fn in_turns(model: &mut dyn LoadedModel, ids: &[ResponseId]) -> Vec<(Vec<u32>, Stats)> {
    let mut recorders: Vec<Recorder> = ids.iter().map(|_| Recorder::default()).collect();
    let mut ends: Vec<Option<Stats>> = ids.iter().map(|_| None).collect();
    while ends.iter().any(Option::is_none) {
        for ((id, recorder), end) in ids.iter().zip(&mut recorders).zip(&mut ends) {
            if end.is_none() {
                let ended = model.step(*id, recorder).expect("the step succeeds");
                *end = ended.map(|(reason, stats)| {
                    assert_eq!(reason, FinishReason::Length);
                    stats
                });
            }
        }
    }
    let tokens = recorders.into_iter().map(|recorder| recorder.tokens);
    tokens.zip(ends.into_iter().flatten()).collect()
}

impl TokenSink for Recorder {
    fn on_event(&mut self, event: TokenEvent) {
        self.events.push(event);
    }

    fn on_token(&mut self, token: u32) {
        self.tokens.push(token);
    }
}

/// An engine that follows a script.
#[derive(Clone, Default)]
pub struct ScriptedEngine {
    /// Its script.
    pub script: Script,
}

impl Engine for ScriptedEngine {
    fn name(&self) -> &'static str {
        "scripted"
    }

    /// The weights, and one byte of KV cache per token.
    fn memory_need(&self, _: &ModelSource, limits: &Limits) -> Result<MemoryNeed, EngineError> {
        Ok(MemoryNeed {
            weight_bytes: WEIGHT_BYTES,
            kv_cache_bytes: limits.context_length as u64,
            context_length: limits.context_length,
            ..MemoryNeed::default()
        })
    }

    fn load(
        &self,
        source: &ModelSource,
        limits: &Limits,
        control: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError> {
        for done_bytes in [0, WEIGHT_BYTES / 2, WEIGHT_BYTES] {
            if control.is_stopped() {
                return Err(EngineError::Canceled);
            }
            on_progress(LoadProgress {
                done_bytes,
                total_bytes: WEIGHT_BYTES,
            });
        }
        if let Some(error) = &self.script.load_error {
            return Err(error.clone());
        }
        Ok(Box::new(ScriptedModel {
            info: info(file_name(&source.path), limits.context_length),
            script: self.script.clone(),
            limits: limits.clone(),
            n_responses: 0,
            responses: Responses::default(),
            tokens: Vec::new(),
            conversation: None,
            is_restored: false,
        }))
    }
}

fn info(name: String, context_length: usize) -> ModelInfo {
    ModelInfo {
        name,
        architecture: "scripted".to_owned(),
        engine: "scripted".to_owned(),
        n_parameters: WEIGHT_BYTES,
        stored_as: "a script".to_owned(),
        computed_as: "not at all".to_owned(),
        context_length,
        vocab_size: 256,
        has_chat_template: true,
        draft: None,
        recommended_sampling: SamplingParams::default(),
    }
}

struct ScriptedModel {
    info: ModelInfo,
    script: Script,
    limits: Limits,
    n_responses: usize,
    responses: Responses<ScriptedResponse>,
    /// Those in the KV cache.
    tokens: Vec<u32>,
    conversation: Option<ConversationId>,
    /// `tokens` were restored. Only then does a request reuse them.
    is_restored: bool,
}

impl LoadedModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// One token per byte of the text, or of all messages, joined with line breaks.
    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let tokens = match prompt {
            Prompt::Chat(chat) => {
                let texts = chat.messages.iter().map(|message| message.content.as_str());
                bytes(&texts.collect::<Vec<_>>().join("\n"))
            }
            Prompt::Text(text) => bytes(text),
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::FillIn(_) => return Err(crate::fill_in::no_markers()),
        };
        if tokens.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if tokens.len() >= self.limits.context_length {
            return Err(EngineError::PromptTooLong {
                prompt_tokens: tokens.len(),
                context_length: self.limits.context_length,
            });
        }
        Ok(PreparedPrompt {
            starts_in_reasoning: self
                .script
                .starts_in_reasoning
                .then_some(OpenReasoning::THINK),
            ..PreparedPrompt::new(tokens)
        })
    }

    fn begin(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
    ) -> Result<Option<ResponseId>, EngineError> {
        params.validate(self.info.vocab_size)?;
        let n_scripted = self.script.responses.len().max(1);
        let steps = self.script.responses.get(self.n_responses % n_scripted);
        let steps = steps.cloned().unwrap_or_default();
        self.n_responses += 1;
        let cached_tokens = match std::mem::take(&mut self.is_restored) {
            true => common_prefix_len(&self.tokens, &prompt.tokens),
            false => 0,
        };
        let response = ScriptedResponse::new(steps, prompt, params, control, &self.limits);
        Ok(Some(
            self.responses.add(response.with_cached(cached_tokens)),
        ))
    }

    fn step(
        &mut self,
        id: ResponseId,
        sink: &mut dyn TokenSink,
    ) -> Result<Option<(FinishReason, Stats)>, EngineError> {
        let ended = self.responses.get_mut(id)?.step(sink);
        let Some(reason) = ended.transpose() else {
            return Ok(None);
        };
        let Some(response) = self.responses.remove(id) else {
            return Ok(None);
        };
        let stats = response.stats;
        let reason = reason?;
        self.tokens = response.prompt_tokens;
        self.tokens
            .resize(stats.prompt_tokens + stats.generated_tokens, 0);
        self.conversation = response.conversation;
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok(Some((reason, stats)))
    }

    /// One token per byte, as in [`LoadedModel::prepare`].
    fn embed(
        &mut self,
        inputs: &[EmbedInput],
        control: &JobControl,
        sink: &mut dyn FnMut(Embedding),
    ) -> Result<(FinishReason, Stats), EngineError> {
        if !self.script.embeds {
            return Err(not_an_embedding_model(&self.info));
        }
        let inputs = inputs.iter().map(|input| match input {
            EmbedInput::Text(text) => text.bytes().map(u32::from).collect(),
            EmbedInput::Tokens(tokens) => tokens.clone(),
        });
        let inputs: Vec<Vec<u32>> = inputs.collect();
        embedding::run(&self.info, &inputs, control, sink, |tokens| {
            Ok(Some(vec![tokens.len() as f32, 1.0]))
        })
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        match trim {
            Trim::KeepConversation => 0,
            Trim::Everything => std::mem::take(&mut self.tokens).len() as u64,
        }
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            weight_bytes: WEIGHT_BYTES,
            kv_cache_bytes: self.tokens.len() as u64,
            parked_bytes: 0,
            allocator_cache_bytes: 0,
            peak_bytes: WEIGHT_BYTES + self.tokens.len() as u64,
        }
    }

    fn savable_cache(&mut self) -> Option<&mut dyn SavableCache> {
        Some(self)
    }
}

/// A token takes a byte of a block.
impl SavableCache for ScriptedModel {
    fn conversations(&self) -> Vec<CachedConversation<'_>> {
        let current = CachedConversation {
            id: self.conversation,
            tokens: &self.tokens,
        };
        vec![current]
    }

    fn has_blocks(&self) -> bool {
        true
    }

    fn save_block(&self, _: usize, tokens: Range<usize>) -> Result<Vec<u8>, EngineError> {
        Ok(self.tokens[tokens].iter().map(|id| *id as u8).collect())
    }

    fn save_head(&self, _: usize) -> Result<Vec<u8>, EngineError> {
        Ok(self.tokens.len().to_string().into_bytes())
    }

    fn restore(&mut self, saved: SavedConversation<'_>) -> Result<(), EngineError> {
        if saved.head != saved.tokens.len().to_string().into_bytes() {
            return Err(bad_saved_data("another head"));
        }
        for (index, tokens) in saved.blocks.iter().enumerate() {
            let block = (saved.read_block)(index)?;
            if !block
                .iter()
                .map(|id| u32::from(*id))
                .eq(saved.tokens[tokens.clone()].iter().copied())
            {
                return Err(bad_saved_data("another block"));
            }
        }
        self.tokens = saved.tokens.to_vec();
        self.conversation = saved.id;
        self.is_restored = true;
        Ok(())
    }
}

/// A conversation that was copied out of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCopy {
    /// The conversation, if its requests had an id.
    pub id: Option<ConversationId>,
    /// All tokens.
    pub tokens: Vec<u32>,
    /// See [`SavableCache::save_head`].
    pub head: Vec<u8>,
    /// The tokens of each block, and the block.
    pub blocks: Vec<(Range<usize>, Vec<u8>)>,
}

impl SavedCopy {
    /// Copies the `index`-th conversation of `model`.
    ///
    /// # Errors
    /// Those of the engine, and for a model without KV caches.
    pub fn of(model: &mut dyn LoadedModel, index: usize) -> Result<Self, EngineError> {
        let Some(cache) = model.savable_cache() else {
            return Err(bad_saved_data("the model keeps no KV cache"));
        };
        let CachedConversation { id, tokens } = cache.conversations()[index];
        let tokens = tokens.to_vec();
        let ranges = match cache.has_blocks() {
            true => saved::new_blocks(0..tokens.len()),
            false => Vec::new(),
        };
        let block = |range: Range<usize>| Ok((range.clone(), cache.save_block(index, range)?));
        Ok(Self {
            id,
            head: cache.save_head(index)?,
            blocks: ranges
                .into_iter()
                .map(block)
                .collect::<Result<_, EngineError>>()?,
            tokens,
        })
    }

    /// Restores the conversation in `model`. Returns the number of its tokens.
    ///
    /// # Errors
    /// Those of the engine, and for a model without KV caches.
    pub fn restore(&self, model: &mut dyn LoadedModel) -> Result<usize, EngineError> {
        let Some(cache) = model.savable_cache() else {
            return Err(bad_saved_data("the model keeps no KV cache"));
        };
        let blocks: Vec<Range<usize>> =
            self.blocks.iter().map(|(range, _)| range.clone()).collect();
        cache.restore(SavedConversation {
            id: self.id,
            tokens: &self.tokens,
            head: &self.head,
            blocks: &blocks,
            read_block: &mut |index| Ok(self.blocks[index].1.clone()),
        })?;
        Ok(self.tokens.len())
    }
}
