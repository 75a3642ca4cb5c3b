//! What all requests share.

use std::sync::{Arc, PoisonError, RwLock};

use transom_supervisor::Handle;

use crate::access::Access;
use crate::metrics::Metrics;
use crate::models::{LibrarySource, Models};

/// What the server needs to know at its start.
pub struct Options {
    /// The port that it listens at.
    pub port: u16,
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
    access: Access,
    allowed_origins: Vec<String>,
    supervisor: RwLock<Handle>,
    models: Models,
    metrics: Metrics,
}

impl ServerState {
    /// Creates the state of a server.
    pub fn new(options: Options) -> Arc<Self> {
        Arc::new(Self {
            port: options.port,
            access: options.access,
            allowed_origins: options.allowed_origins,
            supervisor: RwLock::new(options.supervisor),
            models: Models::new(options.library),
            metrics: Metrics::default(),
        })
    }

    /// Uses another supervisor for new requests, after the one of another process ended.
    pub fn set_supervisor(&self, supervisor: Handle) {
        *self
            .supervisor
            .write()
            .unwrap_or_else(PoisonError::into_inner) = supervisor;
    }

    pub(crate) fn supervisor(&self) -> Handle {
        let supervisor = self.supervisor.read();
        supervisor.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn allowed_origins(&self) -> &[String] {
        &self.allowed_origins
    }

    pub(crate) fn models(&self) -> &Models {
        &self.models
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
