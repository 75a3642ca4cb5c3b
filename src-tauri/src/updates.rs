//! Updates of the app: checked only if the user agreed, downloaded and installed only when the user
//! clicks.
//!
//! `place` decides whether this copy may be replaced, `release` what is newer, `problem` what an error
//! means; `client` is the only part that calls Tauri's updater. This module puts the steps in order.
//!
//! Rule: an update never ends a response. Before the app is replaced, the supervisor is paused and no
//! engine runs; whatever fails, it is resumed.

mod client;
mod place;
mod problem;
mod release;
mod source;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod this_copy;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tauri::{AppHandle, Runtime};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::wire::{UpdateProblem, UpdateRefusal, UpdateStep, UpdatesView};
use crate::{lock, now};
use client::{Client, Found, Offer};

/// The time between two checks of an app that keeps running.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What updates need from the rest of the app.
pub(crate) trait Host {
    type Runtime: Runtime;
    fn app(&self) -> &AppHandle<Self::Runtime>;
    /// Shows the state of updates.
    fn publish(&self, view: UpdatesView);
    /// Returns the bytes that are free for this folder; `None` if the system doesn't say.
    fn free_bytes(&self, folder: &Path) -> Option<u64>;
    /// Returns true if all models are paused.
    fn is_paused(&self) -> bool;
    /// Pauses all models, or resumes.
    fn set_paused(&self, is_paused: bool);
    /// Leaves the supervisor before the app starts again. That of another program continues without
    /// it, and is paused only if it was before.
    fn leave(&self, was_paused: bool);
    /// Waits until nobody waits for a response, and the responses of the app are stored.
    async fn until_idle(&self);
    /// Waits until the pause has unloaded all models. Returns false if a request came first.
    async fn until_unloaded(&self) -> bool;
}

/// The state of updates.
pub(crate) struct Updates {
    client: Result<Client, UpdateRefusal>,
    state: Mutex<State>,
    /// Wakes the task that checks regularly, after the user turned it on.
    turned_on: Notify,
    canceled: Notify,
    /// Locked while the app is being replaced.
    replacing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    view: UpdatesView,
    offer: Option<Offer>,
    /// The verified file of the offer.
    file: Option<Arc<Vec<u8>>>,
}

impl Updates {
    fn new(client: Result<Client, UpdateRefusal>) -> Self {
        let view = UpdatesView {
            refusal: client.as_ref().err().copied(),
            host: client
                .as_ref()
                .map_or_else(|_| String::new(), |client| client.source.host().to_owned()),
            ..UpdatesView::default()
        };
        Self {
            client,
            state: Mutex::new(State {
                view,
                ..State::default()
            }),
            turned_on: Notify::new(),
            canceled: Notify::new(),
            replacing: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn view(&self) -> UpdatesView {
        lock(&self.state).view.clone()
    }

    /// Returns true if this copy of the app does not update itself.
    pub(crate) fn is_refused(&self) -> bool {
        self.client.is_err()
    }

    /// Checks at once, and then regularly, because the user turned it on.
    pub(crate) fn turned_on(&self) {
        self.turned_on.notify_one();
    }

    /// Asks the server for the newest version, and returns it if it is newer. Does nothing during
    /// another step, or if this copy does not update itself.
    pub(crate) async fn check(&self, host: &impl Host) -> Option<String> {
        let client = self.client.as_ref().ok()?;
        self.begin(host, UpdateStep::Idle, UpdateStep::Checking)?;
        let found = client.check(host.app()).await;
        self.change(host, |state| {
            state.view.step = UpdateStep::Idle;
            let (offer, older) = match found {
                Ok(Found::Newer(offer)) => (Some(*offer), None),
                Ok(Found::UpToDate { older }) => (None, older),
                Err(problem) => {
                    state.view.problem = Some(problem);
                    return None;
                }
            };
            state.view.checked_at = Some(now().0);
            state.view.older = older.map(|version| version.to_string());
            state.view.offer = offer.as_ref().map(Offer::view);
            state.offer = offer;
            let offer = state.view.offer.as_ref();
            offer.map(|offer| offer.version.clone())
        })
    }

    /// Downloads the newer version that the last check found.
    pub(crate) async fn download(&self, host: &impl Host) {
        let (Ok(client), Some(offer)) = (&self.client, lock(&self.state).offer.clone()) else {
            return;
        };
        let canceled = self.canceled.notified();
        let step = UpdateStep::Downloading { done_bytes: 0 };
        if self.begin(host, UpdateStep::Idle, step).is_none() {
            return;
        }
        let mut percent = 0;
        let on_bytes = |done_bytes: u64| {
            let reached = done_bytes * 100 / offer.size_bytes;
            if std::mem::replace(&mut percent, reached) != reached {
                let step = UpdateStep::Downloading { done_bytes };
                self.change(host, |state| state.view.step = step);
            }
        };
        let free_bytes = host.free_bytes(&client.place.folder);
        let done = tokio::select! {
            done = client.download(&offer, free_bytes, on_bytes) => Some(done),
            () = canceled => None,
        };
        self.change(host, |state| match done {
            Some(Ok(file)) => {
                state.file = Some(Arc::new(file));
                state.view.step = UpdateStep::Ready;
            }
            Some(Err(problem)) => {
                state.view.problem = Some(problem);
                state.view.step = UpdateStep::Idle;
            }
            None => state.view.step = UpdateStep::Idle,
        });
    }

    /// Replaces the app with the downloaded version, after running responses have ended. Returns true
    /// if the app must be started again.
    pub(crate) async fn install(&self, host: &impl Host) -> bool {
        let (client, offer, file) = {
            let state = lock(&self.state);
            match (&self.client, &state.offer, &state.file) {
                (Ok(client), Some(offer), Some(file)) => {
                    (client.clone(), offer.clone(), file.clone())
                }
                _ => return false,
            }
        };
        let canceled = self.canceled.notified();
        if self
            .begin(host, UpdateStep::Ready, UpdateStep::Waiting)
            .is_none()
        {
            return false;
        }
        let was_paused = host.is_paused();
        let is_stopped = tokio::select! {
            () = stop_engines(host, was_paused) => true,
            () = canceled => false,
        };
        if !is_stopped {
            host.set_paused(was_paused);
            self.change(host, |state| state.view.step = UpdateStep::Ready);
            return false;
        }
        self.change(host, |state| state.view.step = UpdateStep::Installing);
        let install = move || client.install(&offer, &file);
        let replacing = self.replacing.lock().await;
        let installed = tauri::async_runtime::spawn_blocking(install).await;
        drop(replacing);
        let installed = installed.unwrap_or_else(|error| {
            let detail = error.to_string();
            Err(UpdateProblem::Failed { detail })
        });
        match installed {
            Ok(()) => {
                host.leave(was_paused);
                true
            }
            Err(problem) => {
                host.set_paused(was_paused);
                self.change(host, |state| {
                    state.view.problem = Some(problem);
                    state.view.step = UpdateStep::Ready;
                });
                false
            }
        }
    }

    /// Ends a download, or an installation that still waits.
    pub(crate) fn cancel(&self) {
        self.canceled.notify_waiters();
    }

    /// Waits while the app is being replaced, which must not be cut short.
    pub(crate) async fn until_replaced(&self) {
        drop(self.replacing.lock().await);
    }

    /// Begins a step if the state is `from`; `None` if it is another one.
    fn begin(&self, host: &impl Host, from: UpdateStep, step: UpdateStep) -> Option<()> {
        let view = {
            let mut state = lock(&self.state);
            if state.view.step != from {
                return None;
            }
            state.view.step = step;
            state.view.problem = None;
            state.view.clone()
        };
        host.publish(view);
        Some(())
    }

    fn change<T>(&self, host: &impl Host, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, view) = {
            let mut state = lock(&self.state);
            (change(&mut state), state.view.clone())
        };
        host.publish(view);
        result
    }

    /// Waits until a regular check is due, and returns the time: at once without a last check, then after
    /// [`CHECK_INTERVAL`], or when the user turns checks on. Waits for the user while they are off.
    pub(crate) async fn until_due(
        &self,
        is_on: impl Fn() -> bool,
        last: Option<Instant>,
    ) -> Instant {
        if let Some(last) = last {
            let _ = timeout_at(last + CHECK_INTERVAL, self.turned_on.notified()).await;
        }
        while !is_on() {
            self.turned_on.notified().await;
        }
        Instant::now()
    }
}

/// Waits until no response is running or queued, and ends all engines. While it waits, requests are
/// served as usual.
async fn stop_engines(host: &impl Host, was_paused: bool) {
    loop {
        host.until_idle().await;
        host.set_paused(true);
        if host.until_unloaded().await {
            return;
        }
        host.set_paused(was_paused);
    }
}
