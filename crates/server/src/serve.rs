//! The listener and its connections.
//!
//! Rule: the server listens on the loopback addresses only, and a port that is taken is an error: a
//! client must never talk to another program by mistake.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::limits::{
    HEADER_TIMEOUT, MAX_CONNECTIONS, MAX_FILES, MAX_HEADER_BYTES, SHUTDOWN_TIMEOUT,
};
use crate::routes;
use crate::state::ServerState;

/// The port if the user chooses none.
pub const DEFAULT_PORT: u16 = 11535;

/// How long the server waits after a connection could not be accepted, such as without descriptors.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// Time for the program at a port to say what it is.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Most bytes that are read of what it says.
const MAX_PROBE_BYTES: u64 = 4096;

/// Why the server can't listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program listens at the port.
    #[error("another program uses port {port}; choose another one with --port")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// Another server of Transom listens at the port: that of the app, or of another terminal.
    #[error(
        "Transom serves at http://localhost:{port} already: in the app (Settings, Local API) or in \
         another terminal; use that, turn it off, or choose another port with --port"
    )]
    AlreadyServed {
        /// The port.
        port: u16,
    },
    /// Another program listens at the port for clients of Ollama.
    #[error(
        "another program, such as Ollama, uses port {port}; quit it, or choose another port with \
         --ollama-port"
    )]
    OllamaPortTaken {
        /// The port.
        port: u16,
    },
    /// The system reported another error.
    #[error("can't listen at port {port}: {source}")]
    Io {
        /// The port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    port: u16,
    ollama_port: Option<u16>,
}

impl Server {
    /// Listens at this port of 127.0.0.1 and, if this computer has it, of ::1. Port 0 selects a free
    /// one. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`BindError`], which says whether the other program at the port is Transom.
    pub async fn bind(port: u16) -> Result<Self, BindError> {
        let (listeners, port) = match listen(port).await {
            Ok(listened) => listened,
            Err(source) if source.kind() != io::ErrorKind::AddrInUse => {
                return Err(BindError::Io { port, source });
            }
            Err(_) if is_transom(port).await => return Err(BindError::AlreadyServed { port }),
            Err(_) => return Err(BindError::PortTaken { port }),
        };
        Ok(Self {
            listeners,
            port,
            ollama_port: None,
        })
    }

    /// Listens at this port as well, for programs that expect Ollama there. Port 0 selects a free
    /// one.
    ///
    /// # Errors
    /// [`BindError::OllamaPortTaken`] and [`BindError::Io`].
    pub async fn with_ollama_port(mut self, port: u16) -> Result<Self, BindError> {
        let listened = listen(port).await;
        let (listeners, port) = listened.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::OllamaPortTaken { port },
            _ => BindError::Io { port, source },
        })?;
        self.listeners.extend(listeners);
        self.ollama_port = Some(port);
        Ok(self)
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port for programs that expect Ollama.
    pub fn ollama_port(&self) -> Option<u16> {
        self.ollama_port
    }

    /// Returns the addresses that the server listens at.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.listeners.iter().map(TcpListener::local_addr);
        addresses.filter_map(Result::ok).collect()
    }

    /// Serves until `stop` is complete. Open connections then have 2 s to end; what still runs after
    /// that is canceled.
    pub async fn run(self, state: Arc<ServerState>, stop: impl Future<Output = ()>) {
        raise_file_limit();
        let service = routes::router(state);
        let (is_stopping, stopping) = watch::channel(false);
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut tasks = JoinSet::new();
        for listener in self.listeners {
            let (service, places, stopping) = (service.clone(), places.clone(), stopping.clone());
            tasks.spawn(accept(listener, service, places, stopping));
        }
        stop.await;
        let _ = is_stopping.send(true);
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout(SHUTDOWN_TIMEOUT, all_ended).await;
        tasks.shutdown().await;
    }
}

/// Listens at this port of 127.0.0.1 and, if this computer has it, of ::1. Returns the port too.
async fn listen(port: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let chosen = v4.local_addr()?.port();
    let mut listeners = vec![v4];
    match TcpListener::bind((Ipv6Addr::LOCALHOST, chosen)).await {
        Ok(v6) => listeners.push(v6),
        // Clients that use `localhost` could reach the other program.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && port != 0 => return Err(error),
        Err(error) => tracing::debug!(%error, "not listening at ::1"),
    }
    Ok((listeners, chosen))
}

/// Returns true if a server of Transom answers at this port.
async fn is_transom(port: u16) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request =
            format!("GET / HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream
            .take(MAX_PROBE_BYTES)
            .read_to_end(&mut response)
            .await?;
        Ok::<_, io::Error>(response)
    };
    let response = timeout(PROBE_TIMEOUT, asked).await;
    response.is_ok_and(|response| {
        response.is_ok_and(|response| response.ends_with(routes::GREETING.as_bytes()))
    })
}

/// Accepts connections until the server stops, then waits for them.
async fn accept(
    listener: TcpListener,
    service: Router,
    places: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await.ok()?;
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => return Some((stream, place)),
                    Err(error) => {
                        tracing::debug!(%error, "a connection was not accepted");
                        sleep(ACCEPT_DELAY).await;
                    }
                }
            }
        };
        let accepted = tokio::select! {
            () = stopped(stopping.clone()) => break,
            accepted = next => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Some((stream, place)) = accepted else {
            break;
        };
        let (service, stopping) = (service.clone(), stopping.clone());
        connections.spawn(async move {
            serve(stream, service, stopping).await;
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves the requests of one connection.
async fn serve(stream: TcpStream, service: Router, stopping: watch::Receiver<bool>) {
    // Tokens must not wait for more tokens.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Waits until the server stops. A server that is gone has stopped.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

/// Lets the process have more descriptors, if the system allows it.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(MAX_FILES, |maximum| maximum.min(MAX_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let limit = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays");
        }
    }
}
