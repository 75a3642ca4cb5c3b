//! The handle that programs use to talk to the supervisor. It consists of channels only.
//!
//! A [`Handle`] of this process and one that reaches another process through its socket have the
//! same type; they differ only in who reads the other end of the channel.
//!
//! Rule: no call waits for a model. Results arrive through a [`Response`] or a status.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use transom_engine::ConversationId;

use crate::governor::Tuning;
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::{self, RequestGuard, Response, ResponseWriter};
use crate::saving::Saving;
use crate::status::{Status, UnloadRecord};

/// Talks to a supervisor. Clones talk to the same supervisor, which runs at least until all of them
/// are dropped, unless it is told to quit.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) messages: mpsc::UnboundedSender<HandleMessage>,
    pub(crate) status: watch::Receiver<Arc<Status>>,
    /// Id of the next request. Locked while a request is sent, so that requests are sent in the
    /// order of their ids.
    next_id: Arc<Mutex<RequestId>>,
    shutdown_reason: ShutdownReason,
}

/// Why the supervisor accepts no more messages; set before the other end of the channel closes.
pub(crate) type ShutdownReason = Arc<OnceLock<RequestError>>;

/// A message from a [`Handle`] to the supervisor.
#[derive(Debug)]
pub(crate) enum HandleMessage {
    Submit(Box<ModelRequest>, ResponseWriter),
    Cancel(RequestId),
    Unload(ModelSelector, UnloadReply),
    SetTuning(Tuning),
    SetPaused(bool),
    /// Returns the status as of now, with up-to-date countdowns.
    GetStatus(oneshot::Sender<Arc<Status>>),
    /// Deletes saved KV caches and clears those in memory.
    ForgetConversations(Option<ConversationId>),
    /// Saves states in this folder, which is prepared and used by this supervisor only.
    SaveStatesIn(PathBuf, Saving),
    Quit,
}

pub(crate) type UnloadReply = oneshot::Sender<Result<Vec<UnloadRecord>, RequestError>>;

impl Handle {
    /// Returns a handle, the other end of its channel and its shutdown reason. Request ids count up
    /// from `first_id`.
    pub(crate) fn new(
        status: watch::Receiver<Arc<Status>>,
        first_id: RequestId,
    ) -> (Self, mpsc::UnboundedReceiver<HandleMessage>, ShutdownReason) {
        let (messages, receiver) = mpsc::unbounded_channel();
        let shutdown_reason = ShutdownReason::default();
        let handle = Self {
            messages,
            status,
            next_id: Arc::new(Mutex::new(first_id)),
            shutdown_reason: shutdown_reason.clone(),
        };
        (handle, receiver, shutdown_reason)
    }

    /// Submits a request. Never waits: if the supervisor is gone, the response ends with
    /// [`RequestError::Quitting`] or [`RequestError::InstanceGone`].
    pub fn submit(&self, request: ModelRequest) -> Response {
        let mut next_id = self.next_id.lock();
        let id = *next_id;
        next_id.0 += 1;
        self.submit_as(id, request, None)
    }

    /// Submits a request like [`Handle::submit`], with an id that the caller chose and never used
    /// before. `guard` is dropped when the request has ended.
    pub(crate) fn submit_as(
        &self,
        id: RequestId,
        request: ModelRequest,
        guard: Option<RequestGuard>,
    ) -> Response {
        let messages = self.messages.clone();
        let cancel = move || {
            // If the supervisor is gone, the request has ended.
            let _ = messages.send(HandleMessage::Cancel(id));
        };
        let (writer, response) = response::channel(id, cancel, guard);
        let message = HandleMessage::Submit(Box::new(request), writer);
        if let Err(mpsc::error::SendError(HandleMessage::Submit(_, writer))) =
            self.messages.send(message)
        {
            writer.fail(self.shutdown_error());
        }
        response
    }

    /// Unloads models and returns when they are gone, with one record for each model whose load had
    /// started. Ends their running response and fails the requests queued for them. The unload
    /// starts at once, even if the future is never awaited.
    ///
    /// # Errors
    /// [`RequestError::Quitting`] or [`RequestError::InstanceGone`] if the supervisor, and with it
    /// all models, is gone. [`RequestError::Stuck`] if a process does not end.
    pub fn unload(
        &self,
        which: ModelSelector,
    ) -> impl Future<Output = Result<Vec<UnloadRecord>, RequestError>> + Send + use<> {
        let (reply, gone) = oneshot::channel();
        // If the message cannot be sent, `reply` is dropped.
        let _ = self.messages.send(HandleMessage::Unload(which, reply));
        let handle = self.clone();
        async move { gone.await.unwrap_or_else(|_| Err(handle.shutdown_error())) }
    }

    /// Applies new settings at once. They never end a running response.
    pub fn set_tuning(&self, tuning: Tuning) {
        let _ = self.messages.send(HandleMessage::SetTuning(tuning));
    }

    /// Pauses all models, or resumes. While paused, the running response is finished and every
    /// model is unloaded. Queued and new requests start when the user resumes; those with
    /// [`crate::WhenBlocked::Refuse`] fail. The pause ends with the supervisor.
    pub fn set_paused(&self, is_paused: bool) {
        let _ = self.messages.send(HandleMessage::SetPaused(is_paused));
    }

    /// Deletes what the supervisor keeps of this conversation, or of all (`None`): the saved KV
    /// caches, and those of loaded models (if a model is generating, after its response), which are
    /// cleared for all conversations. Models stay loaded. Returns at once.
    pub fn forget_conversations(&self, id: Option<ConversationId>) {
        let _ = self.messages.send(HandleMessage::ForgetConversations(id));
    }

    /// Returns a receiver of the supervisor's status and its changes. Closed when the supervisor is
    /// gone.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// Returns the status as of now, with up-to-date countdowns. If the supervisor belongs to
    /// another process or is gone, returns the last published status.
    pub async fn current_status(&self) -> Arc<Status> {
        let (reply, status) = oneshot::channel();
        let _ = self.messages.send(HandleMessage::GetStatus(reply));
        let status = status.await;
        status.unwrap_or_else(|_| self.status.borrow().clone())
    }

    /// Cancels a request by id, for callers that do not have its [`Response`].
    pub(crate) fn cancel(&self, id: RequestId) {
        let _ = self.messages.send(HandleMessage::Cancel(id));
    }

    fn shutdown_error(&self) -> RequestError {
        let shutdown_reason = self.shutdown_reason.get().cloned();
        shutdown_reason.unwrap_or_else(|| RequestError::InstanceGone {
            reason: "it no longer responds".to_owned(),
        })
    }
}
