//! What all requests share.

use std::sync::Arc;

use tokio::sync::watch;
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
    pub(crate) port: u16,
    pub(crate) ollama_port: Option<u16>,
    pub(crate) access: Access,
    pub(crate) models: Models,
    pub(crate) metrics: Metrics,
    pub(crate) activity_log: Arc<ActivityLog>,
    allowed_origins: watch::Sender<Vec<String>>,
    supervisor: watch::Sender<Handle>,
}

impl ServerState {
    /// Creates the state of a server.
    pub fn new(options: ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            port: options.port,
            ollama_port: options.ollama_port,
            access: options.access,
            models: Models::new(options.library),
            metrics: Metrics::default(),
            activity_log: Arc::default(),
            allowed_origins: watch::Sender::new(options.allowed_origins),
            supervisor: watch::Sender::new(options.supervisor),
        })
    }

    /// Uses another supervisor for new requests, after the one of another process ended.
    pub fn set_supervisor(&self, supervisor: Handle) {
        self.supervisor.send_replace(supervisor);
    }

    /// Lets pages of these origins use the server, and of no others but those of this computer.
    pub fn set_allowed_origins(&self, origins: Vec<String>) {
        self.allowed_origins.send_replace(origins);
    }

    /// Returns the last requests, and what each key has used.
    pub fn activity(&self) -> Activity {
        self.activity_log.snapshot()
    }

    /// Returns a receiver that is notified when [`Self::activity`] changes.
    pub fn activity_changes(&self) -> watch::Receiver<u64> {
        self.activity_log.changes()
    }

    pub(crate) fn supervisor(&self) -> Handle {
        self.supervisor.borrow().clone()
    }

    pub(crate) fn is_allowed_origin(&self, origin: &str) -> bool {
        let allowed = self.allowed_origins.borrow();
        let mut allowed = allowed.iter();
        allowed.any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    /// Returns the model that a request names, to be loaded with this context length.
    ///
    /// # Errors
    /// No installed model has this name, or it makes embedding vectors.
    pub(crate) async fn find_model(
        &self,
        name: &str,
        context_length: Option<usize>,
    ) -> Result<Model, ApiError> {
        let status = self.supervisor().status().borrow().clone();
        let loaded = loaded_chat_model(&status);
        self.models.find(name, loaded, context_length).await
    }
}
