//! The app, opened on a desktop and driven; with the windows that a test looks at.

use fantoccini::Client;

use crate::desktop::Desktop;
use crate::driver::Driver;
use crate::failure::{Failure, Outcome, until};
use crate::page::Page;
use crate::processes::{self, Process};
use crate::programs;

/// The app's program, as `/proc` names it.
const NAME: &str = "transom-app";

/// The app under test.
#[derive(Debug)]
pub struct App {
    client: Client,
    driver: Driver,
    pid: i32,
}

impl App {
    /// Starts it with the chat open, and waits until the chat takes messages. A first start is
    /// greeted; the greeting is sent away.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn open(desktop: &mut Desktop) -> Outcome<Self> {
        let app = Self::start(desktop, &["transom://chat"]).await?;
        let chat = app.window("chat").await?;
        until("the chat takes messages", async || {
            if let Some(start) = chat.find("button", "^Get Started$").await? {
                start.click().await?;
            }
            Ok(chat.find("textbox", "^Message$").await?.map(drop))
        })
        .await?;
        Ok(app)
    }

    /// Starts it with these arguments; one must open a window, or the driver waits for one.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(desktop: &mut Desktop, args: &[&str]) -> Outcome<Self> {
        let program = programs::ours(NAME)?;
        let before = desktop.processes_named(NAME);
        let driver = Driver::start(desktop).await?;
        let client = driver.open(&program, args).await?;
        let running = desktop.processes_named(NAME);
        let own = running.iter().find(|one| !before.contains(one));
        let pid = own
            .ok_or_else(|| Failure::Wrong("the app's process was not found".into()))?
            .pid;
        Ok(Self {
            client,
            driver,
            pid,
        })
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// It and all processes that it started: pages, engine.
    pub fn tree(&self, desktop: &Desktop) -> Vec<Process> {
        processes::tree(self.pid, &desktop.processes())
    }

    /// The engine processes that run models for it.
    pub fn engines(&self, desktop: &Desktop) -> Vec<Process> {
        let mut processes = self.tree(desktop);
        processes.retain(|process| process.name == "transom");
        processes
    }

    /// The page of a window, `chat`, `prompt` or `settings`; waits until the app made it.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn window(&self, name: &str) -> Outcome<Page> {
        let what = format!("the window `{name}` is there");
        until(&what, async || self.find_window(name).await).await
    }

    /// The same without waiting.
    pub async fn find_window(&self, name: &str) -> Outcome<Option<Page>> {
        let page = format!("{name}.html");
        for handle in self.client.windows().await? {
            self.client.switch_to_window(handle.clone()).await?;
            if self.client.current_url().await?.path().ends_with(&page) {
                return Ok(Some(Page::new(self.client.clone(), handle, name)));
            }
        }
        Ok(None)
    }

    /// Every page that it has now.
    pub async fn windows(&self) -> Outcome<Vec<Page>> {
        let mut pages = Vec::new();
        for name in ["chat", "prompt", "settings"] {
            pages.extend(self.find_window(name).await?);
        }
        Ok(pages)
    }

    /// Ends it as a logout does, and waits until it and its engines are gone.
    ///
    /// # Errors
    /// When something of it stays.
    pub async fn quit(self, desktop: &Desktop) -> Outcome {
        processes::terminate(self.pid);
        self.gone(desktop).await
    }

    /// Ends it as a crash does, and waits until it and its engines are gone.
    ///
    /// # Errors
    /// When something of it stays.
    pub async fn kill(self, desktop: &Desktop) -> Outcome {
        processes::kill(self.pid);
        self.gone(desktop).await
    }

    async fn gone(self, desktop: &Desktop) -> Outcome {
        let pid = self.pid;
        until("the app is gone", async || {
            Ok((!processes::is_alive(pid)).then_some(()))
        })
        .await?;
        self.driver.stop();
        until("its engine processes are gone", async || {
            let left = desktop.processes_named("transom");
            Ok(left.is_empty().then_some(()))
        })
        .await
    }
}
