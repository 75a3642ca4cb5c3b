//! One client's connection: a task that reads, one that writes, and one for each thing it waits for.
//!
//! Rule: the writer alone keeps the connection. The reader's end takes with it all that the client
//! had asked for, and with the last sender the writer ends.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use transom_engine_host::frame::{self, FrameError, FrameReader};
use transom_engine_host::wire::MAX_FRAME_BYTES;

use super::super::folder::own_user_id;
use super::super::protocol::{Hello, MAX_HELLO_BYTES, ToClient, ToServer, Welcome};
use super::Desk;
use crate::answer::{Answer, AnswerEvent, Lease, Outcome};
use crate::handle::Handle;
use crate::request::{Ask, AskError, AskId, Unload};
use crate::status::Status;

/// How long a client may take to greet.
const GREETING: Duration = Duration::from_secs(5);

/// Answers of one client that are open or not yet read; more are not taken up until it reads.
const MOST_OPEN: usize = 1024;

/// Asks of one client are named from its number, in these upper bits.
const NUMBER_SHIFT: u32 = 32;

/// Serves a client until it goes away, or until the supervisor quits and it has read all. Fails
/// with what the client did wrong.
pub(super) async fn attend(
    stream: UnixStream,
    number: u64,
    greeting: OwnedSemaphorePermit,
    desk: Arc<Desk>,
) -> Result<(), &'static str> {
    let peer = stream.peer_cred().map_err(|_| "nobody knows who it is")?;
    if peer.uid() != own_user_id() {
        return Err("it is another user's");
    }
    let first_id = AskId(number << NUMBER_SHIFT);
    let (from, mut to) = stream.into_split();
    let mut from = FrameReader::new(from);
    from.set_limit(MAX_HELLO_BYTES);
    let theirs = timeout(GREETING, from.read_async::<Hello>()).await;
    let theirs = match theirs.map_err(|_| "it did not greet in time")? {
        Ok(Some(hello)) => hello,
        Ok(None) => return Ok(()),
        Err(error) => return Err(fault(&error)),
    };
    drop(greeting);
    from.set_limit(MAX_FRAME_BYTES);
    let ours = Hello::own();
    let agrees = theirs.agrees_with(&ours);
    let is_closing = desk.asks.borrow().is_closing;
    let seat = desk.seats.clone().try_acquire_owned().ok();
    let welcome = match &seat {
        _ if is_closing => Welcome::Closing,
        Some(_) => Welcome::From(first_id),
        None => Welcome::Refused(format!("{} programs use it already", super::MOST_GUESTS)),
    };
    let hello = Hello {
        welcome: Some(welcome),
        ..ours
    };
    write(&mut to, &hello).await?;
    if !agrees {
        return Err("it is of another version");
    }
    if is_closing {
        return Ok(());
    }
    let Some(_seat) = seat else {
        return Err("there are too many");
    };
    converse(from, to, first_id, desk).await
}

async fn converse(
    from: FrameReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    first_id: AskId,
    desk: Arc<Desk>,
) -> Result<(), &'static str> {
    // Nothing waits here but the answers themselves, which join what is not yet read.
    let (out, mut outbox) = mpsc::channel(1);
    let fault = Arc::<OnceLock<&'static str>>::default();
    let of_reader = fault.clone();
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        let mut guest = Guest {
            desk,
            out: out.downgrade(),
            first_id,
            next_id: first_id,
            end_id: AskId(first_id.0 + (1 << NUMBER_SHIFT)),
            open: JoinSet::new(),
        };
        guest.show_status(out);
        if let Err(fault) = guest.read(from).await {
            of_reader.get_or_init(|| fault);
        }
    });
    while let Some(message) = outbox.recv().await {
        write(&mut to, &message).await?;
    }
    fault.get().map_or(Ok(()), |fault| Err(*fault))
}

/// What a client has open.
struct Guest {
    desk: Arc<Desk>,
    /// Alive while there is a supervisor whose status is shown.
    out: mpsc::WeakSender<ToClient>,
    /// Names of its asks: those that it used, and those that it may still use.
    first_id: AskId,
    next_id: AskId,
    end_id: AskId,
    open: JoinSet<()>,
}

impl Guest {
    /// Shows the state of this moment and then every change, the latest if the client lags.
    fn show_status(&mut self, out: mpsc::Sender<ToClient>) {
        let handle = self.desk.handle.clone();
        self.open.spawn(async move {
            let mut receiver = handle.status();
            let mut status = handle.look().await;
            drop(handle);
            loop {
                let shown = status.revision;
                if out.send(show(&status)).await.is_err() {
                    return;
                }
                while status.revision <= shown {
                    if receiver.changed().await.is_err() {
                        return;
                    }
                    status = receiver.borrow_and_update().clone();
                }
            }
        });
    }

    async fn read(&mut self, mut from: FrameReader<OwnedReadHalf>) -> Result<(), &'static str> {
        while let Some(message) = from.read_async().await.map_err(|error| fault(&error))? {
            while self.open.try_join_next().is_some() {}
            while self.open.len() > MOST_OPEN {
                self.open.join_next().await;
            }
            let Some(out) = self.out.upgrade() else {
                return Ok(());
            };
            match message {
                ToServer::Ask { id, ask } => {
                    if !(self.next_id..self.end_id).contains(&id) {
                        return Err("it used a name that is not its own");
                    }
                    self.next_id = AskId(id.0 + 1);
                    self.ask(id, *ask, out);
                }
                ToServer::Cancel { id } if (self.first_id..self.next_id).contains(&id) => {
                    self.desk.handle.cancel(id);
                }
                // Not its own, or never asked.
                ToServer::Cancel { .. } => {}
                ToServer::Unload { number, which } => self.unload(number, which, out),
                ToServer::Pause { is_paused } => self.desk.handle.pause(is_paused),
                ToServer::Tune { tuning } => self.desk.handle.tune(tuning),
                ToServer::Unknown => {}
                ToServer::ForgetConversations => self.desk.handle.forget_conversations(),
            }
        }
        Ok(())
    }

    /// Asks at once, so that asks and cancels keep their order; the answer is passed on meanwhile.
    fn ask(&mut self, id: AskId, ask: Ask, out: mpsc::Sender<ToClient>) {
        let handle = self.desk.handle.clone();
        let answer = self.desk.open_ask().map(|lease| {
            let lease: Lease = Box::new(lease);
            handle.ask_as(id, ask, Some(lease))
        });
        self.open.spawn(async move {
            match answer {
                Some(answer) => pass_on(answer, &handle, &out).await,
                None => {
                    let error = AskError::Quitting;
                    let outcome = Outcome::Failed { error };
                    let event = AnswerEvent::Ended { outcome };
                    // A client that is gone needs no answer.
                    let _ = out.send(ToClient::Answer { id, event }).await;
                }
            }
        });
    }

    fn unload(&mut self, number: u64, which: Unload, out: mpsc::Sender<ToClient>) {
        let unload = self.desk.handle.unload(which);
        self.open.spawn(async move {
            let result = unload.await;
            let _ = out.send(ToClient::Unloaded { number, result }).await;
        });
    }
}

/// Passes an answer on to a client, and with its end the status that the end led to.
async fn pass_on(mut answer: Answer, handle: &Handle, out: &mpsc::Sender<ToClient>) {
    let id = answer.id();
    while let Some(event) = answer.next().await {
        if matches!(event, AnswerEvent::Ended { .. }) {
            // Published before the end was written, and read in the same order.
            let status = show(&handle.status().borrow());
            let _ = out.send(status).await;
        }
        if out.send(ToClient::Answer { id, event }).await.is_err() {
            return;
        }
    }
}

fn show(status: &Status) -> ToClient {
    ToClient::Status {
        status: Box::new(status.clone()),
    }
}

async fn write<T: serde::Serialize>(
    to: &mut OwnedWriteHalf,
    message: &T,
) -> Result<(), &'static str> {
    let frame = frame::encode(message).map_err(|error| fault(&error))?;
    // A client that is gone is no fault of anybody.
    let _ = to.write_all(&frame).await;
    Ok(())
}

/// What went wrong, without the words of the message.
fn fault(error: &FrameError) -> &'static str {
    match error {
        FrameError::TooLong { .. } => "its message is too long",
        FrameError::Truncated => "it ended within a message",
        FrameError::Malformed { .. } => "its message makes no sense",
        FrameError::Io(_) => "the connection failed",
    }
}
