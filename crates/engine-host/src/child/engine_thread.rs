//! The engine thread: takes tasks in order and sends exactly one response to each.
//!
//! Responses are generated in turns, step by step; every other task runs as a whole. While there is none, the
//! next turn of a conversation is read ahead.
//! Rule: a panic of an engine becomes an error and does not end the process. After a panic or an
//! error of the backend, the model counts as broken: the child reports that, and the model can only
//! be unloaded.

mod jobs;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use transom_engine::{
    Engine, EngineError, FinishReason, JobControl, Limits, LoadedModel, MemoryNeed, MemoryUse,
    ModelSource, Stats, Trim, UnsupportedFeature,
};
use transom_signals::own_footprint_bytes;

use crate::child::Shared;
use crate::child::inbox::{Next, Task};
use crate::child::read_ahead::ReadAhead;
use crate::child::turns::Turns;
use crate::saved_state::{SavedConversations, SavedFolder};
use crate::wire::{Command, JobSummary, LoadFootprint, Report, UnloadFootprint};

/// Time after a load until the footprint is that of the idle process.
const FOOTPRINT_DELAY: Duration = Duration::from_secs(5);

/// Time without a task until the next turn of a conversation is read ahead. A program sends its next request
/// sooner, a person later.
const READ_AHEAD_DELAY: Duration = Duration::from_millis(300);

/// The engines, and the one model that this process can hold.
pub(super) struct EngineThread<'a> {
    engines: &'a [Box<dyn Engine>],
    shared: &'a Shared,
    model: Option<Box<dyn LoadedModel>>,
    turns: Turns,
    ahead: ReadAhead,
    /// `None` if nothing of the model is saved.
    saved: Option<SavedConversations>,
    /// The error that made the model unusable.
    broken: Option<EngineError>,
    /// A load has succeeded in this process.
    was_loaded: bool,
    /// When to report the footprint if no task comes until then.
    footprint_at: Option<Instant>,
}

impl<'a> EngineThread<'a> {
    pub(super) fn new(engines: &'a [Box<dyn Engine>], shared: &'a Shared) -> Self {
        Self {
            engines,
            shared,
            model: None,
            turns: Turns::default(),
            ahead: ReadAhead::default(),
            saved: None,
            broken: None,
            was_loaded: false,
            footprint_at: None,
        }
    }

    /// Runs tasks until the parent is gone, then drops the model.
    pub(super) fn run(mut self) {
        let shared = self.shared;
        loop {
            let ahead_at = self
                .ahead
                .is_due()
                .then(|| Instant::now() + READ_AHEAD_DELAY);
            let until = self.footprint_at.into_iter().chain(ahead_at).min();
            let next = shared.inbox.take(until, || shared.heartbeat.idle());
            if let Some(model) = &mut self.model {
                model.set_queued(shared.inbox.n_queued_responses());
            }
            match next {
                Next::Task(task) => self.run_task(task),
                Next::Busy => {}
                Next::Idle if self.footprint_at == until => self.report_footprint(),
                Next::Idle => self.read_ahead(),
                Next::Closed => break,
            }
            // After a task too, so that many short jobs do not keep the responses from their turns.
            self.step();
        }
        self.drop_model();
    }

    fn run_task(&mut self, task: Task) {
        let shared = self.shared;
        shared.heartbeat.beat();
        let Task { command, control } = task;
        if let Command::Trim { .. } | Command::Forget { .. } | Command::Unload { .. } = command {
            self.ahead.clear();
        }
        let report = match command {
            Command::Measure { source, limits } => Report::Measured {
                result: self.measure(&source, &limits),
            },
            Command::Load {
                source,
                limits,
                saved,
            } => self.load(&source, &limits, saved, &control),
            Command::Generate { job, request } => {
                if let Some(result) = self.generate(job, &request, &control) {
                    self.end_job(job, result);
                }
                return;
            }
            Command::Embed { job, inputs } => {
                let result = self.embed(job, &inputs, &control);
                self.end_job(job, result);
                return;
            }
            Command::Count { job, prompt } => {
                shared.inbox.ended(job);
                Report::JobEnded {
                    job,
                    result: self.count(&prompt, &control),
                }
            }
            Command::Tokenize { job, input } => {
                shared.inbox.ended(job);
                Report::JobEnded {
                    job,
                    result: self.tokenize(job, &input, &control),
                }
            }
            Command::Trim { trim } => {
                let report = self.trim(trim);
                self.report_footprint();
                report
            }
            Command::Forget { conversation } => {
                if let Some(saved) = &mut self.saved {
                    saved.forget(conversation);
                }
                let report = self.trim(Trim::Everything);
                self.report_footprint();
                report
            }
            Command::Save { max_bytes } => {
                self.save(max_bytes, &|| control.is_stopped());
                Report::SaveEnded
            }
            Command::Unload { save } => self.unload(save),
            // The reader has handled these.
            Command::Hello { .. } | Command::Stop { .. } | Command::Ping { .. } => return,
        };
        self.report(report);
    }

    fn report(&self, report: Report) {
        self.shared.heartbeat.beat();
        self.shared.outbox.push(report);
    }

    fn report_footprint(&mut self) {
        self.footprint_at = None;
        if let Some(bytes) = own_footprint_bytes() {
            let memory = self.memory();
            self.shared.outbox.push(Report::Footprint { bytes, memory });
        }
    }

    fn measure(&self, source: &ModelSource, limits: &Limits) -> Result<MemoryNeed, EngineError> {
        catch_as_error("measuring", || {
            first_supporting(self.engines, source, |engine| {
                engine.memory_need(source, limits)
            })
        })
    }

    fn load(
        &mut self,
        source: &ModelSource,
        limits: &Limits,
        saved: Option<SavedFolder>,
        control: &JobControl,
    ) -> Report {
        if control.is_stopped() {
            return Report::LoadFailed {
                error: EngineError::Canceled,
            };
        }
        if self.was_loaded {
            let reason = "this process has already loaded a model; start another process";
            return Report::LoadFailed {
                error: EngineError::backend("loading", reason),
            };
        }
        let before_bytes = own_footprint_bytes();
        let mut on_progress = |progress| self.report(Report::LoadProgress { progress });
        let result = catch_as_error("loading", || {
            first_supporting(self.engines, source, |engine| {
                engine.load(source, limits, control, &mut on_progress)
            })
        });
        match result {
            Ok(model) => {
                self.was_loaded = true;
                self.saved = saved.map(SavedConversations::open);
                let saved_tokens = self.saved.as_ref();
                let saved_tokens = saved_tokens.map_or(0, SavedConversations::newest_tokens);
                self.footprint_at = Some(Instant::now() + FOOTPRINT_DELAY);
                let model = self.model.insert(model);
                Report::Loaded {
                    info: Box::new(model.info().clone()),
                    memory: model.memory(),
                    footprint: before_bytes.zip(own_footprint_bytes()).map(
                        |(before_bytes, loaded_bytes)| LoadFootprint {
                            before_bytes,
                            loaded_bytes,
                        },
                    ),
                    saved_tokens,
                }
            }
            Err(error) => Report::LoadFailed { error },
        }
    }

    fn summary(&mut self, reason: FinishReason, stats: Stats) -> JobSummary {
        JobSummary {
            reason,
            stats,
            memory: self.memory(),
        }
    }

    fn trim(&mut self, trim: Trim) -> Report {
        let bytes = match (&mut self.model, &self.broken) {
            (Some(model), None) => catch_panic(|| model.trim(trim)),
            _ => Ok(0),
        };
        let bytes = bytes.unwrap_or_else(|message| {
            self.panicked("trimming", &message);
            0
        });
        Report::Trimmed {
            bytes,
            memory: self.memory(),
        }
    }

    fn unload(&mut self, save: Option<u64>) -> Report {
        self.footprint_at = None;
        let loaded_bytes = own_footprint_bytes();
        if let Some(max_bytes) = save {
            self.save(max_bytes, &|| false);
        }
        self.drop_model();
        Report::Unloaded {
            footprint: loaded_bytes.zip(own_footprint_bytes()).map(
                |(loaded_bytes, after_bytes)| UnloadFootprint {
                    loaded_bytes,
                    after_bytes,
                },
            ),
        }
    }

    /// Saves the KV caches. A failure costs a prefill later and does not stop the unload.
    fn save(&mut self, max_bytes: u64, is_stopped: &dyn Fn() -> bool) {
        let (Some(model), Some(saved), None) = (&mut self.model, &mut self.saved, &self.broken)
        else {
            return;
        };
        let shared = self.shared;
        let mut on_saved = |conversation| {
            shared.heartbeat.beat();
            shared.outbox.push(Report::Saved { conversation });
        };
        let save = || saved.save(&mut **model, max_bytes, is_stopped, &mut on_saved);
        match catch_panic(save) {
            Ok(Ok(n_tokens)) => tracing::info!(n_tokens, "saved the KV caches"),
            Ok(Err(error)) => tracing::warn!(%error, "the KV caches could not be saved"),
            Err(message) => {
                self.panicked("saving the KV caches", &message);
            }
        }
        self.shared.heartbeat.beat();
    }

    fn memory(&mut self) -> MemoryUse {
        let (Some(model), None) = (&self.model, &self.broken) else {
            return MemoryUse::default();
        };
        catch_panic(|| model.memory()).unwrap_or_else(|message| {
            self.panicked("measuring memory", &message);
            MemoryUse::default()
        })
    }

    fn drop_model(&mut self) {
        let model = self.model.take();
        if let Err(message) = catch_panic(|| drop(model)) {
            tracing::error!("unloading: {message}");
        }
    }

    /// Marks the model as broken after a panic, and returns the error for the response. The report
    /// of the broken model does not contain the message, which may quote a prompt.
    fn panicked(&mut self, during: &str, message: &str) -> EngineError {
        self.mark_broken(EngineError::backend(during, "the engine failed"));
        EngineError::backend(during, format!("the engine failed: {message}"))
    }

    /// Marks the model as broken; all later jobs fail with `error`.
    fn mark_broken(&mut self, error: EngineError) {
        self.broken = Some(error.clone());
        self.report(Report::Broken { error });
    }
}

/// Returns the result of the first engine that supports the files, or the reasons of all engines. If
/// one of them runs this format, the error has the feature that this one lacks.
fn first_supporting<T>(
    engines: &[Box<dyn Engine>],
    source: &ModelSource,
    mut run: impl FnMut(&dyn Engine) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut refused_at = source.path.clone();
    let mut lacking = UnsupportedFeature::Format;
    let mut refusals: Vec<(&str, String)> = Vec::new();
    for engine in engines {
        match run(&**engine) {
            Err(EngineError::Unsupported {
                path,
                feature,
                reason,
            }) => {
                refused_at = path;
                if lacking == UnsupportedFeature::Format {
                    lacking = feature;
                }
                refusals.push((engine.name(), reason));
            }
            result => return result,
        }
    }
    let reason = match &*refusals {
        [] => "this program has no engine".to_owned(),
        [(_, reason)] => reason.clone(),
        several => {
            let each = several.iter().map(|(name, why)| format!("{name}: {why}"));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    Err(EngineError::unsupported(refused_at, lacking, reason))
}

/// Runs `run` and turns a panic into an error.
fn catch_as_error<T>(
    during: &str,
    run: impl FnOnce() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    catch_panic(run).unwrap_or_else(|message| {
        let message = format!("the engine failed: {message}");
        Err(EngineError::backend(during, message))
    })
}

/// Runs `run` and returns the message of a panic. After one, nothing that `run` used may be used
/// again.
fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no reason given".to_owned())
    })
}

#[cfg(test)]
mod tests;
