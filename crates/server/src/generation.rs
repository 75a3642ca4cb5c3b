//! A neutral request for responses, and the events of its choices.
//!
//! Each route turns its body into a [`Job`]. A [`Generation`] loads the model if necessary, then asks
//! for one choice after another, so they share the prefix cache of one prompt.
//!
//! Rule: the context is never cut in silence. A job is refused while requests are blocked. A dropped
//! generation cancels its request at once, whether it is queued, loading or running.

mod collect;
mod job;
mod unstreamed;

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use transom_engine::{
    FinishReason, ModelInfo, SamplingParams, Section, Stats, TokenEvent, TokenLogprobs,
    ToolCallDelta,
};
use transom_supervisor::{
    Class, ClientId, KeepAlive, ModelRequest, ModelSpec, Outcome, Response, ResponseEvent,
    WhenBlocked, Work,
};

use crate::door::Caller;
use crate::error::ApiError;
use crate::models::{Model, loaded_info};

pub(crate) use collect::{Called, Choice, Collected, OpenCall};
pub(crate) use job::{Job, Params};
pub(crate) use unstreamed::{Embedded, blame_input, convert_tokens, count_tokens, embed};

/// An event of a generation. The events of a choice come before those of the next one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// The request waits for others.
    Queued { position: usize },
    /// The model is being loaded.
    Loading,
    /// The engine accepted the prompt.
    Started {
        prompt_tokens: usize,
        /// How many of them were in the KV cache.
        cached_tokens: usize,
        /// Messages that were dropped because the request allowed it.
        dropped_messages: usize,
    },
    /// The prompt is being processed.
    Prefill { done: usize, total: usize },
    /// The text of a choice continues.
    Text {
        choice: usize,
        section: Section,
        text: String,
        /// Of the tokens whose text begins here, if [`Params::logprobs`] asks for them.
        logprobs: Vec<TokenLogprobs>,
    },
    /// A tool call of a choice begins, continues or is complete.
    ToolCall {
        choice: usize,
        /// The number of the call in the choice, from 0.
        index: usize,
        delta: ToolCallDelta,
    },
    /// A choice is complete.
    Finished { choice: usize, end: End },
}

/// The error of a request whose end is missing.
const NO_RESULT: &str = "the request ended without a result";

/// How a choice ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct End {
    /// [`FinishReason::Stop`] or [`FinishReason::Length`]. Other reasons are errors.
    pub(crate) reason: FinishReason,
    pub(crate) stats: Stats,
    /// How many of the generated tokens are reasoning.
    pub(crate) reasoning_tokens: usize,
    /// It called a tool, and was not cut off.
    pub(crate) has_called: bool,
    /// Time before the engine started, with the load.
    pub(crate) wait: Duration,
    /// Time of the load.
    pub(crate) load: Duration,
}

/// Responses in the making. If it is dropped before its end, the running request is canceled.
pub(crate) struct Generation {
    caller: Caller,
    job: Job,
    info: Option<ModelInfo>,
    /// The open request: a load while [`Self::info`] is unknown, else a choice.
    response: Option<Response>,
    /// Number of choices that were started.
    n_started: usize,
    reasoning_tokens: usize,
    /// The present choice has a complete tool call.
    has_called: bool,
    /// When the request began, or its present choice if that is not the first one.
    began: Instant,
    wait: Duration,
    load_began: Option<Instant>,
    load: Duration,
    first_text: Option<Duration>,
    /// Read by [`Generation::open`] and not passed on yet.
    pending: Option<Event>,
    is_over: bool,
}

impl Generation {
    /// Begins a job of a client. Nothing is waited for.
    pub(crate) fn start(job: Job, caller: Caller) -> Self {
        caller.state.metrics.count_opened();
        caller.set_model(&job.model.name);
        let status = caller.state.supervisor().status().borrow().clone();
        // A loaded model need not be asked for; else another request could come in between.
        let info = loaded_info(&status, &job.model.spec.id).cloned();
        let fits = |info: &ModelInfo| {
            let wanted = job.model.settings.context_length;
            wanted.is_none_or(|wanted| wanted <= info.context_length)
        };
        // Without a prompt, the job is to load the model.
        let info = info.filter(|info| fits(info) && !job.prompts.is_empty());
        Self {
            info,
            caller,
            job,
            response: None,
            n_started: 0,
            reasoning_tokens: 0,
            has_called: false,
            began: Instant::now(),
            wait: Duration::ZERO,
            load_began: None,
            load: Duration::ZERO,
            first_text: None,
            pending: None,
            is_over: false,
        }
    }

    /// Waits until the engine accepts the first prompt, but at most for `patience`.
    ///
    /// # Errors
    /// The request failed meanwhile, so its error can still have a status of its own.
    pub(crate) async fn open(&mut self, patience: Duration) -> Result<(), ApiError> {
        let accepted = async {
            while let Some(event) = self.advance().await? {
                let is_waiting = matches!(event, Event::Queued { .. } | Event::Loading);
                self.pending = Some(event);
                if !is_waiting {
                    break;
                }
            }
            Ok::<(), ApiError>(())
        };
        timeout(patience, accepted).await.unwrap_or(Ok(()))
    }

    /// Waits for the next event; `None` after the last choice. No event is lost if the returned
    /// future is dropped.
    ///
    /// # Errors
    /// The request failed. Only the text so far is available.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        match self.pending.take() {
            Some(event) => Ok(Some(event)),
            None => self.advance().await,
        }
    }

    /// Returns the name of the model for responses.
    pub(crate) fn model_name(&self) -> &str {
        &self.job.model.name
    }

    /// Returns true if the request asks for log probabilities.
    pub(crate) fn has_logprobs(&self) -> bool {
        self.job.params.logprobs.is_some()
    }

    /// Returns the sampling in force: the request's own values over the model's recommendation.
    /// Known once the model is loaded.
    pub(crate) fn sampling(&self) -> Option<SamplingParams> {
        let info = self.info.as_ref()?;
        Some(self.job.sampling(info, 0))
    }

    async fn advance(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            if self.response.is_none() && !self.submit() {
                self.is_over = true;
                return Ok(None);
            }
            let Some(response) = &mut self.response else {
                continue;
            };
            let event = response.next().await;
            match self.on_event(event) {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(error) => {
                    self.is_over = true;
                    self.response = None;
                    let constraint = self.job.params.constraint.as_ref();
                    let error = match constraint {
                        Some(constraint) => constraint.blame(error),
                        None => error,
                    };
                    if let Some(record) = &self.caller.record {
                        record.set_status(error.status.as_u16());
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Submits the load, or the next choice. Returns false after the last one.
    fn submit(&mut self) -> bool {
        let n_choices = self.job.prompts.len() * self.job.n;
        let work = match &self.info {
            None => Work::Load,
            Some(_) if self.n_started == n_choices => return false,
            Some(info) => {
                let choice = self.n_started;
                self.n_started += 1;
                self.reasoning_tokens = 0;
                self.has_called = false;
                self.first_text = None;
                if choice > 0 {
                    self.began = Instant::now();
                }
                Work::Generate(Box::new(self.job.request(info, choice)))
            }
        };
        // A short time after an earlier step could unload the model before the next one.
        let is_last = self.n_started == n_choices;
        let keep_alive = self.job.params.keep_alive.filter(|_| is_last);
        let model = self.job.model.spec.clone();
        let request = background_request(self.caller.client(), model, work, keep_alive);
        self.response = Some(self.caller.state.supervisor().submit(request));
        true
    }

    /// Returns the event of the choice, if there is one.
    fn on_event(&mut self, event: Option<ResponseEvent>) -> Result<Option<Event>, ApiError> {
        let choice = self.n_started.saturating_sub(1);
        match event {
            Some(ResponseEvent::Queued { position, .. }) => Ok(Some(Event::Queued { position })),
            Some(ResponseEvent::Loading { .. }) => {
                self.load_began.get_or_insert_with(Instant::now);
                Ok(Some(Event::Loading))
            }
            Some(ResponseEvent::Token { event }) => Ok(self.on_token(choice, event)),
            // Of requests for vectors, which are read elsewhere.
            Some(ResponseEvent::Embedded { .. }) => Ok(None),
            Some(ResponseEvent::Ended { outcome }) => {
                self.response = None;
                self.on_end(choice, outcome)
            }
            None => {
                self.response = None;
                Err(ApiError::internal(NO_RESULT))
            }
        }
    }

    fn on_token(&mut self, choice: usize, event: TokenEvent) -> Option<Event> {
        match event {
            TokenEvent::Started {
                prompt_tokens,
                cached_tokens,
                dropped_messages,
                unconstrained_tools,
            } => {
                // A model that was unloaded meanwhile is loaded for its first choice.
                self.end_load();
                if choice == 0 {
                    self.wait = self.began.elapsed();
                    // The arguments of tools whose schemas can't be held are any JSON object.
                    for name in unconstrained_tools {
                        self.caller.ignored.add(&format!("tools.{name}"));
                    }
                }
                Some(Event::Started {
                    prompt_tokens,
                    cached_tokens,
                    dropped_messages,
                })
            }
            TokenEvent::Prefill { done, total } => Some(Event::Prefill { done, total }),
            TokenEvent::Text {
                section,
                text,
                generated_tokens,
                logprobs,
            } => {
                if section == Section::Reasoning {
                    self.reasoning_tokens = generated_tokens;
                }
                self.first_text.get_or_insert_with(|| self.began.elapsed());
                Some(Event::Text {
                    choice,
                    section,
                    text,
                    logprobs,
                })
            }
            TokenEvent::ToolCall { index, delta, .. } => {
                self.has_called |= delta == ToolCallDelta::End;
                self.first_text.get_or_insert_with(|| self.began.elapsed());
                Some(Event::ToolCall {
                    choice,
                    index,
                    delta,
                })
            }
            // The supervisor reports the end as an outcome. Jobs that convert tokens are read elsewhere.
            TokenEvent::Pieces { .. } | TokenEvent::Finished { .. } => None,
        }
    }

    fn end_load(&mut self) {
        if let Some(began) = self.load_began.take() {
            self.load += began.elapsed();
        }
    }

    fn on_end(&mut self, choice: usize, outcome: Outcome) -> Result<Option<Event>, ApiError> {
        match outcome {
            Outcome::Loaded { info } => {
                self.info = Some(*info);
                self.end_load();
                Ok(None)
            }
            Outcome::Finished { reason, stats } => {
                self.record(&stats);
                check_end(reason, "response")?;
                let end = End {
                    reason,
                    stats,
                    reasoning_tokens: self.reasoning_tokens,
                    has_called: self.has_called && reason == FinishReason::Stop,
                    wait: self.wait,
                    load: self.load,
                };
                Ok(Some(Event::Finished { choice, end }))
            }
            Outcome::Failed { error } => Err(error.into()),
        }
    }

    /// Counts a response, and saves its measurements for later estimates.
    fn record(&self, stats: &Stats) {
        let metrics = &self.caller.state.metrics;
        metrics.count_response(stats, self.reasoning_tokens, self.wait, self.first_text);
        if self.job.params.constraint.is_some() {
            metrics.count_constrained(stats.generated_tokens.saturating_sub(self.reasoning_tokens));
        }
        if let Some(record) = &self.caller.record {
            record.add_tokens(stats.prompt_tokens, stats.generated_tokens);
        }
        let status = self.caller.state.supervisor().status();
        let status = status.borrow().clone();
        let Model {
            library,
            installed,
            settings,
            spec,
            ..
        } = self.job.model.clone();
        let stats = *stats;
        // The disk may be slow, and nothing waits for it.
        let _detached = spawn_blocking(move || {
            let loaded = status.models.iter().find(|model| model.id == spec.id);
            let recorder = loaded.and_then(|loaded| library.usage(&installed, &settings, loaded));
            if let Some(recorder) = recorder {
                recorder.record(&stats);
            }
        });
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        let metrics = &self.caller.state.metrics;
        if !self.is_over && self.response.is_some() {
            metrics.count_canceled();
            if let Some(record) = &self.caller.record {
                record.set_canceled();
            }
        }
        metrics.count_closed();
    }
}

/// Checks that the supervisor did not end a response, a request or a count (`what`) early.
fn check_end(reason: FinishReason, what: &str) -> Result<(), ApiError> {
    let (message, seconds) = match reason {
        FinishReason::Stop | FinishReason::Length => return Ok(()),
        FinishReason::Shed => (
            "ended early: this computer is short of memory or too hot",
            30,
        ),
        FinishReason::Canceled => ("was canceled, because its model was unloaded", 1),
    };
    let retry_after = Some(Duration::from_secs(seconds));
    Err(ApiError::overloaded(
        format!("the {what} {message}"),
        retry_after,
    ))
}

/// Returns a request of another program: it comes after those of people, and while no request may
/// start, it fails instead of waiting.
fn background_request(
    client: ClientId,
    model: ModelSpec,
    work: Work,
    keep_alive: Option<KeepAlive>,
) -> ModelRequest {
    ModelRequest {
        when_blocked: WhenBlocked::Refuse,
        class: Class::Background,
        keep_alive,
        ..ModelRequest::new(client, model, work)
    }
}
