//! The child's side: the main loop of the process that runs a model.
//!
//! There are three threads: the reader receives commands, the calling thread runs the engine, and
//! the writer sends reports. Rule: only the calling thread uses the model, and it never waits for
//! the parent. When the parent is gone, the job is stopped, and the process exits within a second,
//! whatever the engine is doing.

mod engine_thread;
mod heartbeat;
mod inbox;
mod limits;
mod log;
mod outbox;
mod read_ahead;
mod template_memory;
mod turns;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use transom_engine::{Engine, TokenEvent};
use transom_signals::{MemoryPressureListener, ThreadQos, set_thread_qos};

use crate::frame::{self, FrameError, FrameReader};
use crate::wire::{Command, JobId, PROTOCOL, Report};

use engine_thread::EngineThread;
use heartbeat::Heartbeat;
use inbox::{Inbox, Task};
pub(crate) use log::FILTER_VARIABLE;
use outbox::Outbox;

/// The hidden subcommand that runs a program as the child process.
pub const SUBCOMMAND: &str = "engine-host";

/// How long the engine thread may take to finish after the parent is gone.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);

/// Exit code if standard input is not a socket, as when a person starts the program.
const EXIT_NOT_A_CHILD: u8 = 2;

/// Exit code after an invalid message of the parent or an error of the connection.
const EXIT_CONNECTION: u8 = 4;

/// Returns true if these arguments (first the name of the program) start the child process.
pub fn is_child_process(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let first = arguments.into_iter().nth(1);
    first.as_deref() == Some(OsStr::new(SUBCOMMAND))
}

/// Runs the child process until the parent is gone. Standard input must be a Unix socket to the
/// parent. `engines` are tried in order.
///
/// Returns exit code 0 if the parent closed the connection, 2 if standard input is not a socket,
/// and 4 if the connection failed. If a chat template takes too much memory, the process ends with
/// 5. The reason for 2, 4 and 5 is printed to standard error.
pub fn main(engines: Vec<Box<dyn Engine>>) -> ExitCode {
    log::start();
    limits::apply();
    template_memory::limit();
    let stream = match socket_from_stdin() {
        Ok(stream) => stream,
        Err(error) => {
            print_error(&format!(
                "error: `{SUBCOMMAND}` is for Transom's own use: standard input must be a socket \
                 to the program that started it ({error})"
            ));
            return ExitCode::from(EXIT_NOT_A_CHILD);
        }
    };
    // Exit handlers and destructors would free memory that the engine thread is using.
    let exit = || signal_hook::low_level::exit(0);
    match serve(stream, &engines, exit) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("error: {error}"));
            ExitCode::from(EXIT_CONNECTION)
        }
    }
}

/// Runs the loop of the child over `stream` until the parent is gone. The calling thread is the
/// engine thread.
///
/// If the engine thread has not finished 0.5 s after the parent is gone, another thread calls
/// `exit`.
///
/// # Errors
/// The error that made the connection unusable, other than its end.
pub fn serve(
    stream: UnixStream,
    engines: &[Box<dyn Engine>],
    exit: impl FnOnce() + Send,
) -> Result<(), FrameError> {
    let shared = Shared::default();
    let outbox = shared.outbox.clone();
    let _listener = MemoryPressureListener::start(move || outbox.push(Report::MemoryNotice));
    let read_stream = stream.try_clone()?;
    let (finished, has_finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let shared = &shared;
        let reader = scope.spawn(move || {
            let result = shared.read(read_stream);
            shared.inbox.close();
            if has_finished.recv_timeout(SETTLE_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                exit();
            }
            result
        });
        let writer = scope.spawn(move || shared.write(stream));
        // A person may be reading the response while it is generated.
        set_thread_qos(ThreadQos::UserInitiated);
        EngineThread::new(engines, shared).run();
        shared.outbox.close();
        let written = writer.join().unwrap_or_else(|_| Err(panicked("writer")));
        drop(finished);
        let read = reader.join().unwrap_or_else(|_| Err(panicked("reader")));
        read.and(written)
    })
}

#[derive(Default)]
struct Shared {
    inbox: Inbox,
    outbox: Arc<Outbox>,
    heartbeat: Heartbeat,
}

impl Shared {
    /// Reads and handles commands until the connection ends.
    fn read(&self, stream: UnixStream) -> Result<(), FrameError> {
        let mut frames = FrameReader::new(stream);
        match frames.read()? {
            Some(Command::Hello { protocol: PROTOCOL }) => {}
            // The parent has our hello too and reports that the program was replaced.
            Some(Command::Hello { .. }) | None => return Ok(()),
            Some(_) => {
                return Err(FrameError::Malformed {
                    reason: "the first message must be a hello".to_owned(),
                });
            }
        }
        while let Some(command) = frames.read()? {
            self.handle(command);
        }
        Ok(())
    }

    fn handle(&self, command: Command) {
        match command {
            Command::Hello { .. } => {}
            Command::Stop { job, reason } => self.inbox.stop(job, reason),
            Command::Ping { nonce } => {
                // A step may be long, but an engine that checks for a stop within it is not hung.
                self.inbox.beat_if_polled(|| self.heartbeat.beat());
                self.outbox.push(Report::Pong {
                    nonce,
                    silent_seconds: self.heartbeat.silent_seconds(),
                });
            }
            command => self.inbox.push(Task::new(command)),
        }
    }

    /// Reports an event of a job. Its end is reported as [`Report::JobEnded`].
    fn report_event(&self, job: JobId, event: TokenEvent) {
        if !matches!(event, TokenEvent::Finished { .. }) {
            self.heartbeat.beat();
            self.outbox.push(Report::Event { job, event });
        }
    }

    /// Sends reports until there are no more, or until the parent is gone.
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
            // The reader thread sees the same error and handles it.
            Err(FrameError::Io(_)) | Ok(()) => Ok(()),
            Err(error) => {
                // No report can be sent after this, so the parent must not wait for one.
                stream.shutdown(std::net::Shutdown::Both)?;
                Err(error)
            }
        }
    }
}

fn panicked(thread: &str) -> FrameError {
    io::Error::other(format!("the {thread} thread panicked")).into()
}

fn socket_from_stdin() -> io::Result<UnixStream> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Fails if it is not a connected Unix socket.
    stream.peer_addr()?;
    Ok(stream)
}

/// Prints a line to standard error, which the parent reads. Ignores a closed standard error.
fn print_error(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
