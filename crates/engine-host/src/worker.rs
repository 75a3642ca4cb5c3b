//! The parent's hold on a worker.

mod process;

use tokio::sync::mpsc;

use crate::error::WorkerEnd;
use crate::wire::{Command, Report};

pub use process::ProcessWorkers;

/// A worker: somewhere to send commands, and somewhere to hear from it.
///
/// Dropping `commands` tells it to end; `reports` then goes on until [`WorkerReport::Gone`].
/// Dropping both kills it.
#[derive(Debug)]
pub struct Worker {
    /// Takes commands; sending never waits.
    pub commands: mpsc::UnboundedSender<Command>,
    /// What it says, in order. Bounded: a reader that lags makes the child join texts.
    pub reports: mpsc::Receiver<WorkerReport>,
    /// Ends it at once, whatever it is doing; [`WorkerReport::Gone`] follows.
    pub kill: KillSwitch,
}

/// Kills its worker when [`KillSwitch::kill`] is called. Clones are of the same worker.
#[derive(Debug, Clone)]
pub struct KillSwitch(std::sync::Arc<tokio::sync::Notify>);

/// What a worker says, and its end.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    /// It spoke. Hellos and pongs do not get here.
    Said(Report),
    /// It is gone and reaped; nothing follows. Its memory is the system's again.
    Gone(WorkerEnd),
}

/// Starts workers. The supervisor knows no other way to a model.
pub trait Workers: Send + Sync + 'static {
    /// Starts a worker; called within a Tokio runtime, returns at once. A worker that cannot be
    /// started reports [`WorkerEnd::NotStarted`].
    fn start(&self) -> Worker;
}
