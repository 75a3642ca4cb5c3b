//! The gallery of states in WebKitGTK's own browser: pages without the app.
//!
//! A small server delivers the built files, because scripts do not run on pages opened as files. It
//! listens only on this machine, and stops with the browser.

use std::path::{Path, PathBuf};

use fantoccini::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::desktop::Desktop;
use crate::driver::Driver;
use crate::failure::{Failure, Outcome, check, in_time, until};
use crate::programs;

/// The open gallery.
#[derive(Debug)]
pub struct Gallery {
    client: Client,
    address: String,
    folder: PathBuf,
    server: JoinHandle<()>,
}

impl Gallery {
    /// Opens the browser on a desktop.
    ///
    /// # Errors
    /// If the gallery was not built, or the browser does not start.
    pub async fn open(desktop: &mut Desktop) -> Outcome<Self> {
        let folder = programs::checkout().join("ui/dist-gallery");
        check(folder.join("gallery.html").is_file(), || {
            "the gallery is not built; `npm run gallery` in ui/ does it".into()
        })?;
        let doing = "serve the gallery";
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(Failure::doing(doing))?;
        let port = listener.local_addr().map_err(Failure::doing(doing))?.port();
        let server = tokio::spawn(serve(listener, folder.clone()));
        let driver = Driver::start(desktop).await?;
        let browser = programs::mini_browser()?;
        let client = driver.open(&browser, &["--automation"]).await?;
        Ok(Self {
            client,
            address: format!("http://127.0.0.1:{port}"),
            folder,
            server,
        })
    }

    /// Returns the names of all states.
    ///
    /// # Errors
    /// If the list does not exist.
    pub fn states(&self) -> Outcome<Vec<String>> {
        let doing = "read the list of states";
        let list = std::fs::read(self.folder.join("gallery-states.json"));
        let list = list.map_err(Failure::doing(doing))?;
        serde_json::from_slice(&list).map_err(Failure::doing(doing))
    }

    /// Shows a state, and waits until it is drawn and its animations have ended.
    ///
    /// # Errors
    /// If the state does not appear.
    pub async fn show(&self, state: &str, look: Look) -> Outcome {
        let look = look.name();
        self.goto(&format!("state={state}&appearance={look}"))
            .await?;
        until(&format!("the state {state} is drawn"), async || {
            let wrong = self.run(WRONG, vec![]).await?;
            if let Some(wrong) = wrong.as_str() {
                return Err(Failure::Wrong(wrong.to_owned()));
            }
            let ready = self.run(IS_STILL, vec![]).await?;
            Ok((ready == json!(true)).then_some(()))
        })
        .await
    }

    /// Starts a streamed response with `rate` words per second, after `initial` words that exist at
    /// once.
    ///
    /// # Errors
    /// If the page does not load.
    pub async fn stream(&self, rate: u32, initial: u32) -> Outcome {
        self.goto(&format!("bench&rate={rate}&initial={initial}"))
            .await
    }

    /// Returns the number of words of the streamed response.
    ///
    /// # Errors
    /// If there is no response yet.
    pub async fn n_words(&self) -> Outcome<u32> {
        let words = self
            .run("return document.documentElement.dataset.words;", vec![])
            .await?;
        let number = words.as_str().and_then(|words| words.parse().ok());
        number.ok_or_else(|| Failure::Wrong("no response is streaming yet".into()))
    }

    async fn goto(&self, query: &str) -> Outcome {
        let address = format!("{}/gallery.html?{query}", self.address);
        let loading = self.client.goto(&address);
        in_time(&format!("the page {query} is loaded"), loading).await
    }

    /// Sets the size of the page inside the browser window.
    ///
    /// # Errors
    /// If the window does not get this size.
    pub async fn resize(&self, width: u32, height: u32) -> Outcome {
        until("the page has its size", async || {
            let inner = self.run(INNER, vec![]).await?;
            let side = |index: usize| inner[index].as_u64().and_then(|px| u32::try_from(px).ok());
            let (Some(inner_width), Some(inner_height)) = (side(0), side(1)) else {
                return Ok(None);
            };
            if (inner_width, inner_height) == (width, height) {
                return Ok(Some(()));
            }
            let (outer_width, outer_height) = self.client.get_window_size().await?;
            // While the window changes, these sizes may be from different moments.
            let grown = |outer: u64, wanted: u32, inner: u32| {
                let outer = u32::try_from(outer).unwrap_or(wanted);
                (outer + wanted).saturating_sub(inner).max(wanted)
            };
            let width = grown(outer_width, width, inner_width);
            let height = grown(outer_height, height, inner_height);
            self.client.set_window_size(width, height).await?;
            Ok(None)
        })
        .await
    }

    /// Runs a function body in the page.
    ///
    /// # Errors
    /// If it throws.
    pub async fn run(&self, body: &str, args: Vec<Value>) -> Outcome<Value> {
        Ok(self.client.execute(body, args).await?)
    }

    /// Returns a screenshot of the page as PNG; `name` names it in an error.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn picture(&self, name: &str) -> Outcome<Vec<u8>> {
        let taking = self.client.screenshot();
        in_time(&format!("the picture {name} is taken"), taking).await
    }

    /// The process name of the browser's pages.
    pub const PAGE_PROCESS: &str = "WebKitWebProces";
}

impl Drop for Gallery {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Light or dark appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Look {
    /// Returns the name in URLs and file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

const INNER: &str = "return [innerWidth, innerHeight];";

/// Why the page is not in the state that it should show.
const WRONG: &str = "return document.documentElement.dataset.wrong ?? null;";

/// The page says that it is ready, and no finite animation is running.
const IS_STILL: &str = "
return document.documentElement.dataset.ready === 'yes' &&
  document.getAnimations().every((a) => a.playState !== 'running' ||
    a.effect?.getComputedTiming().iterations === Infinity);";

async fn serve(listener: TcpListener, folder: PathBuf) {
    while let Ok((stream, _)) = listener.accept().await {
        let folder = folder.clone();
        tokio::spawn(async move {
            let _ = answer(stream, &folder).await;
        });
    }
}

/// Answers one request with one file.
async fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 || request.len() > 65_536 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let path = path.trim_start_matches('/');
    let is_inside = !path.split('/').any(|part| part == "..");
    let found = if is_inside {
        tokio::fs::read(folder.join(path)).await.ok()
    } else {
        None
    };
    let (status, body) = match found {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", Vec::new()),
    };
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}
