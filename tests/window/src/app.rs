//! Starts the app on a desktop and finds its windows.

use fantoccini::Client;

use crate::desktop::Desktop;
use crate::driver::Driver;
use crate::failure::{Failure, Outcome, until};
use crate::page::Page;
use crate::processes::{self, Process};
use crate::programs;

/// The app's program name in `/proc`.
const NAME: &str = "transom-app";

/// The name of the button that closes the welcome: the second one until the user chooses a model.
const START: &str = "^(Get Started|Try the Tiny Demo Model)$";

/// The app under test.
#[derive(Debug)]
pub struct App {
    client: Client,
    driver: Driver,
    pid: i32,
}

impl App {
    /// Starts the app with the chat open, and waits until the chat accepts messages. Closes the
    /// welcome of a first start.
    ///
    /// # Errors
    /// If the app does not start.
    pub async fn open(desktop: &mut Desktop) -> Outcome<Self> {
        let app = Self::start(desktop, &["transom://chat"]).await?;
        let chat = app.window("chat").await?;
        until("the chat takes messages", async || {
            if let Some(start) = chat.find("button", START).await? {
                start.click().await?;
            }
            Ok(chat.find("textbox", "^Message$").await?.map(drop))
        })
        .await?;
        Ok(app)
    }

    /// Starts the app with these arguments. They must open a window, because the driver waits for
    /// one.
    ///
    /// # Errors
    /// If the app does not start.
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

    /// Returns the app's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the app's process and all processes that it started: pages and engines.
    pub fn tree(&self, desktop: &Desktop) -> Vec<Process> {
        processes::tree(self.pid, &desktop.processes())
    }

    /// Returns the engine processes that run models for the app.
    pub fn engines(&self, desktop: &Desktop) -> Vec<Process> {
        let mut processes = self.tree(desktop);
        processes.retain(|process| process.name == "transom");
        processes
    }

    /// Returns the page of a window (`chat`, `prompt` or `settings`). Waits until the app creates
    /// it.
    ///
    /// # Errors
    /// If it does not appear.
    pub async fn window(&self, name: &str) -> Outcome<Page> {
        let what = format!("the window `{name}` is there");
        until(&what, async || self.find_window(name).await).await
    }

    /// Returns the page of a window if it exists.
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

    /// Returns all open pages.
    pub async fn windows(&self) -> Outcome<Vec<Page>> {
        let mut pages = Vec::new();
        for name in ["chat", "prompt", "settings"] {
            pages.extend(self.find_window(name).await?);
        }
        Ok(pages)
    }

    /// Terminates the app like a logout, and waits until it and its engines have exited.
    ///
    /// # Errors
    /// If a process does not exit.
    pub async fn quit(self, desktop: &Desktop) -> Outcome {
        processes::terminate(self.pid);
        self.gone(desktop).await
    }

    /// Kills the app like a crash, and waits until it and its engines have exited.
    ///
    /// # Errors
    /// If a process does not exit.
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
