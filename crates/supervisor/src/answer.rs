//! The stream of one ask, from where the supervisor writes to where a shell reads.
//!
//! Rule: writing never waits. A reader that lags gets consecutive texts of a section joined and
//! only the latest progress, so what waits for it is never more than the answer itself.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use transom_engine::{FinishReason, LoadProgress, ModelInfo, Stats, TokenEvent};

use crate::governor::Because;
use crate::handle::Request;
use crate::request::{AskError, AskId};

/// One step in the life of an ask. [`AnswerEvent::Ended`] is always the last, and comes once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum AnswerEvent {
    /// It waits; told again whenever its position changes.
    Queued {
        /// Asks before it, the running one included.
        position: usize,
        /// Why nothing is answered at present; `None` when others are just first.
        held: Option<Because>,
    },
    /// Its model is being loaded.
    Loading {
        /// How far; `None` while older models make room or its files are read.
        progress: Option<LoadProgress>,
    },
    /// It goes on. Never carries [`TokenEvent::Finished`].
    Token {
        /// What happened.
        event: TokenEvent,
    },
    /// It is over.
    Ended {
        /// How.
        outcome: Outcome,
    },
}

/// How an ask ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// [`crate::Work::Load`]: the model is loaded.
    Loaded {
        /// What it is.
        info: Box<ModelInfo>,
    },
    /// [`crate::Work::Generate`]: the answer is complete, or was ended early for `reason`.
    Finished {
        /// Why it ended. Cancelled while still waiting: [`FinishReason::Canceled`] with empty
        /// figures.
        reason: FinishReason,
        /// What it took.
        stats: Stats,
    },
    /// There is no result, or only what was streamed so far.
    Failed {
        /// Why.
        error: AskError,
    },
}

/// The reading end of an ask. Dropping it before [`AnswerEvent::Ended`] was read cancels the ask.
#[derive(Debug)]
pub struct Answer {
    stream: Arc<Stream>,
    canceller: Canceller,
    is_over: bool,
}

/// Cancels its ask from any thread. Clones are of the same ask.
#[derive(Clone)]
pub struct Canceller {
    id: AskId,
    requests: mpsc::UnboundedSender<Request>,
}

/// The writing end. Dropped before it wrote [`AnswerEvent::Ended`], it ends the ask as one whose
/// supervisor is gone.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    id: AskId,
    stream: Arc<Stream>,
    /// Let go when the ask is over, whether or not anybody has read its end.
    _lease: Option<Lease>,
}

/// Something that lasts as long as an ask is open.
pub(crate) type Lease = Box<dyn fmt::Debug + Send>;

#[derive(Debug, Default)]
struct Stream {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Written and not yet read.
    unread: VecDeque<AnswerEvent>,
    has_ended: bool,
    is_unwanted: bool,
}

/// Both ends of the ask `id`, which is cancelled through `requests`.
pub(crate) fn channel(
    id: AskId,
    requests: mpsc::UnboundedSender<Request>,
    lease: Option<Lease>,
) -> (AnswerWriter, Answer) {
    let stream = Arc::<Stream>::default();
    let writer = AnswerWriter {
        id,
        stream: stream.clone(),
        _lease: lease,
    };
    let answer = Answer {
        stream,
        canceller: Canceller { id, requests },
        is_over: false,
    };
    (writer, answer)
}

impl Answer {
    /// The ask's name, as [`crate::Status`] mentions it.
    pub fn id(&self) -> AskId {
        self.canceller.id
    }

    /// Waits for the next event; `None` after [`AnswerEvent::Ended`]. Nothing is lost when the
    /// returned future is dropped.
    pub async fn next(&mut self) -> Option<AnswerEvent> {
        while !self.is_over {
            // The writer leaves a permit, so news between the look and the wait are not missed.
            let next = self.stream.state().unread.pop_front();
            if let Some(event) = next {
                self.is_over = matches!(event, AnswerEvent::Ended { .. });
                return Some(event);
            }
            self.stream.news.notified().await;
        }
        None
    }

    /// A way to cancel the ask while somebody waits for its events. Its end still comes.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut state = self.stream.state();
        state.is_unwanted = true;
        state.unread = VecDeque::new();
        let has_ended = state.has_ended;
        drop(state);
        if !has_ended {
            self.canceller.cancel();
        }
    }
}

impl Canceller {
    /// Asks the job to end after its running step. Without effect on an ask that is over.
    pub fn cancel(&self) {
        // A supervisor that is gone has ended the ask.
        let _ = self.requests.send(Request::Cancel(self.id));
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Canceller").field(&self.id).finish()
    }
}

impl AnswerWriter {
    /// The ask's name.
    pub(crate) fn id(&self) -> AskId {
        self.id
    }

    /// Hands `event` to the reader. Nothing may be written after [`AnswerEvent::Ended`]; it would
    /// be dropped.
    pub(crate) fn write(&self, event: AnswerEvent) {
        self.stream.state().push(event);
        self.stream.news.notify_one();
    }

    /// Ends the ask without a result.
    pub(crate) fn fail(self, error: AskError) {
        let outcome = Outcome::Failed { error };
        self.write(AnswerEvent::Ended { outcome });
    }
}

impl Drop for AnswerWriter {
    fn drop(&mut self) {
        let reason = "it ended before the answer did".to_owned();
        let error = AskError::InstanceGone { reason };
        let outcome = Outcome::Failed { error };
        // Dropped by `push` if the end was written, as it should have been.
        self.write(AnswerEvent::Ended { outcome });
    }
}

impl Stream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds `event`, joined with what was not yet read.
    fn push(&mut self, event: AnswerEvent) {
        if self.has_ended {
            return;
        }
        self.has_ended = matches!(event, AnswerEvent::Ended { .. });
        if self.is_unwanted {
            return;
        }
        match (self.unread.back_mut(), event) {
            (Some(AnswerEvent::Token { event: last }), AnswerEvent::Token { event }) => {
                if let Some(event) = join(last, event) {
                    self.unread.push_back(AnswerEvent::Token { event });
                }
            }
            (
                Some(last @ (AnswerEvent::Queued { .. } | AnswerEvent::Loading { .. })),
                event @ (AnswerEvent::Queued { .. } | AnswerEvent::Loading { .. }),
            ) => *last = event,
            (Some(_) | None, event) => self.unread.push_back(event),
        }
    }
}

/// Joins `event` to `last`, or returns it when it must stay an event of its own.
fn join(last: &mut TokenEvent, event: TokenEvent) -> Option<TokenEvent> {
    match (last, event) {
        (
            TokenEvent::Text {
                section,
                text,
                generated_tokens,
            },
            TokenEvent::Text {
                section: next_section,
                text: next_text,
                generated_tokens: latest,
            },
        ) if *section == next_section => {
            text.push_str(&next_text);
            *generated_tokens = latest;
        }
        (last @ TokenEvent::Prefill { .. }, event @ TokenEvent::Prefill { .. }) => *last = event,
        (_, event) => return Some(event),
    }
    None
}

#[cfg(test)]
mod tests;
