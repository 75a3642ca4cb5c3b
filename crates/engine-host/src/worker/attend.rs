//! The task beside a worker: everything that can wake it stands in one `select!`.
//!
//! It is the same for a child process and for a thread of this process; what differs is behind
//! [`Vessel`]. Rule: whatever happens, exactly one [`WorkerReport::Gone`] is sent, last, and only
//! when the worker is gone and reaped. A killed worker is reported as gone or as stuck within
//! [`Patience::dying`], so an owner never waits longer for either.

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
use crate::worker::conversation::{Conversation, Heard};
use crate::worker::last_words::LastWords;
use crate::worker::watchdog::{Bark, Due, Patience, Watchdog};
use crate::worker::{Ends, WorkerReport};

/// How long a dead child's socket and standard error may stay open: somebody else may hold them.
const DRAINING: Duration = Duration::from_secs(1);

/// Room for what the child prints at a time.
const STDERR_CHUNK_BYTES: usize = 4096;

/// What a worker runs in.
pub(super) trait Vessel: Send {
    /// What it prints for people.
    type Stderr: AsyncRead + Unpin + Send;

    /// Its standard error; given once.
    fn take_stderr(&mut self) -> Option<Self::Stderr>;

    /// Waits for its end and reaps it; cancel-safe. `Ok` if it ended without a complaint, else how
    /// it ended, in words.
    fn ended(&mut self) -> impl Future<Output = Result<(), String>> + Send;

    /// Its program, if that may be none of ours as long as it has not greeted.
    fn doubted_program(&self) -> Option<&Path> {
        None
    }

    /// Id of its process.
    fn process_id(&self) -> u32;

    /// Ends it without asking.
    fn kill(&mut self);
}

/// What can wake the task.
enum Wake {
    Killed,
    Command(Option<Command>),
    Delivered,
    Heard(Result<Option<Report>, FrameError>),
    Wrote(std::io::Result<usize>),
    Printed(usize),
    Ended(Result<(), String>),
    Deadline,
}

/// Why the loop is left.
enum Verdict {
    /// It ended by itself.
    Ended(Result<(), String>),
    /// It must be killed, and this is why.
    Kill(WorkerEnd),
}

/// Attends to a worker until it is gone.
pub(super) async fn attend<V: Vessel>(
    mut vessel: V,
    stream: UnixStream,
    patience: Patience,
    ends: Ends,
) {
    let stderr = vessel.take_stderr();
    let mut attendance = Attendance::new(stream, stderr, patience, ends);
    attendance.send(&Command::Hello { protocol: PROTOCOL });
    let verdict = attendance.run(&mut vessel).await;
    let end = attendance.bury(vessel, verdict).await;
    // An owner that is gone needs no telling.
    let _ = attendance.ends.reports.send(WorkerReport::Gone(end)).await;
}

struct Attendance<E> {
    patience: Patience,
    conversation: Conversation,
    watchdog: Watchdog,
    /// Where the child speaks; `None` once it has ended.
    frames: Option<FrameReader<OwnedReadHalf>>,
    /// Where the child listens; `None` once it shall leave or does not listen any more.
    writing: Option<OwnedWriteHalf>,
    /// Bytes on their way to the child.
    unsent: VecDeque<u8>,
    /// News that the owner has no room for yet.
    held: VecDeque<WorkerReport>,
    stderr: Option<E>,
    last_words: LastWords,
    /// Its owner told it to end.
    is_told: bool,
    /// When it must have left.
    leave_by: Option<Instant>,
    ended: Option<Result<(), String>>,
    /// When what it left behind must have been read.
    drained_by: Option<Instant>,
    ends: Ends,
}

impl<E: AsyncRead + Unpin + Send> Attendance<E> {
    fn new(stream: UnixStream, stderr: Option<E>, patience: Patience, ends: Ends) -> Self {
        let (reading, writing) = stream.into_split();
        Self {
            patience,
            conversation: Conversation::default(),
            watchdog: Watchdog::new(patience),
            frames: Some(FrameReader::new(reading)),
            writing: Some(writing),
            unsent: VecDeque::new(),
            held: VecDeque::new(),
            stderr,
            last_words: LastWords::default(),
            is_told: false,
            leave_by: None,
            ended: None,
            drained_by: None,
            ends,
        }
    }

    async fn run(&mut self, vessel: &mut impl Vessel<Stderr = E>) -> Verdict {
        let mut stderr_chunk = [0; STDERR_CHUNK_BYTES];
        loop {
            let is_drained = self.is_drained();
            if let Some(ended) = self.ended.take_if(|_| is_drained) {
                return Verdict::Ended(ended);
            }
            let wake = self.next_wake(vessel, &mut stderr_chunk).await;
            if let Err(end) = self.step(wake, &stderr_chunk) {
                return Verdict::Kill(end);
            }
        }
    }

    /// Waits for the next thing to happen. Commands leave before reports are read, so a child that
    /// floods its socket can still be stopped. Reports come before the clock, so that a pong that
    /// lies in the socket is in time.
    async fn next_wake(
        &mut self,
        vessel: &mut impl Vessel<Stderr = E>,
        stderr_chunk: &mut [u8],
    ) -> Wake {
        let deadline = self.deadline();
        let hears = self.frames.is_some() && self.held.is_empty();
        let can_write = self.writing.is_some() && !self.unsent.is_empty();
        tokio::select! {
            biased;
            () = self.ends.kill.notified() => Wake::Killed,
            () = self.ends.reports.closed(), if self.is_told => Wake::Killed,
            command = self.ends.commands.recv(), if !self.is_told => Wake::Command(command),
            () = deliver(&self.ends.reports, &mut self.held), if !self.held.is_empty() => {
                Wake::Delivered
            }
            written = write(&mut self.writing, &self.unsent), if can_write => {
                Wake::Wrote(written)
            }
            message = next(&mut self.frames), if hears => Wake::Heard(message),
            n_bytes = read(&mut self.stderr, stderr_chunk), if self.stderr.is_some() => {
                Wake::Printed(n_bytes)
            }
            ended = vessel.ended(), if self.ended.is_none() => Wake::Ended(ended),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Wake::Deadline
            }
        }
    }

    /// Does what a wake asks for.
    ///
    /// # Errors
    /// Why the worker must be killed.
    fn step(&mut self, wake: Wake, stderr_chunk: &[u8]) -> Result<(), WorkerEnd> {
        match wake {
            Wake::Killed => return Err(WorkerEnd::AsTold),
            Wake::Command(Some(command)) => self.command(&command)?,
            Wake::Command(None) => self.tell_to_leave(),
            Wake::Delivered => {
                // The owner made the child wait, and not the other way round.
                self.drained_by = self.drained_by.map(|_| Instant::now() + DRAINING);
            }
            Wake::Heard(message) => self.hear(message)?,
            Wake::Wrote(written) => self.wrote(written),
            Wake::Printed(0) => self.stderr = None,
            Wake::Printed(n_bytes) => self.last_words.push(&stderr_chunk[..n_bytes]),
            Wake::Ended(ended) => {
                self.ended = Some(ended);
                self.drained_by = Some(Instant::now() + DRAINING);
                self.writing = None;
            }
            Wake::Deadline => self.tick()?,
        }
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.frames.is_none() && self.stderr.is_none() && self.held.is_empty()
    }

    /// When to look again although nothing happened.
    fn deadline(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.ended.is_some() {
            return self.drained_by.filter(|_| self.held.is_empty());
        }
        // What the child says is not read while the owner lags, so nothing can be due from it.
        let due = match self.held.is_empty() && self.leave_by.is_none() {
            true => self.conversation.due(),
            false => Due::Nothing,
        };
        self.watchdog.expect(due, now);
        self.leave_by
            .into_iter()
            .chain(self.watchdog.deadline())
            .min()
    }

    fn tick(&mut self) -> Result<(), WorkerEnd> {
        let now = Instant::now();
        if self.ended.is_some() {
            if self.drained_by.is_some_and(|by| by <= now) {
                self.frames = None;
                self.stderr = None;
            }
            return Ok(());
        }
        if self.leave_by.is_some_and(|by| by <= now) {
            return Err(match self.is_told {
                true => WorkerEnd::AsTold,
                false => protocol("it closed its connection and did not leave"),
            });
        }
        match self.watchdog.tick(now) {
            Some(Bark::Ping { nonce }) => self.send(&Command::Ping { nonce }),
            Some(Bark::GiveUp { silence }) => {
                return Err(WorkerEnd::Unresponsive {
                    seconds: silence.as_secs(),
                });
            }
            None => {}
        }
        Ok(())
    }

    /// Sends the owner's command. One that cannot be sent fails alone if it is an ask.
    fn command(&mut self, command: &Command) -> Result<(), WorkerEnd> {
        if let Command::Generate { job, request } = command {
            // What JSON cannot carry, such as a temperature that is no number, is out of range too.
            let checked = request.params.validate(usize::MAX);
            let result = checked.and_then(|()| frame::encode(command).map_err(too_long));
            match result {
                Ok(frame) => {
                    self.conversation.ask(command);
                    self.unsent.extend(frame);
                }
                Err(error) => self.held.push_back(WorkerReport::Said(Report::JobEnded {
                    job: *job,
                    result: Err(error),
                })),
            }
            return Ok(());
        }
        let frame = frame::encode(command).map_err(|error| protocol(&error.to_string()))?;
        self.conversation.ask(command);
        self.unsent.extend(frame);
        Ok(())
    }

    /// Sends a message of the connection's own, which always has a frame.
    fn send(&mut self, command: &Command) {
        self.unsent
            .extend(frame::encode(command).into_iter().flatten());
    }

    fn tell_to_leave(&mut self) {
        self.is_told = true;
        self.leave_by = Some(Instant::now() + self.patience.leaving);
        self.close_if_sent();
    }

    fn wrote(&mut self, result: std::io::Result<usize>) {
        match result {
            Ok(n_bytes) => {
                self.unsent.drain(..n_bytes);
                if self.unsent.is_empty() {
                    // A long prompt must not stay here for as long as the model.
                    self.unsent.shrink_to(STDERR_CHUNK_BYTES);
                }
                self.close_if_sent();
            }
            // It is dying; what it still says and how it ended tell why.
            Err(_) => self.writing = None,
        }
    }

    /// The end of its input tells the child to leave.
    fn close_if_sent(&mut self) {
        if self.is_told && self.unsent.is_empty() {
            self.writing = None;
        }
    }

    fn hear(&mut self, message: Result<Option<Report>, FrameError>) -> Result<(), WorkerEnd> {
        self.watchdog.heard(Instant::now());
        let report = match message {
            Ok(Some(report)) => report,
            Err(FrameError::Io(_) | FrameError::Truncated) | Ok(None) => {
                self.frames = None;
                if self.ended.is_none() && self.leave_by.is_none() {
                    self.leave_by = Some(Instant::now() + self.patience.leaving);
                }
                return Ok(());
            }
            Err(error) => return Err(protocol(&error.to_string())),
        };
        match self.conversation.hear(report) {
            Ok(Heard::News(report)) => self.held.push_back(WorkerReport::Said(report)),
            Ok(Heard::Greeting) => {}
            Ok(Heard::Pong(silent_seconds)) => {
                let limit = self.patience.silent.as_secs_f64();
                if silent_seconds > limit && self.conversation.due() == Due::Answer {
                    return Err(WorkerEnd::Unresponsive {
                        seconds: silent_seconds as u64,
                    });
                }
            }
            Err(reason) => return Err(protocol(&reason)),
        }
        Ok(())
    }

    /// Ends and reaps what is left, and says how it came to its end.
    async fn bury(&mut self, mut vessel: impl Vessel<Stderr = E>, verdict: Verdict) -> WorkerEnd {
        // Closed first, since a thread has no other way to learn of it.
        self.frames = None;
        self.writing = None;
        let end = match verdict {
            Verdict::Kill(end) => {
                if self.ended.is_none() {
                    self.kill(&mut vessel, &end).await;
                }
                end
            }
            Verdict::Ended(Ok(())) if self.is_told => WorkerEnd::AsTold,
            Verdict::Ended(ended) => WorkerEnd::Died {
                how: ended.err().unwrap_or_else(|| "exit code 0".to_owned()),
                last_words: std::mem::take(&mut self.last_words).finish(),
            },
        };
        match vessel.doubted_program() {
            Some(program) if self.conversation.due() == Due::Greeting => not_ours(program, end),
            _ => end,
        }
    }

    /// Kills the worker and waits until it is reaped. Says so if that takes too long.
    async fn kill(&mut self, vessel: &mut impl Vessel<Stderr = E>, end: &WorkerEnd) {
        vessel.kill();
        // The way in which a killed worker ended is known.
        if timeout(self.patience.dying, vessel.ended()).await.is_ok() {
            return;
        }
        let stuck = WorkerReport::Stuck {
            process_id: vessel.process_id(),
            end: end.clone(),
        };
        // An owner that is gone needs no telling.
        let _ = self.ends.reports.send(stuck).await;
        let _ = vessel.ended().await;
    }
}

/// What to say of a program that came to its `end` before it greeted as one of ours does.
fn not_ours(program: &Path, end: WorkerEnd) -> WorkerEnd {
    let what = match end {
        WorkerEnd::AsTold | WorkerEnd::NotStarted { .. } => return end,
        WorkerEnd::Died { how, last_words } => match last_words.lines().last() {
            Some(line) => format!("it ended ({how}: {line})"),
            None => format!("it ended ({how})"),
        },
        WorkerEnd::Unresponsive { seconds } => format!("it said nothing for {seconds} s"),
        WorkerEnd::Protocol { reason } => reason,
    };
    WorkerEnd::NotStarted {
        reason: format!(
            "{} is not Transom's program of this version, or is damaged: {what}",
            program.display()
        ),
    }
}

fn protocol(reason: &str) -> WorkerEnd {
    WorkerEnd::Protocol {
        reason: reason.to_owned(),
    }
}

fn too_long(error: FrameError) -> EngineError {
    EngineError::Backend {
        during: "sending the prompt".to_owned(),
        message: error.to_string(),
    }
}

/// Hands the owner the oldest news, once it has room. All are forgotten if it listens no more.
async fn deliver(reports: &mpsc::Sender<WorkerReport>, held: &mut VecDeque<WorkerReport>) {
    match reports.reserve().await {
        Ok(permit) => {
            if let Some(report) = held.pop_front() {
                permit.send(report);
            }
        }
        Err(_) => held.clear(),
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
    writing: &mut Option<OwnedWriteHalf>,
    unsent: &VecDeque<u8>,
) -> std::io::Result<usize> {
    match writing {
        Some(writing) => writing.write(unsent.as_slices().0).await,
        None => Ok(0),
    }
}

/// Bytes read; none at the end, or when it cannot be read.
async fn read(from: &mut Option<impl AsyncRead + Unpin>, into: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(into).await.unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests;
