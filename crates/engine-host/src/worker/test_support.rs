//! Workers that are threads of this process, for tests of other crates.
//!
//! They use a socket and run the loop of the child, so only the process is missing. There is no
//! watchdog, because a paused clock would reach its deadline while a real thread works. Rule: a
//! kill only closes the socket. A thread cannot be killed, so its engine must check its
//! `JobControl`.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::Empty;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use transom_engine::Engine;

use crate::child;
use crate::worker::task::ChildHandle;
use crate::worker::{self, Timeouts, Worker, Workers};

type MakeEngines = Arc<dyn Fn() -> Vec<Box<dyn Engine>> + Send + Sync>;

/// Starts each worker as a thread.
#[derive(Clone)]
pub struct ThreadWorkers {
    engines: MakeEngines,
}

impl ThreadWorkers {
    /// Creates workers with the engines that `engines` returns. Each worker calls it once, on its
    /// thread.
    pub fn new(engines: impl Fn() -> Vec<Box<dyn Engine>> + Send + Sync + 'static) -> Self {
        Self {
            engines: Arc::new(engines),
        }
    }

    fn spawn(&self) -> std::io::Result<(Thread, UnixStream)> {
        let (parent_end, child_end) = worker::socket_pair()?;
        let engines = self.engines.clone();
        let (send_end, end) = oneshot::channel();
        std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                let result = child::serve(child_end, &engines(), || {});
                // Fails if the worker was killed, because then nobody waits for the thread.
                let _ = send_end.send(result.map_err(|error| error.to_string()));
            })?;
        Ok((Thread(Some(end)), parent_end))
    }
}

impl Workers for ThreadWorkers {
    fn start(&self) -> Worker {
        let (worker, channels) = Worker::new();
        let started = self.spawn().map_err(|error| error.to_string());
        tokio::spawn(worker::run(started, UNLIMITED, channels));
        worker
    }
}

/// Timeouts that are longer than any test, in real and in simulated time.
const UNLIMITED: Timeouts = {
    let year = Duration::from_secs(365 * 24 * 3600);
    Timeouts {
        hello: year,
        ping_interval: year,
        message: year,
        heartbeat: year,
        exit: year,
        kill: year,
    }
};

/// Receives the result of a thread; `None` after a kill or once it was received.
struct Thread(Option<oneshot::Receiver<Result<(), String>>>);

impl ChildHandle for Thread {
    type Stderr = Empty;

    fn take_stderr(&mut self) -> Option<Empty> {
        None
    }

    async fn wait(&mut self) -> Result<(), String> {
        let Some(result) = &mut self.0 else {
            return Ok(());
        };
        let result = result.await;
        self.0 = None;
        result.unwrap_or_else(|_| Err("the thread panicked".to_owned()))
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }

    fn kill(&mut self) {
        self.0 = None;
    }
}
