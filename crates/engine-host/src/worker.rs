//! The parent's hold on a worker.

mod attend;
mod conversation;
mod last_words;
mod process;
#[cfg(feature = "test-support")]
mod thread;
mod watchdog;

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

use crate::error::WorkerEnd;
use crate::wire::{Command, Report};

pub use process::ProcessWorkers;
#[cfg(feature = "test-support")]
pub use thread::ThreadWorkers;
pub use watchdog::Patience;

/// Reports that wait for a reader before the child is made to wait, and joins texts.
const N_WAITING_REPORTS: usize = 64;

/// A worker: somewhere to send commands, and somewhere to hear from it.
///
/// Dropping `commands` tells it to end; `reports` then goes on until [`WorkerReport::Gone`].
/// Dropping both kills it.
#[derive(Debug)]
pub struct Worker {
    /// Takes commands; sending never waits. Hellos and pings are the worker's own business.
    pub commands: mpsc::UnboundedSender<Command>,
    /// What it says, in order. Bounded: a reader that lags makes the child join texts.
    pub reports: mpsc::Receiver<WorkerReport>,
    /// Ends it at once, whatever it is doing; [`WorkerReport::Gone`] follows.
    pub kill: KillSwitch,
}

/// Kills its worker when [`KillSwitch::kill`] is called. Clones are of the same worker.
#[derive(Debug, Clone, Default)]
pub struct KillSwitch(Arc<Notify>);

impl KillSwitch {
    /// Ends the worker at once. Without effect on one that is gone.
    pub fn kill(&self) {
        self.0.notify_one();
    }

    /// Waits for the kill; for workers that are no processes.
    #[cfg(feature = "test-support")]
    pub async fn killed(&self) {
        self.0.notified().await;
    }
}

/// What a worker says, and its end.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    /// It spoke. Hellos and pongs do not get here.
    Said(Report),
    /// It was killed, but the system has not ended its process within [`Patience::dying`]: it hangs
    /// in a driver, or waits for a dead network share. [`WorkerReport::Gone`] follows if it ever ends.
    Stuck {
        /// Id of the process.
        process_id: u32,
        /// Why it was killed.
        end: WorkerEnd,
    },
    /// It is gone and reaped; nothing follows. Its memory is the system's again.
    Gone(WorkerEnd),
}

/// Starts workers. The supervisor knows no other way to a model.
pub trait Workers: Send + Sync + 'static {
    /// Starts a worker; called within a Tokio runtime, returns at once. A worker that cannot be
    /// started reports [`WorkerEnd::NotStarted`].
    fn start(&self) -> Worker;
}

/// A worker's other ends, for its task.
struct Ends {
    commands: mpsc::UnboundedReceiver<Command>,
    reports: mpsc::Sender<WorkerReport>,
    kill: Arc<Notify>,
}

impl Worker {
    fn new() -> (Self, Ends) {
        let (commands, to_attend) = mpsc::unbounded_channel();
        let (told, reports) = mpsc::channel(N_WAITING_REPORTS);
        let kill = KillSwitch::default();
        let ends = Ends {
            commands: to_attend,
            reports: told,
            kill: kill.0.clone(),
        };
        let worker = Self {
            commands,
            reports,
            kill,
        };
        (worker, ends)
    }
}
