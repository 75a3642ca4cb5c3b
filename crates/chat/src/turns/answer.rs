//! One answer from its question to its end: the task that asks, writes down and shows.
//!
//! It belongs to no window. Everything that can wake it is in [`Writing::pump`]: what the model
//! says, a wish to stop, a write that is done, and the two times at which something is due.
//!
//! Rule: while no text comes nothing is due, so an answer that waits wakes nobody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::{FinishReason, ModelInfo, Section, Stats, TokenEvent};
use transom_store::{ConversationId, Message, MessageId};
use transom_supervisor::{
    Handle, ModelRequest, Outcome, RequestError, Response, ResponseEvent, Status, WhenBlocked, Work,
};

use super::board::Board;
use super::disk::{DiskCopy, Saved};
use super::speed::Speed;
use super::{Asking, Happening, Tell};
use crate::ending;
use crate::markdown::Pace;
use crate::request::request;
use crate::update::{AnswerStats, EndingView, Stage};

/// How long another supervisor may take to appear where the one that was asked went away.
const ANOTHER_WITHIN: Duration = Duration::from_secs(10);

/// An answer that is being written, as all may see it.
pub(super) struct Entry {
    pub(super) id: MessageId,
    pub(super) conversation: ConversationId,
    pub(super) board: Arc<Board>,
    /// Ends it as the person's wish.
    pub(super) stop: Notify,
}

/// See the head of this file.
pub(super) struct Writing {
    entry: Arc<Entry>,
    asking: Asking,
    handles: watch::Receiver<Handle>,
    copy: DiskCopy,
    speed: Speed,
    tell: Tell,
    painter: Painter,
    begun_at: Instant,
    first_text_after: Option<Duration>,
    dropped_messages: usize,
    is_stopping: bool,
}

/// When the board may be shown next.
struct Painter {
    status: watch::Receiver<Arc<Status>>,
    pace: Pace,
    last: Option<Instant>,
    due: Option<Instant>,
}

/// What happened next to an ask.
enum Next {
    Stop,
    Saved(Saved),
    Event(Option<ResponseEvent>),
    Due,
}

impl Writing {
    pub(super) fn new(
        entry: Arc<Entry>,
        asking: Asking,
        mut handles: watch::Receiver<Handle>,
        copy: DiskCopy,
        tell: Tell,
    ) -> Self {
        let status = handles.borrow_and_update().status();
        Self {
            entry,
            asking,
            handles,
            copy,
            speed: Speed::default(),
            tell,
            painter: Painter {
                status,
                pace: Pace::default(),
                last: None,
                due: None,
            },
            begun_at: Instant::now(),
            first_text_after: None,
            dropped_messages: 0,
            is_stopping: false,
        }
    }

    /// Has the model answer what `path` ends with. Returns how it ended; nothing of that is shown
    /// or written yet.
    pub(super) async fn write(&mut self, path: &[Message]) -> (EndingView, Option<AnswerStats>) {
        let mut outcome = self.ask(path).await;
        if self.is_worth_another(&outcome) && self.another_handle().await {
            outcome = self.ask(path).await;
        }
        match outcome {
            Outcome::Finished { reason, stats } => {
                let (first, dropped) = (self.first_text_after, self.dropped_messages);
                let stats = ending::stats(&stats, first, dropped);
                (ending::finished(reason), stats)
            }
            Outcome::Failed { error } => (ending::failed(&error), None),
            // Only a load ends so, and `ask` goes on from there.
            Outcome::Loaded { .. } => (EndingView::Cancelled, None),
        }
    }

    /// Puts the end on disk, then shows it: whoever hears of it finds it there. Where the disk
    /// refuses, people see the end all the same, and [`Writing::insist`] tries on. Returns whether
    /// nothing is left to be saved.
    pub(super) async fn end(&mut self, ending: &EndingView, stats: Option<AnswerStats>) -> bool {
        let saved = self.finish(ending, stats).await;
        self.entry.board.state().end(ending.clone(), stats);
        self.entry.board.publish();
        saved
    }

    /// Tries to save the end until it is saved.
    pub(super) async fn insist(&mut self, ending: &EndingView, stats: Option<AnswerStats>) {
        loop {
            sleep_until(self.copy.retry_at(Instant::now())).await;
            if self.finish(ending, stats).await {
                return;
            }
        }
    }

    async fn finish(&mut self, ending: &EndingView, stats: Option<AnswerStats>) -> bool {
        let stats = stats.as_ref().map(ending::stats_to_store);
        let saved = self.copy.finish(ending::to_store(ending), stats).await;
        let is_done = !matches!(saved, Saved::Failed { .. });
        self.take_saved(saved);
        is_done
    }

    /// Loads the model, since what its authors recommend is known only then, and has it answer. A
    /// model that is unloaded in between is loaded again by the supervisor.
    async fn ask(&mut self, path: &[Message]) -> Outcome {
        let handle = self.handles.borrow_and_update().clone();
        self.painter.status = handle.status();
        let info = match self.pump(handle.submit(self.ask_for(Work::Load))).await {
            Outcome::Loaded { info } => info,
            outcome @ (Outcome::Finished { .. } | Outcome::Failed { .. }) => return outcome,
        };
        if self.is_stopping {
            let (reason, stats) = (FinishReason::Canceled, Stats::default());
            return Outcome::Finished { reason, stats };
        }
        let work = self.generate(path, &info);
        self.pump(handle.submit(self.ask_for(work))).await
    }

    fn generate(&self, path: &[Message], info: &ModelInfo) -> Work {
        Work::Generate(Box::new(request(path, &self.asking.settings, info)))
    }

    fn ask_for(&self, work: Work) -> ModelRequest {
        ModelRequest {
            model: self.asking.model.clone(),
            work,
            over_budget: self.asking.insist,
            when_blocked: WhenBlocked::Wait,
        }
    }

    /// Whether the supervisor went away before anything was said, so that another may be asked.
    fn is_worth_another(&self, outcome: &Outcome) -> bool {
        let is_gone = matches!(
            outcome,
            Outcome::Failed {
                error: RequestError::InstanceGone { .. } | RequestError::Quitting
            }
        );
        is_gone && !self.is_stopping && !self.entry.board.state().has_text()
    }

    /// Waits until there is another supervisor than the one that was asked.
    async fn another_handle(&mut self) -> bool {
        self.show(Stage::Waiting { position: 0 });
        tokio::select! {
            changed = timeout(ANOTHER_WITHIN, self.handles.changed()) => {
                matches!(changed, Ok(Ok(())))
            }
            () = self.entry.stop.notified() => {
                self.is_stopping = true;
                false
            }
        }
    }

    /// Reads one ask to its end.
    async fn pump(&mut self, mut answer: Response) -> Outcome {
        let canceller = answer.cancel_handle();
        loop {
            let due = self.painter.due.into_iter().chain(self.copy.due()).min();
            let next = tokio::select! {
                biased;
                () = self.entry.stop.notified() => Next::Stop,
                saved = self.copy.settled() => Next::Saved(saved),
                event = answer.next() => Next::Event(event),
                () = sleep_until(due.unwrap_or(self.begun_at)), if due.is_some() => Next::Due,
            };
            match next {
                Next::Stop => self.is_stopping = true,
                Next::Saved(saved) => self.take_saved(saved),
                Next::Event(Some(ResponseEvent::Ended { outcome })) => return outcome,
                Next::Event(Some(event)) => self.take(event),
                Next::Event(None) => return gone(),
                Next::Due => {}
            }
            if self.is_stopping {
                canceller.cancel();
            }
            self.do_what_is_due();
        }
    }

    fn take(&mut self, event: ResponseEvent) {
        match event {
            ResponseEvent::Queued { position, .. } => self.show(Stage::Waiting {
                position: u32::try_from(position).unwrap_or(u32::MAX),
            }),
            ResponseEvent::Loading { progress } => self.show(Stage::Loading {
                fraction: progress.map(|progress| {
                    let total = progress.total_bytes.max(1);
                    (progress.done_bytes as f64 / total as f64).min(1.0) as f32
                }),
            }),
            ResponseEvent::Token { event } => self.take_token(event),
            // Read by `pump`.
            ResponseEvent::Ended { .. } => {}
        }
    }

    fn take_token(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Started {
                dropped_messages, ..
            } => self.dropped_messages = dropped_messages,
            TokenEvent::Prefill { done, total } => self.show(Stage::Prefill {
                done: u32::try_from(done).unwrap_or(u32::MAX),
                total: u32::try_from(total).unwrap_or(u32::MAX),
            }),
            TokenEvent::Text {
                section,
                text,
                generated_tokens,
            } => self.take_text(section, &text, generated_tokens),
            // The outcome says it.
            TokenEvent::Finished { .. } => {}
        }
    }

    fn take_text(&mut self, section: Section, text: &str, n_tokens: usize) {
        let now = Instant::now();
        let begun_at = self.begun_at;
        self.first_text_after
            .get_or_insert_with(|| now.duration_since(begun_at));
        self.copy.push(section, text, now);
        let tokens_per_second = self.speed.at(now, n_tokens);
        let mut state = self.entry.board.state();
        state.push(section, text);
        state.set_stage(Stage::Writing { tokens_per_second });
        drop(state);
        self.painter.wish(now);
    }

    /// Shows what the answer does now: another kind of thing at once, progress with the repaints.
    fn show(&mut self, stage: Stage) {
        let is_other = self.entry.board.state().set_stage(stage);
        if is_other {
            self.painter.last = None;
        }
        self.painter.wish(Instant::now());
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.painter.is_due(now) {
            self.entry.board.publish();
            self.painter.pace.took(now.elapsed());
        }
        self.copy.begin(now);
    }

    fn take_saved(&mut self, saved: Saved) {
        let answer = self.entry.id;
        match saved {
            Saved::Whole {
                after_trouble: true,
            } => (self.tell)(Happening::Saved { answer }),
            Saved::Failed {
                reason,
                is_first: true,
            } => {
                tracing::error!(%reason, "an answer cannot be saved; trying again");
                (self.tell)(Happening::Unsaved { answer, reason });
            }
            Saved::Whole { .. } | Saved::Failed { .. } => {}
            // Nobody can read it any more.
            Saved::Gone => self.is_stopping = true,
        }
    }
}

impl Painter {
    /// Something is to be shown; `now` if the last time is long enough ago, else when it is.
    fn wish(&mut self, now: Instant) {
        let next = self.last.map(|last| last + self.interval());
        self.due
            .get_or_insert(next.map_or(now, |next| next.max(now)));
    }

    /// Whether to show the board now; asked only then. The interval may have grown since.
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

    /// What the governor allows at this moment, and longer where rendering is slow.
    fn interval(&self) -> Duration {
        let allowed = self.status.borrow().allowance.repaint_interval;
        allowed.max(self.pace.interval())
    }
}

fn gone() -> Outcome {
    Outcome::Failed {
        error: RequestError::InstanceGone {
            reason: "it ended before the answer did".to_owned(),
        },
    }
}
