//! The stream of one ask, from where the supervisor writes to where a shell reads.
//!
//! Rule: writing never waits. A reader that lags gets consecutive texts of a section joined and
//! only the latest progress, so what waits for it is never more than the response itself.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use transom_engine::{FinishReason, LoadProgress, ModelInfo, Stats, TokenEvent};

use crate::governor::LimitReason;
use crate::handle::HandleMessage;
use crate::request::{RequestError, RequestId};

/// One step in the life of an ask. [`ResponseEvent::Ended`] is always the last, and comes once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ResponseEvent {
    /// It waits; told again whenever its position changes.
    Queued {
        /// Asks before it, the running one included.
        position: usize,
        /// Why nothing is answered at present; `None` when others are just first.
        #[serde(rename = "held")]
        blocked_by: Option<LimitReason>,
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
    /// [`crate::Work::Generate`]: the response is complete, or was ended early for `reason`.
    Finished {
        /// Why it ended. Cancelled while still waiting: [`FinishReason::Cancelled`] with empty
        /// figures.
        reason: FinishReason,
        /// What it took.
        stats: Stats,
    },
    /// There is no result, or only what was streamed so far.
    Failed {
        /// Why.
        error: RequestError,
    },
}

/// The reading end of an ask. Dropping it before [`ResponseEvent::Ended`] was read cancels the ask.
#[derive(Debug)]
pub struct Response {
    stream: Arc<Stream>,
    cancel_handle: CancelHandle,
    is_over: bool,
}

/// Cancels its ask from any thread. Clones are of the same ask.
#[derive(Clone)]
pub struct CancelHandle {
    id: RequestId,
    messages: mpsc::UnboundedSender<HandleMessage>,
}

/// The writing end. Dropped before it wrote [`ResponseEvent::Ended`], it ends the ask as one whose
/// supervisor is gone.
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    id: RequestId,
    stream: Arc<Stream>,
    /// Let go when the ask is over, whether or not anybody has read its end.
    _lease: Option<RequestGuard>,
}

/// Something that lasts as long as an ask is open.
pub(crate) type RequestGuard = Box<dyn fmt::Debug + Send>;

#[derive(Debug, Default)]
struct Stream {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Written and not yet read.
    unread: VecDeque<ResponseEvent>,
    has_ended: bool,
    is_abandoned: bool,
}

/// Both ends of the ask `id`, which is cancelled through `requests`.
pub(crate) fn channel(
    id: RequestId,
    messages: mpsc::UnboundedSender<HandleMessage>,
    guard: Option<RequestGuard>,
) -> (ResponseWriter, Response) {
    let stream = Arc::<Stream>::default();
    let writer = ResponseWriter {
        id,
        stream: stream.clone(),
        _lease: guard,
    };
    let response = Response {
        stream,
        cancel_handle: CancelHandle { id, messages },
        is_over: false,
    };
    (writer, response)
}

impl Response {
    /// The ask's name, as [`crate::Status`] mentions it.
    pub fn id(&self) -> RequestId {
        self.cancel_handle.id
    }

    /// Waits for the next event; `None` after [`ResponseEvent::Ended`]. Nothing is lost when the
    /// returned future is dropped.
    pub async fn next(&mut self) -> Option<ResponseEvent> {
        while !self.is_over {
            // The writer leaves a permit, so changed between the look and the wait are not missed.
            let next = self.stream.state().unread.pop_front();
            if let Some(event) = next {
                self.is_over = matches!(event, ResponseEvent::Ended { .. });
                return Some(event);
            }
            self.stream.changed.notified().await;
        }
        None
    }

    /// A way to cancel the ask while somebody waits for its events. Its end still comes.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel_handle.clone()
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        let mut state = self.stream.state();
        state.is_abandoned = true;
        state.unread = VecDeque::new();
        let has_ended = state.has_ended;
        drop(state);
        if !has_ended {
            self.cancel_handle.cancel();
        }
    }
}

impl CancelHandle {
    /// Asks the job to end after its running step. Without effect on an ask that is over.
    pub fn cancel(&self) {
        // A supervisor that is gone has ended the ask.
        let _ = self.messages.send(HandleMessage::Cancel(self.id));
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelHandle").field(&self.id).finish()
    }
}

impl ResponseWriter {
    /// The ask's name.
    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    /// Hands `event` to the reader. Nothing may be written after [`ResponseEvent::Ended`]; it would
    /// be dropped.
    pub(crate) fn write(&self, event: ResponseEvent) {
        self.stream.state().push(event);
        self.stream.changed.notify_one();
    }

    /// Ends the ask without a result.
    pub(crate) fn fail(self, error: RequestError) {
        let outcome = Outcome::Failed { error };
        self.write(ResponseEvent::Ended { outcome });
    }
}

impl Drop for ResponseWriter {
    fn drop(&mut self) {
        let reason = "it ended before the response did".to_owned();
        let error = RequestError::InstanceGone { reason };
        let outcome = Outcome::Failed { error };
        // Dropped by `push` if the end was written, as it should have been.
        self.write(ResponseEvent::Ended { outcome });
    }
}

impl Stream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds `event`, joined with what was not yet read.
    fn push(&mut self, event: ResponseEvent) {
        if self.has_ended {
            return;
        }
        self.has_ended = matches!(event, ResponseEvent::Ended { .. });
        if self.is_abandoned {
            return;
        }
        match (self.unread.back_mut(), event) {
            (Some(ResponseEvent::Token { event: last }), ResponseEvent::Token { event }) => {
                if let Some(event) = join(last, event) {
                    self.unread.push_back(ResponseEvent::Token { event });
                }
            }
            (
                Some(last @ (ResponseEvent::Queued { .. } | ResponseEvent::Loading { .. })),
                event @ (ResponseEvent::Queued { .. } | ResponseEvent::Loading { .. }),
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
