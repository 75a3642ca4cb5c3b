//! The measurement: responses one after another, until the time is over.
//!
//! Rule: a measurement that ends early has a result of what was measured until then. To stop it, drop
//! the future of [`SustainedBench::run`], which cancels the running response, and finish.

use std::time::Duration;

use transom_engine::{
    FinishReason, GenerationParams, MemoryNeed, ModelInfo, Prompt, SamplingParams, TokenEvent,
    Truncation,
};
use transom_engine_host::wire::Request;
use transom_signals::EnergyMeter;
use transom_supervisor::{
    Handle, LimitReason, ModelRequest, Outcome, RequestError, ResponseEvent, Status, Work,
};

use crate::error::BenchError;
use crate::result::{EarlyEnd, EngineSettings, SustainedReport};
use crate::sustained::{MachineState, Prediction, Recorder, energy, minutes, throttling};
use crate::text::mixed;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct SustainedOptions {
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
    /// Tokens of each response.
    pub generate_tokens: usize,
    /// How long to measure.
    pub length: Duration,
}

/// The shortest context that is loaded.
const MIN_CONTEXT: usize = 1024;

impl SustainedOptions {
    /// Returns the usual lengths, which `transom bench --sustained` has too.
    pub fn new(length: Duration) -> Self {
        Self {
            prompt_tokens: 64,
            generate_tokens: 256,
            length,
        }
    }

    /// Returns the tokens that the context must hold.
    pub fn context_needed(&self) -> usize {
        self.prompt_tokens.saturating_add(self.generate_tokens)
    }

    /// Returns the context length to load the model with.
    pub fn context_length(&self) -> usize {
        self.context_needed().max(MIN_CONTEXT)
    }
}

/// A measurement of a loaded model. `C` returns the time since any fixed moment.
pub struct SustainedBench<C> {
    handle: Handle,
    request: ModelRequest,
    info: ModelInfo,
    options: SustainedOptions,
    clock: C,
    /// When the measurement began, after the warm-up.
    began: Duration,
    recorder: Recorder,
    meter: Option<EnergyMeter>,
    energy_problem: Option<String>,
    /// The memory of the loaded model.
    need: Option<MemoryNeed>,
    n_prompts_made: u64,
}

/// Loads the model of a request with [`Work::Load`].
///
/// # Errors
/// [`BenchError::Request`], [`BenchError::Stopped`].
pub async fn load(handle: &Handle, request: ModelRequest) -> Result<ModelInfo, BenchError> {
    let mut response = handle.submit(request);
    while let Some(event) = response.next().await {
        if let ResponseEvent::Ended { outcome } = event {
            return match outcome {
                Outcome::Loaded { info } => Ok(*info),
                Outcome::Failed { error } => Err(error.into()),
                Outcome::Finished { .. } => Err(BenchError::Stopped),
            };
        }
    }
    Err(RequestError::Quitting.into())
}

impl<C: Fn() -> Duration> SustainedBench<C> {
    /// Prepares a measurement of the model that `request` has loaded, with this `info`.
    ///
    /// # Errors
    /// [`BenchError::LengthsTooLong`].
    pub fn new(
        handle: Handle,
        request: ModelRequest,
        info: ModelInfo,
        options: SustainedOptions,
        clock: C,
    ) -> Result<Self, BenchError> {
        let needed = options.context_needed();
        if needed > info.context_length {
            return Err(BenchError::LengthsTooLong {
                context_length: info.context_length,
                needed,
            });
        }
        let mut bench = Self {
            began: clock(),
            handle,
            request,
            info,
            options,
            clock,
            recorder: Recorder::default(),
            meter: None,
            energy_problem: None,
            need: None,
            n_prompts_made: 0,
        };
        bench.start_meter();
        Ok(bench)
    }

    /// Counts energy from now on.
    fn start_meter(&mut self) {
        (self.meter, self.energy_problem) = match EnergyMeter::start() {
            Ok(meter) => (Some(meter), None),
            Err(problem) => (None, Some(problem)),
        };
    }

    /// Warms up, and generates responses until the time is over. Returns why it ended earlier. Calls
    /// `on_progress` with the time that was measured; `None` during the warm-up.
    ///
    /// # Errors
    /// [`BenchError::Request`].
    pub async fn run(
        &mut self,
        mut on_progress: impl FnMut(Option<Duration>),
    ) -> Result<Option<EarlyEnd>, BenchError> {
        let status = self.handle.current_status().await;
        let mut models = status.models.iter();
        let loaded = models.find(|model| model.info.as_ref() == Some(&self.info));
        self.need = loaded.and_then(|model| model.need);
        // Compiles kernels and fills caches.
        let ended = self.respond(false, &mut on_progress).await?;
        if ended.is_some() {
            return Ok(ended);
        }
        self.began = (self.clock)();
        self.start_meter();
        while self.now() < self.options.length {
            let ended = self.respond(true, &mut on_progress).await?;
            if ended.is_some() {
                return Ok(ended);
            }
        }
        Ok(None)
    }

    /// Returns the result. `predicted` is the range of the predicted speed in tokens per second.
    pub async fn finish(
        mut self,
        ended_early: Option<EarlyEnd>,
        predicted: Option<(f64, f64)>,
    ) -> SustainedReport {
        let end = self.now();
        let status = self.handle.current_status().await;
        let settings = self.settings(status.budget_bytes);
        let state = state_of(&status, self.meter.as_mut());
        let windows = self.recorder.finish(end, &state);
        let energy = energy(&windows);
        SustainedReport {
            model: self.info.name,
            engine: self.info.engine,
            settings,
            minutes: minutes(&windows),
            throttling: throttling(&windows),
            energy_problem: self.energy_problem.filter(|_| energy.is_none()),
            energy,
            prediction: predicted.and_then(|(low, high)| Prediction::new(low, high, &windows)),
            windows,
            ended_early,
        }
    }

    fn now(&self) -> Duration {
        (self.clock)().saturating_sub(self.began)
    }

    /// Generates a response and records its tokens. Returns why the measurement must end.
    async fn respond(
        &mut self,
        is_recorded: bool,
        on_progress: &mut impl FnMut(Option<Duration>),
    ) -> Result<Option<EarlyEnd>, BenchError> {
        let work = self.next_work();
        let mut response = self.handle.submit(ModelRequest {
            work,
            ..self.request.clone()
        });
        let mut last: Option<(Duration, usize)> = None;
        while let Some(event) = response.next().await {
            let time = self.now();
            let (reason, stats) = match event {
                ResponseEvent::Ended {
                    outcome: Outcome::Finished { reason, stats },
                } => (reason, stats),
                ResponseEvent::Ended {
                    outcome: Outcome::Failed { error },
                } => {
                    let ended_early = early_end(&error).filter(|_| is_recorded);
                    return ended_early.map_or_else(|| Err(error.into()), |end| Ok(Some(end)));
                }
                ResponseEvent::Ended {
                    outcome: Outcome::Loaded { .. },
                } => return Ok(Some(EarlyEnd::Unloaded)),
                event => {
                    if let Some(n) = generated_tokens(&event)
                        && let Some((from, n_before)) = last.replace((time, n))
                        && is_recorded
                    {
                        let n_new = n.saturating_sub(n_before);
                        self.recorder.add_tokens(from, time, n_new);
                    }
                    if is_recorded && self.recorder.needs_state(time) {
                        self.add_state(time);
                    }
                    on_progress(is_recorded.then_some(time));
                    continue;
                }
            };
            if is_recorded {
                // Tokens without text are in no event.
                let without_text = (time.saturating_sub(stats.decode_time), 1);
                let (from, n_before) = last.unwrap_or(without_text);
                let n_new = stats.generated_tokens.saturating_sub(n_before);
                self.recorder.add_tokens(from, time, n_new);
                if self.recorder.needs_state(time) {
                    self.add_state(time);
                }
            }
            return Ok(match reason {
                FinishReason::Shed => Some(EarlyEnd::Limited),
                FinishReason::Canceled => Some(EarlyEnd::Unloaded),
                FinishReason::Stop | FinishReason::Length => None,
            });
        }
        Err(RequestError::Quitting.into())
    }

    fn add_state(&mut self, time: Duration) {
        let status = self.handle.status();
        let state = state_of(&status.borrow(), self.meter.as_mut());
        self.recorder.add_state(time, &state);
    }

    fn next_work(&mut self) -> Work {
        Work::Generate(Box::new(Request {
            prompt: Prompt::Tokens(self.next_prompt()),
            truncation: Truncation::Disabled,
            params: GenerationParams {
                sampling: SamplingParams {
                    temperature: 0.0,
                    ..SamplingParams::default()
                },
                max_tokens: Some(self.options.generate_tokens),
                ignore_end_of_text: true,
                speculate: false,
                ..GenerationParams::default()
            },
        }))
    }

    /// Returns fixed token ids that begin differently each time, so that none are in a KV cache.
    fn next_prompt(&mut self) -> Vec<u32> {
        let vocab_size = self.info.vocab_size.max(1) as u64;
        self.n_prompts_made += 1;
        let ids = (0..self.options.prompt_tokens as u64).map(|at| mixed(at + (1 << 20)));
        let mut ids: Vec<u32> = ids.map(|id| (id % vocab_size) as u32).collect();
        if let Some(first) = ids.first_mut() {
            *first = (mixed(self.n_prompts_made) % vocab_size) as u32;
        }
        ids
    }

    fn settings(&self, budget_bytes: u64) -> EngineSettings {
        EngineSettings {
            stored_as: self.info.stored_as.clone(),
            computed_as: self.info.computed_as.clone(),
            context_length: self.info.context_length,
            prompt_tokens: self.options.prompt_tokens,
            generate_tokens: self.options.generate_tokens,
            temperature: 0.0,
            speculation: false,
            weight_bytes: self.need.map(|need| need.weight_bytes),
            kv_cache_bytes: self.need.map(|need| need.kv_cache_bytes),
            budget_bytes,
        }
    }
}

/// Returns why a measurement ends if its next response fails with this error; `None` if that is a
/// failure of the measurement itself.
fn early_end(error: &RequestError) -> Option<EarlyEnd> {
    match error {
        RequestError::Blocked {
            reason: LimitReason::Paused,
            ..
        }
        | RequestError::Unloaded => Some(EarlyEnd::Unloaded),
        RequestError::Blocked { .. } | RequestError::Shed { .. } => Some(EarlyEnd::Limited),
        _ => None,
    }
}

fn generated_tokens(event: &ResponseEvent) -> Option<usize> {
    match event {
        ResponseEvent::Token {
            event: TokenEvent::Text {
                generated_tokens, ..
            },
        } => Some(*generated_tokens),
        _ => None,
    }
}

fn state_of(status: &Status, meter: Option<&mut EnergyMeter>) -> MachineState {
    let limits = status.restrictions.limits.iter();
    MachineState {
        thermal: status.signals.thermal,
        limits: limits.map(ToString::to_string).collect(),
        joules: meter.map(EnergyMeter::joules),
    }
}
