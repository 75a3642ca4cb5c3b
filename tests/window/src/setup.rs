//! The environment of a test: opens the app, runs the test, and saves artifacts if it fails.

use std::time::Duration;

use crate::app::App;
use crate::artifacts;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome};
use crate::page::Page;

/// The environment of a test.
#[derive(Debug)]
pub struct TestSetup {
    /// The desktop that it runs on.
    pub desktop: Desktop,
    app: Option<App>,
}

/// The time limit of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(180);

impl TestSetup {
    /// Returns the app, which must be open.
    ///
    /// # Errors
    /// If the test has not opened it.
    pub fn app(&self) -> Outcome<&App> {
        self.app
            .as_ref()
            .ok_or_else(|| Failure::Wrong("the app is not open".into()))
    }

    /// Opens the app with its chat, and returns the chat's page.
    ///
    /// # Errors
    /// If the app does not start.
    pub async fn open(&mut self) -> Outcome<Page> {
        self.app = Some(App::open(&mut self.desktop).await?);
        self.window("chat").await
    }

    /// Opens the app like a new user, and returns the chat's page.
    ///
    /// # Errors
    /// If the app does not start.
    pub async fn open_as_new(&mut self) -> Outcome<Page> {
        self.app = Some(App::start(&mut self.desktop, &["transom://chat"]).await?);
        self.window("chat").await
    }

    /// Returns the page of a window. Waits until the app creates it.
    ///
    /// # Errors
    /// If it does not appear.
    pub async fn window(&self, name: &str) -> Outcome<Page> {
        self.app()?.window(name).await
    }

    /// Terminates the app like a logout, and opens it again.
    ///
    /// # Errors
    /// If it does not exit or start.
    pub async fn restart(&mut self) -> Outcome<Page> {
        if let Some(app) = self.app.take() {
            app.quit(&self.desktop).await?;
        }
        self.open().await
    }

    /// Kills the app like a crash.
    ///
    /// # Errors
    /// If a process does not exit.
    pub async fn kill(&mut self) -> Outcome {
        match self.app.take() {
            Some(app) => app.kill(&self.desktop).await,
            None => Ok(()),
        }
    }
}

/// Runs a test on a separate desktop.
///
/// # Panics
/// If the test fails. The message names the folder with the artifacts.
pub async fn run_test(name: &str, test: impl AsyncFnOnce(&mut TestSetup) -> Outcome) {
    run(name, false, test).await;
}

/// Like [`run_test`], with a panel that has a tray.
///
/// # Panics
/// If the test fails. The message names the folder with the artifacts.
pub async fn run_test_with_tray(name: &str, test: impl AsyncFnOnce(&mut TestSetup) -> Outcome) {
    run(name, true, test).await;
}

async fn run(name: &str, has_tray: bool, test: impl AsyncFnOnce(&mut TestSetup) -> Outcome) {
    let mut desktop = match Desktop::start().await {
        Ok(desktop) => desktop,
        Err(failure) => panic!("{failure}\n(`cargo xtask setup` installs what tests need)"),
    };
    if has_tray && let Err(failure) = desktop.start_panel().await {
        panic!("{failure}\n(`cargo xtask setup` installs what tests need)");
    }
    let mut setup = TestSetup { desktop, app: None };
    let result = async {
        match tokio::time::timeout(TEST_TIMEOUT, test(&mut setup)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Wrong(format!(
                "the test took longer than {} s",
                TEST_TIMEOUT.as_secs()
            ))),
        }
    }
    .await;
    if let Err(failure) = result {
        let folder = artifacts::save(name, &setup.desktop, setup.app.as_ref(), &failure).await;
        panic!("{failure}\n(artifacts are in {folder})");
    }
}
