//! Jobs of the engine thread: responses, which are generated in turns, embedded texts and counted tokens, and
//! what is read ahead after a response.

use std::mem;
use std::time::Instant;

use transom_engine::{
    EmbedInput, Embedding, EngineError, FinishReason, JobControl, LoadedModel, NextStep, Prompt,
    ResponseId, Stats, TokenEvent, TokenInput,
};

use super::{EngineThread, catch_panic};
use crate::child::turns::Response;
use crate::wire::{JobId, JobSummary, Report, Request};

/// Tokens in one event of a job that converts them, so that no frame is large.
const PIECES_PER_EVENT: usize = 4096;

/// How a response began.
enum Begun {
    /// It is generated in turns with others.
    InTurns(ResponseId),
    /// The model generates one response at a time, and has generated it.
    Ended(FinishReason, Stats),
    /// It did not begin beside others, such as for lack of memory.
    Refused(EngineError),
}

impl EngineThread<'_> {
    pub(super) fn end_job(&mut self, job: JobId, result: Result<JobSummary, EngineError>) {
        self.shared.inbox.ended(job);
        let end = result.as_ref().ok();
        self.ahead
            .end(job, end.map(|summary| (summary.reason, &summary.stats)));
        self.report_footprint();
        self.report(Report::JobEnded { job, result });
    }

    /// Begins a response. Returns its end, if it has ended already.
    pub(super) fn generate(
        &mut self,
        job: JobId,
        request: &Request,
        control: &JobControl,
    ) -> Option<Result<JobSummary, EngineError>> {
        let shared = self.shared;
        self.ahead.begin(job, request);
        let mut ahead = mem::take(&mut self.ahead);
        let mut saved = self.saved.take();
        let is_beside = !self.turns.is_empty();
        let begun = self.run_job("generating", control, |model| {
            let prompt =
                transom_engine::truncation::prepare(model, &request.prompt, request.truncation)?;
            let params = &request.params;
            if let Some(saved) = &mut saved {
                let id = params.conversation;
                saved.restore(model, &prompt.tokens, id, &|| shared.heartbeat.beat());
            }
            match model.begin(&prompt, params, control) {
                Ok(Some(response)) => Ok(Begun::InTurns(response)),
                // The others go on. If the model is broken, their next step fails.
                Err(error) if is_beside => Ok(Begun::Refused(error)),
                Err(error) => Err(error),
                Ok(None) => {
                    let mut sink = |event| {
                        ahead.on_event(job, &event);
                        shared.report_event(job, event);
                    };
                    let (reason, stats) = model.generate(&prompt, params, control, &mut sink)?;
                    Ok(Begun::Ended(reason, stats))
                }
            }
        });
        self.saved = saved;
        self.ahead = ahead;
        match begun {
            Ok(Ok(Begun::InTurns(id))) => {
                let control = control.clone();
                self.turns.add(Response { job, id, control });
                None
            }
            Ok(Ok(Begun::Ended(reason, stats))) => Some(Ok(self.summary(reason, stats))),
            Ok(Ok(Begun::Refused(error))) => Some(Err(error)),
            Ok(Err(reason)) => Some(Ok(self.summary(reason, Stats::default()))),
            Err(error) => Some(Err(error)),
        }
    }

    /// Computes one step of the response whose turn it is. If the model breaks, all responses end.
    pub(super) fn step(&mut self) {
        let shared = self.shared;
        let model = self.model.as_ref();
        let next_step = |id| model.map_or(NextStep::Compute, |model| model.next_step(id));
        let Some(Response { job, id, .. }) = self.turns.next(next_step) else {
            return;
        };
        let is_taken = next_step(id) == NextStep::Take;
        let began = Instant::now();
        let mut ahead = mem::take(&mut self.ahead);
        let stepped = self.use_model("generating", |model| {
            model.step(id, &mut |event| {
                ahead.on_event(job, &event);
                shared.report_event(job, event);
            })
        });
        self.ahead = ahead;
        // What others can take was not computed by this step.
        let is_over = is_taken || self.broken.is_some();
        let model = self.model.as_ref().filter(|_| !is_over);
        let next_step = |id| model.map_or(NextStep::Compute, |model| model.next_step(id));
        self.turns.record(job, began.elapsed(), next_step);
        shared.heartbeat.beat();
        let result = match stepped {
            Ok(None) => return,
            Ok(Some((reason, stats))) => Ok(self.summary(reason, stats)),
            Err(error) => Err(error),
        };
        self.turns.remove(job);
        self.end_job(job, result);
        if let Some(error) = self.broken.clone() {
            while let Some(Response { job, .. }) = self.turns.next(|_| NextStep::Compute) {
                self.turns.remove(job);
                self.end_job(job, Err(error.clone()));
            }
        }
    }

    /// Reads the next turn of a conversation, until a task comes. An error is that of the next turn, too, which
    /// reports it.
    pub(super) fn read_ahead(&mut self) {
        let shared = self.shared;
        let Some(control) = shared.inbox.start_idle_work() else {
            return;
        };
        shared.heartbeat.beat();
        let mut ahead = mem::take(&mut self.ahead);
        let read = self.use_model("reading ahead", |model| ahead.read(model, &control));
        self.ahead = ahead;
        shared.inbox.end_idle_work();
        self.report_footprint();
        tracing::debug!(is_ok = read.is_ok(), "read the next turn ahead");
    }

    pub(super) fn embed(
        &mut self,
        job: JobId,
        inputs: &[EmbedInput],
        control: &JobControl,
    ) -> Result<JobSummary, EngineError> {
        let shared = self.shared;
        let mut sink = |Embedding { n_tokens, vector }| {
            shared.heartbeat.beat();
            shared.outbox.push(Report::Embedded {
                job,
                n_tokens,
                vector,
            });
        };
        let ended = self.run_job("embedding", control, |model| {
            model.embed(inputs, control, &mut sink)
        })?;
        let (reason, stats) = ended.unwrap_or_else(|reason| (reason, Stats::default()));
        Ok(self.summary(reason, stats))
    }

    pub(super) fn count(
        &mut self,
        prompt: &Prompt,
        control: &JobControl,
    ) -> Result<JobSummary, EngineError> {
        let counted = self.run_job("counting tokens", control, |model| {
            model.count_tokens(prompt)
        })?;
        Ok(self.counted(counted))
    }

    pub(super) fn tokenize(
        &mut self,
        job: JobId,
        input: &TokenInput,
        control: &JobControl,
    ) -> Result<JobSummary, EngineError> {
        let shared = self.shared;
        let n_pieces = self.run_job("converting tokens", control, |model| {
            let pieces = model.pieces(input)?;
            for pieces in pieces.chunks(PIECES_PER_EVENT) {
                let pieces = pieces.to_vec();
                let event = TokenEvent::Pieces { pieces };
                shared.outbox.push(Report::Event { job, event });
            }
            Ok(pieces.len())
        })?;
        Ok(self.counted(n_pieces))
    }

    /// Returns the end of a job that counted tokens, or was stopped before.
    fn counted(&mut self, counted: Result<usize, FinishReason>) -> JobSummary {
        let (reason, prompt_tokens) = match counted {
            Ok(n_tokens) => (FinishReason::Stop, n_tokens),
            Err(reason) => (reason, 0),
        };
        let stats = Stats {
            prompt_tokens,
            ..Stats::default()
        };
        self.summary(reason, stats)
    }

    /// Runs a job, or a part of it, on the model. Returns the reason as `Ok(Err(_))` if the job was
    /// stopped before.
    fn run_job<T>(
        &mut self,
        during: &str,
        control: &JobControl,
        run: impl FnOnce(&mut dyn LoadedModel) -> Result<T, EngineError>,
    ) -> Result<Result<T, FinishReason>, EngineError> {
        match control.stop_reason() {
            Some(reason) => Ok(Err(reason)),
            None => self.use_model(during, run).map(Ok),
        }
    }

    /// Calls `run` with the model. Marks the model as broken if that panics or its backend fails.
    fn use_model<T>(
        &mut self,
        during: &str,
        run: impl FnOnce(&mut dyn LoadedModel) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let Some(model) = &mut self.model else {
            return Err(EngineError::backend(during, "no model is loaded"));
        };
        match catch_panic(|| run(&mut **model)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if matches!(error, EngineError::Backend { .. }) {
                    self.mark_broken(error.clone());
                }
                Err(error)
            }
            Err(message) => Err(self.panicked(during, &message)),
        }
    }
}
