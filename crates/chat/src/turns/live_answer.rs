//! The live state of a response, written by its task and read by its followers.
//!
//! The text is rendered once for all followers, and only while there are any. A follower is a
//! cursor with the versions that it has seen, so a slow one takes no memory.

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use transom_engine::Section;
use transom_store::Message;

use super::section::RenderedSection;
use crate::block::Change;
use crate::update::{AnswerStats, EndingView, MessageView, Snapshot, Stage, Update};
use crate::view::{Rendered, view};

pub(super) struct LiveAnswer {
    state: Mutex<AnswerState>,
    /// Notified after each change that followers should see.
    changes: watch::Sender<()>,
}

pub(super) struct AnswerState {
    /// Everything that does not grow, and the ending.
    message: MessageView,
    reasoning: RenderedSection,
    answer: RenderedSection,
    stage: Stage,
    /// Incremented whenever `stage` changes.
    stage_version: u64,
}

/// How far a follower has read.
#[derive(Default)]
pub(super) struct Cursor {
    has_snapshot: bool,
    pub(super) has_end: bool,
    reasoning_version: u64,
    answer_version: u64,
    stage_version: u64,
}

impl LiveAnswer {
    /// Creates the state of a stored response, which may have text already.
    pub(super) fn new(message: Message) -> Self {
        let (mut reasoning, mut answer) = (RenderedSection::default(), RenderedSection::default());
        reasoning.push(&message.reasoning);
        answer.push(&message.text);
        Self {
            state: Mutex::new(AnswerState {
                message: view(message, &Rendered::default()),
                reasoning,
                answer,
                stage: Stage::Waiting { position: 0 },
                stage_version: 0,
            }),
            changes: watch::Sender::new(()),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, AnswerState> {
        self.state.lock()
    }

    /// Subscribes to changes. While a receiver exists, the text is rendered as it grows.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        let changes = self.changes.subscribe();
        // Renders text that arrived while there were no followers.
        self.state().render();
        changes
    }

    pub(super) fn message(&self) -> MessageView {
        let mut state = self.state();
        state.render();
        state.message()
    }

    /// Ends the response and notifies followers without rendering, because rendering may be what
    /// failed.
    pub(super) fn abort(&self, ending: EndingView) {
        self.state().end(ending, None);
        self.changes.send_replace(());
    }

    /// Renders the text and notifies followers, if there are any.
    pub(super) fn publish(&self) {
        if self.changes.receiver_count() > 0 {
            self.state().render();
            self.changes.send_replace(());
        }
    }
}

impl AnswerState {
    pub(super) fn push(&mut self, section: Section, text: &str) {
        match section {
            Section::Reasoning => self.reasoning.push(text),
            Section::Answer => self.answer.push(text),
        }
    }

    /// Sets the current stage. Returns true if its kind is different, so that followers should see
    /// it at once.
    pub(super) fn set_stage(&mut self, stage: Stage) -> bool {
        let is_different = std::mem::discriminant(&self.stage) != std::mem::discriminant(&stage);
        if self.stage != stage {
            self.stage = stage;
            self.stage_version += 1;
        }
        is_different
    }

    /// Ends the response. Followers get this as [`Update::Ended`].
    pub(super) fn end(&mut self, ending: EndingView, stats: Option<AnswerStats>) {
        self.message.ending = ending;
        self.message.stats = stats;
    }

    /// Adds the name of a model that wrote a part of the response. Returns all names if it is new.
    pub(super) fn add_model(&mut self, name: &str) -> Option<String> {
        let models = match &self.message.model {
            Some(known) if format!(" + {known} + ").contains(&format!(" + {name} + ")) => {
                return None;
            }
            Some(known) => format!("{known} + {name}"),
            None => name.to_owned(),
        };
        self.message.model = Some(models.clone());
        Some(models)
    }

    pub(super) fn is_over(&self) -> bool {
        self.message.ending != EndingView::Writing
    }

    pub(super) fn sources(&self) -> (&str, &str) {
        (self.reasoning.source(), self.answer.source())
    }

    /// Returns how often rendering changed anything.
    #[cfg(test)]
    pub(super) fn version(&self) -> u64 {
        self.reasoning.document.version() + self.answer.document.version()
    }

    fn render(&mut self) {
        let is_over = self.is_over();
        self.reasoning.render(is_over);
        self.answer.render(is_over);
    }

    fn message(&self) -> MessageView {
        MessageView {
            reasoning: self.reasoning.document.blocks().to_vec(),
            blocks: self.answer.document.blocks().to_vec(),
            text: self.answer.source().to_owned(),
            ..self.message.clone()
        }
    }

    /// Returns the next update for a follower at `cursor`; `None` if there is nothing new.
    pub(super) fn next(&self, cursor: &mut Cursor) -> Option<Update> {
        if !cursor.has_snapshot {
            *cursor = self.cursor_at_end();
            let snapshot = Box::new(Snapshot {
                message: self.message(),
                stage: self.stage.clone(),
            });
            return Some(Update::Snapshot { snapshot });
        }
        if cursor.has_end {
            return None;
        }
        self.next_text(cursor).or_else(|| {
            if self.is_over() {
                return Some(self.ended(cursor));
            }
            let is_new = cursor.stage_version != self.stage_version;
            cursor.stage_version = self.stage_version;
            // The writing stage is sent together with its text.
            let is_sent = is_new && !matches!(self.stage, Stage::Writing { .. });
            is_sent.then(|| Update::Stage {
                stage: self.stage.clone(),
            })
        })
    }

    fn next_text(&self, cursor: &mut Cursor) -> Option<Update> {
        let (reasoning, answer) = (&self.reasoning.document, &self.answer.document);
        let sections = [
            (Section::Reasoning, reasoning, &mut cursor.reasoning_version),
            (Section::Answer, answer, &mut cursor.answer_version),
        ];
        let mut sections = sections.into_iter();
        sections.find_map(|(section, document, version)| {
            let is_new = *version < document.version();
            let change = is_new.then(|| document.change_since(*version))?;
            *version = document.version();
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

    fn ended(&self, cursor: &mut Cursor) -> Update {
        *cursor = self.cursor_at_end();
        cursor.has_end = true;
        Update::Ended {
            text: self.answer.source().to_owned(),
            ending: self.message.ending.clone(),
            model: self.message.model.clone(),
            stats: self.message.stats.map(Box::new),
        }
    }

    fn cursor_at_end(&self) -> Cursor {
        Cursor {
            has_snapshot: true,
            has_end: false,
            reasoning_version: self.reasoning.document.version(),
            answer_version: self.answer.document.version(),
            stage_version: self.stage_version,
        }
    }
}
