//! The parent's side: starts workers, sends them commands, and receives their reports.

mod process;
mod protocol;
mod stderr_tail;
mod task;
#[cfg(feature = "test-support")]
mod test_support;
mod watchdog;

use std::io;
use std::os::unix::net;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc};

use crate::error::WorkerEnd;
use crate::wire::{Command, Report};

pub use process::ProcessWorkers;
#[cfg(feature = "test-support")]
pub use test_support::ThreadWorkers;
pub use watchdog::Timeouts;

/// Reports that are buffered for a reader. When the buffer is full, the child has to wait and joins
/// texts.
const N_BUFFERED_REPORTS: usize = 64;

/// The channels to a worker, which is a child process that can hold a model.
///
/// Dropping `commands` asks the worker to exit; `reports` then continues until
/// [`WorkerReport::Exited`]. Dropping both kills the worker.
#[derive(Debug)]
pub struct Worker {
    /// Takes commands; sending never waits. Do not send hellos and pings, which are sent
    /// automatically.
    pub commands: mpsc::UnboundedSender<Command>,
    /// Reports of the worker, in order. Bounded: if the reader lags, the child joins texts.
    pub reports: mpsc::Receiver<WorkerReport>,
    /// Kills the worker at once, whatever it is doing; [`WorkerReport::Exited`] follows.
    pub kill: KillSwitch,
}

/// Kills a worker when [`KillSwitch::kill`] is called. Clones belong to the same worker.
#[derive(Debug, Clone, Default)]
pub struct KillSwitch(Arc<Notify>);

impl KillSwitch {
    /// Kills the worker at once. Has no effect after it has exited.
    pub fn kill(&self) {
        self.0.notify_one();
    }

    /// Waits for a call of [`KillSwitch::kill`]; for workers that are not processes.
    #[cfg(feature = "test-support")]
    pub async fn killed(&self) {
        self.0.notified().await;
    }
}

/// A report about a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    /// A message of the worker. Hellos and pongs are not passed on.
    Message(Report),
    /// The worker was killed, but the system has not ended its process within [`Timeouts::kill`]:
    /// it hangs in a driver, or waits for a dead network share. [`WorkerReport::Exited`] follows if
    /// the process ever ends.
    Stuck {
        /// The process id.
        process_id: u32,
        /// The reason for the kill.
        end: WorkerEnd,
    },
    /// The process has exited and was reaped, so its memory is free again. No report follows.
    Exited(WorkerEnd),
}

/// Starts workers. The supervisor loads models only through this trait.
pub trait Workers: Send + Sync + 'static {
    /// Starts a worker and returns at once. Must be called within a Tokio runtime. A worker that
    /// cannot be started reports [`WorkerEnd::NotStarted`].
    fn start(&self) -> Worker;
}

/// The other ends of the channels of a [`Worker`], for its task.
struct WorkerChannels {
    commands: mpsc::UnboundedReceiver<Command>,
    reports: mpsc::Sender<WorkerReport>,
    kill: Arc<Notify>,
}

/// Returns the ends of a socket for the parent and the child.
fn socket_pair() -> io::Result<(UnixStream, net::UnixStream)> {
    let (parent_end, child_end) = net::UnixStream::pair()?;
    parent_end.set_nonblocking(true)?;
    Ok((UnixStream::from_std(parent_end)?, child_end))
}

/// Drives a child until it has exited, or reports why it could not be started.
async fn run<V: task::ChildHandle>(
    started: Result<(V, UnixStream), String>,
    timeouts: Timeouts,
    channels: WorkerChannels,
) {
    match started {
        Ok((child, stream)) => task::run(child, stream, timeouts, channels).await,
        Err(reason) => {
            let end = WorkerEnd::NotStarted { reason };
            // Fails only if the owner is gone.
            let _ = channels.reports.send(WorkerReport::Exited(end)).await;
        }
    }
}

impl Worker {
    fn new() -> (Self, WorkerChannels) {
        let (commands, receive_commands) = mpsc::unbounded_channel();
        let (send_reports, reports) = mpsc::channel(N_BUFFERED_REPORTS);
        let kill = KillSwitch::default();
        let channels = WorkerChannels {
            commands: receive_commands,
            reports: send_reports,
            kill: kill.0.clone(),
        };
        let worker = Self {
            commands,
            reports,
            kill,
        };
        (worker, channels)
    }
}
