//! The task that drives one worker: a single `select!` waits for everything that can happen.
//!
//! The task is the same for a child process and for a thread of this process; [`ChildHandle`] hides
//! the difference. Rule: in every case the task sends exactly one [`WorkerReport::Exited`], as the
//! last report, and only after the worker has exited and was reaped. A killed worker is reported as
//! exited or as stuck within [`Timeouts::kill`], so its owner never waits longer than that.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::EngineError;

use crate::error::WorkerEnd;
use crate::frame::{self, FrameError, FrameReader};
use crate::wire::{Command, PROTOCOL, Report};
use crate::worker::protocol::{ProtocolState, Received};
use crate::worker::stderr_tail::StderrTail;
use crate::worker::watchdog::{Awaited, Timeouts, Watchdog, WatchdogAction};
use crate::worker::{WorkerChannels, WorkerReport};

/// How long to read the socket and standard error of a child that has exited: another process may
/// hold them open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of standard error that are read at a time.
const STDERR_CHUNK_BYTES: usize = 4096;

/// A handle of a child process, or of a thread that takes its place.
pub(super) trait ChildHandle: Send {
    /// Reads the standard error of the child.
    type Stderr: AsyncRead + Unpin + Send;

    /// Returns the standard error of the child; only the first call does.
    fn take_stderr(&mut self) -> Option<Self::Stderr>;

    /// Waits until the child exits and reaps it; cancel-safe. Returns an error that describes the
    /// exit unless the child exited with success.
    fn wait(&mut self) -> impl Future<Output = Result<(), String>> + Send;

    /// Returns the path of the program if it may not be one of ours. Its hello shows that it is.
    fn unverified_program(&self) -> Option<&Path> {
        None
    }

    fn process_id(&self) -> u32;

    fn kill(&mut self);
}

enum Wake {
    Killed,
    Command(Option<Command>),
    Delivered,
    Received(Result<Option<Report>, FrameError>),
    Written(std::io::Result<usize>),
    Stderr(usize),
    Exited(Result<(), String>),
    Deadline,
}

/// Drives a worker until it has exited, and reports that.
pub(super) async fn run<V: ChildHandle>(
    mut child: V,
    stream: UnixStream,
    timeouts: Timeouts,
    channels: WorkerChannels,
) {
    let stderr = child.take_stderr();
    let mut task = WorkerTask::new(stream, stderr, timeouts, channels);
    task.send(&Command::Hello { protocol: PROTOCOL });
    let run_end = task.run(&mut child).await;
    let end = task.reap(child, run_end).await;
    // Fails only if the owner is gone.
    let _ = task.channels.reports.send(WorkerReport::Exited(end)).await;
}

struct WorkerTask<E> {
    timeouts: Timeouts,
    protocol: ProtocolState,
    watchdog: Watchdog,
    /// Reports of the child; `None` once the child has closed the connection.
    frames: Option<FrameReader<OwnedReadHalf>>,
    /// Sends to the child; `None` once the child shall exit or no longer reads.
    writer: Option<OwnedWriteHalf>,
    /// Bytes that must still be sent to the child.
    unsent: VecDeque<u8>,
    /// Reports for which the channel to the owner has no room yet.
    undelivered: VecDeque<WorkerReport>,
    stderr: Option<E>,
    stderr_tail: StderrTail,
    /// The owner has asked the worker to exit.
    is_exit_requested: bool,
    /// When the child must have exited.
    exit_deadline: Option<Instant>,
    /// How the child exited, once it has.
    exit: Option<Result<(), String>>,
    /// When the rest of the socket and of standard error must have been read.
    drain_deadline: Option<Instant>,
    channels: WorkerChannels,
}

impl<E: AsyncRead + Unpin + Send> WorkerTask<E> {
    fn new(
        stream: UnixStream,
        stderr: Option<E>,
        timeouts: Timeouts,
        channels: WorkerChannels,
    ) -> Self {
        let (reading, writer) = stream.into_split();
        Self {
            timeouts,
            protocol: ProtocolState::default(),
            watchdog: Watchdog::new(timeouts),
            frames: Some(FrameReader::new(reading)),
            writer: Some(writer),
            unsent: VecDeque::new(),
            undelivered: VecDeque::new(),
            stderr,
            stderr_tail: StderrTail::default(),
            is_exit_requested: false,
            exit_deadline: None,
            exit: None,
            drain_deadline: None,
            channels,
        }
    }

    /// Waits until the child exits by itself. Returns an error that describes the exit unless the
    /// child exited with success.
    ///
    /// # Errors
    /// The reason why the child must be killed.
    async fn run(
        &mut self,
        child: &mut impl ChildHandle<Stderr = E>,
    ) -> Result<Result<(), String>, WorkerEnd> {
        let mut stderr_chunk = [0; STDERR_CHUNK_BYTES];
        loop {
            let is_drained = self.is_drained();
            if let Some(exit) = self.exit.take_if(|_| is_drained) {
                return Ok(exit);
            }
            let wake = self.next_wake(child, &mut stderr_chunk).await;
            self.handle(wake, &stderr_chunk)?;
        }
    }

    /// Waits for the next event. Commands are sent before reports are read, so a child that floods
    /// its socket can still be stopped. Reports are read before deadlines are checked, so a pong
    /// that is already in the socket is in time.
    async fn next_wake(
        &mut self,
        child: &mut impl ChildHandle<Stderr = E>,
        stderr_chunk: &mut [u8],
    ) -> Wake {
        let deadline = self.deadline();
        let has_undelivered = !self.undelivered.is_empty();
        let can_read = self.frames.is_some() && !has_undelivered;
        let can_write = self.writer.is_some() && !self.unsent.is_empty();
        tokio::select! {
            biased;
            () = self.channels.kill.notified() => Wake::Killed,
            () = self.channels.reports.closed(), if self.is_exit_requested => Wake::Killed,
            command = self.channels.commands.recv(), if !self.is_exit_requested => {
                Wake::Command(command)
            }
            () = deliver(&self.channels.reports, &mut self.undelivered), if has_undelivered => {
                Wake::Delivered
            }
            written = write(&mut self.writer, &self.unsent), if can_write => {
                Wake::Written(written)
            }
            message = next(&mut self.frames), if can_read => Wake::Received(message),
            n_bytes = read(&mut self.stderr, stderr_chunk), if self.stderr.is_some() => {
                Wake::Stderr(n_bytes)
            }
            exit = child.wait(), if self.exit.is_none() => Wake::Exited(exit),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Wake::Deadline
            }
        }
    }

    /// Handles an event.
    ///
    /// # Errors
    /// The reason why the worker must be killed.
    fn handle(&mut self, wake: Wake, stderr_chunk: &[u8]) -> Result<(), WorkerEnd> {
        match wake {
            Wake::Killed => return Err(WorkerEnd::Requested),
            Wake::Command(Some(command)) => self.send_command(&command)?,
            Wake::Command(None) => self.request_exit(),
            Wake::Delivered => {
                // The owner delayed the child, so the child gets its time again.
                self.drain_deadline = self.drain_deadline.map(|_| Instant::now() + DRAIN_TIMEOUT);
            }
            Wake::Received(message) => self.receive(message)?,
            Wake::Written(written) => self.written(written),
            Wake::Stderr(0) => self.stderr = None,
            Wake::Stderr(n_bytes) => self.stderr_tail.push(&stderr_chunk[..n_bytes]),
            Wake::Exited(exit) => {
                self.exit = Some(exit);
                self.drain_deadline = Some(Instant::now() + DRAIN_TIMEOUT);
                self.writer = None;
            }
            Wake::Deadline => self.tick()?,
        }
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.frames.is_none() && self.stderr.is_none() && self.undelivered.is_empty()
    }

    /// Returns when to wake although nothing has happened.
    fn deadline(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.exit.is_some() {
            return self.drain_deadline.filter(|_| self.undelivered.is_empty());
        }
        // Reports are not read while the owner lags, so nothing can be awaited.
        let awaited = match self.undelivered.is_empty() && self.exit_deadline.is_none() {
            true => self.protocol.awaited(),
            false => Awaited::Nothing,
        };
        self.watchdog.expect(awaited, now);
        self.exit_deadline
            .into_iter()
            .chain(self.watchdog.deadline())
            .min()
    }

    fn tick(&mut self) -> Result<(), WorkerEnd> {
        let now = Instant::now();
        if self.exit.is_some() {
            if self.drain_deadline.is_some_and(|by| by <= now) {
                self.frames = None;
                self.stderr = None;
            }
            return Ok(());
        }
        if self.exit_deadline.is_some_and(|by| by <= now) {
            return Err(match self.is_exit_requested {
                true => WorkerEnd::Requested,
                false => protocol_error("it closed its connection and did not exit"),
            });
        }
        match self.watchdog.tick(now) {
            Some(WatchdogAction::Ping { nonce }) => self.send(&Command::Ping { nonce }),
            Some(WatchdogAction::GiveUp { silence }) => {
                return Err(WorkerEnd::Unresponsive {
                    seconds: silence.as_secs(),
                });
            }
            None => {}
        }
        Ok(())
    }

    /// Sends a command of the owner. A request that cannot be sent fails without ending the worker.
    fn send_command(&mut self, command: &Command) -> Result<(), WorkerEnd> {
        let Some(job) = command.job() else {
            let frame = frame::encode(command);
            let frame = frame.map_err(|error| protocol_error(&error.to_string()))?;
            self.protocol.sent(command);
            self.unsent.extend(frame);
            return Ok(());
        };
        let checked = match command {
            // Values that JSON cannot represent, such as NaN, are out of range too.
            Command::Generate { request, .. } => request.params.validate(usize::MAX),
            _ => Ok(()),
        };
        let too_long = |error| EngineError::backend("sending the prompt", error);
        match checked.and_then(|()| frame::encode(command).map_err(too_long)) {
            Ok(frame) => {
                self.protocol.sent(command);
                self.unsent.extend(frame);
            }
            Err(error) => self
                .undelivered
                .push_back(WorkerReport::Message(Report::JobEnded {
                    job,
                    result: Err(error),
                })),
        }
        Ok(())
    }

    /// Sends a hello or a ping, which can always be encoded.
    fn send(&mut self, command: &Command) {
        self.unsent
            .extend(frame::encode(command).into_iter().flatten());
    }

    fn request_exit(&mut self) {
        self.is_exit_requested = true;
        self.exit_deadline = Some(Instant::now() + self.timeouts.exit);
        self.close_if_sent();
    }

    fn written(&mut self, result: std::io::Result<usize>) {
        match result {
            Ok(n_bytes) => {
                self.unsent.drain(..n_bytes);
                if self.unsent.is_empty() {
                    // The buffer of a long prompt must not stay for as long as the model.
                    self.unsent.shrink_to(STDERR_CHUNK_BYTES);
                }
                self.close_if_sent();
            }
            // The child is exiting. Its remaining output and its exit status tell why.
            Err(_) => self.writer = None,
        }
    }

    /// Closes the input of the child, which makes it exit, once everything was sent.
    fn close_if_sent(&mut self) {
        if self.is_exit_requested && self.unsent.is_empty() {
            self.writer = None;
        }
    }

    fn receive(&mut self, message: Result<Option<Report>, FrameError>) -> Result<(), WorkerEnd> {
        self.watchdog.message_received(Instant::now());
        let report = match message {
            Ok(Some(report)) => report,
            Err(FrameError::Io(_) | FrameError::Truncated) | Ok(None) => {
                self.frames = None;
                if self.exit.is_none() && self.exit_deadline.is_none() {
                    self.exit_deadline = Some(Instant::now() + self.timeouts.exit);
                }
                return Ok(());
            }
            Err(error) => return Err(protocol_error(&error.to_string())),
        };
        match self.protocol.receive(report) {
            Ok(Received::Report(report)) => {
                self.undelivered.push_back(WorkerReport::Message(report))
            }
            Ok(Received::Hello) => {}
            Ok(Received::Pong(silent_seconds)) => {
                let limit = self.timeouts.heartbeat.as_secs_f64();
                if silent_seconds > limit && self.protocol.awaited() == Awaited::Response {
                    return Err(WorkerEnd::Unresponsive {
                        seconds: silent_seconds as u64,
                    });
                }
            }
            Err(reason) => return Err(protocol_error(&reason)),
        }
        Ok(())
    }

    /// Kills the child if necessary, reaps it, and returns how it ended.
    async fn reap(
        &mut self,
        mut child: impl ChildHandle<Stderr = E>,
        run_end: Result<Result<(), String>, WorkerEnd>,
    ) -> WorkerEnd {
        // Closed first, because a thread has no other way to notice the end.
        self.frames = None;
        self.writer = None;
        let end = match run_end {
            Err(end) => {
                if self.exit.is_none() {
                    self.kill(&mut child, &end).await;
                }
                end
            }
            Ok(Ok(())) if self.is_exit_requested => WorkerEnd::Requested,
            Ok(exit) => WorkerEnd::Died {
                how: exit.err().unwrap_or_else(|| "exit code 0".to_owned()),
                stderr_tail: std::mem::take(&mut self.stderr_tail).finish(),
            },
        };
        match child.unverified_program() {
            Some(program) if self.protocol.awaited() == Awaited::Hello => {
                not_our_program(program, end)
            }
            _ => end,
        }
    }

    /// Kills the child and waits until it is reaped. Reports it as stuck if that takes too long.
    async fn kill(&mut self, child: &mut impl ChildHandle<Stderr = E>, end: &WorkerEnd) {
        child.kill();
        // The exit status of a killed child says nothing new.
        if timeout(self.timeouts.kill, child.wait()).await.is_ok() {
            return;
        }
        let stuck = WorkerReport::Stuck {
            process_id: child.process_id(),
            end: end.clone(),
        };
        // Fails only if the owner is gone.
        let _ = self.channels.reports.send(stuck).await;
        let _ = child.wait().await;
    }
}

/// Returns the error for a program that ended before its hello, so it may not be one of ours.
fn not_our_program(program: &Path, end: WorkerEnd) -> WorkerEnd {
    let what = match end {
        WorkerEnd::Requested | WorkerEnd::NotStarted { .. } => return end,
        WorkerEnd::Died { how, stderr_tail } => match stderr_tail.lines().last() {
            Some(line) => format!("it ended ({how}: {line})"),
            None => format!("it ended ({how})"),
        },
        WorkerEnd::Unresponsive { seconds } => format!("it sent nothing for {seconds} s"),
        WorkerEnd::Protocol { reason } => reason,
    };
    WorkerEnd::NotStarted {
        reason: format!(
            "{} is not Transom's program of this version, or is damaged: {what}",
            program.display()
        ),
    }
}

fn protocol_error(reason: &str) -> WorkerEnd {
    WorkerEnd::Protocol {
        reason: reason.to_owned(),
    }
}

/// Sends the oldest report to the owner once the channel has room. Drops all if the owner is gone.
async fn deliver(reports: &mpsc::Sender<WorkerReport>, undelivered: &mut VecDeque<WorkerReport>) {
    match reports.reserve().await {
        Ok(permit) => {
            if let Some(report) = undelivered.pop_front() {
                permit.send(report);
            }
        }
        Err(_) => undelivered.clear(),
    }
}

async fn next(
    frames: &mut Option<FrameReader<OwnedReadHalf>>,
) -> Result<Option<Report>, FrameError> {
    match frames {
        Some(frames) => frames.read_async().await,
        None => Ok(None),
    }
}

async fn write(
    writer: &mut Option<OwnedWriteHalf>,
    unsent: &VecDeque<u8>,
) -> std::io::Result<usize> {
    match writer {
        Some(writer) => writer.write(unsent.as_slices().0).await,
        None => Ok(0),
    }
}

/// Reads into `into` and returns the number of bytes; 0 at the end and after an error.
async fn read(from: &mut Option<impl AsyncRead + Unpin>, into: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(into).await.unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests;
