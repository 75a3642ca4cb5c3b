//! The app's shell: the Tauri state that all commands and events share.
//!
//! Rule: locks are held briefly, and never while calling a window, the store or the supervisor.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tauri::AppHandle;
use tauri::async_runtime::JoinHandle;
use tokio::sync::watch;
use transom_store::General;

use crate::backend::Backend;
use crate::benchmarks::Benchmarks;
use crate::clipboard::SystemClipboard;
use crate::focus::Focus;
use crate::frames::Frames;
use crate::hotkey::{self, Hotkey};
use crate::local_api::LocalApi;
use crate::lock;
use crate::pages::Pages;
use crate::task::blocking;
use crate::updates::Updates;
use crate::visibility::KeyRepeatFilter;
use crate::wire::{
    AppEvent, BackgroundView, CommandError, CommandResult, DownloadView, StatusView, Window,
};

pub(crate) struct Shell {
    app: AppHandle,
    pub(crate) data_folder: PathBuf,
    pub(crate) hotkey: Hotkey,
    pub(crate) pages: Pages,
    pub(crate) frames: Frames,
    pub(crate) focus: Focus,
    pub(crate) clipboard: SystemClipboard,
    pub(crate) local_api: LocalApi,
    pub(crate) benchmarks: Benchmarks,
    pub(crate) updates: Updates,
    /// Pages that follow responses.
    pub(crate) followers: Followers,
    /// The system's languages, preferred first.
    pub(crate) languages: Vec<String>,
    /// The downloads that were last sent.
    pub(crate) downloads: Mutex<Vec<DownloadView>>,
    /// The program that the icon's menu names as using a model.
    pub(crate) user: Mutex<Option<BackgroundView>>,
    pub(crate) key_repeat: Mutex<KeyRepeatFilter>,
    /// The Dock of a Mac shows the app.
    pub(crate) is_in_dock: AtomicBool,
    backend: watch::Sender<Option<Arc<Backend>>>,
    status: Mutex<StatusView>,
    /// Notices for the next chat window.
    notices: Mutex<Vec<AppEvent>>,
}

impl Shell {
    /// Creates the shell before the backend is open.
    pub(crate) fn new(app: AppHandle, data_folder: PathBuf) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        Self {
            updates: Updates::of_this_copy(&app),
            app,
            frames: Frames::read(&data_folder),
            data_folder,
            hotkey: Hotkey::new(hotkey::unavailable(environment)),
            pages: Pages::default(),
            focus: Focus::default(),
            clipboard: SystemClipboard::default(),
            local_api: LocalApi::default(),
            benchmarks: Benchmarks::default(),
            followers: Followers::default(),
            languages: sys_locale::get_locales().collect(),
            downloads: Mutex::default(),
            user: Mutex::default(),
            key_repeat: Mutex::default(),
            is_in_dock: AtomicBool::new(false),
            backend: watch::Sender::new(None),
            status: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// Waits until the backend is open and returns it.
    pub(crate) async fn backend(&self) -> CommandResult<Arc<Backend>> {
        let mut backend = self.backend.subscribe();
        let opened = backend.wait_for(Option::is_some).await;
        let opened = opened.ok().and_then(|backend| backend.clone());
        opened.ok_or_else(|| CommandError::other("Transom is quitting"))
    }

    /// Runs `work` with the backend on a blocking thread. A panic becomes an error of the command.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Backend) -> CommandResult<T> + Send + 'static,
    ) -> CommandResult<T> {
        let backend = self.backend().await?;
        blocking(move || work(&backend)).await
    }

    pub(crate) fn backend_if_open(&self) -> Option<Arc<Backend>> {
        self.backend.borrow().clone()
    }

    pub(crate) fn set_backend(&self, backend: Arc<Backend>) {
        self.backend.send_replace(Some(backend));
    }

    /// Returns the status that was last sent.
    pub(crate) fn status(&self) -> StatusView {
        lock(&self.status).clone()
    }

    /// Sets the status. Returns true if it changed.
    pub(crate) fn set_status(&self, status: &StatusView) -> bool {
        std::mem::replace(&mut *lock(&self.status), status.clone()) != *status
    }

    /// Sends the current status to one page, for example when its window is shown.
    pub(crate) fn send_status(&self, window: Window) {
        if self.pages.is_ready(window) {
            let status = Box::new(self.status());
            self.pages
                .send(&self.app, window, AppEvent::Status { status });
        }
    }

    /// Sends an event to every page.
    pub(crate) fn send(&self, event: &AppEvent) {
        self.pages.broadcast(&self.app, event);
    }

    /// Sends a notice that belongs to no command. The chat shows notices, so one is kept for it if
    /// it is closed.
    pub(crate) fn notice(&self, notice: AppEvent) {
        self.pages.broadcast(&self.app, &notice);
        if is_lasting(&notice) || !self.pages.is_ready(Window::Chat) {
            lock(&self.notices).push(notice);
        }
    }

    /// Returns the notices for a chat window that opens: missed ones and those that still apply.
    pub(crate) fn take_notices(&self) -> Vec<AppEvent> {
        let mut notices = lock(&self.notices);
        let taken = notices.clone();
        notices.retain(is_lasting);
        taken
    }

    /// Returns the settings of the app itself; the defaults before the backend is open.
    pub(crate) fn general(&self) -> General {
        let backend = self.backend_if_open();
        backend.map_or_else(General::default, |backend| backend.settings().general)
    }
}

/// Returns true for notices of a state that lasts until the app quits. Every new chat window shows
/// them.
fn is_lasting(notice: &AppEvent) -> bool {
    matches!(notice, AppEvent::Notice { code, .. }
        if ["store_unavailable", "engine_missing"].contains(&code.as_str()))
}

/// Pages that follow responses.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    next: AtomicU32,
    running: Mutex<HashMap<u32, (Window, JoinHandle<()>)>>,
}

impl Followers {
    /// Starts a follower and returns its id.
    pub(crate) fn start(
        &self,
        window: Window,
        follow: impl Future<Output = ()> + Send + 'static,
    ) -> u32 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let task = tauri::async_runtime::spawn(follow);
        let mut running = lock(&self.running);
        running.retain(|_, (_, task)| !task.inner().is_finished());
        running.insert(id, (window, task));
        id
    }

    pub(crate) fn stop(&self, id: u32) {
        if let Some((_, task)) = lock(&self.running).remove(&id) {
            task.abort();
        }
    }

    /// Ends the followers of a closed window.
    pub(crate) fn stop_all_of(&self, window: Window) {
        let mut running = lock(&self.running);
        for (_, (_, task)) in running.extract_if(|_, (owner, _)| *owner == window) {
            task.abort();
        }
    }
}
