//! A server with scripted workers and a made-up library, and a client that speaks plain HTTP.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use transom_library::test_support::{CATALOG, computer, install};
use transom_library::{Catalog, Library, Places, ThisMachine};
use transom_server::{Access, Server, ServerOptions, ServerState};
use transom_signals::ScriptedSignals;
use transom_supervisor::test_support::{ScriptedWorkers, WorkerScript, supervisor};
use transom_supervisor::{Handle, Supervisor, Tuning};

/// The key of the server.
pub(crate) const KEY: &str = "secret";

/// The model that is installed.
pub(crate) const MODEL: &str = "tiny";

/// The embedding model, if it is installed.
pub(crate) const VECTORS: &str = "vectors";

/// Its entry in the catalog. Scripted workers make vectors of two numbers.
const VECTORS_ENTRY: &str = r#"
[[model]]
id = "vectors"
name = "Vectors"
tags = ["embedding"]
query_prefix = "find: "
document_prefix = "text: "
min_dimensions = 1
variant = [{ format = "gguf", quantization = "F16", repository = "owner/vectors-GGUF", files = [{ name = "vectors-F16.gguf" }] }]
architecture = { model_type = "llama", parameters = 10_000_000, layers = 2, heads = 4, kv_heads = 2, hidden_size = 256, head_dim = 64, intermediate_size = 512, vocabulary = 16_384, context_length = 2048 }
"#;

/// Longest time for anything in these tests.
const LIMIT: Duration = Duration::from_secs(30);

/// A running server. Its supervisor ends with it.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    pub(crate) ollama_port: u16,
    pub(crate) handle: Handle,
    pub(crate) state: Arc<ServerState>,
    pub(crate) workers: ScriptedWorkers,
    pub(crate) signals: ScriptedSignals,
    stop: watch::Sender<bool>,
    running: tokio::task::JoinHandle<()>,
    supervisor: Supervisor,
    _data: tempfile::TempDir,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

/// Returns a script that loads at once and responds fast.
pub(crate) fn fast() -> WorkerScript {
    WorkerScript {
        load_time: Duration::ZERO,
        token_interval: Duration::from_millis(1),
        unload_time: Duration::ZERO,
        ..WorkerScript::default()
    }
}

/// Returns a chat request with these fields.
pub(crate) fn chat(fields: Value) -> Value {
    let mut body = json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "The capital of France?" }],
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

impl TestServer {
    /// Starts a server with a chat model.
    pub(crate) async fn start(script: WorkerScript) -> Self {
        Self::start_with(ScriptedWorkers::all(script), false).await
    }

    /// Starts a server with a chat model, and with an embedding model if `has_embedder`.
    pub(crate) async fn start_with(workers: ScriptedWorkers, has_embedder: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        install(data.path(), "owner/tiny-GGUF", "tiny-Q4_K_M.gguf");
        if has_embedder {
            install(data.path(), "owner/vectors-GGUF", "vectors-F16.gguf");
        }
        let signals = ScriptedSignals::default();
        let supervisor = supervisor(workers.clone(), signals.clone(), Tuning::default());
        let server = Server::bind(0).await.unwrap();
        let server = server.with_ollama_port(0).await.unwrap();
        let (port, ollama_port) = (server.port(), server.ollama_port());
        let folder = data.path().to_owned();
        let state = ServerState::new(ServerOptions {
            port,
            ollama_port,
            access: Access::key(KEY),
            allowed_origins: vec!["https://chat.example.org".to_owned()],
            supervisor: supervisor.handle(),
            library: Arc::new(move || library(&folder)),
        });
        let (stop, mut stopped) = watch::channel(false);
        let running = tokio::spawn(server.run(state.clone(), async move {
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        }));
        Self {
            port,
            ollama_port: ollama_port.unwrap(),
            handle: supervisor.handle(),
            state,
            workers,
            signals,
            stop,
            running,
            supervisor,
            _data: data,
        }
    }

    /// Ends the server, and checks that it and the supervisor end.
    pub(crate) async fn end(self) {
        self.stop.send(true).unwrap();
        within(self.running).await.unwrap();
        within(self.supervisor.quit()).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn chat(&self, fields: Value) -> Answer {
        self.post("/v1/chat/completions", &chat(fields)).await
    }

    /// Sends a request with a host, a key and a content type, unless `headers` have others. An empty
    /// value leaves a header out.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut stream = self.open(method, path, headers, body).await;
        let mut bytes = Vec::new();
        within(stream.read_to_end(&mut bytes)).await.unwrap();
        Answer::parse(&String::from_utf8(bytes).unwrap())
    }

    /// Sends a request and reads nothing.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let (host, key) = (format!("localhost:{}", self.port), format!("Bearer {KEY}"));
        let length = body.len().to_string();
        let mut lines = vec![
            ("host", &*host),
            ("authorization", &*key),
            ("connection", "close"),
        ];
        if method == "POST" {
            lines.push(("content-type", "application/json"));
            lines.push(("content-length", &*length));
        }
        lines.retain(|(name, _)| headers.iter().all(|(other, _)| other != name));
        lines.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in lines {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        within(stream.write_all(text.as_bytes())).await.unwrap();
        stream
    }
}

fn library(data_folder: &Path) -> Library {
    let entries = format!("{CATALOG}{VECTORS_ENTRY}");
    let catalog = Catalog::default().merged_with(&entries, Path::new("models.toml"));
    let places = Places {
        data_folder: Some(data_folder.to_owned()),
        ..Places::default()
    };
    let machine = ThisMachine::simulated(computer());
    Library::new(Arc::new(catalog.unwrap()), places, machine)
}

/// Waits, but not forever.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(LIMIT, work).await.expect("it ends in time")
}

/// Reads until the text arrives.
pub(crate) async fn read_until(stream: &mut TcpStream, expected: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(expected) {
        let n = within(stream.read(&mut buffer)).await.unwrap();
        assert_ne!(n, 0, "the stream ended without {expected}: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    text
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, rest) = text.split_once("\r\n\r\n").expect("an HTTP response");
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers: HashMap<String, String> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let is_chunked = headers
            .get("transfer-encoding")
            .is_some_and(|how| how == "chunked");
        Self {
            status: status.parse().unwrap(),
            body: if is_chunked {
                joined(rest)
            } else {
                rest.to_owned()
            },
            headers,
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the data of server-sent events, without comments.
    pub(crate) fn data(&self) -> Vec<&str> {
        self.body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .collect()
    }

    /// Returns the chunks of a stream that ends with `[DONE]`.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let mut data = self.data();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.body);
        let chunks = data.into_iter().map(serde_json::from_str);
        chunks.collect::<Result<_, _>>().unwrap()
    }
}

/// Joins the chunks of a body.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    body
}
