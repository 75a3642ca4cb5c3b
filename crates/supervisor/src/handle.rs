//! What a shell holds of the supervisor: channels, and nothing else.
//!
//! A [`Handle`] of this process and one that reaches another process through its socket are the
//! same type; they differ only in who reads the other end of the channel.
//!
//! Rule: no call waits for a model. What is asked is answered through an [`Response`] or a status.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use transom_engine_host::Workers;
use transom_signals::{Hardware, SignalSource};

use crate::driver::{self, KeepAwakeFn};
use crate::governor::Tuning;
use crate::request::{ModelRequest, ModelSelector, RequestError, RequestId};
use crate::response::{self, RequestGuard, Response, ResponseWriter};
use crate::status::{Status, UnloadRecord};

/// The supervisor, as shells know it. Clones speak to the same one, which lives at least as long
/// as they do unless it is told to quit.
#[derive(Debug, Clone)]
pub struct Handle {
    messages: mpsc::UnboundedSender<HandleMessage>,
    status: watch::Receiver<Arc<Status>>,
    /// The next ask's name. Held while an ask is sent, so that asks are sent in their names' order.
    next_id: Arc<Mutex<RequestId>>,
    shutdown_reason: ShutdownReason,
}

/// Why nothing is answered any more; set before the other end of the channel closes.
pub(crate) type ShutdownReason = Arc<OnceLock<RequestError>>;

/// What shells ask for.
#[derive(Debug)]
pub(crate) enum HandleMessage {
    Submit(Box<ModelRequest>, ResponseWriter),
    Cancel(RequestId),
    Unload(
        ModelSelector,
        Reply<Result<Vec<UnloadRecord>, RequestError>>,
    ),
    SetTuning(Tuning),
    SetPaused(bool),
    /// A snapshot of this moment, so that what counts down is right.
    GetStatus(Reply<Arc<Status>>),
    /// Nothing may be left of any conversation.
    ForgetConversations,
    /// States may be saved in this folder, which is prepared, and this supervisor's alone.
    SaveStatesIn(PathBuf),
    Quit,
}

/// Where an answer goes that comes once.
pub(crate) type Reply<T> = oneshot::Sender<T>;

impl Handle {
    /// A handle and the other end of its channel. Its asks are named from `first_id` on.
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

    /// Asks for a model or an answer. Never waits: where the supervisor is gone, the answer ends
    /// with [`RequestError::Quitting`] or [`RequestError::InstanceGone`].
    pub fn submit(&self, request: ModelRequest) -> Response {
        let mut next_id = self.next_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = *next_id;
        next_id.0 += 1;
        self.submit_as(id, request, None)
    }

    /// As [`Handle::ask`], under a name that the caller chose and never chose before.
    pub(crate) fn submit_as(
        &self,
        id: RequestId,
        request: ModelRequest,
        guard: Option<RequestGuard>,
    ) -> Response {
        let (writer, response) = response::channel(id, self.messages.clone(), guard);
        let message = HandleMessage::Submit(Box::new(request), writer);
        if let Err(mpsc::error::SendError(HandleMessage::Submit(_, writer))) =
            self.messages.send(message)
        {
            writer.fail(self.shutdown_error());
        }
        response
    }

    /// Has models unloaded, beginning at once, also when the result is not waited for: ends the answers of theirs that
    /// run and the asks that wait, and returns what came back when they are gone, one record for
    /// each model that had begun to load.
    ///
    /// # Errors
    /// [`RequestError::Quitting`] or [`RequestError::InstanceGone`] when the supervisor is gone; then so
    /// are its models.
    pub fn unload(
        &self,
        which: ModelSelector,
    ) -> impl Future<Output = Result<Vec<UnloadRecord>, RequestError>> + Send + use<> {
        let (reply, gone) = oneshot::channel();
        // A request that cannot be sent drops `reply`.
        let _ = self.messages.send(HandleMessage::Unload(which, reply));
        let handle = self.clone();
        async move { gone.await.unwrap_or_else(|_| Err(handle.shutdown_error())) }
    }

    /// Sets what the user chose. It takes effect at once, but never ends a running answer.
    pub fn set_tuning(&self, tuning: Tuning) {
        let _ = self.messages.send(HandleMessage::SetTuning(tuning));
    }

    /// Pauses everything, or lets it go on. Paused: the running answer is finished, then every model
    /// is unloaded; what waits and what is asked from now on waits, and begins when it goes on
    /// ([`crate::WhenBlocked::Refuse`]: is refused). It ends with the supervisor.
    pub fn set_paused(&self, is_paused: bool) {
        let _ = self.messages.send(HandleMessage::SetPaused(is_paused));
    }

    /// Has every conversation forgotten that the supervisor holds beside its callers: saved states on
    /// disk, and the KV caches of loaded models, of a model that is answering when it has answered.
    /// Models stay loaded. Returns at once.
    pub fn forget_conversations(&self) {
        let _ = self.messages.send(HandleMessage::ForgetConversations);
    }

    /// The supervisor's state, and every change of it. Closed when the supervisor is gone.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// The state at this very moment, where times that run down are right; of another process's
    /// supervisor, and of one that is gone, the last one published.
    pub async fn current_status(&self) -> Arc<Status> {
        let (reply, status) = oneshot::channel();
        let _ = self.messages.send(HandleMessage::GetStatus(reply));
        let status = status.await;
        status.unwrap_or_else(|_| self.status.borrow().clone())
    }

    /// Cancels an ask by name, for whoever does not hold its answer.
    pub(crate) fn cancel(&self, id: RequestId) {
        let _ = self.messages.send(HandleMessage::Cancel(id));
    }

    fn shutdown_error(&self) -> RequestError {
        let shutdown_reason = self.shutdown_reason.get().cloned();
        shutdown_reason.unwrap_or_else(|| RequestError::InstanceGone {
            reason: "it no longer answers".to_owned(),
        })
    }
}

/// A running supervisor of this process.
///
/// Dropping it leaves it running until the last [`Handle`] is dropped; then it quits by itself.
#[derive(Debug)]
pub struct Supervisor {
    handle: Handle,
    driver: JoinHandle<()>,
}

impl Supervisor {
    /// Starts a supervisor; to be called within a Tokio runtime, whose clock it goes by. Starts no
    /// worker before one is needed. Conversations go with their models, unless it is started by
    /// [`crate::instance::open`], which has a folder for them.
    pub fn start(
        workers: Arc<dyn Workers>,
        signals: Arc<dyn SignalSource>,
        hardware: &Hardware,
        tuning: Tuning,
    ) -> Self {
        let keep_awake: KeepAwakeFn = Box::new(|| Box::new(driver::keep_awake()));
        Self::start_with(workers, signals, hardware, tuning, keep_awake)
    }

    /// As [`Supervisor::start`], keeping the machine awake in another way.
    pub(crate) fn start_with(
        workers: Arc<dyn Workers>,
        signals: Arc<dyn SignalSource>,
        hardware: &Hardware,
        tuning: Tuning,
        keep_awake: KeepAwakeFn,
    ) -> Self {
        let (handle, driver) = driver::prepare(workers, signals, hardware, tuning, keep_awake);
        Self {
            handle,
            driver: tokio::spawn(driver.run()),
        }
    }

    /// A handle of it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// From now on the states of unloaded models are saved in `folder`, which must be the user's
    /// alone and this supervisor's. Without it they are lost with their models.
    pub(crate) fn save_states_in(&self, folder: PathBuf) {
        // A driver that is gone saves nothing.
        let _ = self
            .handle
            .messages
            .send(HandleMessage::SaveStatesIn(folder));
    }

    /// Quits as [`Supervisor::quit`] does, for whoever does not own it.
    pub(crate) fn quit_detached(&self) -> impl Future<Output = ()> + Send + use<> {
        let Handle {
            messages,
            mut status,
            ..
        } = self.handle();
        async move {
            // A driver that is gone already has quit.
            let _ = messages.send(HandleMessage::Quit);
            while status.changed().await.is_ok() {}
        }
    }

    /// Ends it: running answers end as cancelled, waiting asks as [`RequestError::Quitting`], every
    /// model is unloaded. Returns when every process is gone.
    pub async fn quit(self) {
        // A driver that is gone already has quit.
        let _ = self.handle.messages.send(HandleMessage::Quit);
        if let Err(error) = self.driver.await {
            tracing::error!(%error, "the supervisor did not end in order");
        }
    }
}
