//! The way to the models: blocking calls on the supervisor's handle, for commands that know nothing
//! of async.
//!
//! The supervisor is the running instance's if there is one, else this process's own, which it is
//! then for others as well until the command ends.
//!
//! Rule: nothing is started or opened before it is needed, so that a request that is wrong, or that
//! only reads files, costs nothing; and an instance that went away is replaced by the next ask.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use transom_engine::FinishReason;
use transom_engine_host::ProcessWorkers;
use transom_signals::Hardware;
use transom_supervisor::{
    CancelHandle, Handle, ModelRequest, ModelSelector, Outcome, RequestError, ResponseEvent,
    Status, Supervisor,
    instance::{self, Connection},
    settings::Settings,
    status::UnloadRecord,
};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How an ask ended.
pub(crate) struct Followed {
    /// Its end.
    pub(crate) outcome: Outcome,
    /// Whether Ctrl-C was pressed meanwhile.
    pub(crate) was_interrupted: bool,
}

/// See the head of this file.
pub(crate) struct Link {
    runtime: OnceCell<Runtime>,
    /// The data folder, in which a running instance is found, or why there is none.
    folder: Result<PathBuf, String>,
    connection: RefCell<Option<Connected>>,
    interrupt: Interrupt,
}

/// How long an own supervisor may take to quit when a signal ends the program: longer than it gives
/// a process before it kills it.
const QUIT_WITHIN: Duration = Duration::from_secs(10);

enum Connected {
    Opened(Connection),
    /// To somebody else's instance, for looking at it.
    Visited(Handle),
}

impl Connected {
    fn handle(&self) -> Handle {
        match self {
            Self::Opened(connection) => connection.handle(),
            Self::Visited(handle) => handle.clone(),
        }
    }
}

impl Link {
    /// A link to the user's instance; opens nothing yet. An own supervisor quits before a signal ends
    /// the program.
    pub(crate) fn new(interrupt: Interrupt) -> Self {
        Self {
            runtime: OnceCell::new(),
            folder: instance::data_folder().map_err(|error| error.to_string()),
            connection: RefCell::new(None),
            interrupt,
        }
    }

    /// A link to the supervisor that `start` gives, for tests.
    #[cfg(test)]
    pub(crate) fn to(start: impl FnOnce() -> Handle) -> Self {
        let runtime = runtime().unwrap();
        let handle = {
            let _inside = runtime.enter();
            start()
        };
        Self {
            runtime: OnceCell::from(runtime),
            folder: Ok(PathBuf::from("no data folder in tests")),
            connection: RefCell::new(Some(Connected::Visited(handle))),
            interrupt: Interrupt::detached(),
        }
    }

    /// The runtime, for what a command waits for by itself.
    pub(crate) fn runtime(&self) -> Result<&Runtime, Failure> {
        if self.runtime.get().is_none() {
            let _ = self.runtime.set(runtime()?);
        }
        self.runtime
            .get()
            .ok_or_else(|| Failure::Internal("the runtime was made and is not there".to_owned()))
    }

    /// The data folder.
    pub(crate) fn folder(&self) -> Result<&Path, Failure> {
        self.folder.as_deref().map_err(Failure::instance)
    }

    /// The supervisor: the running instance's, else one that is started here.
    pub(crate) fn handle(&self) -> Result<Handle, Failure> {
        if let Some(connected) = &*self.connection.borrow() {
            return Ok(connected.handle());
        }
        let folder = self.folder()?;
        let opening = instance::open(folder, || start(folder));
        let opened = self.runtime()?.block_on(opening);
        let opened = opened.map_err(Failure::instance)?;
        let handle = opened.handle();
        if opened.is_own() {
            let (runtime, quit) = (self.runtime()?.handle().clone(), opened.quit());
            self.interrupt.on_end(move || {
                let _ = runtime.block_on(async { timeout(QUIT_WITHIN, quit).await });
            });
        }
        self.connection.replace(Some(Connected::Opened(opened)));
        Ok(handle)
    }

    /// The running instance's supervisor, if there is one.
    pub(crate) fn running(&self) -> Result<Option<Handle>, Failure> {
        if let Some(connected) = &*self.connection.borrow() {
            return Ok(Some(connected.handle()));
        }
        let found = self.runtime()?.block_on(instance::connect(self.folder()?));
        let handle = found.map_err(Failure::instance)?;
        self.connection
            .replace(handle.clone().map(Connected::Visited));
        Ok(handle)
    }

    /// What the supervisor says of itself now.
    pub(crate) fn status(&self) -> Result<Arc<Status>, Failure> {
        let handle = self.handle()?;
        Ok(self.runtime()?.block_on(handle.current_status()))
    }

    /// Asks, passes every event but the last to `sink`, and returns the end. Ctrl-C and a sink that
    /// breaks cancel the ask; its end still comes.
    ///
    /// An instance that went away before anything was answered is replaced and asked once more.
    pub(crate) fn follow(
        &self,
        ask: &ModelRequest,
        interrupt: &Interrupt,
        sink: &mut dyn FnMut(ResponseEvent) -> ControlFlow<()>,
    ) -> Result<Followed, Failure> {
        let has_begun = Cell::new(false);
        let mut sink = |event: ResponseEvent| {
            if matches!(event, ResponseEvent::Token { .. }) {
                has_begun.set(true);
            }
            sink(event)
        };
        let first = self.follow_once(ask, interrupt, &mut sink)?;
        if !is_gone(&first.outcome) {
            return Ok(first);
        }
        // A supervisor that a signal ends is not to be replaced.
        interrupt.wait_if_ending();
        self.connection.replace(None);
        if has_begun.get() || first.was_interrupted {
            return Ok(first);
        }
        self.follow_once(ask, interrupt, &mut sink)
    }

    fn follow_once(
        &self,
        ask: &ModelRequest,
        interrupt: &Interrupt,
        sink: &mut dyn FnMut(ResponseEvent) -> ControlFlow<()>,
    ) -> Result<Followed, Failure> {
        let handle = self.handle()?;
        let runtime = self.runtime()?;
        let _inside = runtime.enter();
        // Watched before it is asked, else a press just then would end the program.
        let of_key = Arc::new(OnceLock::<CancelHandle>::new());
        let watch = interrupt.watch({
            let of_key = of_key.clone();
            move || _ = of_key.get().map(CancelHandle::cancel)
        });
        let mut answer = handle.submit(ask.clone());
        let canceller = of_key.get_or_init(|| answer.cancel_handle());
        if watch.was_pressed() {
            canceller.cancel();
        }
        let mut outcome = None;
        while let Some(event) = runtime.block_on(answer.next()) {
            match event {
                ResponseEvent::Ended { outcome: end } => {
                    outcome = Some(end);
                    break;
                }
                event => {
                    if sink(event).is_break() {
                        canceller.cancel();
                    }
                }
            }
        }
        Ok(Followed {
            outcome: outcome.unwrap_or_else(|| Outcome::Failed {
                error: RequestError::InstanceGone {
                    reason: "it said nothing more".to_owned(),
                },
            }),
            was_interrupted: watch.was_pressed(),
        })
    }

    /// Unloads, and says what came back.
    pub(crate) fn unload(&self, unload: ModelSelector) -> Result<Vec<UnloadRecord>, Failure> {
        let handle = self.handle()?;
        Ok(self.runtime()?.block_on(handle.unload(unload))?)
    }

    /// Pauses everything or lets it go on, and waits until it is so.
    pub(crate) fn pause(&self, is_paused: bool) -> Result<Arc<Status>, Failure> {
        let handle = self.handle()?;
        let mut status = handle.status();
        handle.set_paused(is_paused);
        let is_so = |status: &Arc<Status>| status.is_paused == is_paused;
        let so = self
            .runtime()?
            .block_on(status.wait_for(is_so))
            .map(|so| so.clone());
        so.map_err(|_| Failure::instance("it went away"))
    }

    /// Ends the instance if it is this process's own: after the answers that others still wait for,
    /// and with every model's memory given back.
    pub(crate) fn close(self, console: &mut Console, interrupt: &Interrupt) {
        interrupt.wait_if_ending();
        interrupt.take_idle_presses_back();
        let Some(runtime) = self.runtime.into_inner() else {
            return;
        };
        if let Some(Connected::Opened(connection)) = self.connection.take() {
            match connection.n_remote_requests() {
                0 => {}
                1 => console.note("Finishing an answer for another program; Ctrl-C ends it."),
                n => console.note(&format!(
                    "Finishing {n} answers for other programs; Ctrl-C ends them."
                )),
            }
            runtime.block_on(connection.close());
        }
        runtime.shutdown_background();
    }
}

/// Two threads: one for the supervisor, one for whoever is on the socket.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("transom")
        .enable_all()
        .build()
        .map_err(Failure::System)
}

/// A supervisor with the settings of the app.
fn start(data_folder: &Path) -> Supervisor {
    let settings = Settings::read(data_folder).unwrap_or_else(|error| {
        tracing::warn!(%error, "the settings are not used");
        None
    });
    Supervisor::start(
        Arc::new(ProcessWorkers::this_executable()),
        Arc::from(transom_signals::system_signals()),
        &Hardware::detect(),
        settings.unwrap_or_default().tuning(),
    )
}

fn is_gone(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Failed {
            error: RequestError::InstanceGone { .. } | RequestError::Quitting
        }
    )
}

impl Followed {
    /// The end as a command sees it: a failure, or the reason and figures of an answer.
    pub(crate) fn finished(self) -> Result<(FinishReason, transom_engine::Stats), Failure> {
        match self.outcome {
            Outcome::Finished { reason, stats } => Ok((reason, stats)),
            Outcome::Failed { error } => Err(error.into()),
            Outcome::Loaded { .. } => Err(Failure::Internal(
                "an answer ended as a load would".to_owned(),
            )),
        }
    }
}
