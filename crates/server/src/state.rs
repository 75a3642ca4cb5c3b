//! What all requests share.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use transom_library::LoadSettings;
use transom_supervisor::Handle;

use crate::access::Access;
use crate::activity::{Activity, ActivityLog};
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::models::{LibrarySource, Model, Models, loaded_chat_model};

/// What the server needs to know at its start.
pub struct ServerOptions {
    /// The port that it listens at.
    pub port: u16,
    /// The port of Ollama that it listens at as well, for programs that know no other.
    pub ollama_port: Option<u16>,
    /// Who may use it.
    pub access: Access,
    /// Pages of these origins may use it, besides those of this computer: `https://chat.example.org`.
    pub allowed_origins: Vec<String>,
    /// The supervisor.
    pub supervisor: Handle,
    /// Opens the library of models.
    pub library: LibrarySource,
}

/// What all requests share: the supervisor, the models, the keys and the counters.
pub struct ServerState {
    port: u16,
    ollama_port: Option<u16>,
    access: Access,
    allowed_origins: RwLock<Vec<String>>,
    supervisor: RwLock<Handle>,
    models: Models,
    metrics: Metrics,
    activity: Arc<ActivityLog>,
}

impl ServerState {
    /// Creates the state of a server.
    pub fn new(options: ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            port: options.port,
            ollama_port: options.ollama_port,
            access: options.access,
            allowed_origins: RwLock::new(options.allowed_origins),
            supervisor: RwLock::new(options.supervisor),
            models: Models::new(options.library),
            metrics: Metrics::default(),
            activity: Arc::default(),
        })
    }

    /// Uses another supervisor for new requests, after the one of another process ended.
    pub fn set_supervisor(&self, supervisor: Handle) {
        *self
            .supervisor
            .write()
            .unwrap_or_else(PoisonError::into_inner) = supervisor;
    }

    /// Lets pages of these origins use the server, and of no others but those of this computer.
    pub fn set_allowed_origins(&self, origins: Vec<String>) {
        *self
            .allowed_origins
            .write()
            .unwrap_or_else(PoisonError::into_inner) = origins;
    }

    /// Returns the last requests, and what each key has used.
    pub fn activity(&self) -> Activity {
        self.activity.snapshot()
    }

    /// Returns a receiver that is notified when [`Self::activity`] changes.
    pub fn activity_changes(&self) -> watch::Receiver<u64> {
        self.activity.changes()
    }

    pub(crate) fn activity_log(&self) -> &Arc<ActivityLog> {
        &self.activity
    }

    pub(crate) fn supervisor(&self) -> Handle {
        let supervisor = self.supervisor.read();
        supervisor.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn ollama_port(&self) -> Option<u16> {
        self.ollama_port
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn is_allowed_origin(&self, origin: &str) -> bool {
        let allowed = self.allowed_origins.read();
        let allowed = allowed.unwrap_or_else(PoisonError::into_inner);
        let mut allowed = allowed.iter();
        allowed.any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    pub(crate) fn models(&self) -> &Models {
        &self.models
    }

    /// Returns the model that a request names, to be loaded with these settings.
    ///
    /// # Errors
    /// No installed model has this name, or it makes embedding vectors.
    pub(crate) async fn find_model(
        &self,
        name: &str,
        settings: LoadSettings,
    ) -> Result<Model, ApiError> {
        let status = self.supervisor().status().borrow().clone();
        let loaded = loaded_chat_model(&status);
        self.models.find(name, loaded, settings).await
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
