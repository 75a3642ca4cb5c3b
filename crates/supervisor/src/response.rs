//! The event stream of one request, from the supervisor to the program that reads it.
//!
//! Rule: writing never waits. For a slow reader, consecutive texts of a section are joined and only
//! the latest progress is kept, so the buffer is never larger than the response itself.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use transom_engine::{FinishReason, LoadProgress, ModelInfo, Stats, TokenEvent};

use crate::governor::LimitReason;
use crate::request::{RequestError, RequestId};

/// An event of a request. [`ResponseEvent::Ended`] is always the last and occurs once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum ResponseEvent {
    /// The request is queued; sent again whenever its position changes.
    Queued {
        /// Number of requests before it, including the running one.
        position: usize,
        /// Why no request may start at present; `None` if it only waits for its turn.
        blocked_by: Option<LimitReason>,
    },
    /// Its model is being loaded.
    Loading {
        /// Progress of the load; `None` while other models are unloaded or the files are measured.
        progress: Option<LoadProgress>,
    },
    /// The response continues. Never contains [`TokenEvent::Finished`].
    Token {
        /// The engine's event.
        event: TokenEvent,
    },
    /// The next text of [`crate::Work::Embed`] is embedded; they come in order.
    Embedded {
        /// Number of tokens of the text.
        n_tokens: usize,
        /// The vector, of length 1.
        #[serde(with = "transom_engine_host::frame::floats")]
        vector: Vec<f32>,
    },
    /// The request has ended.
    Ended {
        /// The result.
        outcome: Outcome,
    },
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// [`crate::Work::Load`]: the model is loaded.
    Loaded {
        /// Information about the model.
        info: Box<ModelInfo>,
    },
    /// [`crate::Work::Generate`] and [`crate::Work::Embed`]: the response is complete, or was ended
    /// early for `reason`.
    /// [`crate::Work::CountTokens`] and [`crate::Work::Tokenize`]: `stats` contain
    /// [`Stats::prompt_tokens`] and nothing else.
    Finished {
        /// Why it ended. A request canceled while queued has [`FinishReason::Canceled`] and empty
        /// statistics.
        reason: FinishReason,
        /// Statistics of the response.
        stats: Stats,
    },
    /// The request failed; only the text streamed so far is available.
    Failed {
        /// The error.
        error: RequestError,
    },
}

/// Reads the events of a request. If it is dropped before [`ResponseEvent::Ended`] was read, the
/// request is canceled.
#[derive(Debug)]
pub struct Response {
    stream: Arc<Stream>,
    cancel_handle: CancelHandle,
    is_over: bool,
}

/// Cancels a request from any thread. Clones cancel the same request.
#[derive(Clone)]
pub struct CancelHandle {
    id: RequestId,
    cancel: Arc<dyn Fn() + Send + Sync>,
}

/// Writes the events of a request. If it is dropped before [`ResponseEvent::Ended`] was written,
/// the request ends with [`RequestError::InstanceGone`].
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    id: RequestId,
    stream: Arc<Stream>,
    /// Dropped when the request has ended, whether or not the reader has read the end.
    _lease: Option<RequestGuard>,
}

/// A value that lives as long as a request is open.
pub(crate) type RequestGuard = Box<dyn fmt::Debug + Send>;

#[derive(Debug, Default)]
struct Stream {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Events not read yet.
    unread: VecDeque<ResponseEvent>,
    has_ended: bool,
    is_abandoned: bool,
}

/// Creates the writer and the reader of the request `id`, which `cancel` cancels.
pub(crate) fn channel(
    id: RequestId,
    cancel: impl Fn() + Send + Sync + 'static,
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
        cancel_handle: CancelHandle {
            id,
            cancel: Arc::new(cancel),
        },
        is_over: false,
    };
    (writer, response)
}

impl Response {
    /// Returns the id of the request, as in [`crate::Status`].
    pub fn id(&self) -> RequestId {
        self.cancel_handle.id
    }

    /// Waits for the next event; returns `None` after [`ResponseEvent::Ended`]. No event is lost if
    /// the returned future is dropped.
    pub async fn next(&mut self) -> Option<ResponseEvent> {
        while !self.is_over {
            // `notify_one` stores a permit, so an event written between the check and the wait is
            // not missed.
            let next = self.stream.state.lock().unread.pop_front();
            if let Some(event) = next {
                self.is_over = matches!(event, ResponseEvent::Ended { .. });
                return Some(event);
            }
            self.stream.changed.notified().await;
        }
        None
    }

    /// Returns a handle that cancels the request, for example while another task reads its events.
    /// The request still ends with [`ResponseEvent::Ended`].
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel_handle.clone()
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
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
    /// Tells the job to end after its current step. Does nothing if the request has ended.
    pub fn cancel(&self) {
        (self.cancel)();
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelHandle").field(&self.id).finish()
    }
}

impl ResponseWriter {
    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    /// Sends `event` to the reader. Events after [`ResponseEvent::Ended`] are dropped.
    pub(crate) fn write(&self, event: ResponseEvent) {
        self.stream.state.lock().push(event);
        self.stream.changed.notify_one();
    }

    pub(crate) fn fail(self, error: RequestError) {
        let outcome = Outcome::Failed { error };
        self.write(ResponseEvent::Ended { outcome });
    }
}

/// Sends `event` to the reader of the request `id`, and removes the writer after its end.
pub(crate) fn respond(
    open: &mut HashMap<RequestId, ResponseWriter>,
    id: RequestId,
    event: ResponseEvent,
) {
    let is_end = matches!(event, ResponseEvent::Ended { .. });
    if let Some(writer) = open.get(&id) {
        writer.write(event);
    }
    if is_end {
        open.remove(&id);
    }
}

impl Drop for ResponseWriter {
    fn drop(&mut self) {
        let reason = "it ended before the response did".to_owned();
        let error = RequestError::InstanceGone { reason };
        let outcome = Outcome::Failed { error };
        // `push` drops this if the end was already written, which is the normal case.
        self.write(ResponseEvent::Ended { outcome });
    }
}

impl State {
    /// Adds `event`, joining it with the last unread event if possible.
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
                if let Some(event) = last.join(event, usize::MAX) {
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

#[cfg(test)]
mod tests;
