//! The other side of the socket: a handle whose requests another process answers.
//!
//! Rule: whatever happens to the connection, every open ask ends, with [`AskError::InstanceGone`]
//! if nothing else is known.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use transom_engine::EngineError;
use transom_engine_host::frame::{self, FrameError, FrameReader};

use super::InstanceError;
use super::folder::{self, own_user_id};
use super::protocol::{Hello, ToClient, ToServer, Welcome};
use crate::answer::{AnswerEvent, AnswerWriter};
use crate::handle::{Farewell, Handle, Reply, Request};
use crate::request::{AskError, AskId};
use crate::status::{Status, UnloadRecord};

/// How long the running instance may take to greet and to show its status.
const GREETING: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Failed {
    /// Nobody listens, or not any more; with what was noticed.
    Nobody(String),
    /// Somebody listens but does not answer as an instance does.
    Silent(String),
    /// It is of this other version.
    OtherVersion(String),
    /// It takes nobody in, for this reason.
    Refused(String),
    /// It ends when the requests of its clients are answered.
    Closing,
    /// It is this other user's.
    Stranger(u32),
}

impl Failed {
    /// As people are told.
    pub(super) fn explain(self, data_folder: &Path) -> InstanceError {
        let process_id = folder::last_owner(data_folder);
        match self {
            Self::Nobody(reason) | Self::Silent(reason) => {
                InstanceError::Silent { reason, process_id }
            }
            Self::OtherVersion(theirs) => InstanceError::OtherVersion {
                theirs,
                ours: Hello::own().spoken_version(),
                process_id,
            },
            Self::Refused(reason) => InstanceError::Refused { reason, process_id },
            Self::Closing => InstanceError::Refused {
                reason: "it is just ending".to_owned(),
                process_id,
            },
            Self::Stranger(user) => InstanceError::Unsafe {
                path: data_folder.to_owned(),
                fault: format!("has a socket on which another user (id {user}) answers"),
            },
        }
    }
}

/// Connects to the instance at `socket`.
pub(super) async fn connect(socket: &Path) -> Result<Handle, Failed> {
    let greeted = timeout(GREETING, greet(socket)).await;
    greeted.unwrap_or_else(|_| Err(Failed::Silent("it did not greet in time".to_owned())))
}

async fn greet(socket: &Path) -> Result<Handle, Failed> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::WouldBlock => {
            Failed::Nobody("it is just starting, or just ending".to_owned())
        }
        _ => Failed::Silent(error.to_string()),
    })?;
    let peer = stream.peer_cred().map_err(gone)?;
    if peer.uid() != own_user_id() {
        return Err(Failed::Stranger(peer.uid()));
    }
    let (from, mut to) = stream.into_split();
    let ours = Hello::own();
    let written = frame::write_async(&mut to, &ours).await;
    written.map_err(|error| said_nothing(&error))?;
    let mut from = FrameReader::new(from);
    let theirs: Hello = next(&mut from).await?;
    if !ours.agrees_with(&theirs) {
        return Err(Failed::OtherVersion(theirs.spoken_version()));
    }
    let first_id = match theirs.welcome {
        Some(Welcome::From(first_id)) => first_id,
        Some(Welcome::Refused(reason)) => return Err(Failed::Refused(reason)),
        Some(Welcome::Closing) => return Err(Failed::Closing),
        None => return Err(Failed::Silent("it gave no welcome".to_owned())),
    };
    let ToClient::Status { status } = next(&mut from).await? else {
        return Err(Failed::Silent("it did not show its status".to_owned()));
    };
    Ok(begin(from, to, first_id, *status))
}

async fn next<T: serde::de::DeserializeOwned>(
    from: &mut FrameReader<OwnedReadHalf>,
) -> Result<T, Failed> {
    let message = from.read_async().await;
    let message = message.map_err(|error| said_nothing(&error))?;
    message.ok_or_else(|| Failed::Nobody("it closed the connection".to_owned()))
}

fn said_nothing(error: &FrameError) -> Failed {
    match error {
        FrameError::Io(_) | FrameError::Truncated => Failed::Nobody(error.to_string()),
        FrameError::TooLong { .. } | FrameError::Malformed { .. } => {
            Failed::Silent(error.to_string())
        }
    }
}

fn gone(error: io::Error) -> Failed {
    Failed::Nobody(error.to_string())
}

fn begin(
    from: FrameReader<OwnedReadHalf>,
    to: OwnedWriteHalf,
    first_id: AskId,
    status: Status,
) -> Handle {
    let (sender, status) = watch::channel(Arc::new(status));
    let (handle, requests, farewell) = Handle::new(status, first_id);
    let open = Arc::<Open>::default();
    // Ends with the last handle; then the other side ends the connection, and with it `hear`.
    let speaking = tokio::spawn(speak(requests, to, open.clone()));
    tokio::spawn(async move {
        let reason = hear(from, &sender, &open).await;
        open.end(&reason, &farewell);
        speaking.abort();
    });
    handle
}

/// What was asked and is not over.
#[derive(Default)]
struct Open {
    requests: Mutex<OpenRequests>,
}

#[derive(Default)]
struct OpenRequests {
    answers: HashMap<AskId, AnswerWriter>,
    unloads: HashMap<u64, Reply<Result<Vec<UnloadRecord>, AskError>>>,
    n_unloads: u64,
    /// Set when nothing can be asked any more.
    gone: Option<AskError>,
}

impl Open {
    fn requests(&self) -> MutexGuard<'_, OpenRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all that is open, and all that comes.
    fn end(&self, reason: &str, farewell: &Farewell) {
        let reason = reason.to_owned();
        let error = AskError::InstanceGone { reason };
        // Set only here, once a connection.
        let _ = farewell.set(error.clone());
        let mut requests = self.requests();
        requests.gone = Some(error.clone());
        let answers = std::mem::take(&mut requests.answers);
        let unloads = std::mem::take(&mut requests.unloads);
        drop(requests);
        for writer in answers.into_values() {
            writer.fail(error.clone());
        }
        for reply in unloads.into_values() {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Notes what is asked, and returns how the other side is told; nothing to tell where it is
    /// over at once.
    fn note(&self, request: Request) -> Option<ToServer> {
        let mut requests = self.requests();
        match (request, requests.gone.clone()) {
            (Request::Ask(_, writer), Some(error)) => {
                drop(requests);
                writer.fail(error);
                None
            }
            (Request::Ask(ask, writer), None) => {
                let id = writer.id();
                requests.answers.insert(id, writer);
                Some(ToServer::Ask { id, ask })
            }
            (Request::Unload(_, reply), Some(error)) => {
                drop(reply.send(Err(error)));
                None
            }
            (Request::Unload(which, reply), None) => {
                requests.n_unloads += 1;
                let number = requests.n_unloads;
                requests.unloads.insert(number, reply);
                Some(ToServer::Unload { number, which })
            }
            (Request::Cancel(id), _) => Some(ToServer::Cancel { id }),
            (Request::Tune(tuning), _) => Some(ToServer::Tune { tuning }),
            (Request::Pause(is_paused), _) => Some(ToServer::Pause { is_paused }),
            (Request::ForgetConversations, _) => Some(ToServer::ForgetConversations),
            // Only the owner looks at its own state, saves states and quits.
            (Request::Look(_) | Request::SaveStatesIn(_) | Request::Quit, _) => None,
        }
    }

    /// Ends an ask that cannot be sent.
    fn refuse(&self, id: AskId, bytes: usize) {
        let writer = self.requests().answers.remove(&id);
        if let Some(writer) = writer {
            let source = EngineError::InvalidParameter {
                name: "prompt".into(),
                value: format!("{bytes} bytes long"),
                expected: format!(
                    "at most {} bytes",
                    transom_engine_host::wire::MAX_FRAME_BYTES
                )
                .into(),
            };
            writer.fail(AskError::Engine { source });
        }
    }

    fn answer(&self, id: AskId, event: AnswerEvent) {
        let mut requests = self.requests();
        if matches!(event, AnswerEvent::Ended { .. }) {
            let writer = requests.answers.remove(&id);
            drop(requests);
            if let Some(writer) = writer {
                writer.write(event);
            }
        } else if let Some(writer) = requests.answers.get(&id) {
            writer.write(event);
        }
    }
}

/// Sends requests until the last handle is gone or the connection fails.
async fn speak(
    mut requests: mpsc::UnboundedReceiver<Request>,
    mut to: OwnedWriteHalf,
    open: Arc<Open>,
) {
    while let Some(request) = requests.recv().await {
        let Some(message) = open.note(request) else {
            continue;
        };
        match (frame::encode(&message), message) {
            (Ok(frame), _) => {
                if to.write_all(&frame).await.is_err() {
                    // Whoever hears notices as well, and ends what is open.
                    return;
                }
            }
            (Err(FrameError::TooLong { bytes }), ToServer::Ask { id, .. }) => {
                open.refuse(id, bytes);
            }
            (Err(error), _) => tracing::error!(%error, "a request could not be written"),
        }
    }
}

/// Hands on what the other side says, until it is gone; returns what was noticed.
async fn hear(
    mut from: FrameReader<OwnedReadHalf>,
    status: &watch::Sender<Arc<Status>>,
    open: &Open,
) -> String {
    loop {
        match from.read_async().await {
            Ok(Some(ToClient::Status { status: news })) => {
                // One that was overtaken on its way is old.
                status.send_if_modified(|status| {
                    let is_newer = news.revision > status.revision;
                    if is_newer {
                        *status = Arc::from(news);
                    }
                    is_newer
                });
            }
            Ok(Some(ToClient::Answer { id, event })) => open.answer(id, event),
            Ok(Some(ToClient::Unloaded { number, result })) => {
                let reply = open.requests().unloads.remove(&number);
                if let Some(reply) = reply {
                    // Whoever asked may have gone.
                    let _ = reply.send(result);
                }
            }
            Ok(Some(ToClient::Unknown)) => {}
            Ok(None) => return "it closed the connection".to_owned(),
            Err(error) => return error.to_string(),
        }
    }
}
