//! The child's side: the main loop of the process that a model lives in.
//!
//! Three threads: the reader takes commands, the calling thread runs the engine, the writer sends
//! reports. Rule: only the calling thread touches the model, and it never waits for the parent.
//! When the parent is gone the job is stopped, and the process leaves within a second, whatever the
//! engine is doing.

mod engine_thread;
mod inbox;
mod limits;
mod log;
mod outbox;
mod pulse;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use transom_engine::Engine;
use transom_signals::{MemoryNotices, Urgency, set_thread_urgency};

use crate::frame::{self, FrameError, FrameReader};
use crate::wire::{Command, PROTOCOL, Report};

use engine_thread::EngineThread;
use inbox::{Inbox, Task};
pub(crate) use log::FILTER_VARIABLE;
use outbox::Outbox;
use pulse::Pulse;

/// First argument of a program that shall be the child: a hidden subcommand.
pub const SUBCOMMAND: &str = "engine-host";

/// How long the engine's thread may take to settle once the parent is gone.
const GRACE: Duration = Duration::from_millis(500);

/// The program was started by hand, or its standard input cannot be used.
const EXIT_NOT_A_CHILD: u8 = 2;

/// The parent said something that makes no sense, or the connection broke.
const EXIT_CONNECTION: u8 = 4;

/// Whether these arguments of a program (its name first) ask it to be the child.
pub fn is_asked_for(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let first = arguments.into_iter().nth(1);
    first.as_deref() == Some(OsStr::new(SUBCOMMAND))
}

/// Is the child until the parent is gone, speaking over standard input, which must be a Unix
/// socket. `engines` are tried in order.
///
/// The exit code is 0 when the parent ended the connection, 2 when standard input is no socket, and
/// 4 when the connection failed; the last two say why on standard error.
pub fn main(engines: Vec<Box<dyn Engine>>) -> ExitCode {
    log::start();
    limits::apply();
    let stream = match socket_from_stdin() {
        Ok(stream) => stream,
        Err(error) => {
            say(&format!(
                "error: `{SUBCOMMAND}` is for Transom's own use: standard input must be a socket \
                 to the program that started it ({error})"
            ));
            return ExitCode::from(EXIT_NOT_A_CHILD);
        }
    };
    // Exit handlers and destructors would free what the engine's thread is using.
    let leave = || signal_hook::low_level::exit(0);
    match serve(stream, &engines, leave) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(EXIT_CONNECTION)
        }
    }
}

/// Runs the child's loop over `stream` until the parent is gone, on the calling thread.
///
/// `leave` is called, on another thread, when the parent is gone and the engine has not settled
/// within 0.5 s.
///
/// # Errors
/// What made the connection unusable, other than its end.
pub fn serve(
    stream: UnixStream,
    engines: &[Box<dyn Engine>],
    leave: impl FnOnce() + Send,
) -> Result<(), FrameError> {
    let shared = Shared {
        inbox: Inbox::default(),
        outbox: Arc::default(),
        pulse: Pulse::new(),
    };
    let of_notices = shared.outbox.clone();
    let _notices = MemoryNotices::listen(move || of_notices.push(Report::MemoryNotice));
    let reading = stream.try_clone()?;
    let (settled, has_settled) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let shared = &shared;
        let reader = scope.spawn(move || {
            let result = shared.read(reading);
            shared.inbox.close();
            if has_settled.recv_timeout(GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
                leave();
            }
            result
        });
        let writer = scope.spawn(move || shared.write(stream));
        // Somebody is reading along (D098).
        set_thread_urgency(Urgency::UserInitiated);
        EngineThread::new(engines, shared).run();
        shared.outbox.close();
        let written = writer.join().unwrap_or_else(|_| Err(broken("writer")));
        drop(settled);
        let read = reader.join().unwrap_or_else(|_| Err(broken("reader")));
        read.and(written)
    })
}

/// What the three threads share.
struct Shared {
    inbox: Inbox,
    outbox: Arc<Outbox>,
    pulse: Pulse,
}

impl Shared {
    /// Takes commands until the connection ends.
    fn read(&self, stream: UnixStream) -> Result<(), FrameError> {
        let mut frames = FrameReader::new(stream);
        match frames.read()? {
            Some(Command::Hello { protocol: PROTOCOL }) => {}
            // The parent has our hello too, and says that the program was replaced.
            Some(Command::Hello { .. }) | None => return Ok(()),
            Some(_) => {
                return Err(FrameError::Malformed {
                    reason: "a hello must come first".to_owned(),
                });
            }
        }
        while let Some(command) = frames.read()? {
            self.obey(command);
        }
        Ok(())
    }

    fn obey(&self, command: Command) {
        match command {
            Command::Hello { .. } => {}
            Command::Measure { source, limits } => {
                self.inbox.push(Task::Measure(source, limits));
            }
            Command::Load {
                source,
                limits,
                state,
            } => {
                let control = transom_engine::JobControl::new();
                self.inbox.push(Task::Load(source, limits, state, control));
            }
            Command::Generate { job, request } => {
                let control = transom_engine::JobControl::new();
                self.inbox.push(Task::Generate(job, request, control));
            }
            Command::Stop { job, reason } => self.inbox.stop(job, reason),
            Command::Trim { trim } => self.inbox.push(Task::Trim(trim)),
            Command::Unload { state } => self.inbox.push(Task::Unload(state)),
            Command::Ping { nonce } => {
                // A step may be long, but one that looks for a stop goes on.
                self.inbox.beat_if_polled(|| self.pulse.beat());
                self.outbox.push(Report::Pong {
                    nonce,
                    silent_seconds: self.pulse.silent_seconds(),
                });
            }
        }
    }

    /// Sends reports until there are no more, or nobody reads them.
    fn write(&self, mut stream: UnixStream) -> Result<(), FrameError> {
        let hello = Report::Hello { protocol: PROTOCOL };
        let mut result = frame::write(&mut stream, &hello);
        while result.is_ok()
            && let Some(report) = self.outbox.take()
        {
            result = frame::write(&mut stream, &report);
        }
        self.outbox.abandon();
        match result {
            // The reader's thread sees the same end, and decides what it means.
            Err(FrameError::Io(_)) | Ok(()) => Ok(()),
            Err(error) => {
                // Nothing more can be said, so the parent must not wait for it.
                stream.shutdown(std::net::Shutdown::Both)?;
                Err(error)
            }
        }
    }
}

fn broken(thread: &str) -> FrameError {
    io::Error::other(format!("the {thread} thread panicked")).into()
}

fn socket_from_stdin() -> io::Result<UnixStream> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Fails on anything that is not a connected Unix socket.
    stream.peer_addr()?;
    Ok(stream)
}

/// A line on standard error, which the parent keeps as last words. Nobody may be listening.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
