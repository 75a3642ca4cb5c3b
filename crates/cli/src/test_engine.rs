//! A scripted engine for the tests of the commands.
//!
//! Unlike the one of `transom-engine` it records its requests, has a prefix cache, and reports known
//! times, because the commands pass these on.
//!
//! Rule: it keeps the engine contract (order of events, ranges, cancellation), so that a command that
//! works here works with a real engine. A token is a word.

pub(crate) mod scoring;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transom_engine::{
    EmbedInput, Embedding, Engine, EngineError, FinishReason, GenerationParams, JobControl, Limits,
    LoadProgress, LoadedModel, MemoryNeed, MemoryUse, ModelInfo, ModelSource, PreparedPrompt,
    Prompt, SamplingParams, Section, Stats, TokenEvent, TokenSink, Trim, embedding,
};
use transom_engine_host::ThreadWorkers;
use transom_signals::{Hardware, ScriptedSignals, SystemSignals};
use transom_supervisor::{Supervisor, Tuning};

use crate::Client;
use transom_terminal::Interrupt;

/// The model's response to one request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Streams these pieces and stops.
    Says(Vec<(Section, &'static str)>),
    /// Streams these pieces, but before the one with this number calls the hook (which presses Ctrl-C)
    /// and waits until the request is canceled.
    Hooked(Vec<&'static str>, usize, Arc<dyn Fn() + Send + Sync>),
    /// Streams this text, and drops so many tokens of the context if it may.
    Shifts(&'static str, usize),
    /// Fails.
    Fails(&'static str),
}

/// The engine, whose models take the next of `replies` for each request. Clones share the replies and
/// the record.
#[derive(Clone)]
pub(crate) struct TestEngine {
    pub(crate) info: ModelInfo,
    pub(crate) replies: Arc<Mutex<VecDeque<Reply>>>,
    pub(crate) load_error: Option<EngineError>,
    /// The memory need of the weights.
    pub(crate) weight_bytes: u64,
    pub(crate) requests: Arc<Requests>,
}

/// The record of all requests.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) prompts: Mutex<Vec<Prompt>>,
    pub(crate) params: Mutex<Vec<GenerationParams>>,
    pub(crate) n_loads: AtomicUsize,
}

impl TestEngine {
    /// A model with a chat template and a context of 1,000 words.
    pub(crate) fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            info: ModelInfo {
                name: "scripted".into(),
                architecture: "qwen3".into(),
                engine: "test".into(),
                n_parameters: 26_000_000,
                stored_as: "4-bit, group 64".into(),
                computed_as: "words".into(),
                context_length: 1000,
                vocab_size: 500,
                has_chat_template: true,
                draft: None,
                recommended_sampling: SamplingParams::default(),
            },
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            load_error: None,
            weight_bytes: WEIGHT_BYTES,
            requests: Arc::default(),
        }
    }

    /// A model with these responses, one for each request.
    pub(crate) fn answering(answers: &[&'static str]) -> Self {
        let says = |text: &&'static str| Reply::Says(vec![(Section::Answer, *text)]);
        Self::replying(answers.iter().map(says))
    }

    /// Starts a supervisor for this engine, on a machine with these signals. Must be called within a
    /// Tokio runtime.
    pub(crate) fn supervisor(&self, signals: SystemSignals, tuning: Tuning) -> Supervisor {
        let engine = self.clone();
        let engines = move || -> Vec<Box<dyn Engine>> { vec![Box::new(engine.clone())] };
        let workers = Arc::new(ThreadWorkers::new(engines));
        let signals = Arc::new(ScriptedSignals::new(signals));
        Supervisor::start(workers, signals, &Hardware::detect(), tuning)
    }

    /// Starts a supervisor for this engine, and returns a client of it.
    pub(crate) fn client_on(&self, signals: SystemSignals) -> Client {
        Client::of_supervisor(|| self.supervisor(signals, Tuning::default()).handle())
    }

    /// Starts a supervisor for this engine, on a machine without limits.
    pub(crate) fn client(&self) -> Client {
        self.client_on(SystemSignals::default())
    }

    /// Starts a supervisor for this engine; this interrupt cancels its requests.
    pub(crate) fn client_with(&self, interrupt: &Interrupt) -> Client {
        let mut client = self.client();
        client.interrupt = interrupt.clone();
        client
    }

    /// The last prompt.
    pub(crate) fn last_prompt(&self) -> Option<Prompt> {
        self.requests.prompts.lock().unwrap().last().cloned()
    }

    /// The number of loads.
    pub(crate) fn n_loads(&self) -> usize {
        self.requests.n_loads.load(Ordering::SeqCst)
    }
}

impl Engine for TestEngine {
    fn name(&self) -> &'static str {
        "test"
    }

    fn memory_need(&self, _: &ModelSource, limits: &Limits) -> Result<MemoryNeed, EngineError> {
        Ok(MemoryNeed {
            weight_bytes: self.weight_bytes,
            context_length: limits.context_length.min(self.info.context_length),
            ..MemoryNeed::default()
        })
    }

    fn load(
        &self,
        _: &ModelSource,
        limits: &Limits,
        _: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError> {
        self.requests.n_loads.fetch_add(1, Ordering::SeqCst);
        if let Some(error) = &self.load_error {
            return Err(error.clone());
        }
        let total_bytes = 100;
        for done_bytes in [0, total_bytes] {
            on_progress(LoadProgress {
                done_bytes,
                total_bytes,
            });
        }
        let mut info = self.info.clone();
        info.context_length = info.context_length.min(limits.context_length);
        Ok(Box::new(TestModel {
            info,
            replies: self.replies.clone(),
            requests: self.requests.clone(),
            cached: Vec::new(),
        }))
    }
}

/// Bytes of the models' weights.
const WEIGHT_BYTES: u64 = 15_000_000;

struct TestModel {
    info: ModelInfo,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Requests>,
    cached: Vec<u32>,
}

impl LoadedModel for TestModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        let words = |text: &str| text.split_whitespace().map(|w| w.len() as u32).collect();
        let tokens: Vec<u32> = match prompt {
            Prompt::Chat(chat) => chat
                .messages
                .iter()
                .flat_map(|message| -> Vec<u32> { words(&message.content) })
                .collect(),
            Prompt::Text(text) => words(text),
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::FillIn(_) => return Err(transom_engine::fill_in::no_markers()),
        };
        if tokens.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if tokens.len() >= self.info.context_length {
            return Err(EngineError::PromptTooLong {
                prompt_tokens: tokens.len(),
                context_length: self.info.context_length,
            });
        }
        self.requests.prompts.lock().unwrap().push(prompt.clone());
        Ok(PreparedPrompt::new(tokens))
    }

    fn generate(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError> {
        params.validate(self.info.vocab_size)?;
        self.requests.params.lock().unwrap().push(params.clone());
        let n_prompt = prompt.tokens.len();
        let cached_tokens = self.n_shared_with(&prompt.tokens);
        sink.on_event(TokenEvent::Started {
            prompt_tokens: n_prompt,
            cached_tokens,
            dropped_messages: prompt.dropped_messages,
            unconstrained_tools: Vec::new(),
        });
        sink.on_event(TokenEvent::Prefill {
            done: n_prompt,
            total: n_prompt,
        });
        let mut generated_tokens = 0;
        let mut shifted_tokens = 0;
        let mut drafted_tokens = 0;
        let mut reason = FinishReason::Stop;
        self.cached.clone_from(&prompt.tokens);
        let reply = self.replies.lock().unwrap().pop_front();
        match reply {
            _ if params.score.is_some() => {
                let prompt = self.requests.prompts.lock().unwrap().last().cloned();
                let events = prompt.map(|prompt| scoring::events(&prompt, params));
                for event in events.unwrap_or_default() {
                    generated_tokens += 1;
                    sink.on_event(event);
                }
            }
            Some(Reply::Says(pieces)) => {
                generated_tokens = pieces.len();
                for (section, text) in pieces {
                    sink.on_event(text_event(section, text));
                }
            }
            Some(Reply::Hooked(pieces, at, hook)) => {
                for (index, text) in pieces.into_iter().enumerate() {
                    if index == at {
                        hook();
                        while !control.is_stopped() {
                            std::thread::yield_now();
                        }
                    }
                    if let Some(stopped) = control.stop_reason() {
                        reason = stopped;
                        break;
                    }
                    generated_tokens += 1;
                    sink.on_event(text_event(Section::Answer, text));
                }
            }
            Some(Reply::Shifts(text, n_tokens)) => {
                generated_tokens = 1;
                sink.on_event(text_event(Section::Answer, text));
                if params.shift_context {
                    shifted_tokens = n_tokens;
                } else {
                    reason = FinishReason::Length;
                }
            }
            Some(Reply::Fails(message)) => {
                return Err(EngineError::Backend {
                    during: "decode".into(),
                    message: message.into(),
                });
            }
            // Without a reply it repeats the token of a bias until the limit. Half of its guesses
            // are right.
            None => {
                generated_tokens = params.max_tokens.unwrap_or(1);
                drafted_tokens = if params.speculate { 8 } else { 0 };
                reason = FinishReason::Length;
                let token = params.sampling.logit_bias.first().map_or(7, |bias| bias.0);
                let answer = std::iter::repeat_n(token, generated_tokens.saturating_sub(1));
                self.cached.extend(answer);
            }
        }
        let stats = Stats {
            prompt_tokens: n_prompt,
            cached_tokens,
            generated_tokens,
            drafted_tokens,
            accepted_tokens: drafted_tokens / 2,
            shifted_tokens,
            matched_stop: None,
            time_to_first_token: Duration::from_millis((n_prompt - cached_tokens) as u64),
            prefill_time: Duration::from_millis((n_prompt - cached_tokens) as u64),
            decode_time: Duration::from_millis(2 * generated_tokens.saturating_sub(1) as u64),
            peak_memory_bytes: 42_000_000,
            ..Stats::default()
        };
        sink.on_event(TokenEvent::Finished { reason, stats });
        Ok((reason, stats))
    }

    /// The vector of a text is its number of words and 1, with length 1.
    fn embed(
        &mut self,
        inputs: &[EmbedInput],
        control: &JobControl,
        sink: &mut dyn FnMut(Embedding),
    ) -> Result<(FinishReason, Stats), EngineError> {
        let inputs = inputs.iter().map(|input| match input {
            EmbedInput::Text(text) => text.split_whitespace().map(|_| 1).collect(),
            EmbedInput::Tokens(tokens) => tokens.clone(),
        });
        let inputs: Vec<Vec<u32>> = inputs.collect();
        embedding::run(&self.info, &inputs, control, sink, |tokens| {
            Ok(Some(vec![tokens.len() as f32, 1.0]))
        })
    }

    fn trim(&mut self, _: Trim) -> u64 {
        self.cached.clear();
        0
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            weight_bytes: WEIGHT_BYTES,
            peak_bytes: 42_000_000,
            ..MemoryUse::default()
        }
    }
}

impl TestModel {
    /// Returns the tokens shared with the previous prompt; at least one is left to compute.
    fn n_shared_with(&self, tokens: &[u32]) -> usize {
        let pairs = self.cached.iter().zip(tokens);
        let n_shared = pairs.take_while(|(a, b)| a == b).count();
        n_shared.min(tokens.len().saturating_sub(1))
    }
}

fn text_event(section: Section, text: &str) -> TokenEvent {
    TokenEvent::Text {
        section,
        text: text.to_owned(),
        generated_tokens: 0,
        logprobs: Vec::new(),
    }
}
