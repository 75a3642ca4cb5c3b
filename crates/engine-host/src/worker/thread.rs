//! Workers that are threads of this process, for the tests of the rooms above.
//!
//! They speak over a socket and run the child's own loop, so that only the process is missing. There
//! is no watchdog: under a paused clock it would run out while a real thread works. Rule: killing
//! one closes its socket; a thread cannot be ended, so its engine must obey its control.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::Empty;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use transom_engine::Engine;

use crate::child;
use crate::error::WorkerEnd;
use crate::worker::attend::{Vessel, attend};
use crate::worker::{Patience, Worker, WorkerReport, Workers};

type MakeEngines = Arc<dyn Fn() -> Vec<Box<dyn Engine>> + Send + Sync>;

/// Starts each worker as a thread.
#[derive(Clone)]
pub struct ThreadWorkers {
    engines: MakeEngines,
}

impl ThreadWorkers {
    /// Workers with the engines that `engines` makes, once a worker, on its thread.
    pub fn new(engines: impl Fn() -> Vec<Box<dyn Engine>> + Send + Sync + 'static) -> Self {
        Self {
            engines: Arc::new(engines),
        }
    }

    fn spawn(&self) -> std::io::Result<(Thread, UnixStream)> {
        let (near, far) = std::os::unix::net::UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let near = UnixStream::from_std(near)?;
        let engines = self.engines.clone();
        let (tell_end, end) = oneshot::channel();
        std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                let result = child::serve(far, &engines(), || {});
                // Nobody may be waiting for a thread that was killed.
                let _ = tell_end.send(result.map_err(|error| error.to_string()));
            })?;
        Ok((Thread(Some(end)), near))
    }
}

impl Workers for ThreadWorkers {
    fn start(&self) -> Worker {
        let (worker, ends) = Worker::new();
        let spawned = self.spawn();
        tokio::spawn(async move {
            match spawned {
                Ok((thread, stream)) => attend(thread, stream, FOREVER, ends).await,
                Err(error) => {
                    let end = WorkerEnd::NotStarted {
                        reason: error.to_string(),
                    };
                    // An owner that is gone needs no telling.
                    let _ = ends.reports.send(WorkerReport::Gone(end)).await;
                }
            }
        });
        worker
    }
}

/// Longer than any test, in real or simulated time.
const FOREVER: Patience = {
    let year = Duration::from_secs(365 * 24 * 3600);
    Patience {
        greeting: year,
        ping_every: year,
        unheard: year,
        silent: year,
        leaving: year,
        dying: year,
    }
};

/// The end of a thread; `None` once it is killed or known.
struct Thread(Option<oneshot::Receiver<Result<(), String>>>);

impl Vessel for Thread {
    type Stderr = Empty;

    fn take_stderr(&mut self) -> Option<Empty> {
        None
    }

    async fn ended(&mut self) -> Result<(), String> {
        let Some(end) = &mut self.0 else {
            return Ok(());
        };
        let result = end.await;
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
