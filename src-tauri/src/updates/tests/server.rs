//! A server of updates with faults. It speaks TLS with a certificate that it makes itself, so that the
//! client is the one that users have, except that it trusts this certificate.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::lock;

/// A response.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Bytes(Vec<u8>),
    /// The connection ends after so many bytes.
    Cut(Vec<u8>, usize),
    Status(u16),
    Redirect(String),
    /// Nothing, until the server ends.
    Silence,
}

pub(super) struct Server {
    address: SocketAddr,
    scheme: &'static str,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    replies: Mutex<HashMap<String, Reply>>,
    requests: Mutex<Vec<String>>,
    /// Connections that get no response.
    silent: Mutex<Vec<Box<dyn Send>>>,
    is_over: AtomicBool,
}

impl Server {
    /// Starts a server with an encrypted connection.
    pub(super) fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
            .unwrap();
        Self::listen(Some(Arc::new(config)))
    }

    /// Starts a server without encryption.
    pub(super) fn start_plain() -> Self {
        Self::listen(None)
    }

    fn listen(config: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = match config {
            Some(_) => "https",
            None => "http",
        };
        let state = Arc::new(State::default());
        let serving = state.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.is_over.load(Ordering::Relaxed) {
                    return;
                }
                // A client that disconnects is not an error of the server.
                let _ = stream.and_then(|stream| serving.connection(stream, config.clone()));
            }
        });
        Self {
            address,
            scheme,
            state,
            thread: Some(thread),
        }
    }

    /// Returns the address of a path, which begins with a slash.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.address.port())
    }

    pub(super) fn reply(&self, path: &str, reply: Reply) {
        lock(&self.state.replies).insert(path.to_owned(), reply);
    }

    /// Returns the heads of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        lock(&self.state.requests).clone()
    }

    /// Returns the paths of all requests.
    pub(super) fn paths(&self) -> Vec<String> {
        let requests = self.requests();
        let paths = requests.iter().filter_map(|head| head.split(' ').nth(1));
        paths.map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        lock(&self.state.silent).clear();
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn connection(&self, stream: TcpStream, config: Option<Arc<ServerConfig>>) -> io::Result<()> {
        match config {
            None => self.respond(stream),
            Some(config) => {
                let connection = ServerConnection::new(config).map_err(io::Error::other)?;
                self.respond(StreamOwned::new(connection, stream))
            }
        }
    }

    fn respond(&self, stream: impl io::Read + Write + Send + 'static) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        lock(&self.requests).push(head);
        let reply = lock(&self.replies).get(&path).cloned();
        let (status, more, body, sent) = match reply.unwrap_or(Reply::Status(404)) {
            Reply::Bytes(bytes) => {
                let sent = bytes.len();
                (200, String::new(), bytes, sent)
            }
            Reply::Cut(bytes, sent) => (200, String::new(), bytes, sent),
            Reply::Status(status) => (status, String::new(), Vec::new(), 0),
            Reply::Redirect(to) => (302, format!("location: {to}\r\n"), Vec::new(), 0),
            Reply::Silence => {
                lock(&self.silent).push(Box::new(stream));
                return Ok(());
            }
        };
        let stream = stream.get_mut();
        write!(
            stream,
            "HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n{more}\r\n",
            body.len()
        )?;
        stream.write_all(&body[..sent])?;
        stream.flush()
    }
}
