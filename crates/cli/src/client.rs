//! Blocking calls to the supervisor, for commands that contain no async code.
//!
//! The supervisor is that of the running instance if there is one. Else this process starts its own,
//! which other programs may use until the command ends.
//!
//! Rule: nothing is started or opened before it is needed, so a wrong request, or one that only reads
//! files, costs nothing. An instance that disappeared is replaced at the next request.

#[cfg(test)]
mod test_support;

use std::cell::{Cell, OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;
use transom_engine::{EngineError, FinishReason, Stats};
use transom_engine_host::ProcessWorkers;
use transom_signals::Hardware;
use transom_supervisor::instance::{self, Connection};
use transom_supervisor::settings::Settings;
use transom_supervisor::{
    CancelHandle, Handle, ModelRequest, Outcome, RequestError, ResponseEvent, Status, Supervisor,
    Tuning,
};
use transom_terminal::Interrupt;

use crate::{Console, Failure, Result};

/// How a request ended.
pub(crate) struct Completion {
    /// The outcome that the supervisor reported.
    pub(crate) outcome: Outcome,
    /// Whether Ctrl-C was pressed meanwhile.
    pub(crate) was_interrupted: bool,
}

pub(crate) struct Client {
    /// Ctrl-C, which cancels the running request.
    pub(crate) interrupt: Interrupt,
    runtime: OnceCell<Runtime>,
    /// The data folder, which contains the socket of a running instance; or why there is none.
    data_folder: Result<PathBuf, String>,
    /// The connection to any instance, which is ours if none was running.
    connection: RefCell<Option<Connection>>,
}

/// Time limit for a supervisor of this process to shut down when a signal ends the program: longer
/// than the supervisor waits before it kills a child process.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

impl Client {
    /// Returns a client of the user's instance, and connects to nothing yet. If the client starts a
    /// supervisor, this shuts down before a signal ends the program.
    pub(crate) fn new(interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            runtime: OnceCell::new(),
            data_folder: instance::data_folder().map_err(|error| error.to_string()),
            connection: RefCell::new(None),
        }
    }

    /// Returns the runtime, for a command that waits for something else than the supervisor.
    pub(crate) fn runtime(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let runtime = runtime()?;
        Ok(self.runtime.get_or_init(|| runtime))
    }

    pub(crate) fn data_folder(&self) -> Result<&Path> {
        self.data_folder.as_deref().map_err(Failure::failed)
    }

    /// Returns the supervisor of the running instance, else one that is started here.
    pub(crate) fn handle(&self) -> Result<Handle> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(connection.handle());
        }
        let folder = self.data_folder()?;
        let opening = instance::open(folder, || start(tuning(folder)));
        let opened = self.runtime()?.block_on(opening);
        let connection = opened.map_err(Failure::failed)?;
        let handle = connection.handle();
        if let Some(quit) = connection.quit() {
            let runtime = self.runtime()?.handle().clone();
            self.interrupt.before_exit(move || {
                let _ = runtime.block_on(async { timeout(SHUTDOWN_LIMIT, quit).await });
            });
        }
        self.connection.replace(Some(connection));
        Ok(handle)
    }

    /// Forgets an instance that is gone, so that the next request finds or starts another one.
    pub(crate) fn reconnect(&self) {
        // A supervisor that a signal ends must not be replaced.
        self.interrupt.wait_if_exiting();
        self.connection.replace(None);
    }

    /// Returns the supervisor of the running instance, if there is one.
    pub(crate) fn running(&self) -> Result<Option<Handle>> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(Some(connection.handle()));
        }
        let connecting = instance::connect(self.data_folder()?);
        let connected = self.runtime()?.block_on(connecting);
        let handle = connected.map_err(Failure::failed)?;
        let connection = handle.clone().map(Connection::Running);
        self.connection.replace(connection);
        Ok(handle)
    }

    /// Waits for `work`, or for Ctrl-C.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let key = Arc::new(Notify::new());
        let pressed = key.clone();
        let _watch = self.interrupt.watch(move || pressed.notify_one());
        self.runtime()?.block_on(async {
            tokio::select! {
                biased;
                result = work => result,
                () = key.notified() => Err(Failure::Interrupted),
            }
        })
    }

    pub(crate) fn status(&self) -> Result<Arc<Status>> {
        let handle = self.handle()?;
        Ok(self.runtime()?.block_on(handle.current_status()))
    }

    /// Sends a request, passes every event but the last to `sink`, and returns the end. Ctrl-C and an
    /// error of the sink cancel the request, which still ends in order.
    ///
    /// If the instance disappears before the first token or vector, the request is sent once more to a new one.
    pub(crate) fn send(
        &self,
        request: &ModelRequest,
        sink: &mut dyn FnMut(ResponseEvent) -> Result,
    ) -> Result<Completion> {
        let has_begun = Cell::new(false);
        let mut sink = |event: ResponseEvent| {
            if matches!(
                event,
                ResponseEvent::Token { .. } | ResponseEvent::Embedded { .. }
            ) {
                has_begun.set(true);
            }
            sink(event)
        };
        let first = self.send_once(request, &mut sink)?;
        let is_instance_gone = matches!(
            first.outcome,
            Outcome::Failed {
                error: RequestError::InstanceGone { .. } | RequestError::Quitting
            }
        );
        if !is_instance_gone {
            return Ok(first);
        }
        self.reconnect();
        if has_begun.get() || first.was_interrupted {
            return Ok(first);
        }
        self.send_once(request, &mut sink)
    }

    fn send_once(
        &self,
        request: &ModelRequest,
        sink: &mut dyn FnMut(ResponseEvent) -> Result,
    ) -> Result<Completion> {
        let handle = self.handle()?;
        let runtime = self.runtime()?;
        let _context = runtime.enter();
        // Watched before the request is sent, else a press at that moment would end the program.
        let on_key = Arc::new(OnceLock::<CancelHandle>::new());
        let watch = self.interrupt.watch({
            let on_key = on_key.clone();
            move || _ = on_key.get().map(CancelHandle::cancel)
        });
        let mut response = handle.submit(request.clone());
        let canceler = on_key.get_or_init(|| response.cancel_handle());
        if watch.was_pressed() {
            canceler.cancel();
        }
        let mut outcome = Outcome::Failed {
            error: RequestError::InstanceGone {
                reason: "it sent nothing more".to_owned(),
            },
        };
        let mut written = Ok(());
        while let Some(event) = runtime.block_on(response.next()) {
            if let ResponseEvent::Ended { outcome: end } = event {
                outcome = end;
                break;
            }
            if written.is_ok() {
                written = sink(event);
            }
            if written.is_err() {
                canceler.cancel();
            }
        }
        written.map(|()| Completion {
            outcome,
            was_interrupted: watch.was_pressed(),
        })
    }

    /// Shuts down the instance if it is this process's own: after the responses that other programs
    /// still wait for, and with every model unloaded.
    pub(crate) fn close(self, console: &mut Console) {
        self.interrupt.wait_if_exiting();
        self.interrupt.end_when_idle();
        let Some(runtime) = self.runtime.into_inner() else {
            return;
        };
        if let Some(connection) = self.connection.take() {
            match connection.n_remote_requests() {
                0 => {}
                1 => console.note("Finishing a response for another program; Ctrl-C ends it."),
                n => console.note(&format!(
                    "Finishing {n} responses for other programs; Ctrl-C ends them."
                )),
            }
            runtime.block_on(connection.close());
        }
        runtime.shutdown_background();
    }
}

/// Starts a runtime with two threads: one for the supervisor, one for the clients on the socket.
fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("transom")
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the runtime: {error}")))
}

/// Returns the settings of the app.
pub(crate) fn tuning(data_folder: &Path) -> Tuning {
    let settings = Settings::read(data_folder).unwrap_or_else(|error| {
        tracing::warn!(%error, "the settings are not used");
        None
    });
    settings.unwrap_or_default().tuning()
}

/// Starts a supervisor, whose child processes are this program.
pub(crate) fn start(tuning: Tuning) -> Supervisor {
    Supervisor::start(
        Arc::new(ProcessWorkers::this_executable()),
        Arc::from(transom_signals::system_signals()),
        &Hardware::detect(),
        tuning,
    )
}

/// Returns the tokens of the prompt and those that the context holds, if the prompt was too long.
pub(crate) fn too_long(outcome: &Outcome) -> Option<(usize, usize)> {
    let Outcome::Failed {
        error: RequestError::Engine { source },
    } = outcome
    else {
        return None;
    };
    match source {
        EngineError::PromptTooLong {
            prompt_tokens,
            context_length,
        } => Some((*prompt_tokens, *context_length)),
        _ => None,
    }
}

impl Completion {
    /// Returns the finish reason and statistics of a response, or the failure.
    pub(crate) fn finished(self) -> Result<(FinishReason, Stats)> {
        match self.outcome {
            Outcome::Finished { reason, stats } => Ok((reason, stats)),
            Outcome::Failed { error } => Err(error.into()),
            Outcome::Loaded { .. } => Err(Failure::internal("a response ended like a load")),
        }
    }
}
