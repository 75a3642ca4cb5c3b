//! The task of one response: sends the request, stores the text and publishes it to followers.
//!
//! The task belongs to no window. [`AnswerTask::process_events`] waits for everything that can wake
//! it: events of the model, a stop, a finished write, and two deadlines.
//!
//! Rule: there is no deadline while no text arrives, so a waiting response wakes nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::summary::with_summary;
use transom_engine::{FinishReason, Section, Stats, TokenEvent};
use transom_store::{ConversationId, Message, MessageId, Overflow};
use transom_supervisor::{
    ClientId, Handle, ModelRequest, Outcome, RequestError, Response, ResponseEvent, Status, Work,
};

use super::answer_writer::{AnswerWriter, SaveResult};
use super::live_answer::LiveAnswer;
use super::speed::Speed;
use super::{EventListener, TurnEvent, TurnOptions};
use crate::ending::{self, to_u32};
use crate::failure::Failure;
use crate::markdown::RenderInterval;
use crate::request::{
    dropped_before, has_all_history, messages_in_turns, routed_request, summary_of,
};
use crate::routing::{Route, check_attached, route_of};
use crate::update::{AnswerStats, EndingView, Stage};

/// How long to wait for a new supervisor after the previous one quit.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The shared state of a response that is being written.
pub(super) struct RunningAnswer {
    pub(super) id: MessageId,
    pub(super) conversation: ConversationId,
    pub(super) live: Arc<LiveAnswer>,
    /// Stops the response at the user's request.
    pub(super) stop: Notify,
}

pub(super) struct AnswerTask {
    entry: Arc<RunningAnswer>,
    options: TurnOptions,
    handles: watch::Receiver<Handle>,
    writer: AnswerWriter,
    speed: Speed,
    listener: EventListener,
    schedule: PublishSchedule,
    started_at: Instant,
    time_to_first_text: Option<Duration>,
    /// The route of the request that was sent.
    route: Route,
    /// Turns of the prompt that the engine dropped.
    dropped_turns: usize,
    /// See [`AnswerStats::context_length`].
    context_length: Option<u32>,
    is_stopping: bool,
}

/// Decides when the live state may be published next.
struct PublishSchedule {
    status: watch::Receiver<Arc<Status>>,
    render_interval: RenderInterval,
    last: Option<Instant>,
    due: Option<Instant>,
}

impl AnswerTask {
    pub(super) fn new(
        entry: Arc<RunningAnswer>,
        options: TurnOptions,
        mut handles: watch::Receiver<Handle>,
        writer: AnswerWriter,
        listener: EventListener,
    ) -> Self {
        let status = handles.borrow_and_update().status();
        Self {
            entry,
            options,
            handles,
            writer,
            speed: Speed::default(),
            listener,
            schedule: PublishSchedule {
                status,
                render_interval: RenderInterval::default(),
                last: None,
                due: None,
            },
            started_at: Instant::now(),
            time_to_first_text: None,
            route: Route::Chat,
            dropped_turns: 0,
            context_length: None,
            is_stopping: false,
        }
    }

    /// Requests a response to the last message of `path`. Returns how it ended; this end is not yet
    /// published or stored.
    pub(super) async fn write(&mut self, path: &[Message]) -> (EndingView, Option<AnswerStats>) {
        let n_dropped = match self.options.conversation.overflow {
            Overflow::DropOldest | Overflow::Summarize => dropped_before(
                path,
                &self.options.model.name,
                self.current_context_length(),
            ),
            Overflow::Stop => 0,
        };
        let mut outcome = self.ask(path, n_dropped).await;
        if self.should_retry(&outcome) && self.wait_for_new_handle().await {
            outcome = self.ask(path, n_dropped).await;
        }
        let has_history = has_all_history(path, self.route, &self.options.routes);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => return (EndingView::Failed { failure }, None),
        };
        match outcome {
            Outcome::Finished { reason, stats } => {
                // What a request with less history leaves out is in the next one.
                let n_more = match has_history {
                    true => messages_in_turns(&path[n_dropped..], self.dropped_turns),
                    false => 0,
                };
                let (first, route) = (self.time_to_first_text, self.route);
                let stats = ending::stats(&stats, first, n_dropped + n_more, self.context_length);
                let stats = stats.map(|stats| AnswerStats {
                    route,
                    is_partial: !has_history,
                    ..stats
                });
                (ending::finished(reason), stats)
            }
            Outcome::Failed { error } => match self.options.conversation.overflow {
                Overflow::Stop if path.len() > 2 && has_history => {
                    (ending::failed_unshortened(&error), None)
                }
                Overflow::Stop | Overflow::DropOldest | Overflow::Summarize => {
                    (ending::failed(&error), None)
                }
            },
            // Only a load ends this way, and `ask` continues from there.
            Outcome::Loaded { .. } => (EndingView::Canceled, None),
        }
    }

    /// Returns the context length that the user chose, or the limit of the governor if that is lower.
    fn current_context_length(&self) -> Option<u32> {
        let limit = self.schedule.status.borrow().restrictions.context_length;
        let chosen = self.options.settings.context_length;
        chosen.into_iter().chain(limit.map(to_u32)).min()
    }

    /// Returns true if the model has written anything.
    pub(super) fn has_text(&self) -> bool {
        self.time_to_first_text.is_some()
    }

    /// Stores the end, then publishes it, so followers that hear of it find it on disk. If the disk
    /// refuses, the end is published anyway and [`AnswerTask::retry_finish`] continues to save it.
    /// Returns true if everything is saved.
    pub(super) async fn end(&mut self, ending: &EndingView, stats: Option<AnswerStats>) -> bool {
        let saved = self.finish(ending, stats).await;
        self.entry.live.state().end(ending.clone(), stats);
        self.entry.live.publish();
        saved
    }

    /// Retries saving the end until it succeeds.
    pub(super) async fn retry_finish(&mut self, ending: &EndingView, stats: Option<AnswerStats>) {
        loop {
            sleep_until(self.writer.retry_at(Instant::now())).await;
            if self.finish(ending, stats).await {
                return;
            }
        }
    }

    async fn finish(&mut self, ending: &EndingView, stats: Option<AnswerStats>) -> bool {
        let stats = stats.as_ref().map(ending::json);
        let saved = self.writer.finish(ending::to_store(ending), stats).await;
        let is_done = !matches!(saved, SaveResult::Failed { .. });
        self.on_write_finished(saved);
        is_done
    }

    /// Loads the model, because its recommended settings are known only then, and requests the
    /// response without the first `n_dropped` messages of `path`. The supervisor reloads a model that
    /// is unloaded in between.
    ///
    /// # Errors
    /// [`Failure::AttachedTooLong`], and nothing is sent.
    async fn ask(&mut self, path: &[Message], n_dropped: usize) -> Result<Outcome, Failure> {
        let handle = self.handles.borrow_and_update().clone();
        self.schedule.status = handle.status();
        let load = self.supervisor_request(Work::Load);
        let info = match self.process_events(handle.submit(load)).await {
            Outcome::Loaded { info } => info,
            outcome @ (Outcome::Finished { .. } | Outcome::Failed { .. }) => return Ok(outcome),
        };
        if self.is_stopping {
            let (reason, stats) = (FinishReason::Canceled, Stats::default());
            return Ok(Outcome::Finished { reason, stats });
        }
        // A base model has no roles, and gets the same text on every route.
        self.route = match info.has_chat_template {
            true => route_of(path, self.options.routing, &self.options.routes),
            false => Route::Chat,
        };
        let route = (self.route, &self.options.routes);
        let contained_tokens = self.options.contained_tokens;
        check_attached(path, contained_tokens, route, info.context_length)?;
        let overflow = self.options.conversation.overflow;
        let mut settings = self.options.settings.clone();
        if overflow == Overflow::Summarize
            && has_all_history(path, self.route, &self.options.routes)
            && let Some((_, summary)) = summary_of(path, n_dropped)
        {
            let system_prompt = with_summary(settings.system_prompt.as_deref(), summary);
            settings.system_prompt = Some(system_prompt);
        }
        let kept = &path[n_dropped..];
        let mut generate = Box::new(routed_request(kept, &settings, overflow, route, &info));
        generate.params.is_private = self.options.is_private;
        let generate = self.supervisor_request(Work::Generate(generate));
        Ok(self.process_events(handle.submit(generate)).await)
    }

    fn supervisor_request(&self, work: Work) -> ModelRequest {
        ModelRequest {
            over_budget: self.options.over_budget,
            ..ModelRequest::new(ClientId::app(), self.options.model.clone(), work)
        }
    }

    /// Returns true if the supervisor quit before any text arrived, so another one can be tried.
    fn should_retry(&self, outcome: &Result<Outcome, Failure>) -> bool {
        let is_gone = matches!(
            outcome,
            Ok(Outcome::Failed {
                error: RequestError::InstanceGone { .. } | RequestError::Quitting
            })
        );
        is_gone && !self.is_stopping && self.time_to_first_text.is_none()
    }

    /// Waits until a different supervisor is available.
    async fn wait_for_new_handle(&mut self) -> bool {
        self.show(Stage::Waiting { position: 0 });
        tokio::select! {
            changed = timeout(RECONNECT_TIMEOUT, self.handles.changed()) => {
                matches!(changed, Ok(Ok(())))
            }
            () = self.entry.stop.notified() => {
                self.is_stopping = true;
                false
            }
        }
    }

    /// Processes the events of one request to its end.
    async fn process_events(&mut self, mut answer: Response) -> Outcome {
        let canceller = answer.cancel_handle();
        loop {
            let due = self.schedule.due.into_iter().chain(self.writer.due()).min();
            tokio::select! {
                biased;
                () = self.entry.stop.notified() => self.is_stopping = true,
                saved = self.writer.write_finished() => self.on_write_finished(saved),
                event = answer.next() => match event {
                    Some(ResponseEvent::Ended { outcome }) => return outcome,
                    Some(event) => self.on_event(event),
                    None => {
                        let reason = "it ended before the response did".to_owned();
                        let error = RequestError::InstanceGone { reason };
                        return Outcome::Failed { error };
                    }
                },
                () = sleep_until(due.unwrap_or(self.started_at)), if due.is_some() => {}
            }
            if self.is_stopping {
                canceller.cancel();
            }
            self.publish_and_save();
        }
    }

    fn on_event(&mut self, event: ResponseEvent) {
        match event {
            ResponseEvent::Queued { position, .. } => self.show(Stage::Waiting {
                position: to_u32(position),
            }),
            ResponseEvent::Loading { progress } => self.show(Stage::Loading {
                fraction: progress.map(|progress| {
                    let total = progress.total_bytes.max(1);
                    (progress.done_bytes as f64 / total as f64).min(1.0) as f32
                }),
            }),
            ResponseEvent::Token { event } => self.on_token(event),
            // The end is handled by `process_events`. A chat embeds nothing.
            ResponseEvent::Embedded { .. } | ResponseEvent::Ended { .. } => {}
        }
    }

    fn on_token(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Started {
                dropped_messages, ..
            } => {
                self.dropped_turns = dropped_messages;
                self.context_length = self.current_context_length();
            }
            TokenEvent::Prefill { done, total } => self.show(Stage::Prefill {
                done: to_u32(done),
                total: to_u32(total),
            }),
            TokenEvent::Text {
                section,
                text,
                generated_tokens,
                ..
            } => self.on_text(section, &text, generated_tokens),
            // The app declares no tools, and the outcome contains the end.
            TokenEvent::ToolCall { .. }
            | TokenEvent::Pieces { .. }
            | TokenEvent::Finished { .. } => {}
        }
    }

    fn on_text(&mut self, section: Section, text: &str, n_tokens: usize) {
        let now = Instant::now();
        let started_at = self.started_at;
        self.time_to_first_text
            .get_or_insert_with(|| now.duration_since(started_at));
        self.writer.push(section, text, now);
        let tokens_per_second = self.speed.at(now, n_tokens);
        let mut state = self.entry.live.state();
        state.push(section, text);
        state.set_stage(Stage::Writing { tokens_per_second });
        drop(state);
        self.schedule.request(now);
    }

    /// Sets the stage. A different kind of stage is published at once, progress with the next
    /// repaint.
    fn show(&mut self, stage: Stage) {
        let is_different = self.entry.live.state().set_stage(stage);
        if is_different {
            self.schedule.last = None;
        }
        self.schedule.request(Instant::now());
    }

    fn publish_and_save(&mut self) {
        let now = Instant::now();
        if self.schedule.is_due(now) {
            self.entry.live.publish();
            self.schedule.render_interval.record(now.elapsed());
        }
        self.writer.start_write(now);
    }

    fn on_write_finished(&mut self, saved: SaveResult) {
        let answer = self.entry.id;
        match saved {
            SaveResult::Saved {
                after_failure: true,
            } => (self.listener)(TurnEvent::SaveRecovered { answer }),
            SaveResult::Failed {
                kind,
                reason,
                is_first: true,
            } => {
                tracing::error!(%reason, "a response cannot be saved; retrying");
                (self.listener)(TurnEvent::SaveFailed {
                    answer,
                    kind,
                    reason,
                });
            }
            SaveResult::Saved { .. } | SaveResult::Failed { .. } => {}
            // The message was deleted, so nobody can read it anymore.
            SaveResult::Deleted => self.is_stopping = true,
        }
    }
}

impl PublishSchedule {
    /// Requests a publish: now if the last one is long enough ago, otherwise when it will be.
    fn request(&mut self, now: Instant) {
        let next = self.last.map(|last| last + self.interval());
        self.due
            .get_or_insert(next.map_or(now, |next| next.max(now)));
    }

    /// Returns true if it is time to publish. The interval may have grown since the request.
    fn is_due(&mut self, now: Instant) -> bool {
        let Some(due) = self.due else {
            return false;
        };
        let next = self.last.map_or(due, |last| last + self.interval());
        if next > now {
            self.due = Some(next);
            return false;
        }
        self.last = Some(now);
        self.due = None;
        true
    }

    /// Returns the interval that the governor allows, or a longer one if rendering is slow.
    fn interval(&self) -> Duration {
        let allowed = self.status.borrow().restrictions.repaint_interval;
        allowed.max(self.render_interval.get())
    }
}
