//! What every command and every event of the shell can reach.
//!
//! Rule: a lock here is held for a moment and never while a window, the store or the supervisor is
//! asked.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tauri::async_runtime::JoinHandle;
use tauri::{AppHandle, Manager};
use tokio::sync::{OnceCell, watch};

use crate::focus::Focus;
use crate::hotkey::{self, Hotkey};
use crate::rooms::Rooms;
use crate::showing::Presses;
use crate::status_view;
use crate::taken_text::Board;
use crate::tray::Tray;
use crate::windows::{Pages, Sizes};
use crate::wire::{DownloadView, News, Refusal, StatusView, Window};
use crate::words;

/// More than all waits of an orderly end together.
const QUIT_WITHIN: Duration = Duration::from_secs(20);

/// See the head of this file.
pub(crate) struct Shell {
    app: AppHandle,
    /// The data folder.
    pub(crate) data_folder: PathBuf,
    /// The shortcut of the quick prompt.
    pub(crate) hotkey: Hotkey,
    /// The pages that there are.
    pub(crate) pages: Pages,
    /// The sizes of windows.
    pub(crate) sizes: Sizes,
    /// Where the keys were before.
    pub(crate) focus: Focus,
    /// Selection and clipboard.
    pub(crate) board: Board,
    /// Who follows answers.
    pub(crate) followers: Followers,
    /// The icon.
    pub(crate) tray: Tray,
    /// Languages of the system, first choice first.
    pub(crate) languages: Vec<String>,
    rooms: watch::Sender<Option<Arc<Rooms>>>,
    status: Mutex<StatusView>,
    downloads: Mutex<Vec<DownloadView>>,
    /// Notices for the next chat that opens.
    notices: Mutex<Vec<News>>,
    is_chat_pinned: Mutex<bool>,
    presses: Mutex<Presses>,
    closed: OnceCell<()>,
}

impl Shell {
    /// The shell before anything is opened.
    pub(crate) fn new(app: AppHandle, data_folder: PathBuf) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        Self {
            app,
            sizes: Sizes::read(&data_folder),
            data_folder,
            hotkey: Hotkey::new(hotkey::unavailable(environment)),
            pages: Pages::default(),
            focus: Focus::default(),
            board: Board::default(),
            followers: Followers::default(),
            tray: Tray::default(),
            languages: words::of_system(),
            rooms: watch::Sender::new(None),
            status: Mutex::new(status_view::nothing()),
            downloads: Mutex::default(),
            notices: Mutex::default(),
            is_chat_pinned: Mutex::default(),
            presses: Mutex::default(),
            closed: OnceCell::new(),
        }
    }

    /// The rooms, as soon as they are opened.
    pub(crate) async fn rooms(&self) -> Result<Arc<Rooms>, Refusal> {
        let mut rooms = self.rooms.subscribe();
        let opened = rooms.wait_for(Option::is_some).await;
        let opened = opened.ok().and_then(|rooms| rooms.clone());
        opened.ok_or_else(|| Refusal::Other {
            reason: "Transom is quitting".to_owned(),
        })
    }

    /// The rooms if they are opened.
    pub(crate) fn rooms_now(&self) -> Option<Arc<Rooms>> {
        self.rooms.borrow().clone()
    }

    /// The rooms are opened.
    pub(crate) fn opened(&self, rooms: Arc<Rooms>) {
        self.rooms.send_replace(Some(rooms));
    }

    /// The status as it was last told.
    pub(crate) fn status(&self) -> StatusView {
        lock(&self.status).clone()
    }

    /// A status to tell. Returns whether it is another one than the last.
    pub(crate) fn set_status(&self, status: StatusView) -> bool {
        let mut last = lock(&self.status);
        let is_other = *last != status;
        *last = status;
        is_other
    }

    /// The downloads as they were last told.
    pub(crate) fn downloads(&self) -> Vec<DownloadView> {
        lock(&self.downloads).clone()
    }

    /// The downloads as they are now.
    pub(crate) fn set_downloads(&self, downloads: Vec<DownloadView>) {
        *lock(&self.downloads) = downloads;
    }

    /// Tells one page the present status, as when it comes on the screen.
    pub(crate) fn tell_status(&self, window: Window) {
        if self.pages.is_ready(window) {
            let status = Box::new(self.status());
            self.pages.tell(&self.app, window, News::Status { status });
        }
    }

    /// Tells every page.
    pub(crate) fn tell(&self, news: &News) {
        self.pages.tell_all(&self.app, news);
    }

    /// Tells the pages of something that belongs to no command. The chat shows notices, so it is
    /// told when it opens if it is not open now.
    pub(crate) fn notice(&self, notice: News) {
        self.pages.tell_all(&self.app, &notice);
        if is_lasting(&notice) || !self.pages.is_ready(Window::Chat) {
            lock(&self.notices).push(notice);
        }
    }

    /// The notices for a chat that opens: what happened while there was none, and what is still so.
    pub(crate) fn take_notices(&self) -> Vec<News> {
        let mut notices = lock(&self.notices);
        let taken = notices.clone();
        notices.retain(is_lasting);
        taken
    }

    /// Whether the chat stays when the focus leaves it.
    pub(crate) fn is_chat_pinned(&self) -> bool {
        *lock(&self.is_chat_pinned)
    }

    /// The user's choice of the above.
    pub(crate) fn pin_chat(&self, is_pinned: bool) {
        *lock(&self.is_chat_pinned) = is_pinned;
    }

    /// What is known of presses of the hotkey.
    pub(crate) fn presses<T>(&self, with: impl FnOnce(&mut Presses) -> T) -> T {
        with(&mut lock(&self.presses))
    }

    /// Ends the app: answers are saved, models give their memory back, within a bound.
    pub(crate) fn quit(&self) {
        let app = self.app.clone();
        // Whatever hangs, a person who quits is obeyed.
        std::thread::spawn(|| {
            let (_kept, nothing) = std::sync::mpsc::channel::<()>();
            let _ = nothing.recv_timeout(QUIT_WITHIN);
            std::process::exit(0);
        });
        tauri::async_runtime::spawn(async move {
            close(&app).await;
            app.exit(0);
        });
    }
}

/// Closes the rooms, once; whoever asks meanwhile waits for it, so that a second wish to quit does not
/// cut the first short.
pub(crate) async fn close(app: &AppHandle) {
    let shell = app.state::<Shell>();
    let closing = || async {
        tracing::info!("quitting");
        shell.sizes.save();
        if let Some(rooms) = shell.rooms_now() {
            rooms.close().await;
        }
    };
    shell.closed.get_or_init(closing).await;
}

/// Runs `work` where it may block. A panic in it is a refusal to the page, and no end of the app.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tauri::async_runtime::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Refusal::Other {
            reason: format!("this failed unexpectedly: {error}"),
        })
    })
}

/// Runs `work` as a task of its own, so that a panic in it is a refusal to the page, too.
pub(crate) async fn guarded<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tauri::async_runtime::spawn(work).await;
    done.unwrap_or_else(|error| {
        Err(Refusal::Other {
            reason: format!("this failed unexpectedly: {error}"),
        })
    })
}

/// Notices of a state that lasts until the app quits: every chat that opens shows them.
fn is_lasting(notice: &News) -> bool {
    matches!(notice, News::Notice { code, .. }
        if ["store_unavailable", "engine_missing"].contains(&code.as_str()))
}

/// Pages that follow answers.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    next: AtomicU32,
    running: Mutex<HashMap<u32, (Window, JoinHandle<()>)>>,
}

impl Followers {
    /// Begins one, and returns its name.
    pub(crate) fn join(
        &self,
        window: Window,
        follow: impl Future<Output = ()> + Send + 'static,
    ) -> u32 {
        let name = self.next.fetch_add(1, Ordering::Relaxed);
        let task = tauri::async_runtime::spawn(follow);
        let mut running = lock(&self.running);
        running.retain(|_, (_, task)| !task.inner().is_finished());
        running.insert(name, (window, task));
        name
    }

    /// Ends one.
    pub(crate) fn end(&self, name: u32) {
        if let Some((_, task)) = lock(&self.running).remove(&name) {
            task.abort();
        }
    }

    /// Ends those of a window that is gone.
    pub(crate) fn leave(&self, window: Window) {
        lock(&self.running).retain(|_, (of, task)| {
            let is_gone = *of == window;
            if is_gone {
                task.abort();
            }
            !is_gone
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
