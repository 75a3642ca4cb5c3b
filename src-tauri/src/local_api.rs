//! The local API in the app: the server of `transom_server` on the app's supervisor.
//!
//! Rule: nothing here blocks the main thread or wakes an idle app. A change of the settings is
//! applied when the one before it is done, and a page gets the view only while it follows it.

mod view;

use std::sync::Arc;
use std::time::Duration;

use tauri::async_runtime::JoinHandle;
use tokio::sync::{Mutex, oneshot, watch};
use transom_server::{
    Access, BindError, ClientProgram, DEFAULT_PORT, KeyError, KeyFile, Server, ServerOptions,
    ServerState,
};
use transom_store::{LocalApi as LocalApiSettings, Settings};

use crate::backend::Backend;
use crate::models;
use crate::task::blocking;
use crate::wire::{ApiSetupView, ApiStateView, CommandError, CommandResult, LocalApiView};

/// Minimum time between two views of a follower.
const VIEW_INTERVAL: Duration = Duration::from_millis(250);

/// The server of the app, if it runs.
pub(crate) struct LocalApi {
    /// Locked while a change is applied.
    running: Mutex<Option<Running>>,
    state: watch::Sender<State>,
}

/// What a view says about the server itself.
#[derive(Clone)]
pub(crate) struct State {
    view: ApiStateView,
    server: Option<Arc<ServerState>>,
}

struct Running {
    port: u16,
    ollama_port: Option<u16>,
    server: Arc<ServerState>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Default for LocalApi {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            state: watch::Sender::new(State::without_server(ApiStateView::Off)),
        }
    }
}

impl State {
    fn without_server(view: ApiStateView) -> Self {
        Self { view, server: None }
    }
}

impl LocalApi {
    /// Starts, changes or ends the server, as the present settings say. Tries again if it could not
    /// start.
    pub(crate) async fn apply(&self, backend: &Arc<Backend>) {
        let mut running = self.running.lock().await;
        // Read now, because another change may have come while this one waited.
        let wanted = backend.settings().local_api;
        if let Some(running) = &*running
            && running.is_for(&wanted)
        {
            running.server.set_allowed_origins(wanted.allowed_origins);
            return;
        }
        if let Some(before) = running.take() {
            before.end().await;
        }
        if !wanted.is_on {
            let off = State::without_server(ApiStateView::Off);
            self.state.send_replace(off);
            return;
        }
        match Running::start(backend, &wanted).await {
            Ok(started) => {
                tracing::info!(port = started.port, "the local API listens");
                self.state.send_replace(State {
                    view: ApiStateView::Listening {
                        port: started.port,
                        ollama_port: started.ollama_port,
                    },
                    server: Some(started.server.clone()),
                });
                *running = Some(started);
            }
            Err(error) => {
                tracing::warn!(%error, "the local API can't listen");
                let failed = State::without_server(view::of_error(&error));
                self.state.send_replace(failed);
            }
        }
    }

    /// Ends the server. Open responses have two seconds.
    pub(crate) async fn end(&self) {
        let running = self.running.lock().await.take();
        if let Some(running) = running {
            running.end().await;
        }
    }

    /// Creates a key, or without a name the first one. Returns it, or `None` if there is a key
    /// already.
    pub(crate) async fn add_key(
        &self,
        backend: &Backend,
        name: Option<String>,
    ) -> CommandResult<Option<String>> {
        let file = KeyFile::of(backend.data_folder());
        let added = blocking(move || {
            let added = match name {
                Some(name) => file.add(&name).map(Some),
                None => file.add_first(),
            };
            added.map_err(key_error)
        });
        let added = added.await;
        self.state.send_modify(|_| {});
        added
    }

    /// Revokes a key. Requests with it are refused from now on.
    pub(crate) async fn revoke_key(&self, backend: &Backend, name: String) -> CommandResult<()> {
        let file = KeyFile::of(backend.data_folder());
        let revoked = blocking(move || file.revoke(&name).map_err(key_error)).await;
        self.state.send_modify(|_| {});
        revoked
    }

    /// Calls `send` with the view, and again when it changes, until `send` returns false.
    pub(crate) async fn follow(
        &self,
        backend: Arc<Backend>,
        mut send: impl FnMut(LocalApiView) -> bool,
    ) {
        let mut states = self.state.subscribe();
        let mut last = None;
        loop {
            let state = states.borrow_and_update().clone();
            // Marked as seen before the view is made, so no change is missed.
            let mut activity = state
                .server
                .as_ref()
                .map(|server| server.activity_changes());
            let mut statuses = backend.handle().status();
            let status = statuses.borrow_and_update().clone();
            let file = KeyFile::of(backend.data_folder());
            let Ok(keys) = blocking(move || Ok(file.read())).await else {
                return;
            };
            let used = state.server.as_ref().map(|server| server.activity());
            let view = view::of(state.view, keys, used.unwrap_or_default(), &status);
            if last.as_ref() != Some(&view) && !send(view.clone()) {
                return;
            }
            last = Some(view);
            tokio::time::sleep(VIEW_INTERVAL).await;
            let used = async {
                match &mut activity {
                    Some(activity) => _ = activity.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = states.changed() => if changed.is_err() { return },
                () = used => {}
                // A supervisor that quit is replaced, and the next turn finds the new one.
                _ = statuses.changed() => {}
            }
        }
    }

    /// Returns the lines that set up other programs, for the port in use and the selected model.
    pub(crate) async fn setups(&self, backend: Arc<Backend>) -> CommandResult<Vec<ApiSetupView>> {
        let state = self.state.borrow().view.clone();
        blocking(move || {
            let settings = backend.settings();
            let port = match state {
                ApiStateView::Listening { port, .. } => port,
                _ => settings.local_api.port.unwrap_or(DEFAULT_PORT),
            };
            let model = model_name(&backend, &settings);
            let setups = ClientProgram::ALL.map(|program| ApiSetupView {
                program: program.id().to_owned(),
                lines: program.setup(port, &model).lines,
            });
            Ok(setups.into())
        })
        .await
    }
}

impl Running {
    async fn start(backend: &Arc<Backend>, wanted: &LocalApiSettings) -> Result<Self, BindError> {
        let mut bound = Server::bind(wanted.port.unwrap_or(DEFAULT_PORT)).await?;
        if let Some(port) = wanted.ollama_port {
            bound = bound.with_ollama_port(port).await?;
        }
        let (port, ollama_port) = (bound.port(), bound.ollama_port());
        let mut handles = backend.handles();
        let library = backend.clone();
        let server = ServerState::new(ServerOptions {
            port,
            ollama_port,
            access: Access::File(KeyFile::of(backend.data_folder())),
            allowed_origins: wanted.allowed_origins.clone(),
            supervisor: handles.borrow_and_update().clone(),
            library: Arc::new(move || library.library()),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let state = server.clone();
        let task = tauri::async_runtime::spawn(async move {
            let stopped = async { _ = stopped.await };
            let mut serving = std::pin::pin!(bound.run(state.clone(), stopped));
            loop {
                tokio::select! {
                    () = &mut serving => return,
                    Ok(()) = handles.changed() => {
                        state.set_supervisor(handles.borrow_and_update().clone());
                    }
                }
            }
        });
        Ok(Self {
            port,
            ollama_port,
            server,
            stop,
            task,
        })
    }

    /// Returns true if the server listens where the settings say.
    fn is_for(&self, wanted: &LocalApiSettings) -> bool {
        wanted.is_on
            && self.port == wanted.port.unwrap_or(DEFAULT_PORT)
            && self.ollama_port == wanted.ollama_port
            && !self.task.inner().is_finished()
    }

    async fn end(self) {
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the local API ended unexpectedly");
        }
    }
}

/// Returns the name of the selected model in requests; `MODEL` if there is none.
fn model_name(backend: &Backend, settings: &Settings) -> String {
    let library = backend.library();
    let id = models::chosen_id(&library, settings);
    let chosen = id.and_then(|id| library.resolve(&id).ok());
    chosen.map_or_else(|| "MODEL".to_owned(), |model| library.short_name(&model))
}

/// Checks the values of a change of the settings that only the server knows.
///
/// # Errors
/// An origin is none.
pub(crate) fn check(patch: &serde_json::Value) -> CommandResult<()> {
    let origins = patch["local_api"]["allowed_origins"].as_array();
    for text in origins.into_iter().flatten().filter_map(|one| one.as_str()) {
        transom_server::origin(text).map_err(|error| {
            let reason = format!("{text:?} {error}");
            CommandError::invalid("local_api.allowed_origins", reason)
        })?;
    }
    Ok(())
}

fn key_error(error: KeyError) -> CommandError {
    match error {
        KeyError::BadName(_) | KeyError::Exists(_) => CommandError::invalid("key_name", error),
        KeyError::Unknown(_) => CommandError::NotFound,
        KeyError::Damaged { .. } | KeyError::Io { .. } | KeyError::NoRandomness(_) => {
            CommandError::other(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use serde_json::json;

    #[test]
    fn only_origins_may_use_the_local_api() {
        let patch = |origins: &[&str]| json!({ "local_api": { "allowed_origins": origins } });
        assert!(check(&patch(&["https://chat.example.org", "http://[::1]:3000"])).is_ok());
        assert!(check(&json!({ "general": {} })).is_ok());
        for wrong in ["*", "https://a.example/path", "example.org"] {
            let error = check(&patch(&["https://good.example", wrong])).unwrap_err();
            assert!(error.into_reason().contains(wrong));
        }
    }
}
