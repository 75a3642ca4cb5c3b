//! A test's whole surroundings: it opens the app, runs the test, and keeps evidence if it fails.

use std::time::Duration;

use crate::app::App;
use crate::desktop::Desktop;
use crate::evidence;
use crate::failure::{Failure, Outcome};
use crate::page::Page;

/// What a test gets.
#[derive(Debug)]
pub struct Stage {
    /// The desktop that it runs on.
    pub desktop: Desktop,
    app: Option<App>,
}

/// No test takes longer on any machine.
const LONGEST: Duration = Duration::from_secs(180);

impl Stage {
    /// The app, which must be open.
    ///
    /// # Errors
    /// When the test did not open it.
    pub fn app(&self) -> Outcome<&App> {
        self.app
            .as_ref()
            .ok_or_else(|| Failure::Wrong("the app is not open".into()))
    }

    /// Opens the app with its chat, and returns the chat's page.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn open(&mut self) -> Outcome<Page> {
        self.app = Some(App::open(&mut self.desktop).await?);
        self.window("chat").await
    }

    /// Opens the app as a new user sees it, and returns the page of the chat.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn open_as_new(&mut self) -> Outcome<Page> {
        self.app = Some(App::start(&mut self.desktop, &["transom://chat"]).await?);
        self.window("chat").await
    }

    /// The page of a window; waits until the app made it.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn window(&self, name: &str) -> Outcome<Page> {
        self.app()?.window(name).await
    }

    /// Ends the app as a logout does, and opens it again.
    ///
    /// # Errors
    /// When it does not end or come up.
    pub async fn restart(&mut self) -> Outcome<Page> {
        if let Some(app) = self.app.take() {
            app.quit(&self.desktop).await?;
        }
        self.open().await
    }

    /// Ends the app as a crash does.
    ///
    /// # Errors
    /// When something of it stays.
    pub async fn kill(&mut self) -> Outcome {
        match self.app.take() {
            Some(app) => app.kill(&self.desktop).await,
            None => Ok(()),
        }
    }
}

/// Runs a test on a desktop of its own.
///
/// # Panics
/// When the test fails, naming the folder with the evidence.
pub async fn on_stage(name: &str, test: impl AsyncFnOnce(&mut Stage) -> Outcome) {
    run(name, false, test).await;
}

/// The same with a panel that has a tray.
///
/// # Panics
/// When the test fails, naming the folder with the evidence.
pub async fn on_stage_with_tray(name: &str, test: impl AsyncFnOnce(&mut Stage) -> Outcome) {
    run(name, true, test).await;
}

async fn run(name: &str, has_tray: bool, test: impl AsyncFnOnce(&mut Stage) -> Outcome) {
    let mut desktop = match Desktop::start().await {
        Ok(desktop) => desktop,
        Err(failure) => panic!("{failure}\n(`cargo xtask setup` installs what tests need)"),
    };
    if has_tray && let Err(failure) = desktop.start_panel().await {
        panic!("{failure}\n(`cargo xtask setup` installs what tests need)");
    }
    let mut stage = Stage { desktop, app: None };
    let ended = async {
        match tokio::time::timeout(LONGEST, test(&mut stage)).await {
            Ok(ended) => ended,
            Err(_) => Err(Failure::Wrong(format!(
                "the test took longer than {} s",
                LONGEST.as_secs()
            ))),
        }
    }
    .await;
    if let Err(failure) = ended {
        let folder = evidence::keep(name, &stage.desktop, stage.app.as_ref(), &failure).await;
        panic!("{failure}\n(what was seen is in {folder})");
    }
}
