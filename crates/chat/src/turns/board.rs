//! What an answer shows so far: one board an answer, written by its task, read by its followers.
//!
//! The text is rendered here, once for all followers and only while there are any, so an answer
//! that nobody watches costs its bytes and nothing else. What a follower has not seen follows from
//! which version it saw last, so one that lags takes no memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use transom_engine::Section as Written;

use super::part::Part;
use crate::block::Change;
use crate::update::{AnswerStats, EndingView, MessageView, Section, Snapshot, Stage, Update};

/// See the head of this file.
pub(super) struct Board {
    state: Mutex<State>,
    /// Told after each change that followers shall see.
    news: watch::Sender<()>,
}

/// The answer as it stands, under the board's lock.
pub(super) struct State {
    /// Everything that does not grow, with what the disk says of its ending.
    message: MessageView,
    reasoning: Part,
    answer: Part,
    stage: Stage,
    /// Raised whenever `stage` is another one than before.
    n_stages: u64,
}

/// How much of a board a follower has been told.
#[derive(Debug, Default)]
pub(super) struct Seen {
    has_snapshot: bool,
    has_end: bool,
    reasoning_version: u64,
    answer_version: u64,
    n_stages: u64,
}

impl Board {
    /// A board for the answer that `message` begins, which waits for its turn.
    pub(super) fn new(message: MessageView) -> Self {
        Self {
            state: Mutex::new(State {
                message,
                reasoning: Part::default(),
                answer: Part::default(),
                stage: Stage::Waiting { position: 0 },
                n_stages: 0,
            }),
            news: watch::Sender::new(()),
        }
    }

    /// The answer as it stands. Not to be held while anything is waited for.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// News from now on. While any receiver lives, the text is rendered as it grows.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        let news = self.news.subscribe();
        // What came while nobody watched.
        self.state().render();
        news
    }

    /// The message so far.
    pub(super) fn message(&self) -> MessageView {
        let mut state = self.state();
        state.render();
        state.message()
    }

    /// Ends the answer and tells its followers, with what is rendered: to render may be what failed.
    pub(super) fn break_off(&self, ending: EndingView) {
        self.state().end(ending, None);
        self.news.send_replace(());
    }

    /// Shows followers what changed; renders what they have not seen.
    pub(super) fn publish(&self) {
        if self.news.receiver_count() > 0 {
            self.state().render();
            self.news.send_replace(());
        }
    }
}

impl State {
    /// Adds what the model wrote.
    pub(super) fn push(&mut self, section: Written, text: &str) {
        match section {
            Written::Reasoning => self.reasoning.push(text),
            Written::Answer => self.answer.push(text),
        }
    }

    /// What the answer does now. Returns whether that is another kind of thing than before, which
    /// people should see at once.
    pub(super) fn set_stage(&mut self, stage: Stage) -> bool {
        let is_other = std::mem::discriminant(&self.stage) != std::mem::discriminant(&stage);
        if self.stage != stage {
            self.stage = stage;
            self.n_stages += 1;
        }
        is_other
    }

    /// Ends the answer. What follows is told as [`Update::Ended`].
    pub(super) fn end(&mut self, ending: EndingView, stats: Option<AnswerStats>) {
        self.message.ending = ending;
        self.message.stats = stats;
    }

    /// Whether the answer is over.
    pub(super) fn is_over(&self) -> bool {
        self.message.ending != EndingView::Writing
    }

    /// Whether the model has said anything yet.
    pub(super) fn has_text(&self) -> bool {
        !self.reasoning.source().is_empty() || !self.answer.source().is_empty()
    }

    /// The sources of the reasoning and of the answer.
    pub(super) fn sources(&self) -> (&str, &str) {
        (self.reasoning.source(), self.answer.source())
    }

    /// How often rendering changed anything.
    #[cfg(test)]
    pub(super) fn version(&self) -> u64 {
        self.reasoning.version() + self.answer.version()
    }

    fn render(&mut self) {
        let is_over = self.is_over();
        self.reasoning.render(is_over);
        self.answer.render(is_over);
    }

    fn message(&self) -> MessageView {
        MessageView {
            reasoning: self.reasoning.blocks().to_vec(),
            blocks: self.answer.blocks().to_vec(),
            text: self.answer.source().to_owned(),
            ..self.message.clone()
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            message: self.message(),
            stage: self.stage.clone(),
        }
    }

    /// The next thing that a follower who has `seen` so much is told; `None` until there is news.
    pub(super) fn next(&self, seen: &mut Seen) -> Option<Update> {
        if !seen.has_snapshot {
            *seen = self.all_seen();
            let snapshot = Box::new(self.snapshot());
            return Some(Update::Snapshot { snapshot });
        }
        if seen.has_end {
            return None;
        }
        self.next_text(seen).or_else(|| {
            if self.is_over() {
                return Some(self.ended(seen));
            }
            let is_new = seen.n_stages != self.n_stages;
            seen.n_stages = self.n_stages;
            // Writing is told with its text.
            let is_told = is_new && !matches!(self.stage, Stage::Writing { .. });
            is_told.then(|| Update::Stage {
                stage: self.stage.clone(),
            })
        })
    }

    fn next_text(&self, seen: &mut Seen) -> Option<Update> {
        let sections = [
            (
                Section::Reasoning,
                &self.reasoning,
                &mut seen.reasoning_version,
            ),
            (Section::Answer, &self.answer, &mut seen.answer_version),
        ];
        sections.into_iter().find_map(|(section, part, seen)| {
            let is_new = *seen < part.version();
            let change = is_new.then(|| part.change_since(*seen))?;
            *seen = part.version();
            Some(self.text(section, change))
        })
    }

    fn text(&self, section: Section, change: Change) -> Update {
        Update::Text {
            section,
            change,
            tokens_per_second: match self.stage {
                Stage::Writing { tokens_per_second } => tokens_per_second,
                Stage::Waiting { .. } | Stage::Loading { .. } | Stage::Prefill { .. } => None,
            },
        }
    }

    fn ended(&self, seen: &mut Seen) -> Update {
        *seen = self.all_seen();
        seen.has_end = true;
        Update::Ended {
            text: self.answer.source().to_owned(),
            ending: self.message.ending.clone(),
            stats: self.message.stats,
        }
    }

    fn all_seen(&self) -> Seen {
        Seen {
            has_snapshot: true,
            has_end: false,
            reasoning_version: self.reasoning.version(),
            answer_version: self.answer.version(),
            n_stages: self.n_stages,
        }
    }
}

impl Seen {
    /// Whether the end was told: nothing follows.
    pub(super) fn has_end(&self) -> bool {
        self.has_end
    }
}
