//! What a shell holds of the supervisor: channels, and nothing else.
//!
//! A [`Handle`] of this process and one that reaches another process through its socket are the
//! same type; they differ only in who reads the other end of the channel.
//!
//! Rule: no call waits for a model. What is asked is answered through an [`Answer`] or a status.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use transom_engine_host::Workers;
use transom_signals::{Hardware, SignalSource};

use crate::answer::{self, Answer, AnswerWriter, Lease};
use crate::driver::{self, StayAwake};
use crate::governor::Tuning;
use crate::request::{Ask, AskError, AskId, Unload};
use crate::status::{Status, UnloadRecord};

/// The supervisor, as shells know it. Clones speak to the same one, which lives at least as long
/// as they do unless it is told to quit.
#[derive(Debug, Clone)]
pub struct Handle {
    requests: mpsc::UnboundedSender<Request>,
    status: watch::Receiver<Arc<Status>>,
    /// The next ask's name. Held while an ask is sent, so that asks are sent in their names' order.
    next_id: Arc<Mutex<AskId>>,
    farewell: Farewell,
}

/// Why nothing is answered any more; set before the other end of the channel closes.
pub(crate) type Farewell = Arc<OnceLock<AskError>>;

/// What shells ask for.
#[derive(Debug)]
pub(crate) enum Request {
    Ask(Box<Ask>, AnswerWriter),
    Cancel(AskId),
    Unload(Unload, Reply<Result<Vec<UnloadRecord>, AskError>>),
    Tune(Tuning),
    Pause(bool),
    /// A snapshot of this moment, so that what counts down is right.
    Look(Reply<Arc<Status>>),
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
        first_id: AskId,
    ) -> (Self, mpsc::UnboundedReceiver<Request>, Farewell) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let farewell = Farewell::default();
        let handle = Self {
            requests,
            status,
            next_id: Arc::new(Mutex::new(first_id)),
            farewell: farewell.clone(),
        };
        (handle, receiver, farewell)
    }

    /// Asks for a model or an answer. Never waits: where the supervisor is gone, the answer ends
    /// with [`AskError::Quitting`] or [`AskError::InstanceGone`].
    pub fn ask(&self, ask: Ask) -> Answer {
        let mut next_id = self.next_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = *next_id;
        next_id.0 += 1;
        self.ask_as(id, ask, None)
    }

    /// As [`Handle::ask`], under a name that the caller chose and never chose before.
    pub(crate) fn ask_as(&self, id: AskId, ask: Ask, lease: Option<Lease>) -> Answer {
        let (writer, answer) = answer::channel(id, self.requests.clone(), lease);
        let request = Request::Ask(Box::new(ask), writer);
        if let Err(mpsc::error::SendError(Request::Ask(_, writer))) = self.requests.send(request) {
            writer.fail(self.farewell());
        }
        answer
    }

    /// Has models unloaded, beginning at once, also when the result is not waited for: ends the answers of theirs that
    /// run and the asks that wait, and returns what came back when they are gone, one record for
    /// each model that had begun to load.
    ///
    /// # Errors
    /// [`AskError::Quitting`] or [`AskError::InstanceGone`] when the supervisor is gone; then so
    /// are its models.
    pub fn unload(
        &self,
        which: Unload,
    ) -> impl Future<Output = Result<Vec<UnloadRecord>, AskError>> + Send + use<> {
        let (reply, gone) = oneshot::channel();
        // A request that cannot be sent drops `reply`.
        let _ = self.requests.send(Request::Unload(which, reply));
        let handle = self.clone();
        async move { gone.await.unwrap_or_else(|_| Err(handle.farewell())) }
    }

    /// Sets what the user chose. It takes effect at once, but never ends a running answer.
    pub fn tune(&self, tuning: Tuning) {
        let _ = self.requests.send(Request::Tune(tuning));
    }

    /// Pauses everything, or lets it go on. Paused: the running answer is finished, then every model
    /// is unloaded; what waits and what is asked from now on waits, and begins when it goes on
    /// ([`crate::WhenHeld::Refuse`]: is refused). It ends with the supervisor.
    pub fn pause(&self, is_paused: bool) {
        let _ = self.requests.send(Request::Pause(is_paused));
    }

    /// Has every conversation forgotten that the supervisor holds beside its callers: saved states on
    /// disk, and the KV caches of loaded models, of a model that is answering when it has answered.
    /// Models stay loaded. Returns at once.
    pub fn forget_conversations(&self) {
        let _ = self.requests.send(Request::ForgetConversations);
    }

    /// The supervisor's state, and every change of it. Closed when the supervisor is gone.
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// The state at this very moment, where times that run down are right; of another process's
    /// supervisor, and of one that is gone, the last one published.
    pub async fn look(&self) -> Arc<Status> {
        let (reply, seen) = oneshot::channel();
        let _ = self.requests.send(Request::Look(reply));
        let seen = seen.await;
        seen.unwrap_or_else(|_| self.status.borrow().clone())
    }

    /// Cancels an ask by name, for whoever does not hold its answer.
    pub(crate) fn cancel(&self, id: AskId) {
        let _ = self.requests.send(Request::Cancel(id));
    }

    fn farewell(&self) -> AskError {
        let farewell = self.farewell.get().cloned();
        farewell.unwrap_or_else(|| AskError::InstanceGone {
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
        let stay_awake: StayAwake = Box::new(|| Box::new(driver::stay_awake()));
        Self::start_with(workers, signals, hardware, tuning, stay_awake)
    }

    /// As [`Supervisor::start`], keeping the machine awake in another way.
    pub(crate) fn start_with(
        workers: Arc<dyn Workers>,
        signals: Arc<dyn SignalSource>,
        hardware: &Hardware,
        tuning: Tuning,
        stay_awake: StayAwake,
    ) -> Self {
        let (handle, driver) = driver::prepare(workers, signals, hardware, tuning, stay_awake);
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
        let _ = self.handle.requests.send(Request::SaveStatesIn(folder));
    }

    /// Quits as [`Supervisor::quit`] does, for whoever does not own it.
    pub(crate) fn quitting(&self) -> impl Future<Output = ()> + Send + use<> {
        let Handle {
            requests,
            mut status,
            ..
        } = self.handle();
        async move {
            // A driver that is gone already has quit.
            let _ = requests.send(Request::Quit);
            while status.changed().await.is_ok() {}
        }
    }

    /// Ends it: running answers end as cancelled, waiting asks as [`AskError::Quitting`], every
    /// model is unloaded. Returns when every process is gone.
    pub async fn quit(self) {
        // A driver that is gone already has quit.
        let _ = self.handle.requests.send(Request::Quit);
        if let Err(error) = self.driver.await {
            tracing::error!(%error, "the supervisor did not end in order");
        }
    }
}
