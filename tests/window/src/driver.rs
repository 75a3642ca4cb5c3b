//! WebKitWebDriver, which reads and controls pages.
//!
//! It starts the browser or app that it drives, on the same desktop. The app exits with the
//! session.

use std::path::Path;
use std::time::Duration;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until};
use crate::processes;

/// A running driver. It has one session at a time.
#[derive(Debug)]
pub struct Driver {
    port: u16,
    pid: i32,
}

impl Driver {
    /// Starts a driver on a free port of this machine.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub async fn start(desktop: &mut Desktop) -> Outcome<Self> {
        let doing = "start WebKitWebDriver";
        let free = TcpListener::bind(("127.0.0.1", 0)).await;
        let port = free
            .and_then(|listener| listener.local_addr())
            .map_err(Failure::doing("find a free port"))?
            .port();
        let mut command = desktop.command("WebKitWebDriver");
        command
            .args(["--host=127.0.0.1", &format!("--port={port}")])
            .env("TAURI_WEBVIEW_AUTOMATION", "true");
        let pid = desktop.start_child(command, doing)?;
        until("WebKitWebDriver answers", async || {
            Ok(TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop))
        })
        .await?;
        Ok(Self { port, pid })
    }

    /// Starts a program and waits until one of its pages can be driven.
    ///
    /// # Errors
    /// If it does not start, or shows no window.
    pub async fn open(&self, program: &Path, args: &[&str]) -> Outcome<Client> {
        let options = json!({ "binary": program, "args": args });
        let capabilities = json!({ "webkitgtk:browserOptions": options });
        let Value::Object(capabilities) = capabilities else {
            return Err(Failure::Wrong("capabilities are an object".into()));
        };
        let doing = format!("open {} through WebKitWebDriver", program.display());
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        let url = format!("http://127.0.0.1:{}", self.port);
        let connecting = builder.connect(&url);
        match tokio::time::timeout(Duration::from_secs(45), connecting).await {
            Ok(session) => session.map_err(|error| Failure::setup(doing, error)),
            Err(_) => Err(Failure::setup(doing, "it showed no window within 45 s")),
        }
    }

    /// Stops the driver, which is necessary after its program was killed.
    pub fn stop(self) {
        processes::kill(self.pid);
    }
}
