//! What an answer shows so far: one board an answer, written by its task, read by its followers.
//!
//! The text is rendered here, once for all followers and only while there are any, so an answer
//! that nobody watches costs its bytes and nothing else. What a follower has not seen is a range of
//! the board, so one that lags takes no memory.
//!
//! Rule: every follower gets the blocks of a section in the order in which they were finished, from
//! those of its snapshot on; only the end of the answer clears the tails.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use transom_engine::Section as Written;

use super::part::Part;
use crate::block::{Block, Tail};
use crate::markdown::Speech;
use crate::update::{AnswerStats, EndingView, MessageView, Section, Snapshot, Stage, Update};

/// Bytes of HTML that one update carries at most, where blocks can be parted so: updates below
/// 8 KiB reach a page without a detour.
const MAX_UPDATE_BYTES: usize = 7_000;

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
    speech: Speech,
    /// Bytes of the answer's source that were given to `speech`.
    n_spoken: usize,
    /// Finished sentences since the first render.
    sentences: Vec<String>,
    stage: Stage,
    /// Raised whenever `stage` is another one than before.
    n_stages: u64,
}

/// How much of a board a follower has been told.
#[derive(Debug, Default)]
pub(super) struct Seen {
    has_snapshot: bool,
    has_end: bool,
    reasoning: SeenPart,
    answer: SeenPart,
    n_sentences: usize,
    n_stages: u64,
}

#[derive(Debug, Default)]
struct SeenPart {
    n_blocks: usize,
    n_renders: u64,
}

impl Board {
    /// A board for the answer that `message` begins, which waits for its turn.
    pub(super) fn new(message: MessageView) -> Self {
        Self {
            state: Mutex::new(State {
                message,
                reasoning: Part::default(),
                answer: Part::default(),
                speech: Speech::default(),
                n_spoken: 0,
                sentences: Vec::new(),
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

    /// The message so far, with everything that is committed.
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

    /// Updates that rendering made.
    #[cfg(test)]
    pub(super) fn n_rendered(&self) -> u64 {
        self.reasoning.n_renders() + self.answer.n_renders()
    }

    fn render(&mut self) {
        let is_over = self.is_over();
        self.reasoning.render(is_over);
        self.answer.render(is_over);
        let unspoken = &self.answer.source()[self.n_spoken..];
        self.sentences.extend(self.speech.push(unspoken));
        self.n_spoken = self.answer.source().len();
        if is_over {
            self.sentences.extend(self.speech.finish());
        }
    }

    fn message(&self) -> MessageView {
        MessageView {
            reasoning: self.reasoning.settled(),
            blocks: self.answer.settled(),
            text: self.answer.source().to_owned(),
            ..self.message.clone()
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            message: self.message(),
            reasoning_tail: self.reasoning.tail().clone(),
            tail: self.answer.tail().clone(),
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
        if self.is_over() {
            let remaining = self.reasoning.bytes_from(seen.reasoning.n_blocks)
                + self.answer.bytes_from(seen.answer.n_blocks);
            if remaining <= MAX_UPDATE_BYTES {
                return Some(self.ended(seen));
            }
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
        if let Some((blocks, tail)) = seen.reasoning.next_of(&self.reasoning) {
            return Some(self.text(Section::Reasoning, blocks, tail, Vec::new()));
        }
        let (blocks, tail) = seen.answer.next_of(&self.answer)?;
        let sentences = self.unheard(seen);
        Some(self.text(Section::Answer, blocks, tail, sentences))
    }

    fn text(
        &self,
        section: Section,
        blocks: Vec<Block>,
        tail: Tail,
        sentences: Vec<String>,
    ) -> Update {
        Update::Text {
            section,
            blocks,
            tail,
            sentences,
            tokens_per_second: match self.stage {
                Stage::Writing { tokens_per_second } => tokens_per_second,
                Stage::Waiting { .. } | Stage::Loading { .. } | Stage::Prefill { .. } => None,
            },
        }
    }

    fn ended(&self, seen: &mut Seen) -> Update {
        let update = Update::Ended {
            reasoning: self.reasoning.sent()[seen.reasoning.n_blocks..].to_vec(),
            blocks: self.answer.sent()[seen.answer.n_blocks..].to_vec(),
            text: self.answer.source().to_owned(),
            ending: self.message.ending.clone(),
            stats: self.message.stats,
            sentences: self.unheard(seen),
        };
        *seen = self.all_seen();
        seen.has_end = true;
        update
    }

    /// Sentences that the follower has not been told; now it has.
    fn unheard(&self, seen: &mut Seen) -> Vec<String> {
        let unheard = self.sentences[seen.n_sentences..].to_vec();
        seen.n_sentences = self.sentences.len();
        unheard
    }

    fn all_seen(&self) -> Seen {
        Seen {
            has_snapshot: true,
            has_end: false,
            reasoning: SeenPart::all_of(&self.reasoning),
            answer: SeenPart::all_of(&self.answer),
            n_sentences: self.sentences.len(),
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

impl SeenPart {
    fn all_of(part: &Part) -> Self {
        Self {
            n_blocks: part.sent().len(),
            n_renders: part.n_renders(),
        }
    }

    /// The next blocks and the tail after them, marked as seen. Where not all blocks fit one
    /// update, the tail is left for the last of them.
    fn next_of(&mut self, part: &Part) -> Option<(Vec<Block>, Tail)> {
        if self.n_renders == part.n_renders() {
            return None;
        }
        let unseen = &part.sent()[self.n_blocks..];
        let mut n_bytes = part.tail().html.len();
        let n_sent = unseen
            .iter()
            .position(|block| {
                n_bytes += block.html.len();
                n_bytes > MAX_UPDATE_BYTES
            })
            .map_or(unseen.len(), |n| n.max(1));
        self.n_blocks += n_sent;
        if n_sent < unseen.len() {
            return Some((unseen[..n_sent].to_vec(), Tail::default()));
        }
        self.n_renders = part.n_renders();
        Some((unseen.to_vec(), part.tail().clone()))
    }
}
